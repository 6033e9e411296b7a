//! Counts the jobs of each priority, to detect that all jobs have the same priority. In this case, unless the queue is
//! ORDERED, due times determine the serving order. Priority 0 is not counted, and at most eight priorities are counted
//! separately.

use crate::base::sparse::Off;

const MAX_PRIORITIES: usize = 8;

#[derive(Clone, Debug, Default)]
pub(super) struct Priorities {
    counts: Vec<(i32, u32)>,
    /// The number of jobs whose priority is neither 0 nor in `counts`. While `others` is not 0, `counts` gets no new
    /// priority.
    others: u32,
}

impl Off for Priorities {
    const OFF: &'static Priorities = &Priorities { counts: Vec::new(), others: 0 };
}

impl Priorities {
    pub fn add(&mut self, priority: i32) {
        match self.position(priority) {
            Some(at) => self.counts[at].1 += 1,
            None if self.others == 0 && self.counts.len() < MAX_PRIORITIES => self.counts.push((priority, 1)),
            None => self.others += 1,
        }
    }

    pub fn remove(&mut self, priority: i32) {
        match self.position(priority) {
            Some(at) if self.counts[at].1 == 1 => drop(self.counts.swap_remove(at)),
            Some(at) => self.counts[at].1 -= 1,
            None => self.others -= 1,
        }
    }

    /// Whether all jobs of the queue have the same priority. `jobs` is their number. If the queue had more than eight
    /// priorities before, the result may be false although all jobs now have the same priority.
    pub fn are_one(&self, jobs: usize) -> bool {
        self.others == 0 && (self.counts.is_empty() || self.counts.len() == 1 && self.counts[0].1 as usize == jobs)
    }

    fn position(&self, priority: i32) -> Option<usize> {
        self.counts.iter().position(|(other, _)| *other == priority)
    }

    #[cfg(test)]
    pub fn check(&self, all: impl Iterator<Item = i32> + Clone) {
        let all = all.filter(|&priority| priority != 0);
        assert!(
            self.counts
                .iter()
                .all(|&(priority, count)| all.clone().filter(|&other| other == priority).count() == count as usize)
        );
        let counted: u32 = self.counts.iter().map(|(_, count)| count).sum();
        assert_eq!((counted + self.others) as usize, all.count());
    }
}
