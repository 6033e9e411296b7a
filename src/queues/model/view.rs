//! Reads of a queue: ZQ.GET, ZQ.PEEK, and the number of jobs in a state.
//!
//! The queue has trees of the jobs without a group. [`groups`](super::groups) has trees of the jobs with a group. A
//! query about all jobs reads trees of both kinds.

use super::job::Job;
use super::job_data::{Extras, JobData, Ttl};
use super::node::{JobNode, OrderKey, Roots, State, TreeId};
use super::query::{self, Behind, ByRank, ByTime, JobItems, JobTree, Part, merge};
use super::{MAX_NOW, Millis, Queue, tree};
use crate::base::chunks::NIL;

/// PEEK with AFTER searches at most this number of ready jobs for the job with the given ID.
pub(super) const MAX_PASSED: usize = 500;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AfterError {
    /// No job with the given ID is in the requested state and group.
    NotInState,
    /// The job with this ID is ready, but at least `MAX_PASSED` ready jobs come before it in the serving order.
    TooFar,
}

/// The jobs in a state, of one group or of all groups.
#[derive(Clone, Copy, Debug)]
pub struct JobFilter<'g> {
    pub state: State,
    /// The name of a group. `None` selects all groups. The empty name selects the jobs without a group.
    pub group: Option<&'g [u8]>,
}

#[cfg(test)]
impl From<State> for JobFilter<'_> {
    fn from(state: State) -> Self {
        JobFilter { state, group: None }
    }
}

impl Queue {
    /// Returns the number of jobs in a state at `now`. O(log n).
    pub fn count(&self, now: Millis, state: State) -> u64 {
        self.count_in_group(None, now.min(MAX_NOW), state)
    }

    /// Returns the number of jobs in a state. If `group` is `None`, counts the jobs of all groups.
    pub(super) fn count_in_group(&self, group: Option<&Roots>, now: Millis, state: State) -> u64 {
        let count = self.state_trees(group, state).map(|(tree, part)| tree.count(part, now)).sum::<u64>();
        match state {
            State::Delayed => {
                count
                    - self.count_in_trees(group, &[TreeId::ClaimedBackoff, TreeId::ClaimedRecurring], Part::After, now)
            }
            _ => count,
        }
    }

    /// Returns the number of jobs in the part `part` of each of the `trees`. If `group` is `None`, counts the jobs of
    /// all groups.
    pub(super) fn count_in_trees(&self, group: Option<&Roots>, trees: &[TreeId], part: Part, now: Millis) -> u64 {
        let trees = trees.iter().flat_map(|&id| self.trees(group, id));
        trees.map(|tree| tree.count(part, now)).sum()
    }

    /// Returns the number of jobs of the whole queue in the tree `id`. Counts the jobs with a group and those without.
    /// O(1).
    pub(super) fn tree_size(&self, id: TreeId) -> u32 {
        let grouped = self.groups.as_deref().map_or(0, |groups| groups.tree_size(id));
        tree::size(&self.jobs, self.roots[id]) + grouped
    }

    pub(super) fn state_of(&self, slot: u32, now: Millis) -> State {
        self.jobs[slot].state(now)
    }

