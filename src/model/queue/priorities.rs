//! Counts the jobs of each priority, if there are few priorities. If there is only one priority, time alone determines
//! the serving order.

/// The maximum number of priorities that are counted.
const MOST: usize = 8;

/// The number of jobs of each priority.
#[derive(Clone, Debug, Default)]
pub(super) struct Priorities {
    /// Each priority, with its number of jobs. Unordered.
    counts: Vec<(i32, u32)>,
    /// The number of jobs of other priorities. While it is not 0, no priority is added to `counts`.
    others: u32,
}

impl Priorities {
    /// Counts a job that enters the queue.
    pub fn enter(&mut self, priority: i32) {
        match self.position(priority) {
            Some(at) => self.counts[at].1 += 1,
            None if self.others == 0 && self.counts.len() < MOST => self.counts.push((priority, 1)),
            None => self.others += 1,
        }
    }

    /// Subtracts a job that leaves the queue.
    pub fn leave(&mut self, priority: i32) {
        match self.position(priority) {
            Some(at) if self.counts[at].1 == 1 => drop(self.counts.swap_remove(at)),
            Some(at) => self.counts[at].1 -= 1,
            None => self.others -= 1,
        }
    }

    /// Whether all jobs have the same priority. If there were many priorities before, the function may return false
    /// although all jobs now have the same priority.
    pub fn are_one(&self) -> bool {
        self.counts.len() <= 1 && self.others == 0
    }

    fn position(&self, priority: i32) -> Option<usize> {
        self.counts.iter().position(|(other, _)| *other == priority)
    }

    #[cfg(test)]
    pub fn check(&self, all: impl Iterator<Item = i32> + Clone) {
        assert!(
            self.counts
                .iter()
                .all(|&(priority, count)| all.clone().filter(|&other| other == priority).count() == count as usize)
        );
        let counted: u32 = self.counts.iter().map(|(_, count)| count).sum();
        assert_eq!((counted + self.others) as usize, all.count());
    }
}
