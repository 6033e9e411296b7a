//! Looking at jobs without touching them: the count of a state, ZQ.GET and ZQ.PEEK.
//!
//! Jobs without a group are in the trees of the queue, the others (also) in those of [`groups`](super::groups); what is asked about all jobs
//! asks both.

use super::again::Follower;
use super::groups::{Groups, Member};
use super::job::{Job, JobView, Record, State};
use super::node::{Roots, TREES, TreeId};
use super::stretch::{ByRank, ByTime, List, merge};
use super::tree::{Item, Key, key};
use super::{MAX_NOW, Millis, Queue, stretch, tree};
use crate::model::chunks::{Chunks, NIL};

/// How many ready jobs a page passes over to find the one that it goes on behind.
pub(super) const MOST_PASSED: usize = 500;

/// Why there is no page behind a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoPage {
    /// The job is not there, or in another state or group.
    NotInState,
    /// It is not among the first ready jobs, and nothing but a walk through those before it would find the next one.
    TooFar,
}

/// The jobs in a state: those of a group, or all.
#[derive(Clone, Copy, Debug)]
pub struct Which<'g> {
    pub state: State,
    /// The empty name stands for the jobs without a group.
    pub group: Option<&'g [u8]>,
}

impl From<State> for Which<'_> {
    fn from(state: State) -> Self {
        Which { state, group: None }
    }
}

/// Which jobs of a tree are in a state: all, those whose time has come, or the others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    All,
    Until,
    After,
}

/// Where the jobs of a state are, besides those that return.
fn parts(state: State) -> &'static [(TreeId, Part)] {
    match state {
        State::Ready => &[
            (TreeId::Ready, Part::All),
            (TreeId::Delayed, Part::Until),
            (TreeId::Claimed, Part::Until),
            (TreeId::Upcoming, Part::Until),
        ],
        State::Delayed => &[(TreeId::Delayed, Part::After), (TreeId::Upcoming, Part::After)],
        State::Claimed => &[
            (TreeId::Claimed, Part::After),
            (TreeId::Spent, Part::After),
            (TreeId::Retrying, Part::After),
            (TreeId::Recurring, Part::After),
        ],
        State::Dead => &[(TreeId::Dead, Part::All), (TreeId::Spent, Part::Until)],
    }
}

impl Queue {
    /// Jobs in a state, by the clock. O(log n).
    pub fn count(&self, now: Millis, state: State) -> u64 {
        self.count_of(None, now.min(MAX_NOW), state)
    }

    /// Those of a group, or of all.
    pub(super) fn count_of(&self, group: Option<&Roots>, now: Millis, state: State) -> u64 {
        let until = |tree: TreeId| match group {
            None => self.count_until(tree, now),
            Some(roots) => stretch::count_until(&self.jobs, roots[tree as usize], now),
        };
        let all = |tree: TreeId| match group {
            None => self.count_all(tree),
            Some(roots) => tree::size(&self.jobs, roots[tree as usize]).into(),
        };
        let count = |&(tree, part): &(TreeId, Part)| match part {
            Part::All => all(tree),
            Part::Until => until(tree),
            Part::After => all(tree) - until(tree),
        };
        let count = parts(state).iter().map(count).sum::<u64>();
        match state {
            State::Ready => count + self.count_returned(group, now),
            State::Delayed => {
                count + until(TreeId::Retrying) + until(TreeId::Recurring) - self.count_returned(group, now)
            }
            State::Claimed | State::Dead => count,
        }
    }

    pub(super) fn state_of(&self, slot: u32, now: Millis) -> State {
        self.jobs[slot].state(now, &self.settings)
    }

    /// The jobs with a group: one of their trees.
    fn grouped(&self, tree: TreeId) -> Option<(&Chunks<Member>, u32)> {
        let (members, roots) = self.groups.as_deref().map(Groups::members)?;
        Some((members, roots[tree as usize]))
    }

    pub(super) fn count_all(&self, tree: TreeId) -> u64 {
        let grouped = self.grouped(tree).map_or(0, |(members, root)| tree::size(members, root));
        u64::from(tree::size(&self.jobs, self.root(tree)) + grouped)
    }

