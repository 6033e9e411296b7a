//! What only some jobs have: who holds them, when and why they failed. Kept apart from the jobs, so that a job without any of it takes
//! not one byte more, and pays for no look-up: a bit in the job says whether there is a note.
//!
//! Notes are found by push number, which a job keeps wherever it moves. A B-tree, not a hash table: it grows and shrinks in
//! small steps.

use super::job::{Extras, Job, MAX_ERROR, MAX_WORKER};
use super::{Millis, Queue};
use std::collections::BTreeMap;

/// [`Extras`], owned.
#[derive(Clone, Debug, Default)]
pub(super) struct Note {
    pub claimed: Millis,
    pub failed: Millis,
    /// The worker, then the error.
    words: Box<[u8]>,
    worker_len: u8,
    /// [`Extras::since`]: a time is shorter than 56 bits.
    since: [u8; 7],
}

impl Note {
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

    /// Of longer names the beginning is kept.
    pub fn set_worker(&mut self, worker: &[u8]) {
        let worker = &worker[..worker.len().min(MAX_WORKER)];
        let old = self.extras();
        if old.worker != worker {
            self.words = [worker, old.error].concat().into();
            self.worker_len = worker.len() as u8;
        }
    }

    /// Of longer texts the beginning is kept.
    pub fn set_error(&mut self, error: &[u8]) {
        let error = &error[..error.len().min(MAX_ERROR)];
        let old = self.extras();
        if old.error != error {
            self.words = [old.worker, error].concat().into();
        }
    }
}

/// The notes of a queue.
#[derive(Clone, Debug, Default)]
pub(super) struct Notes {
    by_seq: BTreeMap<u64, Note>,
    /// Of all workers and errors.
    word_bytes: usize,
}

impl Notes {
    pub fn get(&self, seq: u64) -> Option<&Note> {
        self.by_seq.get(&seq)
    }

    /// A job has another push number now.
    pub fn renumber(&mut self, from: u64, to: u64) {
        if let Some(note) = self.by_seq.remove(&from) {
            self.by_seq.insert(to, note);
        }
    }

    /// An estimate of the bytes held.
    pub fn memory_usage(&self) -> usize {
        /// A note, its key, and its share of a tree whose nodes are two thirds full.
        const EACH: usize = (size_of::<Note>() + size_of::<u64>()) * 3 / 2;
        self.by_seq.len() * EACH + self.word_bytes
    }

    #[cfg(test)]
    pub fn len(&self) -> usize {
        self.by_seq.len()
    }
}

impl Queue {
    /// Changes what is noted of a job. O(log n).
    pub(super) fn edit_note(&mut self, slot: u32, edit: impl FnOnce(&mut Note)) {
        let job = &mut self.jobs[slot];
        let seq = job.node.seq;
        let note = self.notes.by_seq.entry(seq).or_default();
        let before = note.words.len();
        edit(note);
        let after = note.words.len();
        let is_needed = !note.extras().is_nothing();
        if !is_needed {
            self.notes.by_seq.remove(&seq);
        }
        job.set_noted(is_needed);
        self.notes.word_bytes = self.notes.word_bytes + after - before;
    }

    /// To be called when a job leaves the queue.
    pub(super) fn drop_note(&mut self, slot: u32) {
        let job = &self.jobs[slot];
        if job.is_noted()
            && let Some(note) = self.notes.by_seq.remove(&job.node.seq)
        {
            self.notes.word_bytes -= note.words.len();
        }
    }

    /// What is noted of a job.
    pub(super) fn extras(&self, job: &Job) -> Extras<'_> {
        let note = if job.is_noted() { self.notes.get(job.node.seq) } else { None };
        note.map_or_else(Extras::default, Note::extras)
    }
}
