//! When to look again although no command has come: when the next claim succeeds, and when a queue that nobody touches needs upkeep. Old
//! dead letters and expired jobs are dropped then (DEADLEN, DEADTTL, TTL), groups without jobs go when the units of their GROUPRATE are back, and a job that died
//! at the end of its lease is announced.
//!
//! Left alone, a queue only opens up, and so does each of its groups (see [`groups`](super::groups)): jobs fall due and stay due, leases end, units of RATE come back. Each of the three
//! conditions of a claim therefore has a first moment from which on it holds, and the claim succeeds from the last of
//! the three.

use super::clean::DROPPED_AT_ONCE;
use super::effect::{Change, Effect};
use super::groups::times::ready_from;
use super::job::State;
use super::node::{CLAIMED, TreeId};
use super::{MAX_NOW, MAX_TIME, Millis, NEVER, Queue};
use crate::model::chunks::NIL;

/// How long after they are back units of GROUPRATE are forgotten at the latest, ms, if no push or claim has done so. So a queue in use
/// is not looked at for each of them.
pub(super) const FORGOTTEN_AFTER: Millis = 30_000;

impl Queue {
    /// The first moment, not before `now`, at which [`claimable`](Self::claimable) is not zero if no command comes in
    /// between: `now` itself if it is not zero already. `None`: never. O(log n), but O(log^2 n) when more leases are out
    /// than CONCURRENCY allows.
    ///
    /// If expired jobs are in the way then, that is the moment to drop some ([`needs_settling`](Self::needs_settling)). If they are in the way
    /// now, it is the next moment: the server does something else in between.
    pub fn next_wake(&self, now: Millis) -> Option<Millis> {
        let now = now.min(MAX_NOW);
        if self.settings.paused {
            return None;
        }
        let mut wake = self.next_ready(now)?.max(self.next_free_lease(now)).max(self.next_free_unit(now));
        if wake == now && self.is_held_up(now) {
            wake += 1;
        }
        (wake <= MAX_NOW).then_some(wake)
    }

    fn next_ready(&self, now: Millis) -> Option<Millis> {
        let ready = match &self.groups {
            Some(groups) => groups.opens(),
            None => ready_from(&self.jobs, self.returns.own(), &self.roots),
        };
        (ready != NEVER).then_some(ready.max(now))
    }

    fn next_free_lease(&self, now: Millis) -> Millis {
        let most = self.settings.concurrency;
        let is_free = |at| most == 0 || self.count(at, State::Claimed) < most;
        if is_free(now) {
            return now;
        }
        let first_where = |holds: &dyn Fn(Millis) -> bool| {
            CLAIMED.into_iter().filter_map(|tree| self.first_where(tree, holds)).min().unwrap_or(MAX_TIME)
        };
        // Usually it is the next lease to end; if CONCURRENCY was lowered, several have to.
        let next = first_where(&|time| time > now);
        if is_free(next) { next } else { first_where(&is_free) }
    }

    fn next_free_unit(&self, now: Millis) -> Millis {
        let rate = self.settings.rate;
        rate.map_or(now, |rate| self.rate_log.opens_at(rate, now))
    }

    /// The end of the first lease after `told` that leaves its job dead. O(log n).
    pub fn next_death(&self, told: Millis) -> Option<Millis> {
        self.first_where(TreeId::Spent, |time| time > told)
    }

    /// Returns how many jobs died when their last lease ended, after `told` and up to `now`. O(log n).
    pub fn deaths(&self, told: Millis, now: Millis) -> u64 {
        self.count_until(TreeId::Spent, now).saturating_sub(self.count_until(TreeId::Spent, told))
    }

    /// Whether [`clean_up`](Self::clean_up) would do anything. O(log n).
    pub fn has_to_clean_up(&self, now: Millis) -> bool {
        let now = now.min(MAX_NOW);
        self.first_to_drop(now) != NIL || self.has_expired(now) || self.has_units_to_forget(now)
    }

    /// Drops dead letters and expired jobs, and forgets units, some of them if there are many. Returns how many. O(log n) for each.
    pub fn clean_up(&mut self, now: Millis, mut sink: impl FnMut(&Effect<'_>)) -> usize {
        let at = now.min(MAX_NOW);
        let mut done = self.drop_expired(at, DROPPED_AT_ONCE, &mut sink);
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
        let oldest = [TreeId::Dead, TreeId::Spent].map(|tree| self.first(tree)).into_iter();
        let ages =
            oldest.filter(|&slot| ttl > 0 && slot != NIL).map(|slot| self.jobs[slot].node.time.saturating_add(ttl));
        let forgotten = self.next_forgetting(now);
        let expired = self.first_expiry();
        ages.chain(is_crowded.then_some(now)).chain(self.next_death(told)).chain(forgotten).chain(expired).min()
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