    /// Jobs in a tree with `time <= now`.
    pub(super) fn count_until(&self, tree: TreeId, now: Millis) -> u64 {
        let grouped = self.grouped(tree).map_or(0, |(members, root)| stretch::count_until(members, root, now));
        stretch::count_until(&self.jobs, self.root(tree), now) + grouped
    }

    /// The first time of the jobs in a tree for which `holds` is true, as it then is for all later ones.
    pub(super) fn first_where(&self, tree: TreeId, holds: impl Fn(Millis) -> bool) -> Option<Millis> {
        let own = stretch::first_where(&self.jobs, self.root(tree), &holds);
        let grouped = self.grouped(tree).and_then(|(members, root)| stretch::first_where(members, root, &holds));
        [own, grouped].into_iter().flatten().min()
    }

    /// The earliest job in a tree, or `NIL`.
    pub(super) fn first(&self, tree: TreeId) -> u32 {
        self.first_of(None, tree)
    }

    /// The earliest job in a tree of a group, or of all.
    fn first_of(&self, group: Option<&Roots>, tree: TreeId) -> u32 {
        if let Some(roots) = group {
            return tree::first(&self.jobs, roots[tree as usize]);
        }
        let grouped = self.grouped(tree).map_or(NIL, |(members, root)| match tree::first(members, root) {
            NIL => NIL,
            member => members[member].job(),
        });
        self.earlier(tree::first(&self.jobs, self.root(tree)), grouped)
    }

    /// The job of a group, or of all, that has been dead the longest, or `NIL`.
    pub(super) fn longest_dead(&self, group: Option<&Roots>, now: Millis) -> u32 {
        // No later than `now` is dead, wherever it stands.
        let spent = self.first_of(group, TreeId::Spent);
        let spent = if spent != NIL && self.jobs[spent].node.time <= now { spent } else { NIL };
        self.earlier(self.first_of(group, TreeId::Dead), spent)
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
        let slot = self.slot_of(id)?;
        Some(self.view(now.min(MAX_NOW), &self.jobs[slot]))
    }

    pub(super) fn view<'a>(&'a self, now: Millis, job: &'a Job) -> JobView<'a> {
        let again = self.followers.of(job).map(Follower::payload);
        job.view(now, &self.settings, self.extras(job), self.group_name(job), again)
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
    pub fn peek<'a, 'g>(
        &'a self,
        now: Millis,
        which: impl Into<Which<'g>>,
    ) -> Box<dyn Iterator<Item = JobView<'a>> + 'a> {
        let now = now.min(MAX_NOW);
        let which = which.into();
        match which.state {
            State::Ready => Box::new(self.in_serving_order(now, which.group).map(move |job| self.view(now, job))),
            _ => Box::new(self.in_time_order(now, which, None).map(move |slot| self.view(now, &self.jobs[slot]))),
        }
    }

    /// As [`peek`](Self::peek), from behind the job of `id` on. O(log n).
    ///
    /// The trees know ready jobs by time, and the first ones by rank. So if priorities, groups or the order of push have a say in who is
    /// served, the jobs before that one are passed over, at most `MOST_PASSED` of them.
    pub fn peek_after<'a, 'g>(
        &'a self,
        now: Millis,
        which: impl Into<Which<'g>>,
        id: &[u8],
    ) -> Result<Box<dyn Iterator<Item = JobView<'a>> + 'a>, NoPage> {
        let now = now.min(MAX_NOW);
        let which = which.into();
        let Which { state, group } = which;
        let is_in = |job: &Job| group.is_none_or(|group| self.group_name(job) == group);
        let slot = self.slot_of(id).filter(|&slot| self.state_of(slot, now) == state && is_in(&self.jobs[slot]));
        let slot = slot.ok_or(NoPage::NotInState)?;
        let job = &self.jobs[slot];
        if state == State::Ready && !self.is_served_by_time(group) {
            let mut jobs = self.in_serving_order(now, group);
            let is_near = jobs.by_ref().take(MOST_PASSED).any(|other| std::ptr::eq(other, job));
            return if is_near { Ok(Box::new(jobs.map(move |job| self.view(now, job)))) } else { Err(NoPage::TooFar) };
        }
        let behind = (self.due_of(slot, now), job.node.priority, job.node.seq);
        let jobs = self.in_time_order(now, which, Some(behind));
        Ok(Box::new(jobs.map(move |slot| self.view(now, &self.jobs[slot]))))
    }

    /// Whether the ready jobs of a group, or of all, are served by time alone.
    fn is_served_by_time(&self, group: Option<&[u8]>) -> bool {
        (group.is_some() || self.group_count() <= 1) && !self.order().by_push && self.priorities.are_one()
    }

    fn in_serving_order(&self, now: Millis, group: Option<&[u8]>) -> Box<dyn Iterator<Item = &Job> + '_> {
        match (group, self.groups.as_deref()) {
            (Some(name), _) => Box::new(self.by_rank(self.roots_of(name), now)),
            (None, None) => Box::new(self.by_rank(&self.roots, now)),
            (None, Some(groups)) => Box::new(self.in_turns(groups, now)),
        }
    }

