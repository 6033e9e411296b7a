//! Looking at jobs without touching them: the count of a state, ZQ.GET and ZQ.PEEK.
//!
//! Jobs without a group are in the trees of the queue, the others (also) in those of [`groups`](super::groups); what is asked about all jobs
//! asks both.

use super::groups::{Groups, Member};
use super::job::{Job, JobView, Record, State};
use super::node::{CLAIMED, FALLING_DUE, RECURRENCES, RETRIES, Roots, TREES, Tree};
use super::returns::Return;
use super::slab::Slab;
use super::stretch::{ByRank, ByTime, merge, merge_keyed};
use super::tree::{Item, Key, key};
use super::{MAX_NOW, Millis, Queue, stretch, tree};
use crate::model::chunks::NIL;
use std::iter::Peekable;

/// How many ready jobs a page passes over to find the one that it goes on behind.
pub(super) const MOST_PASSED: usize = 500;

/// Why there is no page behind a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoPage {
    /// The job is not there, or in another state.
    NotInState,
    /// It is not among the first ready jobs, and nothing but a walk through those before it would find the next one.
    TooFar,
}

impl Queue {
    /// Jobs in a state, by the clock. O(log n).
    pub fn count(&self, now: Millis, state: State) -> u64 {
        let now = now.min(MAX_NOW);
        let until = |tree| self.count_until(tree, now);
        let after = |tree| self.count_all(tree) - self.count_until(tree, now);
        let all = |tree| self.count_all(tree);
        match state {
            State::Ready => all(Tree::Ready) + FALLING_DUE.map(until).iter().sum::<u64>() + self.count_returned(now),
            State::Delayed => {
                let ended = until(Tree::Retrying) + until(Tree::Recurring);
                after(Tree::Scheduled) + after(Tree::Upcoming) + ended - self.count_returned(now)
            }
            State::Claimed => CLAIMED.map(after).iter().sum(),
            State::Dead => all(Tree::Dead) + until(Tree::Spent),
        }
    }

    pub(super) fn state_of(&self, slot: u32, now: Millis) -> State {
        self.jobs[slot].state(now, &self.settings)
    }

    /// The jobs with a group: one of their trees.
    fn grouped(&self, tree: Tree) -> Option<(&Slab<Member>, u32)> {
        let (members, roots) = self.groups.as_deref().map(Groups::members)?;
        Some((members, roots[tree as usize]))
    }

    pub(super) fn count_all(&self, tree: Tree) -> u64 {
        let grouped = self.grouped(tree).map_or(0, |(members, root)| tree::size(members, root));
        u64::from(tree::size(&self.jobs, self.root(tree)) + grouped)
    }

    /// Jobs in a tree with `time <= now`.
    pub(super) fn count_until(&self, tree: Tree, now: Millis) -> u64 {
        let grouped = self.grouped(tree).map_or(0, |(members, root)| stretch::count_until(members, root, now));
        stretch::count_until(&self.jobs, self.root(tree), now) + grouped
    }

    /// The earliest time `> now` of the jobs in a tree.
    pub(super) fn next_after(&self, tree: Tree, now: Millis) -> Option<Millis> {
        let next = stretch::next_after(&self.jobs, self.root(tree), now);
        let grouped = self.grouped(tree).and_then(|(members, root)| stretch::next_after(members, root, now));
        [next, grouped].into_iter().flatten().min()
    }

    /// The earliest job in a tree, or `NIL`.
    pub(super) fn first(&self, tree: Tree) -> u32 {
        let grouped = self.grouped(tree).map_or(NIL, |(members, root)| match tree::first(members, root) {
            NIL => NIL,
            member => members[member].job(),
        });
        self.earlier(tree::first(&self.jobs, self.root(tree)), grouped)
    }

    /// The job that has been dead the longest, or `NIL`.
    pub(super) fn longest_dead(&self, now: Millis) -> u32 {
        // No later than `now` is dead, wherever it stands.
        let spent = self.first(Tree::Spent);
        let spent = if spent != NIL && self.jobs[spent].node.time <= now { spent } else { NIL };
        self.earlier(self.first(Tree::Dead), spent)
    }

