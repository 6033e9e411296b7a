//! ZQ.CLEAN, and the dead letters that go because of DEADLEN and DEADTTL. Both take jobs away one by one, the oldest first, and as
//! many at a time as the caller says, so that no call has to take a million.

use super::effect::{Change, Effect};
use super::job::State;
use super::node::{FALLING_DUE, Tree};
use super::tree::key;
use super::{MAX_NOW, Millis, Queue};
use crate::model::chunks::NIL;
use std::hint::black_box;

/// How many jobs are read ahead of being removed.
const AHEAD: u64 = 16;

/// How many jobs that are too young one call of CLEAN passes over: what takes a millisecond or so.
const MOST_YOUNG: u64 = 3000;

/// The most dead letters that a write to a queue takes away because DEADLEN and DEADTTL no longer allow them.
const DROPPED_AT_ONCE: usize = 64;

/// The jobs that [`Queue::clean`] looked at are too young, and there are others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unreached;

impl Queue {
    /// Removes up to `count` jobs of a state, the oldest first; with `older`, only those that have been in it for that long. `sink` gets
    /// the effect of each. Returns how many. O(log n) for each.
    ///
    /// Oldest: ready and delayed jobs by due time, dead ones by death. Since when a job has been ready or delayed is in no order, so with
    /// `older` those that are too young are passed over, at most `MOST_YOUNG` of them.
    ///
    /// # Errors
    ///
    /// [`Unreached`]: there may be such jobs, but none among those looked at. Nothing has changed.
    pub fn clean(
        &mut self,
        now: Millis,
        state: State,
        older: Option<Millis>,
        count: u64,
        mut sink: impl FnMut(&Effect<'_>),
    ) -> Result<u64, Unreached> {
        let at = now.min(MAX_NOW);
        let mut cleaned = 0;
        if let Some(older) = older {
            for id in self.in_state_for(at, state, older, count)? {
                if let Some(slot) = self.index.find(&self.jobs, &id) {
                    self.clean_slot(slot, at, &mut sink);
                    cleaned += 1;
                }
            }
            return Ok(cleaned);
        }
        while cleaned < count {
            let slot = self.oldest(at, state);
            if slot == NIL {
                break;
            }
            if cleaned % AHEAD == 0 {
                self.read_ahead(self.jobs[slot].node.tree);
            }
            self.clean_slot(slot, at, &mut sink);
            cleaned += 1;
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
            self.drop_slot(slot, at);
        }
    }

    /// The dead letter that goes next because of DEADLEN and DEADTTL, or `NIL`. O(log n), O(1) without the two settings.
    pub(super) fn first_to_drop(&self, at: Millis) -> u32 {
        let (most, ttl) = (self.settings.deadlen, self.settings.deadttl);
        if most == 0 && ttl == 0 {
            return NIL;
        }
        let slot = self.oldest(at, State::Dead);
        if slot == NIL {
            return NIL;
        }
        let too_many = most > 0 && self.count(at, State::Dead) > most;
        let too_old = ttl > 0 && self.jobs[slot].node.time.saturating_add(ttl) <= at;
        if too_many || too_old { slot } else { NIL }
    }

    /// The job of a state that comes first by time, or `NIL`. O(log n).
    pub(super) fn oldest(&self, at: Millis, state: State) -> u32 {
        let slot = |slot: u32| (slot != NIL).then(|| (key(&self.jobs[slot].node), slot));
        let past = |tree| slot(self.first(tree)).filter(|((time, ..), _)| *time <= at);
        let oldest = match state {
            State::Ready => {
                let returned = self.first_return().filter(|((time, ..), _)| *time <= at);
                let jobs = FALLING_DUE.map(past).into_iter().chain([slot(self.first(Tree::Ready)), returned]);
                jobs.flatten().min()
            }
            State::Dead => return self.longest_dead(at),
            State::Delayed => return self.in_time_order(at, state, None).next().unwrap_or(NIL),
            State::Claimed => None,
        };
        oldest.map_or(NIL, |(_, slot)| slot)
    }

    /// The ids of up to `count` jobs that have been in a state for `older`. A delayed one of which it is not known is left.
    fn in_state_for(&self, at: Millis, state: State, older: Millis, count: u64) -> Result<Vec<Box<[u8]>>, Unreached> {
        let mut ids = Vec::new();
        // Nothing has been in a state for longer than time has run.
        let Some(until) = at.checked_sub(older) else { return Ok(ids) };
        let is_due = |slot: &u32| state == State::Delayed || self.due_of(*slot, at) <= until;
        let mut young = 0;
        for slot in self.in_time_order(at, state, None).take_while(is_due) {
            if ids.len() as u64 == count {
                break;
            }
            if self.since(slot, at).is_some_and(|since| since <= until) {
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

    /// Reads what is about to be read to remove the oldest jobs of a tree. Of several, the processor reads it at once; one after the
    /// other, it would wait for its memory each time, which is most of what CLEAN takes in a large queue.
    fn read_ahead(&self, tree: Tree) {
        let ahead = AHEAD as usize;
        let oldest = self.by_time(tree, None).take(ahead).map(|(slot, _)| slot);
        // The last jobs move into their slots.
        let end = self.jobs.len() as u32;
        let moving = end.saturating_sub(AHEAD as u32)..end;
        let slots: Vec<u32> = oldest.chain(moving).collect();
        let bodies = slots.iter().filter_map(|&slot| self.jobs[slot].body.first());
        black_box(bodies.fold(0, |all, byte| all ^ byte));
        self.index.read_ahead(&self.jobs, &slots);
    }

    fn clean_slot(&mut self, slot: u32, at: Millis, sink: &mut impl FnMut(&Effect<'_>)) {
        sink(&Effect { at, change: Change::Clean { id: self.jobs[slot].id() } });
        self.remove_clean(slot, at);
    }

    /// How many more jobs that are not dead MAXLEN allows. O(log n).
    pub(super) fn room(&self, at: Millis) -> u64 {
        match self.settings.maxlen {
            0 => u64::MAX,
            most => most.saturating_sub(self.len() as u64 - self.count(at, State::Dead)),
        }
    }
}
