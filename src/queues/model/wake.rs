//! The times at which the module must act on a queue even if no command comes. [`Queue::next_claimable`] returns the
//! next time at which the module must wake a waiting client. [`Queue::next_upkeep`] returns the next time at which the
//! upkeep must act. The upkeep drops dead letters (DEADLEN, DEADTTL) and expired jobs (TTL), and removes groups without
//! jobs. If a lease has expired, the upkeep carries out the push that has waited for its end (AGAIN, DECLARE), and
//! announces a job that became a dead letter.
//!
//! A claim needs a ready job, a free lease (CONCURRENCY) and a free unit (RATE). Each of the three becomes available at
//! some time. If no TTL ends, each then stays available until a command runs. So from the latest of these times on, a
//! claim gets a job.

use super::clean::DROPPED_AT_ONCE;
use super::effect::{Change, Effect};
use super::node::{Roots, State, TreeId};
use super::query::Part;
use super::{MAX_NOW, MAX_TIME, Millis, NEVER, Queue};

/// The upkeep clears a group's log of GROUPRATE units this many ms after all units are available again. Pushes and
/// claims usually clear the log earlier. So the upkeep rarely has to open the key of a busy queue.
pub(super) const CLEARED_AFTER: Millis = 30_000;

impl Queue {
    /// Returns `now` if a claim gets a job at `now`. Otherwise, returns a later time before which no claim gets one,
    /// assuming that no command changes the queue. Without TTLs, a claim gets a job at this time. Returns `None` if
    /// there is no such time. O(log n), or O(log^2 n) if CONCURRENCY was lowered below the number of leases.
    pub fn next_claimable(&self, now: Millis) -> Option<Millis> {
        let now = now.min(MAX_NOW);
        let opens_at = self.opens_at(now);
        if opens_at == NEVER || self.settings.paused {
            return None;
        }
        let lease = self.next_free_lease(None, self.settings.concurrency, now);
        let unit = self.settings.rate.map_or(now, |rate| self.rate_log.next_free_unit(rate, now));
        Some(opens_at.max(lease).max(unit)).filter(|&at| at <= MAX_NOW)
    }

    /// Returns the first time, not before `from`, at which a group has fewer than `most` leases. If `group` is `None`,
    /// counts the leases of all groups. If `most` is 0, there is no limit. O(log n), or O(log^2 n) if several leases
    /// must expire.
    pub(super) fn next_free_lease(&self, group: Option<&Roots>, most: u64, from: Millis) -> Millis {
        let is_free = |at| most == 0 || self.count_in_group(group, at, State::Claimed) < most;
        if is_free(from) {
            return from;
        }
        let first_where = |pred: &dyn Fn(Millis) -> bool| {
            let times = TreeId::OF_LEASES.into_iter().filter_map(|tree| self.first_where(group, tree, pred));
            times.min().unwrap_or(MAX_TIME)
        };
        // Usually, one lease must expire. If CONCURRENCY was lowered, several leases must expire.
        let next = first_where(&|time| time > from);
        if is_free(next) { next } else { first_where(&is_free) }
    }

    /// Returns the first time after `announced_until` at which a job becomes a dead letter because its lease expires.
    /// O(log n).
    fn next_dead_letter(&self, announced_until: Millis) -> Option<Millis> {
        self.first_where(None, TreeId::ClaimedLast, |time| time > announced_until)
    }

    /// Returns the number of jobs that became dead letters because their leases expired, after `announced_until` and up
    /// to `now`. O(log n).
    pub fn new_dead_letters(&self, announced_until: Millis, now: Millis) -> u64 {
        let expired = |at| self.count_in_trees(None, &[TreeId::ClaimedLast], Part::Until, at);
        expired(now).saturating_sub(expired(announced_until))
    }

    pub fn needs_upkeep(&self, now: Millis) -> bool {
        let now = now.min(MAX_NOW);
        self.next_upkeep(now, now).is_some_and(|at| at <= now)
    }

    /// Does a limited part of the upkeep: drops dead letters and expired jobs, carries out pushes that have waited for
    /// the end of a lease (AGAIN, DECLARE), and clears logs of taken units (GROUPRATE). Returns the number of changed
    /// jobs and groups. O(log n) for each of them.
    pub fn run_upkeep(&mut self, now: Millis, mut sink: impl FnMut(&Effect<'_>)) -> usize {
        let at = now.min(MAX_NOW);
        let mut done = self.drop_expired(at, DROPPED_AT_ONCE, &mut sink);
        self.drop_dead(at, |effect| {
            done += 1;
            sink(effect);
        });
        if self.next_log_upkeep(at).is_some_and(|next| next <= at) {
            done += self.settle_rates(at);
            sink(&Effect { at, change: Change::SettleRates });
        }
        done
    }

    /// Returns the time at which the upkeep must act next, or `None` if it need not act. Assumes that no command
    /// changes the queue. The returned time can be before `now`. `announced_until`: the module has sent `zq.dead` for
    /// the dead letters up to this time. O(log n).
    pub fn next_upkeep(&self, now: Millis, announced_until: Millis) -> Option<Millis> {
        let now = now.min(MAX_NOW);
        let (most, ttl) = (self.settings.deadlen, self.settings.deadttl);
        let is_crowded = most > 0 && self.count(now, State::Dead) > most;
        // A job in `ClaimedLast` becomes a dead letter at its deadline. DEADTTL counts from that time.
        let oldest = [TreeId::Dead, TreeId::ClaimedLast].into_iter().filter_map(|tree| self.first_time(None, tree));
        let ages = oldest.filter(|_| ttl > 0).map(|time| time.saturating_add(ttl));
        let cleared = self.next_log_upkeep(now);
        let expired = self.expiries.first().map(|&(expiry, _)| expiry);
        ages.chain(is_crowded.then_some(now))
            .chain(self.next_dead_letter(announced_until))
            .chain(cleared)
            .chain(expired)
            .min()
    }

    /// Returns the next time at which the upkeep must update the logs of taken units (GROUPRATE) of groups
    /// ([`settle_rates`](Self::settle_rates)).
    fn next_log_upkeep(&self, now: Millis) -> Option<Millis> {
        let groups = self.groups.as_deref()?;
        let back = groups.first_back_at()?;
        let is_settled = self.settings.group_rate.is_some_and(|rate| !groups.needs_settling(rate, now));
        Some(if is_settled { back.saturating_add(CLEARED_AFTER) } else { now })
    }
}
