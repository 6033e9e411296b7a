//! Reads of a queue: ZQ.GET, ZQ.PEEK, and the number of jobs in a state.
//!
//! The queue has trees of the jobs without a group. [`groups`](super::groups) has trees of the jobs with a group. A
//! query about all jobs reads both.

use super::groups::{Groups, Member};
use super::job::{Extras, Job, Record, State, Ttl};
use super::node::{Roots, TREES, TreeId};
use super::stretch::{ByRank, ByTime, List, merge};
use super::tree::{Item, Key, key};
use super::{MAX_NOW, Millis, Queue, stretch, tree};
use crate::model::chunks::{Chunks, NIL};

/// PEEK with AFTER searches at most this number of ready jobs for the job with the given ID.
pub(super) const MOST_PASSED: usize = 500;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoPage {
    /// No job with this ID is in the state and the group.
    NotInState,
    /// Too many ready jobs are served before this job.
    TooFar,
}

/// The jobs in a state, of one group or of all groups.
#[derive(Clone, Copy, Debug)]
pub struct Which<'g> {
    pub state: State,
    /// `None`: all groups. Empty: the jobs without a group.
    pub group: Option<&'g [u8]>,
}

impl From<State> for Which<'_> {
    fn from(state: State) -> Self {
        Which { state, group: None }
    }
}

/// The jobs of a tree: all jobs, those with `time <= now`, or those with `time > now`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    All,
    Until,
    After,
}