    fn earlier(&self, a: u32, b: u32) -> u32 {
        match (a, b) {
            (NIL, slot) | (slot, NIL) => slot,
            (a, b) if key(&self.jobs[b].node) < key(&self.jobs[a].node) => b,
            (a, _) => a,
        }
    }

    /// A job as the clock sees it. O(1) expected.
    pub fn get(&self, now: Millis, id: &[u8]) -> Option<JobView<'_>> {
        let slot = self.index.find(&self.jobs, id)?;
        Some(self.view(now.min(MAX_NOW), &self.jobs[slot]))
    }

    pub(super) fn view<'a>(&'a self, now: Millis, job: &'a Job) -> JobView<'a> {
        job.view(now, &self.settings, self.extras(job), self.group_name(job))
    }

    /// A job as it is stored.
    pub(super) fn record(&self, slot: u32) -> Record<'_> {
        let job = &self.jobs[slot];
        job.record(self.extras(job), self.group_name(job))
    }

    pub(super) fn group_name(&self, job: &Job) -> &[u8] {
        self.groups.as_ref().map_or(b"", |groups| groups.name_of(job.member()))
    }

    /// The jobs in a state: ready ones in the order they will be served, delayed ones as they fall due, claimed ones as
    /// their leases end, dead ones as they died; jobs of one moment in serving order. O(log n) for each job taken
    /// from the iterator.
    pub fn peek(&self, now: Millis, state: State) -> Box<dyn Iterator<Item = JobView<'_>> + '_> {
        let now = now.min(MAX_NOW);
        match state {
            State::Ready => Box::new(self.in_serving_order(now).map(move |job| self.view(now, job))),
            _ => Box::new(self.in_time_order(now, state, None).map(move |slot| self.view(now, &self.jobs[slot]))),
        }
    }

    /// As [`peek`](Self::peek), from behind the job of `id` on. O(log n).
    ///
    /// The trees know ready jobs by time, and the first ones by rank. So if priorities, groups or the order of push have a say in who is
    /// served, the jobs before that one are passed over, at most `MOST_PASSED` of them.
    pub fn peek_after(
        &self,
        now: Millis,
        state: State,
        id: &[u8],
    ) -> Result<Box<dyn Iterator<Item = JobView<'_>> + '_>, NoPage> {
        let now = now.min(MAX_NOW);
        let slot = self.index.find(&self.jobs, id).filter(|&slot| self.state_of(slot, now) == state);
        let slot = slot.ok_or(NoPage::NotInState)?;
        let job = &self.jobs[slot];
        if state == State::Ready && !self.is_served_by_time() {
            let mut jobs = self.in_serving_order(now);
            let is_near = jobs.by_ref().take(MOST_PASSED).any(|other| std::ptr::eq(other, job));
            return if is_near { Ok(Box::new(jobs.map(move |job| self.view(now, job)))) } else { Err(NoPage::TooFar) };
        }
        let behind = (self.due_of(slot, now), job.node.priority, job.node.seq);
        let jobs = self.in_time_order(now, state, Some(behind));
        Ok(Box::new(jobs.map(move |slot| self.view(now, &self.jobs[slot]))))
    }

    /// Whether ready jobs are served by time alone.
    fn is_served_by_time(&self) -> bool {
        self.group_count() <= 1 && !self.order().by_push && self.priorities.are_one()
    }

    fn in_serving_order(&self, now: Millis) -> Box<dyn Iterator<Item = &Job> + '_> {
        match self.groups.as_deref() {
            None => Box::new(self.by_rank(&self.roots, now)),
            Some(groups) => Box::new(self.in_turns(groups, now)),
        }
    }

    /// The jobs in a state: ready and delayed ones by when they are due, claimed ones by when their leases end, dead ones by when they
    /// died; only those behind `behind`. O(log n) for each.
    pub(super) fn in_time_order(
        &self,
        now: Millis,
        state: State,
        behind: Option<Key>,
    ) -> Box<dyn Iterator<Item = u32> + '_> {
        let all = |tree| self.by_time(tree, behind).map(|(slot, job)| (key(&job.node), slot));
        let until = |tree| all(tree).take_while(move |((time, ..), _)| *time <= now);
        let ahead = behind.or(Some((now, i32::MAX, u64::MAX)));
        let after = |tree| self.by_time(tree, ahead).map(|(slot, job)| (key(&job.node), slot));
        let jobs: Box<dyn Iterator<Item = (Key, u32)>> = match state {
            State::Ready => {
                let [a, b, c] = FALLING_DUE.map(until);
                let due = merge_keyed(merge_keyed(all(Tree::Ready), a), merge_keyed(b, c));
                Box::new(merge_keyed(due, self.returned(now, behind)))
            }
            State::Delayed => {
                let scheduled = merge_keyed(after(Tree::Scheduled), after(Tree::Upcoming));
                Box::new(merge_keyed(scheduled, self.waiting_returns(now, behind)))
            }
            State::Claimed => {
                let [a, b, c, d] = CLAIMED.map(after);
                Box::new(merge_keyed(merge_keyed(a, b), merge_keyed(c, d)))
            }
            State::Dead => Box::new(merge_keyed(all(Tree::Dead), until(Tree::Spent))),
        };
        Box::new(jobs.map(|(_, slot)| slot))
    }

    /// The ready jobs of these trees in serving order.
    pub(super) fn by_rank(&self, roots: &Roots, now: Millis) -> Served<'_> {
        let jobs = ByRank::new(&self.jobs, self.order())
            .all(roots[Tree::Ready as usize])
            .until(roots[Tree::Scheduled as usize], now)
            .until(roots[Tree::Leased as usize], now)
            .until(roots[Tree::Upcoming as usize], now);
        let returned =
            ByRank::new(self.returns.own(), self.order()).until(roots[RETRIES], now).until(roots[RECURRENCES], now);
        Served { queue: self, jobs: jobs.peekable(), returned: returned.peekable() }
    }

    /// The jobs in a tree by time, those with a group and those without; only those behind `behind`.
    pub(super) fn by_time(&self, tree: Tree, behind: Option<Key>) -> impl Iterator<Item = (u32, &Job)> {
        let grouped = self.grouped(tree).map(|(members, root)| ByTime::of(members, root, behind));
        let grouped = grouped.into_iter().flatten().map(|(_, member)| (member.job(), &self.jobs[member.job()]));
        merge(ByTime::of(&self.jobs, self.root(tree), behind), grouped)
    }

    pub(super) fn root(&self, tree: Tree) -> u32 {
        self.roots[tree as usize]
    }

    /// Every job's slot, group by group, tree by tree, each by time: an order that is the same on every replica.
    pub(super) fn slots(&self) -> impl Iterator<Item = u32> {
        let trees = self.all_roots().flat_map(|roots| &roots[..TREES]);
        trees.flat_map(|&root| ByTime::all(&self.jobs, root).map(|(slot, _)| slot))
    }
}

/// Ready jobs in serving order: those of the trees, and those that have come back since their lease ended.
pub(super) struct Served<'a> {
    queue: &'a Queue,
    jobs: Peekable<ByRank<'a, Job>>,
    returned: Peekable<ByRank<'a, Return>>,
}

impl<'a> Iterator for Served<'a> {
    type Item = &'a Job;

    fn next(&mut self) -> Option<&'a Job> {
        let order = self.queue.order();
        let is_returned = match (self.jobs.peek(), self.returned.peek()) {
            (Some(job), Some(returned)) => order.rank(returned.node()) < order.rank(&job.node),
            (None, _) => true,
            (Some(_), None) => false,
        };
        if is_returned {
            self.returned.next().map(|returned| &self.queue.jobs[returned.job()])
        } else {
            self.jobs.next()
        }
    }
}
