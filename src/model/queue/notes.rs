//! Notes: the worker, the error text, and some times of a job. A flag tells whether a job has a note, because most jobs
//! have none.

use super::job::{Extras, Job, MAX_ERROR, MAX_WORKER};
use super::{Millis, Queue};

/// An owned copy of the [`Extras`] of a job.
#[derive(Clone, Debug, Default)]
pub(super) struct Note {
    pub claimed: Millis,
    pub failed: Millis,
    /// The worker's name, then the error text.
    words: Box<[u8]>,
    worker_len: u8,
    /// [`Extras::since`] in seven bytes, because a time has fewer than 56 bits.
    since: [u8; 7],
}

impl Note {
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
        self.set_worker(extras.worker);
        self.set_error(extras.error);
    }

    /// Sets the worker's name, cut to [`MAX_WORKER`] bytes.
    pub fn set_worker(&mut self, worker: &[u8]) {
        let worker = &worker[..worker.len().min(MAX_WORKER)];
        let old = self.extras();
        if old.worker != worker {
            self.words = [worker, old.error].concat().into();
            self.worker_len = worker.len() as u8;
        }
    }

    /// Sets the error text, cut to [`MAX_ERROR`] bytes.
    pub fn set_error(&mut self, error: &[u8]) {
        let error = &error[..error.len().min(MAX_ERROR)];
        let old = self.extras();
        if old.error != error {
            self.words = [old.worker, error].concat().into();
        }
    }
}

impl Queue {
    /// Changes the note of a job. O(log n).
    pub(super) fn edit_note(&mut self, slot: u32, edit: impl FnOnce(&mut Note)) {
        let job = &mut self.jobs[slot];
        let note = self.notes.entry(job.node.seq).or_default();
        self.owned_bytes -= note.owned_bytes();
        edit(note);
        self.owned_bytes += note.owned_bytes();
        let is_noted = !note.extras().is_nothing();
        if !is_noted {
            self.notes.remove(&job.node.seq);
        }
        job.set_noted(is_noted);
    }

    pub(super) fn drop_note(&mut self, slot: u32) {
        let job = &self.jobs[slot];
        if job.is_noted() {
            self.owned_bytes -= self.notes.remove(&job.node.seq).map_or(0, |note| note.owned_bytes());
        }
    }

    pub(super) fn extras(&self, job: &Job) -> Extras<'_> {
        let note = if job.is_noted() { self.notes.get(&job.node.seq) } else { None };
        note.map_or_else(Extras::default, Note::extras)
    }
}
