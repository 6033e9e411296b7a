//! Extras: the worker, the error text, and some times of a job. Most jobs have none, so a flag of the job tells whether
//! it has extras.

use super::job::{Extras, Job};
use super::{Millis, Queue};

/// An owned copy of the [`Extras`] of a job.
#[derive(Clone, Debug, Default)]
pub(super) struct OwnedExtras {
    pub claimed: Millis,
    pub failed: Millis,
    /// The worker's name, then the error text.
    words: Box<[u8]>,
    worker_len: u8,
    /// [`Extras::since`] in seven bytes, because a time has fewer than 56 bits.
    since: [u8; 7],
}

impl OwnedExtras {
    pub fn owned_bytes(&self) -> usize {
        self.words.len()
    }

    pub fn extras(&self) -> Extras<'_> {
        let (worker, error) = self.words.split_at(self.worker_len.into());
        let [a, b, c, d, e, f, g] = self.since;
        let since = Millis::from_le_bytes([a, b, c, d, e, f, g, 0]);
        Extras { claimed: self.claimed, failed: self.failed, since, worker, error }
    }

    pub fn set_since(&mut self, since: Millis) {
        let [low @ .., _] = since.to_le_bytes();
        self.since = low;
    }

    pub fn set(&mut self, extras: Extras<'_>) {
        (self.claimed, self.failed) = (extras.claimed, extras.failed);
        self.set_since(extras.since);
        self.set_words(Some(extras.worker), Some(extras.error));
    }

    /// Sets the worker's name, at most [`MAX_WORKER`](super::MAX_WORKER) bytes, and the error text. `None` keeps the
    /// old name or text.
    pub fn set_words(&mut self, worker: Option<&[u8]>, error: Option<&[u8]>) {
        let old = self.extras();
        let (worker, error) = (worker.unwrap_or(old.worker), error.unwrap_or(old.error));
        if (worker, error) != (old.worker, old.error) {
            let (worker_len, words) = (worker.len() as u8, [worker, error].concat());
            (self.worker_len, self.words) = (worker_len, words.into());
        }
    }
}

impl Queue {
    /// Changes the extras of a job: its optional texts and times. O(log n).
    pub(super) fn edit_extras(&mut self, slot: u32, edit: impl FnOnce(&mut OwnedExtras)) {
        let job = &mut self.jobs[slot];
        let extras = self.extras.entry(job.node.seq).or_default();
        self.owned_bytes -= extras.owned_bytes();
        edit(extras);
        self.owned_bytes += extras.owned_bytes();
        let has_extras = !extras.extras().is_nothing();
        if !has_extras {
            self.extras.remove(&job.node.seq);
        }
        job.set_has_extras(has_extras);
    }

    pub(super) fn drop_extras(&mut self, slot: u32) {
        let job = &self.jobs[slot];
        if job.has_extras() {
            self.owned_bytes -= self.extras.remove(&job.node.seq).map_or(0, |extras| extras.owned_bytes());
        }
    }

    pub(super) fn extras(&self, job: &Job) -> Extras<'_> {
        let extras = if job.has_extras() { self.extras.get(&job.node.seq) } else { None };
        extras.map_or_else(Extras::default, OwnedExtras::extras)
    }
}
