//! ZQ.CLEAN, and the dead letters that go because of DEADLEN and DEADTTL. Both take jobs away one by one, the oldest first, and as
//! many at a time as the caller says, so that no call has to take a million.

use super::effect::{Change, Effect};
use super::job::State;
use super::view::Which;
use super::{MAX_NOW, Millis, Queue};
use crate::model::chunks::NIL;

/// How many jobs are listed before they are removed.
const BATCH: u64 = 1000;

/// How many jobs that are too young one call of CLEAN passes over: what takes a millisecond or so.
const MOST_YOUNG: u64 = 3000;

/// The most dead letters that a write to a queue takes away because DEADLEN and DEADTTL no longer allow them.
pub(super) const DROPPED_AT_ONCE: usize = 64;

/// The jobs that [`Queue::clean`] looked at are too young, and there are others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unreached;

impl Queue {
    /// Removes up to `count` of these jobs, the oldest first; with `older`, only those that have been in it for that long. `sink` gets
    /// the effect of each. Returns how many. O(log n) for each.
    ///
    /// Oldest: ready and delayed jobs by due time, dead ones by death. Since when a job has been ready or delayed is in no order, so with
    /// `older` those that are too young are passed over, at most `MOST_YOUNG` of them.
    ///
    /// # Errors
    ///
    /// [`Unreached`]: there may be such jobs, but none among those looked at. Nothing has changed.
    pub fn clean<'g>(
        &mut self,
        now: Millis,
        which: impl Into<Which<'g>>,
        older: Option<Millis>,
        count: u64,
        mut sink: impl FnMut(&Effect<'_>),
    ) -> Result<u64, Unreached> {
        let at = now.min(MAX_NOW);
        let which = which.into();
        let mut cleaned = 0;
        while cleaned < count {
            let ids = match self.oldest(at, which, older, BATCH.min(count - cleaned)) {
                Err(Unreached) if cleaned == 0 => return Err(Unreached),
                ids => ids.unwrap_or_default(),
            };
            if ids.is_empty() {
                break;
            }
            for id in &ids {
                let slot = self.slot_of(id);
                if let Some(effect) = slot.and_then(|slot| self.decide(slot, at, Change::Clean { id })) {
                    sink(&effect);
                    cleaned += 1;
                }
            }
        }
        Ok(cleaned)
    }

    /// Drops dead letters beyond DEADLEN and DEADTTL, the oldest first: some of them, if there are many. To be called after each write,
    /// and when [`next_upkeep`](Self::next_upkeep) says so.
    /// O(1) without the two settings.
    pub fn drop_dead(&mut self, now: Millis, mut sink: impl FnMut(&Effect<'_>)) {
        let at = now.min(MAX_NOW);
        for _ in 0..DROPPED_AT_ONCE {
            let slot = self.first_to_drop(at);
            if slot == NIL {
                return;
            }
            sink(&Effect { at, change: Change::Drop { id: self.jobs[slot].id() } });
            self.carry_out(slot, at, &Change::Drop { id: b"" });
        }
    }

    /// The dead letter that goes next because of DEADLEN and DEADTTL, or `NIL`. O(log n), O(1) without the two settings.
    pub(super) fn first_to_drop(&self, at: Millis) -> u32 {
        let (most, ttl) = (self.settings.deadlen, self.settings.deadttl);
        if most == 0 && ttl == 0 {
            return NIL;
        }
        let slot = self.longest_dead(None, at);
        if slot == NIL {
            return NIL;
        }
        let too_many = most > 0 && self.count(at, State::Dead) > most;
        let too_old = ttl > 0 && self.jobs[slot].node.time.saturating_add(ttl) <= at;
        if too_many || too_old { slot } else { NIL }
    }

    /// The ids of up to `count` of these jobs, the oldest first; with `older`, of those that have been in it for that long. A delayed
    /// one of which that is not known is left.
    fn oldest(
        &self,
        at: Millis,
        which: Which<'_>,
        older: Option<Millis>,
        count: u64,
    ) -> Result<Vec<Box<[u8]>>, Unreached> {
        let mut ids = Vec::new();
        // Nothing has been in a state for longer than time has run.
        let Some(until) = at.checked_sub(older.unwrap_or(0)) else { return Ok(ids) };
        let is_due = |slot: &u32| older.is_none() || which.state == State::Delayed || self.due_of(*slot, at) <= until;
        let mut young = 0;
        for slot in self.in_time_order(at, which, None).take_while(is_due) {
            if ids.len() as u64 == count {
                break;
            }
            if older.is_none() || self.since(slot, at).is_some_and(|since| since <= until) {
                ids.push(self.jobs[slot].id().into());
            } else if young == MOST_YOUNG {
                return if ids.is_empty() { Err(Unreached) } else { Ok(ids) };
            } else {
                young += 1;
            }
        }
        Ok(ids)
    }

    /// Since when a job has been in its state, if that is known.
    fn since(&self, slot: u32, at: Millis) -> Option<Millis> {
        let job = &self.jobs[slot];
        let view = self.view(at, job);
        let moved = Some(self.extras(job).since).filter(|&since| since != 0);
        let last = [view.created, view.claimed, view.failed, moved].into_iter().flatten().max();
        match view.state {
            State::Dead => Some(view.due),
            State::Ready => last.max(Some(view.due)),
            State::Delayed | State::Claimed => last,
        }
    }

    /// How many more jobs that are not dead MAXLEN allows. Those that wait behind a claim count. O(log n).
    pub(super) fn room(&self, at: Millis) -> u64 {
        match self.settings.maxlen {
            0 => u64::MAX,
            most => most.saturating_sub((self.len() + self.followers.len()) as u64 - self.count(at, State::Dead)),
        }
    }
}