    /// The jobs in a state: ready and delayed ones by when they are due, claimed ones by when their leases end, dead ones by when they
    /// died; only those behind `behind`. O(log n) for each.
    pub(super) fn in_time_order<'a>(
        &'a self,
        now: Millis,
        which: Which<'_>,
        behind: Option<Key>,
    ) -> impl Iterator<Item = u32> + use<'a> {
        let mut lists: Vec<List<'_>> = Vec::new();
        let group = which.group.map(|name| self.roots_of(name));
        let roots = group.unwrap_or(&self.roots);
        for &(tree, part) in parts(which.state) {
            let behind = if part == Part::After { behind.or(Some((now, i32::MAX, u64::MAX))) } else { behind };
            let is_in = move |(time, ..): Key| part != Part::Until || time <= now;
            let own = ByTime::of(&self.jobs, roots[tree as usize], behind);
            let own = own.map(|(slot, job)| (key(&job.node), slot));
            lists.push(Box::new(own.take_while(move |&(key, _)| is_in(key))));
            if group.is_none()
                && let Some((members, root)) = self.grouped(tree)
            {
                let members = ByTime::of(members, root, behind).map(|(_, member)| (key(member.node()), member.job()));
                lists.push(Box::new(members.take_while(move |&(key, _)| is_in(key))));
            }
        }
        match which.state {
            State::Ready => lists.extend(self.returned(group, now, behind)),
            State::Delayed => lists.extend(self.waiting_returns(group, now, behind)),
            State::Claimed | State::Dead => {}
        }
        merge(lists).map(|(_, slot)| slot)
    }

    /// The ready jobs of these trees in serving order.
    pub(super) fn by_rank(&self, roots: &Roots, now: Millis) -> ByRank<'_> {
        ByRank::ready(&self.jobs, self.returns.own(), roots, self.order(), now)
    }

    /// The jobs in a tree, those with a group and those without.
    pub(super) fn slots_in(&self, tree: TreeId) -> impl Iterator<Item = u32> {
        let grouped = self.grouped(tree).map(|(members, root)| ByTime::of(members, root, None));
        let grouped = grouped.into_iter().flatten().map(|(_, member)| member.job());
        ByTime::of(&self.jobs, self.root(tree), None).map(|(slot, _)| slot).chain(grouped)
    }

    pub(super) fn root(&self, tree: TreeId) -> u32 {
        self.roots[tree as usize]
    }

    /// Every job's slot, group by group, tree by tree, each by time: an order that is the same on every replica.
    pub(super) fn slots(&self) -> impl Iterator<Item = u32> {
        let trees = self.all_roots().flat_map(|roots| &roots[..TREES]);
        trees.flat_map(|&root| ByTime::all(&self.jobs, root).map(|(slot, _)| slot))
    }
}
