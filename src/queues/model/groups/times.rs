//! The times of a group: when the group has a ready job, when a claim can get a job of the group, and since when a job
//! waits for that claim.

use super::Groups;
use crate::base::chunks::NIL;
use crate::queues::model::node::{Roots, State, TreeId};
use crate::queues::model::query::{Part, better, parts};
use crate::queues::model::tree;
use crate::queues::model::{Millis, NEVER, Queue};

#[cfg(test)]
thread_local! {
    pub(in crate::queues::model) static WORKED_OUT: std::cell::Cell<u64> = const { std::cell::Cell::new(0) };
}

/// Times of a group, each [`NEVER`] if only a command can bring it about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Times {
    /// The earliest time at which a job of the group is ready. 0 if the group has a job in [`TreeId::Ready`].
    pub ready: Millis,
    /// The earliest time at which a claim can get a job of the group. It is later than `ready` if, for example, the
    /// group is held.
    pub opens: Millis,
    /// The time from which on the group's oldest ready job waits for a claim: its due time, or `opens` if that is later.
    pub waits: Millis,
}

impl Times {
    pub const NEVER: Times = Times { ready: NEVER, opens: NEVER, waits: NEVER };

    pub fn min(self, other: Times) -> Times {
        let Times { ready, opens, waits } = self;
        Times { ready: ready.min(other.ready), opens: opens.min(other.opens), waits: waits.min(other.waits) }
    }
}

impl Queue {
    /// Returns the earliest due time of the jobs that are or will be ready without a command, or [`NEVER`]. The due time
    /// of a claimed job is the time at which the job is due again.
    pub(in crate::queues::model) fn first_due(&self, roots: &Roots) -> Millis {
        let times = parts(State::Ready).iter().filter_map(|&(id, _)| self.first_time(Some(roots), id));
        times.min().unwrap_or(NEVER)
    }

    /// Returns the first time at which the group with these roots has a ready job, or [`NEVER`]. Returns 0 if the group
    /// has a job in [`TreeId::Ready`].
    pub(in crate::queues::model) fn ready_from(&self, roots: &Roots) -> Millis {
        if roots[TreeId::Ready] == NIL { self.first_due(roots) } else { 0 }
    }

    pub(super) fn times_of(&self, groups: &Groups, group: u32) -> Times {
        #[cfg(test)]
        WORKED_OUT.set(WORKED_OUT.get() + 1);
        let (settings, roots, group) = (&self.settings, groups.roots_of(group, &self.roots), &groups.table[group]);
        let due = self.first_due(roots);
        if due == NEVER {
            return Times::NEVER;
        }
        let ready = if roots[TreeId::Ready] == NIL { due } else { 0 };
        let mut opens = ready;
        if settings.ordered {
            opens = match self.head(roots) {
                NIL => NEVER,
                head => match self.jobs[head].node.tree {
                    TreeId::Delayed | TreeId::ClaimedBackoff => self.jobs[head].back_at(settings),
                    _ => 0,
                },
            };
            // A recurring job that waits for its next occurrence does not keep the group closed.
            let occurrences = [TreeId::Upcoming, TreeId::RecurringDue].into_iter();
            opens = occurrences.filter_map(|id| self.first_time(Some(roots), id)).fold(opens, Millis::min);
            let leases = TreeId::OF_LEASES.into_iter().map(|id| tree::last(&self.jobs, roots[id]));
            let deadlines = leases.filter(|&slot| slot != NIL).map(|slot| self.jobs[slot].node.time);
            opens = deadlines.fold(opens, Millis::max);
        }
        opens = opens.max(self.next_free_lease(Some(roots), settings.group_concurrency, 0));
        if let Some(rate) = settings.group_rate {
            opens = opens.max(group.log.opens_at(rate, 0));
        }
        let opens = opens.max(group.held_until);
        Times { ready, opens, waits: due.max(opens) }
    }

    /// Returns the head of a group, or `NIL`. The head is the job with the lowest push number. Ignores dead letters,
    /// jobs that are claimed for their last attempt, and recurring jobs that wait for an occurrence. The queue must be
    /// ORDERED.
    fn head(&self, roots: &Roots) -> u32 {
        [TreeId::Ready, TreeId::Delayed, TreeId::Claimed, TreeId::ClaimedBackoff]
            .into_iter()
            .fold(NIL, |head, id| self.order().better(&self.jobs, head, tree::best(&self.jobs, roots[id])))
    }

    /// Returns the job that a claim gets at `now`, or `NIL`. This is a job of the first open group. O(log n).
    pub(in crate::queues::model) fn best_in_turn(&self, groups: &Groups, now: Millis) -> u32 {
        let group = groups.turn(now);
        if group == NIL {
            return NIL;
        }
        let roots = groups.roots_of(group, &self.roots);
        if !self.settings.ordered {
            return self.best_of(roots, now);
        }
        let head = self.head(roots);
        let is_ready = head != NIL && self.state_of(head, now) == State::Ready;
        let head = is_ready.then(|| (&self.jobs[head].node, head));
        let best = |id| self.tree(roots, id).best(Part::Until, now, self.order());
        let bests = [head, best(TreeId::Upcoming), best(TreeId::RecurringDue)].into_iter().flatten();
        bests.reduce(|a, b| better(self.order(), a, b)).map_or(NIL, |(_, slot)| slot)
    }
}
