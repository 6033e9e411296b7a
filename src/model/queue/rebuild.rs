//! Rebuilding a queue job by job: from an AOF rewrite, from an RDB, from bytes somebody sent to RESTORE.

use super::effect::{Change, Effect};
use super::job::{Extras, Record, State};
use super::node::Tree;
use super::transitions::Body;
use super::{MAX_TIME, Queue};

impl Queue {
    /// Enters a job as it stood; false, and nothing done, unless it is a possible one. The caller has checked `seq`
    /// and `token` against the counters.
    pub(super) fn restore(&mut self, record: &Record<'_>) -> bool {
        let possible = record.time <= MAX_TIME
            && record.recurrence.is_none_or(|r| (1..=MAX_TIME).contains(&r.period) && r.anchor <= MAX_TIME)
            && record.created <= MAX_TIME
            && record.extras.possible()
            && self.has_room()
            && self.index.find(&self.jobs, record.id).is_none();
        let mut job = self.new_job(
            &Body { id: record.id, payload: record.payload, group: record.group },
            record.time,
            record.priority,
            record.max_attempts,
            record.recurrence.map(|r| (r.period, r.anchor)),
        );
        job.set_created(record.created);
        job.attempts = record.attempts;
        job.token = record.token;
        job.node.seq = record.seq;
        // A waiting job has a delivery left, and a claimed one has had one.
        let (tree, counts) = match record.state {
            State::Ready => (Tree::Ready, !job.exhausted()),
            State::Delayed => (job.delayed_tree(record.time), !job.exhausted()),
            State::Claimed => (job.claimed_tree(&self.settings), job.attempts > 0 && job.token > 0),
            State::Dead => (Tree::Dead, job.token == 0),
        };
        let possible = possible && counts;
        if possible {
            let slot = self.insert(job, record.group, tree);
            let extras = record.extras;
            if extras != Extras::default() {
                self.edit_note(slot, |note| note.set(extras));
            }
        }
        possible
    }

    /// The effects that rebuild this queue exactly on an empty one: for the AOF rewrite. O(n log n) time, and four
    /// bytes a job of memory while it runs.
    pub fn rebuild(&self) -> impl Iterator<Item = Effect<'_>> {
        let mut slots: Vec<u32> = self.slots().collect();
        slots.sort_unstable_by_key(|&slot| self.jobs[slot].node.seq);
        let jobs = slots.into_iter().map(|slot| Change::RestoreJob(self.record(slot)));
        let rate = self.rate_log.entries().copied().map(Change::RestoreRate);
        let groups = self.turns().flat_map(|(name, units)| {
            let units = units.map(move |&taken| Change::RestoreUnits { group: name, taken });
            units.chain(std::iter::once(Change::RestoreTurn { group: name }))
        });
        std::iter::once(Change::Configure(self.settings))
            .chain(rate)
            .chain(jobs)
            .chain(groups)
            .chain(std::iter::once(Change::RestoreTotals(self.totals())))
            .map(|change| Effect { at: 0, change })
    }
}