    pub(super) fn tree(&self, roots: &Roots, id: TreeId) -> JobTree<'_> {
        let items =
            if id.is_of_due_entries() { JobItems::DueEntries(&self.due_entries) } else { JobItems::Jobs(&self.jobs) };
        JobTree { items, root: roots[id] }
    }

    /// Returns the tree `id` of one group. If `group` is `None`, returns the trees with the jobs of the whole queue:
    /// one for the jobs without a group, and one for the jobs with a group, if there are such jobs.
    pub(super) fn trees(&self, group: Option<&Roots>, id: TreeId) -> impl Iterator<Item = JobTree<'_>> + use<'_> {
        let groups = self.groups.as_deref().filter(|_| group.is_none());
        let own = self.tree(group.unwrap_or(&self.roots), id);
        std::iter::once(own).chain(groups.map(|groups| groups.tree_of_all_groups(id, &self.due_entries)))
    }

    /// Returns the trees with jobs in a state, and the part of each tree that contains these jobs ([`query::parts`]).
    /// If `group` is `None`, returns the trees of the whole queue.
    pub(super) fn state_trees(
        &self,
        group: Option<&Roots>,
        state: State,
    ) -> impl Iterator<Item = (JobTree<'_>, Part)> + use<'_> {
        let parts = query::parts(state).iter();
        let own = *group.unwrap_or(&self.roots);
        let grouped = self.groups.as_deref().filter(|_| group.is_none()).into_iter();
        let grouped = grouped.flat_map(move |groups| {
            let tree = move |id| groups.tree_of_all_groups(id, &self.due_entries);
            parts.clone().map(move |&(id, part)| (tree(id), part))
        });
        query::parts(state)
            .iter()
            .map(move |&(id, part)| (self.tree(&own, id), part))
            .chain(grouped)
            .filter(|(tree, _)| tree.root != NIL)
    }

    /// Returns the earliest time of the items in the tree `id`. If `group` is `None`, searches the trees of all groups.
    pub(super) fn first_time(&self, group: Option<&Roots>, id: TreeId) -> Option<Millis> {
        self.trees(group, id).filter_map(|tree| Some(tree.first()?.0.0)).min()
    }

    /// Of the times of the items in the tree `id`, returns the earliest one for which `pred` is true. If `pred` is true
    /// for a time, it must be true for all later times. If `group` is `None`, searches the trees of all groups.
    pub(super) fn first_where(
        &self,
        group: Option<&Roots>,
        id: TreeId,
        pred: impl Fn(Millis) -> bool,
    ) -> Option<Millis> {
        self.trees(group, id).filter_map(|tree| tree.first_where(&pred)).min()
    }

    /// Returns the oldest dead letter, or `NIL`. If `group` is `None`, searches all groups.
    pub(super) fn oldest_dead_letter(&self, group: Option<&Roots>, now: Millis) -> u32 {
        let firsts = self.state_trees(group, State::Dead).filter_map(|(tree, part)| Some((tree.first()?, part)));
        // A job in `ClaimedLast` is a dead letter only after its deadline.
        let dead = firsts.filter(|&(((time, ..), _), part)| part == Part::All || time <= now);
        dead.map(|(first, _)| first).min().map_or(NIL, |(_, slot)| slot)
    }

    /// Returns the data of a job at `now`. O(1) expected.
    pub fn get(&self, now: Millis, id: &[u8]) -> Option<JobData<'_>> {
        let slot = self.slot_of(id)?;
        Some(self.view(now.min(MAX_NOW), &self.jobs[slot]))
    }

    /// Returns the payload of the push that waits for the end of a claim of the job with this ID (AGAIN, DECLARE). O(1)
    /// expected.
    pub fn payload_behind(&self, id: &[u8]) -> Option<&[u8]> {
        let slot = self.slot_of(id)?;
        self.jobs[slot].behind().map(|push| push.job(b"").payload)
    }

    /// Returns the data of a job at `now`.
    pub(super) fn view<'a>(&'a self, now: Millis, job: &'a Job) -> JobData<'a> {
        let stored = self.job_data(job);
        let state = job.state(now);
        let expires = job.expires(now).filter(|_| state != State::Dead).unwrap_or(0);
        let failed = if job.is_lease_expired(now) { stored.time } else { stored.extras.failed };
        JobData {
            state,
            time: job.due(now),
            attempts: if job.has_missed(now) { 0 } else { stored.attempts },
            ttl: stored.ttl.map(|ttl| Ttl { expires, ..ttl }),
            extras: Extras { claimed: job.claimed(), failed, ..stored.extras },
            ..stored
        }
    }

    pub(super) fn job_data<'a>(&'a self, job: &'a Job) -> JobData<'a> {
        JobData {
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
            backoff: Some(job.backoff()).filter(|&backoff| backoff != self.backoff_as_set(job)),
            extras: job.extras(),
        }
    }

    /// Returns how long a claimed job waits after its lease has expired, according to the present settings.
    /// [`Job::backoff`] can differ, because the settings may have changed since the claim.
    pub(super) fn backoff_as_set(&self, job: &Job) -> Millis {
        let may_wait = matches!(job.node.tree, TreeId::Claimed | TreeId::ClaimedBackoff);
        if may_wait { self.settings.jittered_backoff(job.attempts, job.token) } else { 0 }
    }

    pub(super) fn group_name(&self, job: &Job) -> &[u8] {
        self.groups.as_ref().map_or(b"", |groups| groups.name_of(job.member()))
    }

    /// Lists the jobs in a state: ready jobs in serving order, delayed jobs by due time, claimed jobs by deadline, dead
    /// letters by the time at which they became dead letters. O(log n) per job.
    pub fn peek(&self, now: Millis, which: JobFilter<'_>) -> Box<dyn Iterator<Item = JobData<'_>> + '_> {
        let now = now.min(MAX_NOW);
        let slots = match which.state {
            State::Ready => self.in_serving_order(now, which.group),
            _ => self.in_time_order(now, which, None),
        };
        Box::new(slots.map(move |slot| self.view(now, &self.jobs[slot])))
    }

    /// Continues the list of [`peek`](Self::peek) after the job with this ID. O(log n).
    ///
    /// If priorities, groups or ORDERED determine the serving order, no tree gives the position of a ready job. In this
    /// case, searches the first `MAX_PASSED` ready jobs for the job.
    pub fn peek_after(
        &self,
        now: Millis,
        which: JobFilter<'_>,
        id: &[u8],
    ) -> Result<Box<dyn Iterator<Item = JobData<'_>> + '_>, AfterError> {
        let now = now.min(MAX_NOW);
        let JobFilter { state, group } = which;
        let is_in = |job: &Job| group.is_none_or(|group| self.group_name(job) == group);
        let slot = self.slot_of(id).filter(|&slot| self.state_of(slot, now) == state && is_in(&self.jobs[slot]));
        let slot = slot.ok_or(AfterError::NotInState)?;
        let slots = if state == State::Ready && !self.is_served_by_time(group) {
            self.in_serving_order_behind(now, group, slot).ok_or(AfterError::TooFar)?
        } else {
            let JobNode { priority, seq, .. } = self.jobs[slot].node;
            self.in_time_order(now, which, Some((self.jobs[slot].due(now), priority, seq)))
        };
        Ok(Box::new(slots.map(move |slot| self.view(now, &self.jobs[slot]))))
    }

    /// Whether the due times alone determine the serving order of a group, or of all jobs if `group` is `None`.
    fn is_served_by_time(&self, group: Option<&[u8]>) -> bool {
        (group.is_some() || self.groups_with_jobs() <= 1) && self.is_served_by_key()
    }

    fn in_serving_order(&self, now: Millis, group: Option<&[u8]>) -> Box<dyn Iterator<Item = u32> + '_> {
        match (group, self.groups.as_deref()) {
            (Some(name), _) => Box::new(self.by_rank(self.roots_by_name(name), now)),
            (None, None) => Box::new(self.by_rank(&self.roots, now)),
            (None, Some(groups)) => Box::new(self.in_turns(groups, now)),
        }
    }

    /// Continues [`in_serving_order`](Self::in_serving_order) behind a job. Returns `None` if the job is not one of the
    /// first `MAX_PASSED` jobs.
    fn in_serving_order_behind(
        &self,
        now: Millis,
        group: Option<&[u8]>,
        slot: u32,
    ) -> Option<Box<dyn Iterator<Item = u32> + '_>> {
        let roots = match (group, self.groups.as_deref()) {
            (Some(name), _) => self.roots_by_name(name),
            (None, None) => &self.roots,
            (None, Some(groups)) => {
                let mut slots = self.in_turns(groups, now);
                return slots.by_ref().take(MAX_PASSED).any(|other| other == slot).then(|| Box::new(slots) as Box<_>);
            }
        };
        let node = JobNode { time: self.jobs[slot].due(now), ..self.jobs[slot].node.clone() };
        let behind = Behind { rank: self.order().rank(&node), most: MAX_PASSED };
        let slots = ByRank::behind(self.ready_trees(roots), now, self.order(), Some(behind))?;
        Some(Box::new(slots))
    }

    /// Lists the jobs in a state, ordered by time. The list begins after the order key `behind`. The time of a job is
    /// its due time, its deadline, or the time at which it became a dead letter. O(log n) per job.
    pub(super) fn in_time_order<'a>(
        &'a self,
        now: Millis,
        which: JobFilter<'_>,
        behind: Option<OrderKey>,
    ) -> Box<dyn Iterator<Item = u32> + 'a> {
        let group = which.group.map(|name| self.roots_by_name(name));
        let lists = self.state_trees(group, which.state).map(|(tree, part)| tree.list(part, now, behind));
        Box::new(merge(lists).map(|(_, slot)| slot))
    }

    /// Lists the ready jobs of one group in serving order, including expired jobs.
    pub(super) fn by_rank(&self, roots: &Roots, now: Millis) -> ByRank<'_> {
        ByRank::of(self.ready_trees(roots), now, self.order())
    }

    /// Returns the trees in which the ready jobs of a group are [candidates](JobNode::is_candidate), and the part of
    /// each tree that contains them.
    fn ready_trees(&self, roots: &Roots) -> impl Iterator<Item = (JobTree<'_>, Part)> + use<'_> {
        let of_ttl = TreeId::OF_TTL
            .map(|id| (self.tree(roots, id), if id == TreeId::ReadyTtl { Part::All } else { Part::Until }));
        self.state_trees(Some(roots), State::Ready).chain(of_ttl)
    }

    /// Lists the slots of all jobs, in an order that is the same on each replica.
    pub(super) fn slots(&self) -> impl Iterator<Item = u32> {
        self.roots_of_each_group()
            .flat_map(Roots::of_jobs)
            .flat_map(|root| ByTime::of(&self.jobs, root, None))
            .map(|(slot, _)| slot)
    }
}
