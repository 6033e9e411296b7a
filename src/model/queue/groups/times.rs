//! When a group opens.

use super::{Groups, NEVER};
use crate::model::queue::job::{Job, NIL, PLACES, Place};
use crate::model::queue::rate::RateLog;
use crate::model::queue::slab::Slab;
use crate::model::queue::tree::{self, Order};
use crate::model::queue::{Millis, Queue, Settings, stretch};

type Roots = [u32; PLACES];

fn first(jobs: &Slab<Job>, roots: &Roots, place: Place) -> Millis {
    let slot = tree::first(jobs, roots[place as usize]);
    if slot == NIL { NEVER } else { jobs[slot].node.time }
}

/// When the last lease ends.
fn last(jobs: &Slab<Job>, roots: &Roots, place: Place) -> Millis {
    let slot = tree::last(jobs, roots[place as usize]);
    if slot == NIL { 0 } else { jobs[slot].node.time }
}

/// The job that was pushed first of those that wait or will wait again, if `order` is that of pushes.
fn head(jobs: &Slab<Job>, roots: &Roots, order: Order) -> u32 {
    [Place::Ready, Place::Scheduled, Place::Leased]
        .into_iter()
        .fold(NIL, |head, place| order.better(jobs, head, tree::best(jobs, roots[place as usize])))
}

/// From when on fewer than `most` leases last: the `most`-th latest end of a lease. O(log n × log most).
fn frees_at(jobs: &Slab<Job>, roots: &Roots, most: u64) -> Millis {
    let (leased, spent) = (roots[Place::Leased as usize], roots[Place::Spent as usize]);
    let sizes = [leased, spent].map(|root| u64::from(tree::size(jobs, root)));
    if sizes[0] + sizes[1] < most {
        return 0;
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

/// From when on a group has a ready job, and from when on a claim gets one.
pub(super) fn of(
    jobs: &Slab<Job>,
    roots: &Roots,
    settings: &Settings,
    order: Order,
    log: &RateLog,
) -> (Millis, Millis) {
    let ready = match roots[Place::Ready as usize] {
        NIL => first(jobs, roots, Place::Scheduled).min(first(jobs, roots, Place::Leased)),
        _ => 0,
    };
    if ready == NEVER {
        return (NEVER, NEVER);
    }
    let mut opens = ready;
    if settings.ordered {
        let head = &jobs[head(jobs, roots, order)].node;
        opens = if head.place == Place::Scheduled { head.time } else { 0 };
        opens = opens.max(last(jobs, roots, Place::Leased)).max(last(jobs, roots, Place::Spent));
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
        if self.settings.ordered { head(&self.jobs, roots, self.order()) } else { self.best_of(roots, now) }
    }
}
