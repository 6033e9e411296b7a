//! What has to be done to a queue that no command touches: dead letters go (DEADLEN, DEADTTL), and a job that died at the end of its
//! lease has to be announced. Which jobs are dead follows from the clock, here as everywhere; this only says when to look.

use super::job::State;
use super::node::Tree;
use super::{MAX_NOW, Millis, Queue};
use crate::model::chunks::NIL;

impl Queue {
    /// The end of the first lease after `told` that leaves its job dead. O(log n).
    pub fn next_death(&self, told: Millis) -> Option<Millis> {
        self.next_after(Tree::Spent, told)
    }

    /// Whether [`drop_dead`](Self::drop_dead) would drop anything. O(log n).
    pub fn has_to_drop(&self, now: Millis) -> bool {
        self.first_to_drop(now.min(MAX_NOW)) != NIL
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
        ages.chain(is_crowded.then_some(now)).chain(self.next_death(told)).min()
    }
}
