//! When to look again: the next moment at which a claim succeeds although no command came in between.
//!
//! Left alone, a queue only opens up, and so does each of its groups (see [`groups`](super::groups)): jobs fall due and stay due, leases end, units of RATE come back. Each of the three
//! conditions of a claim therefore has a first moment from which on it holds, and the claim succeeds from the last of
//! the three.

use super::groups::NEVER;
use super::job::State;
use super::node::{CLAIMED, FALLING_DUE};
use super::{MAX_NOW, Millis, Queue, stretch};

impl Queue {
    /// The first moment, not before `now`, at which [`claimable`](Self::claimable) is not zero if no command comes in
    /// between: `now` itself if it is not zero already. `None`: never. O(log n), but O(log n × 53) when more leases are out
    /// than CONCURRENCY allows.
    pub fn next_wake(&self, now: Millis) -> Option<Millis> {
        let now = now.min(MAX_NOW);
        if self.settings.paused {
            return None;
        }
        let wake = self.next_ready(now)?.max(self.next_free_lease(now)).max(self.next_free_unit(now));
        (wake <= MAX_NOW).then_some(wake)
    }

    fn next_ready(&self, now: Millis) -> Option<Millis> {
        if let Some(groups) = &self.groups {
            return Some(groups.opens().max(now)).filter(|&opens| opens != NEVER);
        }
        if self.count(now, State::Ready) > 0 {
            return Some(now);
        }
        FALLING_DUE
            .into_iter()
            .filter_map(|tree| stretch::next_after(&self.jobs, self.root(tree), now))
            .chain(self.next_return(now))
            .min()
    }

    fn next_free_lease(&self, now: Millis) -> Millis {
        let most = self.settings.concurrency;
        let blocked = |at| most > 0 && self.count(at, State::Claimed) >= most;
        if !blocked(now) {
            return now;
        }
        // Usually it is the next lease to end.
        let next = CLAIMED.into_iter().filter_map(|tree| self.next_after(tree, now)).min();
        if let Some(next) = next.filter(|&next| !blocked(next)) {
            return next;
        }
        // CONCURRENCY was lowered: several have to end.
        let (mut shut, mut open) = (now, super::MAX_TIME);
        while open - shut > 1 {
            let middle = shut + (open - shut) / 2;
            if blocked(middle) {
                shut = middle;
            } else {
                open = middle;
            }
        }
        open
    }

    fn next_free_unit(&self, now: Millis) -> Millis {
        let rate = self.settings.rate;
        rate.map_or(now, |rate| self.rate_log.opens_at(rate, now))
    }
}
