//! What has to be done to a queue that no command touches: old dead letters are dropped (DEADLEN, DEADTTL), groups without jobs go when
//! the units of their GROUPRATE are back, and a job that died at the end of its lease has to be announced. Which jobs are dead follows
//! from the clock, here as everywhere; this only says when to look.

use super::effect::{Change, Effect};
use super::job::State;
use super::node::Tree;
use super::{MAX_NOW, Millis, Queue};
use crate::model::chunks::NIL;

/// How long after they are back units of GROUPRATE are forgotten at the latest, ms, if no push or claim has done so. So a queue in use
/// is not looked at for each of them.
pub(super) const FORGOTTEN_AFTER: Millis = 30_000;

impl Queue {
    /// The end of the first lease after `told` that leaves its job dead. O(log n).
    pub fn next_death(&self, told: Millis) -> Option<Millis> {
        self.next_after(Tree::Spent, told)
    }

    /// Whether [`clean_up`](Self::clean_up) would do anything. O(log n).
    pub fn has_to_clean_up(&self, now: Millis) -> bool {
        let now = now.min(MAX_NOW);
        self.first_to_drop(now) != NIL || self.has_units_to_forget(now)
    }

    /// Drops dead letters and forgets units, some of them if there are many. Returns how many. O(log n) for each.
    pub fn clean_up(&mut self, now: Millis, mut sink: impl FnMut(&Effect<'_>)) -> usize {
        let at = now.min(MAX_NOW);
        let mut done = 0;
        self.drop_dead(at, |effect| {
            done += 1;
            sink(effect);
        });
        if self.has_units_to_forget(at) {
            done += self.settle(at);
            sink(&Effect { at, change: Change::SettleRate });
        }
        done
    }

    /// The first moment at which there is something to do if no command comes in between; it may lie before `now`. All deaths up to
    /// `told` have been announced. `None`: never. O(log n).
    pub fn next_upkeep(&self, now: Millis, told: Millis) -> Option<Millis> {
        let now = now.min(MAX_NOW);
        let (most, ttl) = (self.settings.deadlen, self.settings.deadttl);
        let is_crowded = most > 0 && self.count(now, State::Dead) > most;
        // A lease that has not ended yet is the next death, if it comes before its job is too long dead.
        let oldest = [Tree::Dead, Tree::Spent].map(|tree| self.first(tree)).into_iter();
        let ages =
            oldest.filter(|&slot| ttl > 0 && slot != NIL).map(|slot| self.jobs[slot].node.time.saturating_add(ttl));
        let forgotten = self.next_forgetting(now);
        ages.chain(is_crowded.then_some(now)).chain(self.next_death(told)).chain(forgotten).min()
    }

    /// When units of GROUPRATE are to be forgotten, or to be settled, as [`settle`](Self::settle) does.
    fn next_forgetting(&self, now: Millis) -> Option<Millis> {
        let groups = self.groups.as_deref()?;
        let back = groups.first_back()?;
        let is_settled = self.settings.group_rate.is_some_and(|rate| !groups.unsettled(rate, now));
        Some(if is_settled { back.saturating_add(FORGOTTEN_AFTER) } else { now })
    }

    fn has_units_to_forget(&self, now: Millis) -> bool {
        self.next_forgetting(now).is_some_and(|at| at <= now)
    }
}
