//! Looking at jobs without touching them: the count of a state, ZQ.GET and ZQ.PEEK.

use super::job::{Job, JobView, Place, State};
use super::stretch::{ByRank, ByTime, merge};
use super::{MAX_NOW, Millis, Queue, stretch, tree};

impl Queue {
    /// Jobs in a state, by the clock. O(log n).
    pub fn count(&self, now: Millis, state: State) -> u64 {
        let now = now.min(MAX_NOW);
        let until = |place| stretch::count_until(&self.jobs, self.root(place), now);
        let after = |place| stretch::count_after(&self.jobs, self.root(place), now);
        let all = |place| u64::from(tree::size(&self.jobs, self.root(place)));
        match state {
            State::Ready => all(Place::Ready) + until(Place::Scheduled) + until(Place::Leased),
            State::Delayed => after(Place::Scheduled),
            State::Claimed => after(Place::Leased) + after(Place::Spent),
            State::Dead => all(Place::Dead) + until(Place::Spent),
        }
    }

    /// A job as the clock sees it. O(1) expected.
    pub fn get(&self, now: Millis, id: &[u8]) -> Option<JobView<'_>> {
        let slot = self.index.find(&self.jobs, id)?;
        Some(self.jobs[slot].view(now.min(MAX_NOW)))
    }

    /// The jobs in a state: ready ones in the order they will be served, delayed ones as they fall due, claimed ones as
    /// their leases end, dead ones as they died; jobs of one moment in serving order. O(log n) for each job taken
    /// from the iterator.
    pub fn peek(&self, now: Millis, state: State) -> Box<dyn Iterator<Item = JobView<'_>> + '_> {
        let now = now.min(MAX_NOW);
        let jobs = &self.jobs;
        let all = |place| ByTime::all(jobs, self.root(place));
        let until = |place| ByTime::until(jobs, self.root(place), now);
        let after = |place| ByTime::after(jobs, self.root(place), now);
        let by_time: Box<dyn Iterator<Item = (u32, &Job)>> = match state {
            State::Ready => {
                let ready = ByRank::new(jobs, self.order())
                    .all(self.root(Place::Ready))
                    .until(self.root(Place::Scheduled), now)
                    .until(self.root(Place::Leased), now);
                return Box::new(ready.map(move |job| job.view(now)));
            }
            State::Delayed => Box::new(after(Place::Scheduled)),
            State::Claimed => Box::new(merge(after(Place::Leased), after(Place::Spent))),
            State::Dead => Box::new(merge(all(Place::Dead), until(Place::Spent))),
        };
        Box::new(by_time.map(move |(_, job)| job.view(now)))
    }

    pub(super) fn root(&self, place: Place) -> u32 {
        self.roots[place as usize]
    }

    /// Every job's slot, tree by tree, each by time: an order that is the same on every replica.
    pub(super) fn slots(&self) -> impl Iterator<Item = u32> {
        let trees = self.roots.iter();
        trees.flat_map(|&root| ByTime::all(&self.jobs, root).map(|(slot, _)| slot))
    }
}
