//! The times of a group: when the group has a ready job, when a claim can get a job of the group, and since when a job
//! waits for that claim.

use super::Groups;
use crate::base::chunks::NIL;
use crate::queues::model::node::{JobNode, Roots, State, TreeId};
use crate::queues::model::query::{Part, better, parts};
use crate::queues::model::tree;
use crate::queues::model::{Millis, NEVER, Queue};

#[cfg(test)]
thread_local! {
    pub(in crate::queues::model) static WORKED_OUT: std::cell::Cell<u64> = const { std::cell::Cell::new(0) };
}

/// The times of a group. [`NEVER`] means that no such time comes without a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Times {
    /// The earliest time at which a job of the group is ready. 0 if the group has a job in [`TreeId::Ready`].
    pub ready_at: Millis,
    /// No claim gets a job of the group before this time. If, for example, the group is held, this time is later than
    /// `ready_at`. From this time on, a claim gets a job, unless jobs of the group have expired ([`Queue::is_open`]).
    pub opens_at: Millis,
    /// The time from which on the group's oldest ready job waits for a claim: its due time, or the time at which the
    /// group opens, if that is later. Ignores TTLs.
    pub waits_from: Millis,
    /// See [`Queue::closes_at`].
    pub closes_at: Millis,
}

impl Times {
    pub const NEVER: Times = Times { ready_at: NEVER, opens_at: NEVER, waits_from: NEVER, closes_at: 0 };

    /// Combines the times of two groups or subtrees: takes the earlier of two times, but the later `closes_at`.
    pub fn outer(self, other: Times) -> Times {
        let Times { ready_at, opens_at, waits_from, closes_at } = self;
        Times {
            ready_at: ready_at.min(other.ready_at),
            opens_at: opens_at.min(other.opens_at),
            waits_from: waits_from.min(other.waits_from),
            closes_at: closes_at.max(other.closes_at),
        }
    }

    /// Whether a claim may get a job of the group at `now`. If false, no claim gets one.
    pub fn may_be_open(&self, now: Millis) -> bool {
        self.opens_at <= now && now < self.closes_at
    }
}

impl Queue {
    /// Returns the earliest due time of all jobs that are ready, or become ready without a command. Returns [`NEVER`]
    /// if there is no such job. The due time of a claimed job is the time at which the job is due again.
    pub(in crate::queues::model) fn first_due(&self, roots: &Roots) -> Millis {
        let times = parts(State::Ready).iter().filter_map(|&(id, _)| self.first_time(Some(roots), id));
        times.min().unwrap_or(NEVER)
    }

    pub(super) fn times_of(&self, groups: &Groups, group: u32) -> Times {
        #[cfg(test)]
        WORKED_OUT.set(WORKED_OUT.get() + 1);
        let (settings, roots, group) = (&self.settings, groups.roots_of(group, &self.roots), &groups.table[group]);
        let due = self.first_due(roots);
        if due == NEVER {
            return Times::NEVER;
        }
        let ready_at = if roots[TreeId::Ready] == NIL { due } else { 0 };
        let (mut limit, mut head, mut end_of_head) = (group.rare.held_until, ready_at, NEVER);
        if settings.ordered {
            (head, end_of_head) = self.head_times(roots);
            let leases = TreeId::OF_LEASES.into_iter().map(|id| tree::last(&self.jobs, roots[id]));
            let deadlines = leases.filter(|&slot| slot != NIL).map(|slot| self.jobs[slot].node.time);
            limit = deadlines.fold(limit, Millis::max);
        }
        limit = limit.max(self.next_free_lease(Some(roots), settings.group_concurrency, 0));
        if let Some(rate) = settings.group_rate {
            limit = limit.max(group.rare.log.next_free_unit(rate, 0));
        }
        let opens_at = head.min(end_of_head).max(limit);
        Times { ready_at, opens_at, waits_from: due.max(head).max(limit), closes_at: self.closes_at(roots) }
    }

    /// Returns two times of an ORDERED group, without regard to the group's leases and limits. The first is the time at
    /// which the group opens if no job expires. The second is the time at which the [`head`](Self::head) of the group
    /// expires, or [`NEVER`].
    fn head_times(&self, roots: &Roots) -> (Millis, Millis) {
        let Some((node, head)) = self.head(roots, None) else {
            return (self.first_occurrence(roots, 0, u64::MAX), NEVER);
        };
        let job = &self.jobs[head];
        let due = if node.tree == TreeId::Ready { 0 } else { job.due_again_at() };
        let opens_at =
            if self.has_been_claimed(head) { due } else { due.min(self.first_occurrence(roots, 0, node.seq)) };
        (opens_at, job.ttl().map_or(NEVER, |ttl| ttl.expires))
    }

    /// Returns the head of a group: the job with the lowest push number. Ignores dead letters, jobs that are claimed for
    /// their last attempt, and recurring jobs that wait for an occurrence. With `now`, also ignores jobs that have
    /// expired at `now`. The queue must be ORDERED.
    fn head(&self, roots: &Roots, now: Option<Millis>) -> Option<(&JobNode, u32)> {
        let trees = [TreeId::Ready, TreeId::Delayed, TreeId::Claimed, TreeId::ClaimedBackoff];
        let best = |id| self.tree(roots, id).best(Part::All, 0, self.order());
        let of_ttl = [TreeId::ReadyTtl, TreeId::WaitingTtl];
        let with_ttl = of_ttl.into_iter().filter_map(|id| match now {
            Some(now) => self.best_with_ttl(roots[id], now, NEVER),
            None => best(id),
        });
        let head = trees.into_iter().filter_map(best).chain(with_ttl).reduce(|a, b| better(self.order(), a, b));
        head.map(|(_, slot)| (&self.jobs[slot].node, slot))
    }