/// Returns the trees with the jobs in a state, except the trees of [`returns`](super::returns).
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
    /// Returns the number of jobs in a state at `now`. O(log n).
    pub fn count(&self, now: Millis, state: State) -> u64 {
        self.count_of(None, now.min(MAX_NOW), state)
    }

    /// Returns the number of jobs in a state, of one group or of all groups.
    pub(super) fn count_of(&self, group: Option<&Roots>, now: Millis, state: State) -> u64 {
        let until = |tree| self.count_until(group, tree, now);
        let all = |tree| self.count_all(group, tree);
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

    /// Returns the root of a group's tree. If `group` is `None`, returns two roots instead. The first is that of the
    /// jobs without a group, the second is that of all jobs with a group.
    fn trees(&self, group: Option<&Roots>, tree: TreeId) -> (u32, Option<(&Chunks<Member>, u32)>) {
        let tree = tree as usize;
        match (group, self.groups.as_deref().map(Groups::members)) {
            (Some(roots), _) => (roots[tree], None),
            (None, members) => (self.roots[tree], members.map(|(members, roots)| (members, roots[tree]))),
        }
    }

    /// Returns the number of jobs in a tree, of one group or of all groups.
    pub(super) fn count_all(&self, group: Option<&Roots>, tree: TreeId) -> u64 {
        let (own, grouped) = self.trees(group, tree);
        u64::from(tree::size(&self.jobs, own) + grouped.map_or(0, |(members, root)| tree::size(members, root)))
    }

    /// Returns the number of jobs with `time <= now` in a tree, of one group or of all groups.
    pub(super) fn count_until(&self, group: Option<&Roots>, tree: TreeId, now: Millis) -> u64 {
        let (own, grouped) = self.trees(group, tree);
        let grouped = grouped.map_or(0, |(members, root)| stretch::count_until(members, root, now));
        stretch::count_until(&self.jobs, own, now) + grouped
    }

    /// Returns the first time in a tree for which `holds` is true. `holds` must be true for all later times, too.
    pub(super) fn first_where(&self, tree: TreeId, holds: impl Fn(Millis) -> bool) -> Option<Millis> {
        let (own, grouped) = self.trees(None, tree);
        let own = stretch::first_where(&self.jobs, own, &holds);
        let grouped = grouped.and_then(|(members, root)| stretch::first_where(members, root, &holds));
        [own, grouped].into_iter().flatten().min()
    }

    /// Returns the first job in a tree, of one group or of all groups, or `NIL`.
    pub(super) fn first(&self, group: Option<&Roots>, tree: TreeId) -> u32 {
        let (own, grouped) = self.trees(group, tree);
        let grouped = grouped.map_or(NIL, |(members, root)| match tree::first(members, root) {
            NIL => NIL,
            member => members[member].job,
        });
        self.earlier(tree::first(&self.jobs, own), grouped)
    }

    /// Returns the oldest dead letter, of one group or of all groups, or `NIL`.
    pub(super) fn longest_dead(&self, group: Option<&Roots>, now: Millis) -> u32 {
        // The job is a dead letter only after its deadline.
        let spent = self.first(group, TreeId::Spent);
        let spent = if spent != NIL && self.jobs[spent].node.time <= now { spent } else { NIL };
        self.earlier(self.first(group, TreeId::Dead), spent)
    }

    fn earlier(&self, a: u32, b: u32) -> u32 {
        match (a, b) {
            (NIL, slot) | (slot, NIL) => slot,
            (a, b) if key(&self.jobs[b].node) < key(&self.jobs[a].node) => b,
            (a, _) => a,
        }
    }

    /// Returns a job at `now`. O(1) expected.
    pub fn get(&self, now: Millis, id: &[u8]) -> Option<Record<'_>> {
        let slot = self.slot_of(id)?;
        Some(self.view(now.min(MAX_NOW), &self.jobs[slot]))
    }

    /// Returns the payload of the push that waits behind the job with this ID (AGAIN). O(log n).
    pub fn again(&self, id: &[u8]) -> Option<&[u8]> {
        let slot = self.slot_of(id)?;
        Some(self.follower(&self.jobs[slot])?.payload)
    }

    /// Returns a job at `now`.
    pub(super) fn view<'a>(&'a self, now: Millis, job: &'a Job) -> Record<'a> {
        let stored = self.record(job);
        let state = job.state(now, &self.settings);
        let expires = job.expires(now, &self.settings).filter(|_| state != State::Dead).unwrap_or(0);
        let failed = if job.is_lapsed(now) { stored.time } else { stored.extras.failed };
        Record {
            state,
            time: job.due(now, &self.settings),
            attempts: if job.has_missed(now) { 0 } else { stored.attempts },
            ttl: stored.ttl.map(|ttl| Ttl { expires, ..ttl }),
            extras: Extras { claimed: job.claimed(stored.extras), failed, ..stored.extras },
            ..stored
        }
    }

    pub(super) fn record<'a>(&'a self, job: &'a Job) -> Record<'a> {
        Record {
            id: job.id(),
            group: self.group_name(job),
            payload: job.payload(),
            state: job.node.tree.states().0,
            time: job.node.time,
            priority: job.node.priority,
            seq: job.node.seq,
            token: job.token,
            attempts: job.attempts,
            max_attempts: job.max_attempts,
            recurrence: job.recurrence(),
            created: job.created(),
            ttl: job.ttl(),
            extras: self.extras(job),
        }
    }

    pub(super) fn group_name(&self, job: &Job) -> &[u8] {
        self.groups.as_ref().map_or(b"", |groups| groups.name_of(job.member()))
    }

    /// Lists the jobs in a state: ready jobs in serving order, delayed jobs by due time, claimed jobs by deadline, dead
    /// letters by the time at which they became dead letters. O(log n) for each job that is read.
    pub fn peek<'a, 'g>(
        &'a self,
        now: Millis,
        which: impl Into<Which<'g>>,
    ) -> Box<dyn Iterator<Item = Record<'a>> + 'a> {
        let now = now.min(MAX_NOW);
        let which = which.into();
        match which.state {
            State::Ready => Box::new(self.in_serving_order(now, which.group).map(move |job| self.view(now, job))),
            _ => Box::new(self.in_time_order(now, which, None).map(move |slot| self.view(now, &self.jobs[slot]))),
        }
    }

    /// Lists the jobs that [`peek`](Self::peek) lists after the job with this ID. O(log n).
    ///
    /// If priorities, groups or ORDERED determine the serving order, no tree finds the place of that job. The call then
    /// skips the ready jobs before it, at most `MOST_PASSED`.
    pub fn peek_after<'a, 'g>(
        &'a self,
        now: Millis,
        which: impl Into<Which<'g>>,
        id: &[u8],
    ) -> Result<Box<dyn Iterator<Item = Record<'a>> + 'a>, NoPage> {
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

    /// Whether time alone determines the serving order of a group, or of all jobs.
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

    /// Lists the jobs in a state, ordered by time. The list begins after the key `behind`. The time of a job is its due
    /// time, its deadline, or the time at which it became a dead letter. O(log n) per job.
    pub(super) fn in_time_order<'a>(
        &'a self,
        now: Millis,
        which: Which<'_>,
        behind: Option<Key>,
    ) -> impl Iterator<Item = u32> + use<'a> {
        let mut lists: Vec<List<'_>> = Vec::new();
        let group = which.group.map(|name| self.roots_of(name));
        for &(tree, part) in parts(which.state) {
            let behind = if part == Part::After { behind.or(Some((now, i32::MAX, u64::MAX))) } else { behind };
            let is_in = move |&((time, ..), _): &(Key, u32)| part != Part::Until || time <= now;
            let (own, grouped) = self.trees(group, tree);
            let own = ByTime::of(&self.jobs, own, behind).map(|(slot, job)| (key(&job.node), slot));
            lists.push(Box::new(own.take_while(is_in)));
            if let Some((members, root)) = grouped {
                let members = ByTime::of(members, root, behind).map(|(_, member)| (key(member.node()), member.job));
                lists.push(Box::new(members.take_while(is_in)));
            }
        }
        match which.state {
            State::Ready => lists.extend(self.returned(group, now, behind)),
            State::Delayed => lists.extend(self.waiting_returns(group, now, behind)),
            State::Claimed | State::Dead => {}
        }
        merge(lists).map(|(_, slot)| slot)
    }

    /// Lists the ready jobs of one group in serving order.
    pub(super) fn by_rank(&self, roots: &Roots, now: Millis) -> ByRank<'_> {
        ByRank::ready(&self.jobs, &self.returns.own, roots, self.order(), now)
    }

    /// Lists the slots of the jobs in a tree: first the jobs without a group, then the jobs with a group.
    pub(super) fn slots_in(&self, tree: TreeId) -> impl Iterator<Item = u32> {
        let (own, grouped) = self.trees(None, tree);
        let grouped = grouped.map(|(members, root)| ByTime::of(members, root, None)).into_iter().flatten();
        ByTime::of(&self.jobs, own, None).map(|(slot, _)| slot).chain(grouped.map(|(_, member)| member.job))
    }

    /// Lists the slots of all jobs, in an order that is the same on each replica.
    pub(super) fn slots(&self) -> impl Iterator<Item = u32> {
        let trees = self.all_roots().flat_map(|roots| &roots[..TREES]);
        trees.flat_map(|&root| ByTime::of(&self.jobs, root, None).map(|(slot, _)| slot))
    }
}
