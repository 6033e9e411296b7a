//! The times at which a group opens and at which it has a ready job.

use super::{Group, Groups};
use crate::model::chunks::{Chunks, NIL};
use crate::model::queue::job::{Job, State};
use crate::model::queue::node::{CLAIMED, FALLING_DUE, RECURRENCES, RETRIES, Roots, TreeId};
use crate::model::queue::returns::Return;
use crate::model::queue::tree::{self, ServingOrder};
use crate::model::queue::{Millis, NEVER, Queue, Settings, stretch};

/// Returns the latest deadline in a tree of claimed jobs, or 0.
fn last(jobs: &Chunks<Job>, roots: &Roots, tree: TreeId) -> Millis {
    let slot = tree::last(jobs, roots[tree as usize]);
    if slot == NIL { 0 } else { jobs[slot].node.time }
}

/// Returns the head of a group, or `NIL`. The head is the job with the lowest push number. Dead letters do not count,
/// and neither do recurring jobs that wait for an occurrence. A claimed job does not count if it gets into one of these
/// two states when its lease expires. `order` must be `by_push`.
fn head(jobs: &Chunks<Job>, roots: &Roots, order: ServingOrder) -> u32 {
    [TreeId::Ready, TreeId::Delayed, TreeId::Claimed, TreeId::Retrying]
        .into_iter()
        .fold(NIL, |head, tree| order.better(jobs, head, tree::best(jobs, roots[tree as usize])))
}

/// Returns the first time at which the group has fewer than `most` leases. O(log^2 n).
fn frees_at(jobs: &Chunks<Job>, roots: &Roots, most: u64) -> Millis {
    let leases = CLAIMED.map(|tree| roots[tree as usize]);
    if leases.map(|root| u64::from(tree::size(jobs, root))).iter().sum::<u64>() < most {
        return 0;
    }
    let is_free = |at| leases.map(|root| stretch::count_after(jobs, root, at)).iter().sum::<u64>() < most;
    // Usually, one lease must expire.
    let first = leases.into_iter().map(|root| stretch::first_time(jobs, root)).fold(NEVER, Millis::min);
    if is_free(first) {
        return first;
    }
    leases.into_iter().filter_map(|root| stretch::first_where(jobs, root, is_free)).min().unwrap_or(NEVER)
}

/// Returns the first time at which the group has a ready job, or [`NEVER`]. 0: the group has a job in
/// [`TreeId::Ready`].
pub(in crate::model::queue) fn ready_from(jobs: &Chunks<Job>, returns: &Chunks<Return>, roots: &Roots) -> Millis {
    if roots[TreeId::Ready as usize] != NIL {
        return 0;
    }
    let due = FALLING_DUE.map(|tree| stretch::first_time(jobs, roots[tree as usize]));
    let back = [RETRIES, RECURRENCES].map(|tree| stretch::first_time(returns, roots[tree]));
    due.into_iter().chain(back).fold(NEVER, Millis::min)
}

#[cfg(test)]
thread_local! {
    pub(in crate::model::queue) static WORKED_OUT: std::cell::Cell<u64> = const { std::cell::Cell::new(0) };
}

/// Returns the first time at which the group has a ready job, and the first time at which a claim can get a job of the
/// group.
pub(super) fn of(
    jobs: &Chunks<Job>,
    returns: &Chunks<Return>,
    roots: &Roots,
    settings: &Settings,
    order: ServingOrder,
    group: &Group,
) -> (Millis, Millis) {
    #[cfg(test)]
    WORKED_OUT.set(WORKED_OUT.get() + 1);
    let ready = ready_from(jobs, returns, roots);
    if ready == NEVER {
        return (NEVER, NEVER);
    }
    let mut opens = ready;
    if settings.ordered {
        let head = head(jobs, roots, order);
        opens = match head {
            NIL => NEVER,
            head => match jobs[head].node.tree {
                TreeId::Delayed => jobs[head].node.time,
                TreeId::Retrying => jobs[head].back_at(settings),
                _ => 0,
            },
        };
        // A recurring job that waits for an occurrence does not keep the group closed.
        opens = opens.min(stretch::first_time(jobs, roots[TreeId::Upcoming as usize]));
        opens = opens.min(stretch::first_time(returns, roots[RECURRENCES]));
        opens = CLAIMED.into_iter().fold(opens, |opens, tree| opens.max(last(jobs, roots, tree)));
    }
    if settings.group_concurrency > 0 {
        opens = opens.max(frees_at(jobs, roots, settings.group_concurrency));
    }
    if let Some(rate) = settings.group_rate {
        opens = opens.max(group.log.opens_at(rate, 0));
    }
    (ready, opens.max(group.held_until))
}

impl Queue {
    /// Returns the job that a claim gets at `now`, from the first open group, or `NIL`. O(log n).
    pub(in crate::model::queue) fn best_in_turn(&self, groups: &Groups, now: Millis) -> u32 {
        let group = groups.turn(now);
        if group == NIL {
            return NIL;
        }
        let roots = groups.roots_of(group, &self.roots);
        if !self.settings.ordered {
            return self.best_of(roots, now);
        }
        let head = head(&self.jobs, roots, self.order());
        let is_ready = head != NIL && self.state_of(head, now) == State::Ready;
        let upcoming = stretch::best_until(&self.jobs, roots[TreeId::Upcoming as usize], now, self.order());
        let best = self.order().better(&self.jobs, if is_ready { head } else { NIL }, upcoming);
        self.or_returned(best, &[roots[RECURRENCES]], now)
    }
}
