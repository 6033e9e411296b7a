//! Looking at jobs without touching them: the count of a state, ZQ.GET and ZQ.PEEK.
//!
//! Jobs without a group are in the trees of the queue, the others (also) in those of [`groups`](super::groups); what is asked about all jobs
//! asks both.

use super::groups::{Groups, Member};
use super::job::{Job, JobView, Record, State};
use super::node::{CLAIMED, RECURRENCES, RETRIES, Roots, TREES, Tree};
use super::returns::Return;
use super::slab::Slab;
use super::stretch::{ByRank, ByTime, merge};
use super::tree::{Item, Key, key};
use super::{MAX_NOW, Millis, Queue, stretch, tree};
use crate::model::chunks::NIL;
use std::iter::Peekable;

impl Queue {
    /// Jobs in a state, by the clock. O(log n).
    pub fn count(&self, now: Millis, state: State) -> u64 {
        let now = now.min(MAX_NOW);
        let until = |tree| self.count_until(tree, now);
        let after = |tree| self.count_all(tree) - self.count_until(tree, now);
        let all = |tree| self.count_all(tree);
        match state {
            State::Ready => all(Tree::Ready) + until(Tree::Scheduled) + until(Tree::Leased) + self.count_returned(now),
            State::Delayed => {
                let ended = until(Tree::Retrying) + until(Tree::Recurring);
                after(Tree::Scheduled) + ended - self.count_returned(now)
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
        let all = |tree| self.by_time(tree, None);
        let after = |tree| self.by_time(tree, Some(now));
        let by_time: Box<dyn Iterator<Item = (u32, &Job)>> = match state {
            State::Ready => match self.groups.as_deref() {
                None => return Box::new(self.by_rank(&self.roots, now).map(move |job| self.view(now, job))),
                Some(groups) => return Box::new(self.in_turns(groups, now).map(move |job| self.view(now, job))),
            },
            State::Delayed => Box::new(self.delayed(now, None)),
            State::Claimed => {
                let [a, b, c, d] = CLAIMED.map(after);
                Box::new(merge(merge(a, b), merge(c, d)))
            }
            State::Dead => {
                let ended = all(Tree::Spent).take_while(move |(_, job)| job.node.time <= now);
                Box::new(merge(all(Tree::Dead), ended))
            }
        };
        Box::new(by_time.map(move |(_, job)| self.view(now, job)))
    }

    /// The delayed jobs as they fall due: those with a due time ahead, and those that wait since their lease ended. Only those behind
    /// `behind`.
    pub(super) fn delayed(&self, now: Millis, behind: Option<Key>) -> impl Iterator<Item = (u32, &Job)> {
        let scheduled = self.by_key(Tree::Scheduled, now, behind);
        let jobs = stretch::merge_keyed(scheduled, self.waiting_returns(now, behind));
        jobs.map(|(_, slot)| (slot, &self.jobs[slot]))
    }

    fn by_key(&self, tree: Tree, now: Millis, behind: Option<Key>) -> impl Iterator<Item = (Key, u32)> {
        let jobs: Box<dyn Iterator<Item = (u32, &Job)>> = match behind {
            None => Box::new(self.by_time(tree, Some(now))),
            Some(behind) => Box::new(self.behind(tree, behind)),
        };
        jobs.map(|(slot, job)| (key(&job.node), slot))
    }

    /// Whether ready jobs are served by time alone.
    fn is_served_by_time(&self) -> bool {
        self.groups.is_none() && !self.order().by_push && self.priorities.0 == self.priorities.1
    }

    /// As [`peek`](Self::peek), from behind the job of `id` on. `None`: that job is not in this state. O(log n); but those before a
    /// ready one are passed over one by one if priorities, groups or the order of push have a say in who is served.
    pub fn peek_after(
        &self,
        now: Millis,
        state: State,
        id: &[u8],
    ) -> Option<Box<dyn Iterator<Item = JobView<'_>> + '_>> {
        let now = now.min(MAX_NOW);
        let slot = self.index.find(&self.jobs, id).filter(|&slot| self.state_of(slot, now) == state)?;
        let at = key(&self.jobs[slot].node);
        let (_, priority, seq) = at;
        let due = (self.due_of(slot, now), priority, seq);
        let by_time: Box<dyn Iterator<Item = (u32, &Job)>> = match state {
            State::Ready if self.is_served_by_time() => {
                let until = |tree| self.behind(tree, due).take_while(move |(_, job)| job.node.time <= now);
                let others = merge(until(Tree::Scheduled), until(Tree::Leased));
                let jobs = merge(self.behind(Tree::Ready, due), others).map(|(slot, job)| (key(&job.node), slot));
                let all = stretch::merge_keyed(jobs, self.returned_behind(now, due));
                Box::new(all.map(|(_, slot)| (slot, &self.jobs[slot])))
            }
            State::Ready => {
                let id = self.jobs[slot].id();
                return Some(Box::new(self.peek(now, state).skip_while(move |job| job.id != id).skip(1)));
            }
            State::Delayed => Box::new(self.delayed(now, Some(due))),
            State::Claimed => {
                let [a, b, c, d] = CLAIMED.map(|tree| self.behind(tree, at));
                Box::new(merge(merge(a, b), merge(c, d)))
            }
            State::Dead => {
                let spent = self.behind(Tree::Spent, at).take_while(move |(_, job)| job.node.time <= now);
                Box::new(merge(self.behind(Tree::Dead, at), spent))
            }
        };
        Some(Box::new(by_time.map(move |(_, job)| self.view(now, job))))
    }

    /// The ready jobs of these trees in serving order.
    pub(super) fn by_rank(&self, roots: &Roots, now: Millis) -> Served<'_> {
        let jobs = ByRank::new(&self.jobs, self.order())
            .all(roots[Tree::Ready as usize])
            .until(roots[Tree::Scheduled as usize], now)
            .until(roots[Tree::Leased as usize], now);
        let returned =
            ByRank::new(self.returns.own(), self.order()).until(roots[RETRIES], now).until(roots[RECURRENCES], now);
        Served { queue: self, jobs: jobs.peekable(), returned: returned.peekable() }
    }

    /// The jobs in a tree that come behind `key` by time.
    fn behind<'a>(&'a self, tree: Tree, key: Key) -> impl Iterator<Item = (u32, &'a Job)> + use<'a> {
        let grouped = self.grouped(tree).map(|(members, root)| ByTime::behind(members, root, key));
        let grouped = grouped.into_iter().flatten().map(|(_, member)| (member.job(), &self.jobs[member.job()]));
        merge(ByTime::behind(&self.jobs, self.root(tree), key), grouped)
    }

    /// The jobs in a tree by time, those with a group and those without; only those with `time > after`.
    pub(super) fn by_time(&self, tree: Tree, after: Option<Millis>) -> impl Iterator<Item = (u32, &Job)> {
        let grouped = self.grouped(tree).map(|(members, root)| ByTime::of(members, root, after));
        let grouped = grouped.into_iter().flatten().map(|(_, member)| (member.job(), &self.jobs[member.job()]));
        merge(ByTime::of(&self.jobs, self.root(tree), after), grouped)
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
