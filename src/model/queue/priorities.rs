//! Which priorities there are among the jobs, exactly as long as they are few: jobs of one priority are served by time alone.

/// How many priorities are counted one by one.
const MOST: usize = 8;

/// How many jobs have which priority.
#[derive(Clone, Debug, Default)]
pub(super) struct Priorities {
    /// In no order.
    counts: Vec<(i32, u32)>,
    /// Jobs of priorities that are not among those. As long as there are any, no priority is added.
    others: u32,
}

impl Priorities {
    /// A job has come.
    pub fn enter(&mut self, priority: i32) {
        match self.position(priority) {
            Some(at) => self.counts[at].1 += 1,
            None if self.others == 0 && self.counts.len() < MOST => self.counts.push((priority, 1)),
            None => self.others += 1,
        }
    }

    /// A job that has come goes.
    pub fn leave(&mut self, priority: i32) {
        match self.position(priority) {
            Some(at) if self.counts[at].1 == 1 => drop(self.counts.swap_remove(at)),
            Some(at) => self.counts[at].1 -= 1,
            None => self.others -= 1,
        }
    }

    /// Whether all jobs have the same priority. It may answer no when they do, after there were very many priorities.
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
