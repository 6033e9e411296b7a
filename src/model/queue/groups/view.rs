//! Looking at groups: ZQ.GROUPS, and the order in which jobs of many groups are served.

use super::Groups;
use crate::model::chunks::NIL;
use crate::model::queue::job::Job;
use crate::model::queue::node::{CLAIMED, FALLING_DUE, Roots, Tree};
use crate::model::queue::rate::Taken;
use crate::model::queue::stretch;
use crate::model::queue::view::Served;
use crate::model::queue::{MAX_NOW, Millis, Queue, tree};
use std::collections::VecDeque;
use std::ops::Bound;

/// A group as ZQ.GROUPS shows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GroupView<'a> {
    /// Empty: the jobs that have no group.
    pub name: &'a [u8],
    /// Due.
    pub ready: u64,
    /// Due later.
    pub delayed: u64,
    /// Under a lease that has not ended.
    pub claimed: u64,
}

impl Queue {
    /// Whether memory is held for groups.
    #[cfg(test)]
    pub fn knows_groups(&self) -> bool {
        self.groups.is_some()
    }

    /// How many groups there are: with jobs, dead ones included, or with units of GROUPRATE that are out. The one without a name counts.
    /// O(1).
    pub fn group_count(&self) -> usize {
        match &self.groups {
            Some(groups) => groups.table.len(),
            None => usize::from(!self.is_empty()),
        }
    }

    /// The groups by name, those behind `after` only. The one without a name has the empty one. O(log n) for the first and for each
    /// one listed.
    pub fn groups<'a>(&'a self, now: Millis, after: Option<&[u8]>) -> Box<dyn Iterator<Item = GroupView<'a>> + 'a> {
        let now = now.min(MAX_NOW);
        let Some(groups) = self.groups.as_deref() else {
            let nameless = (!self.is_empty() && after.is_none()).then(|| self.group_view(b"", &self.roots, now));
            return Box::new(nameless.into_iter());
        };
        let start = after.map_or(Bound::Unbounded, Bound::Excluded);
        let behind = groups.names.range::<[u8], _>((start, Bound::Unbounded));
        Box::new(behind.map(move |(name, &group)| self.group_view(name, self.group_roots(groups, group), now)))
    }

    fn group_view<'a>(&'a self, name: &'a [u8], roots: &Roots, now: Millis) -> GroupView<'a> {
        let root = |tree| roots[tree as usize];
        let until = |tree| stretch::count_until(&self.jobs, root(tree), now);
        let after = |tree| stretch::count_after(&self.jobs, root(tree), now);
        let returned = self.count_returned_of(roots, now);
        GroupView {
            name,
            ready: u64::from(tree::size(&self.jobs, root(Tree::Ready)))
                + FALLING_DUE.map(until).iter().sum::<u64>()
                + returned,
            delayed: after(Tree::Scheduled) + after(Tree::Upcoming) + until(Tree::Retrying) + until(Tree::Recurring)
                - returned,
            claimed: CLAIMED.map(after).iter().sum(),
        }
    }

    /// The ready jobs in the order in which they are served as long as groups and queue are not held up: the groups take turns.
    pub(in crate::model::queue) fn in_turns<'a>(
        &'a self,
        groups: &'a Groups,
        now: Millis,
    ) -> impl Iterator<Item = &'a Job> + 'a {
        let mut behind = None;
        let mut rounds: VecDeque<(u32, Option<Served<'a>>)> = VecDeque::new();
        std::iter::from_fn(move || {
            // The first round has every group and takes its best job, which is there without a list.
            let group = groups.next_ready(behind, now);
            if group != NIL {
                behind = Some(groups.table[group].turn);
                rounds.push_back((group, None));
                #[cfg(test)]
                stretch::STEPS.set(stretch::STEPS.get() + 1);
                return Some(&self.jobs[self.best_of(self.group_roots(groups, group), now)]);
            }
            // The later ones have those that have a job left.
            loop {
                let (group, jobs) = rounds.pop_front()?;
                let (passed, mut jobs) = match jobs {
                    Some(jobs) => (0, jobs),
                    None => (1, self.by_rank(self.group_roots(groups, group), now)),
                };
                if let Some(job) = jobs.nth(passed) {
                    rounds.push_back((group, Some(jobs)));
                    return Some(job);
                }
            }
        })
    }

    /// The names of all groups and their units: what is saved of them. Those with jobs in the order of their turns, then the idle ones.
    pub(in crate::model::queue) fn turns(
        &self,
    ) -> impl Iterator<Item = (&[u8], impl ExactSizeIterator<Item = &Taken>)> {
        let groups = self.groups.as_deref().into_iter();
        groups.flat_map(|groups| {
            let idle = groups.held.values().copied().filter(|&group| groups.table[group].jobs == 0);
            groups.in_turn().chain(idle).map(|group| (&*groups.table[group].name, groups.table[group].log.entries()))
        })
    }

    /// The trees of every group with jobs, in the order of their turns, that of the group without a name first of all.
    pub(in crate::model::queue) fn all_roots(&self) -> impl Iterator<Item = &Roots> {
        let named = self.groups.as_deref().into_iter().flat_map(|groups| {
            let named = groups.in_turn().filter(move |&group| group != groups.nameless);
            named.map(|group| &groups.table[group].roots)
        });
        std::iter::once(&self.roots).chain(named)
    }
}
