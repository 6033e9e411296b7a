//! When a group opens.

use super::{Groups, NEVER};
use crate::model::chunks::NIL;
use crate::model::queue::job::{Job, State};
use crate::model::queue::node::{CLAIMED, RECURRENCES, RETRIES, Roots, Tree};
use crate::model::queue::rate::RateLog;
use crate::model::queue::returns::Return;
use crate::model::queue::slab::Slab;
use crate::model::queue::tree::{self, Item, Order};
use crate::model::queue::{Millis, Queue, Settings, stretch};

fn first(jobs: &Slab<Job>, roots: &Roots, tree: Tree) -> Millis {
    earliest(jobs, roots[tree as usize])
}

fn earliest<T: Item>(items: &Slab<T>, root: u32) -> Millis {
    let slot = tree::first(items, root);
    if slot == NIL { NEVER } else { items[slot].node().time }
}

/// When the last lease ends.
fn last(jobs: &Slab<Job>, roots: &Roots, tree: Tree) -> Millis {
    let slot = tree::last(jobs, roots[tree as usize]);
    if slot == NIL { 0 } else { jobs[slot].node.time }
}

/// The job that was pushed first of those that wait or will wait again, if `order` is that of pushes; `NIL`: all that there are wait for
/// an occurrence.
fn head(jobs: &Slab<Job>, roots: &Roots, order: Order) -> u32 {
    [Tree::Ready, Tree::Scheduled, Tree::Leased, Tree::Retrying]
        .into_iter()
        .fold(NIL, |head, tree| order.better(jobs, head, tree::best(jobs, roots[tree as usize])))
}

/// From when on fewer than `most` leases last: the `most`-th latest end of a lease. O(log n × log most), but O(log n × 53) where jobs
/// come back some time after their leases.
fn frees_at(jobs: &Slab<Job>, roots: &Roots, most: u64) -> Millis {
    let leases = CLAIMED.map(|tree| roots[tree as usize]);
    let [leased, spent, ..] = leases;
    let sizes = leases.map(|root| u64::from(tree::size(jobs, root)));
    if sizes.iter().sum::<u64>() < most {
        return 0;
    }
    if sizes[2] + sizes[3] > 0 {
        let is_shut = |at| leases.map(|root| stretch::count_after(jobs, root, at)).iter().sum::<u64>() >= most;
        let (mut shut, mut open) = (0, CLAIMED.map(|tree| last(jobs, roots, tree)).into_iter().fold(0, Millis::max));
        while open - shut > 1 {
            let middle = shut + (open - shut) / 2;
            if is_shut(middle) {
                shut = middle;
            } else {
                open = middle;
            }
        }
        return open;
    }
    let latest = |root, number| stretch::latest(jobs, root, number);
    // How many of the `most` latest are among the leased: more than `few`, or just as many.
    let (mut few, mut many) = (most.saturating_sub(sizes[1]), most.min(sizes[0]));
    while few < many {
        let middle = few + (many - few) / 2;
        if latest(spent, most - middle) < latest(leased, middle + 1) {
            few = middle + 1;
        } else {
            many = middle;
        }
    }
    latest(leased, few).unwrap_or(NEVER).min(latest(spent, most - few).unwrap_or(NEVER))
}

#[cfg(test)]
thread_local! {
    /// How often was worked out when a group opens.
    pub(in crate::model::queue) static WORKED_OUT: std::cell::Cell<u64> = const { std::cell::Cell::new(0) };
}

/// From when on a group has a ready job, and from when on a claim gets one.
pub(super) fn of(
    jobs: &Slab<Job>,
    returns: &Slab<Return>,
    roots: &Roots,
    settings: &Settings,
    order: Order,
    log: &RateLog,
) -> (Millis, Millis) {
    #[cfg(test)]
    WORKED_OUT.set(WORKED_OUT.get() + 1);
    let next_occurrence = earliest(returns, roots[RECURRENCES]).min(first(jobs, roots, Tree::Upcoming));
    let ready = match roots[Tree::Ready as usize] {
        NIL => {
            let waiting = first(jobs, roots, Tree::Scheduled).min(first(jobs, roots, Tree::Leased));
            waiting.min(earliest(returns, roots[RETRIES])).min(next_occurrence)
        }
        _ => 0,
    };
    if ready == NEVER {
        return (NEVER, NEVER);
    }
    let mut opens = ready;
    if settings.ordered {
        let head = head(jobs, roots, order);
        opens = match head {
            NIL => NEVER,
            head => match jobs[head].node.tree {
                Tree::Scheduled => jobs[head].node.time,
                Tree::Retrying => jobs[head].back_at(settings),
                _ => 0,
            },
        };
        // A job that waits for an occurrence holds nobody until then.
        opens = opens.min(next_occurrence);
        opens = CLAIMED.into_iter().fold(opens, |opens, tree| opens.max(last(jobs, roots, tree)));
    }
    if settings.group_concurrency > 0 {
        opens = opens.max(frees_at(jobs, roots, settings.group_concurrency));
    }
    if let Some(rate) = settings.group_rate {
        opens = opens.max(log.opens_at(rate, 0));
    }
    (ready, opens)
}

impl Queue {
    /// The job to be served first of the group whose turn it is, or `NIL`. O(log n).
    pub(in crate::model::queue) fn best_in_turn(&self, groups: &Groups, now: Millis) -> u32 {
        let group = groups.turn(now);
        if group == NIL {
            return NIL;
        }
        let roots = self.group_roots(groups, group);
        if !self.settings.ordered {
            return self.best_of(roots, now);
        }
        let head = head(&self.jobs, roots, self.order());
        let is_ready = head != NIL && self.state_of(head, now) == State::Ready;
        let upcoming = stretch::best_until(&self.jobs, roots[Tree::Upcoming as usize], now, self.order());
        let best = self.order().better(&self.jobs, if is_ready { head } else { NIL }, upcoming);
        self.or_returned(best, &[roots[RECURRENCES]], now)
    }
}