    /// Whether a worker has claimed this job before. In an ORDERED group, such a job comes before recurring jobs that
    /// were pushed earlier.
    fn has_been_claimed(&self, slot: u32) -> bool {
        let job = &self.jobs[slot];
        job.attempts > 0 || job.token != 0 || job.extras().claimed != 0
    }

    /// Returns the first time, not before `from`, at which a recurring job is due whose push number is below `before`.
    fn first_occurrence(&self, roots: &Roots, from: Millis, before: u64) -> Millis {
        let trees = [TreeId::Upcoming, TreeId::RecurringDue, TreeId::UpcomingTtl];
        trees.into_iter().filter_map(|id| self.tree(roots, id).first_pushed(from, before)).min().unwrap_or(NEVER)
    }

    /// Returns the job that a claim gets from a group, or `NIL`. Ignores the group's leases and limits.
    fn best_of_group(&self, roots: &Roots, now: Millis) -> u32 {
        if !self.settings.ordered {
            return self.best_of(roots, now);
        }
        let head = self.head(roots, Some(now));
        let mut best = None;
        if head.is_none_or(|(_, head)| !self.has_been_claimed(head)) {
            let occurrences = [TreeId::Upcoming, TreeId::RecurringDue].into_iter();
            let bests = occurrences.filter_map(|id| self.tree(roots, id).best(Part::Until, now, self.order()));
            let found = bests.reduce(|a, b| better(self.order(), a, b));
            best = self.best_among_ttl(roots, &[TreeId::UpcomingTtl], now, now, found);
        }
        let best = best.filter(|(node, _)| head.is_none_or(|(head, _)| node.seq < head.seq));
        let head = head.filter(|&(_, head)| self.state_of(head, now) == State::Ready);
        best.or(head).map_or(NIL, |(_, slot)| slot)
    }

    /// Whether a claim at `now` can get a job of the group. Ignores the limits of the queue. O(1) if no job of the
    /// group has a TTL.
    pub(super) fn is_open(&self, groups: &Groups, group: u32, now: Millis) -> bool {
        let roots = groups.roots_of(group, &self.roots);
        groups.table[group].times.may_be_open(now) && (!roots.have_ttl() || self.best_of_group(roots, now) != NIL)
    }

    /// Returns a time after `now` before which no claim gets a job of this group, if no command changes the queue. Must
    /// be called only if the group's limits allow a claim at `now`, but there is no job for the claim: all ready jobs
    /// have expired, or the head is not ready.
    fn next_try(&self, roots: &Roots, now: Millis) -> Millis {
        if !self.settings.ordered {
            let trees = parts(State::Ready).iter().filter(|(id, _)| *id != TreeId::Ready);
            let dues = trees.filter_map(|&(id, _)| self.first_where(Some(roots), id, |time| time > now));
            return dues.min().unwrap_or(NEVER);
        }
        let Some((node, head)) = self.head(roots, Some(now)) else {
            return self.first_occurrence(roots, now + 1, u64::MAX);
        };
        let job = &self.jobs[head];
        let next = if self.has_been_claimed(head) { NEVER } else { self.first_occurrence(roots, now + 1, node.seq) };
        next.min(job.due_again_at()).min(job.ttl().map_or(NEVER, |ttl| ttl.expires))
    }

    /// Returns a time before which no claim gets a job of any group, if no command changes the queue. This time is
    /// after `now` if no group has a job for a claim at `now`. Otherwise, it is not after `now`. Ignores PAUSED,
    /// CONCURRENCY and RATE.
    pub(in crate::queues::model) fn opens_at(&self, now: Millis) -> Millis {
        let opens_with_ttl = |roots: &Roots, is_open: bool| if is_open { now } else { self.next_try(roots, now) };
        match &self.groups {
            None if self.roots.have_ttl() => opens_with_ttl(&self.roots, self.best_of(&self.roots, now) != NIL),
            None if self.roots[TreeId::Ready] == NIL => self.first_due(&self.roots),
            None => 0,
            Some(groups) if groups.opens_at() > now => groups.opens_at(),
            Some(groups) if self.turn(groups, now) != NIL => now,
            Some(groups) => groups.opens_after(now, |group| self.next_try(groups.roots_of(group, &self.roots), now)),
        }
    }

    /// Returns the job that a claim gets at `now`, or `NIL`. This is a job of the first open group.
    pub(in crate::queues::model) fn best_in_turn(&self, groups: &Groups, now: Millis) -> u32 {
        match self.turn(groups, now) {
            NIL => NIL,
            group => self.best_of_group(groups.roots_of(group, &self.roots), now),
        }
    }

    /// Returns the first group, in the order of turns, that is open at `now`, or `NIL`. O(log n), or longer if many
    /// groups have expired jobs between groups that open later.
    fn turn(&self, groups: &Groups, now: Millis) -> u32 {
        groups.first_where(None, |times| times.may_be_open(now), |group| self.is_open(groups, group, now))
    }
}
