//! Lists groups (ZQ.GROUPS), and the jobs of all groups in serving order.

use super::Groups;
use crate::base::chunks::NIL;
use crate::queues::model::node::{Roots, State};
use crate::queues::model::query::ByRank;
use crate::queues::model::rate::Taken;
use crate::queues::model::{MAX_NOW, Millis, Queue};
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::ops::Bound;

/// [`Queue::largest_groups`] counts the ready jobs of at most this number of groups. Counting them takes less than a
/// millisecond.
pub(in crate::queues::model) const MAX_COUNTED: usize = 1000;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GroupView<'a> {
    /// The group's name. Empty for the group without a name.
    pub name: &'a [u8],
    pub ready: u64,
    pub delayed: u64,
    pub claimed: u64,
    pub held_until: Option<Millis>,
}

impl Queue {
    #[cfg(test)]
    pub fn knows_groups(&self) -> bool {
        self.groups.is_some()
    }

    /// Returns the number of groups, including idle groups and the group without a name. O(1).
    pub fn group_count(&self) -> usize {
        match &self.groups {
            Some(groups) => groups.table.len(),
            None => usize::from(!self.is_empty()),
        }
    }

    /// Returns the number of groups with jobs, or 0 if the queue stores no groups. O(1).
    pub(in crate::queues::model) fn groups_with_jobs(&self) -> usize {
        self.groups.as_ref().map_or(0, |groups| groups.with_jobs())
    }

    /// Lists the groups in the order of their names, after the name `after`. O(log n) per group.
    pub fn groups<'a>(&'a self, now: Millis, after: Option<&[u8]>) -> Box<dyn Iterator<Item = GroupView<'a>> + 'a> {
        let now = now.min(MAX_NOW);
        let Some(groups) = self.groups.as_deref() else {
            let nameless = (!self.is_empty() && after.is_none()).then(|| self.group_view(b"", &self.roots, 0, now));
            return Box::new(nameless.into_iter());
        };
        let start = after.map_or(Bound::Unbounded, Bound::Excluded);
        let behind = groups.names.range::<[u8], _>((start, Bound::Unbounded));
        Box::new(behind.map(move |(name, &group)| {
            let held_until = groups.table[group].rare.held_until;
            self.group_view(name, groups.roots_of(group, &self.roots), held_until, now)
        }))
    }

    /// Returns up to `count` groups with jobs, those with most ready jobs first. Groups with the same number of ready
    /// jobs are in the order of their names.
    ///
    /// The function counts the ready jobs of the groups with most jobs first, and stops when no other group can have
    /// more ready jobs than the groups found. It also stops after [`MAX_COUNTED`] groups, or after `count` groups if
    /// that is more. In this case, the result may lack a group with more ready jobs.
    pub fn largest_groups(&self, now: Millis, count: usize) -> Vec<GroupView<'_>> {
        let now = now.min(MAX_NOW);
        let Some(groups) = self.groups.as_deref() else {
            return self.groups(now, None).take(count).collect();
        };
        let (mut views, mut largest) = (Vec::new(), BinaryHeap::new());
        groups.by_jobs(now, |group, most_ready| {
            let least = largest.peek().filter(|_| largest.len() == count);
            if least.is_some_and(|&Reverse(least)| u64::from(most_ready) < least)
                || views.len() >= MAX_COUNTED.max(count)
            {
                return false;
            }
            let it = &groups.table[group];
            let view = self.group_view(&it.name, groups.roots_of(group, &self.roots), it.rare.held_until, now);
            largest.push(Reverse(view.ready));
            if largest.len() > count {
                largest.pop();
            }
            views.push(view);
            true
        });
        views.sort_unstable_by_key(|view| (Reverse(view.ready), view.name));
        views.truncate(count);
        views
    }

    fn group_view<'a>(&'a self, name: &'a [u8], roots: &Roots, held_until: Millis, now: Millis) -> GroupView<'a> {
        let [ready, delayed, claimed] =
            [State::Ready, State::Delayed, State::Claimed].map(|state| self.count_in_group(Some(roots), now, state));
        let held_until = (held_until > now).then_some(held_until);
        GroupView { name, ready, delayed, claimed, held_until }
    }

    /// Lists the ready jobs of all groups as the groups take turns: one job of each group, then the next job of each
    /// group. Ignores the limits of the groups and of the queue.
    pub(in crate::queues::model) fn in_turns<'a>(
        &'a self,
        groups: &'a Groups,
        now: Millis,
    ) -> impl Iterator<Item = u32> + 'a {
        let mut behind = None;
        let mut rounds: VecDeque<(u32, Option<ByRank<'a>>)> = VecDeque::new();
        std::iter::from_fn(move || {
            // In the first round, each group with a ready job serves its best job.
            let group = groups.next_ready(behind, now);
            if group != NIL {
                behind = Some(groups.table[group].node.seq);
                rounds.push_back((group, None));
                let roots = groups.roots_of(group, &self.roots);
                #[cfg(test)]
                crate::queues::model::query::STEPS.set(crate::queues::model::query::STEPS.get() + 1);
                // If jobs have a TTL, the best job may have expired, and is still listed.
                return if roots.have_ttl() { self.by_rank(roots, now).next() } else { Some(self.best_of(roots, now)) };
            }
            // In later rounds, each group serves its next job.
            loop {
                let (group, jobs) = rounds.pop_front()?;
                let (passed, mut jobs) = match jobs {
                    Some(jobs) => (0, jobs),
                    None => (1, self.by_rank(groups.roots_of(group, &self.roots), now)),
                };
                if let Some(job) = jobs.nth(passed) {
                    rounds.push_back((group, Some(jobs)));
                    return Some(job);
                }
            }
        })
    }

    /// Lists all groups, each with the units that claims have taken from its GROUPRATE. The groups with jobs come
    /// first, in the order in which claims serve them. The idle groups follow.
    pub(in crate::queues::model) fn turns(
        &self,
    ) -> impl Iterator<Item = (&[u8], impl ExactSizeIterator<Item = &Taken>)> {
        let groups = self.groups.as_deref().into_iter();
        groups.flat_map(|groups| {
            let idle = groups.with_units.values().copied().filter(|&group| groups.table[group].jobs == 0);
            groups
                .in_turn()
                .chain(idle)
                .map(|group| (&*groups.table[group].name, groups.table[group].rare.log.entries()))
        })
    }

    /// Lists the held groups, and the time at which each hold ends. Also lists holds that have ended but are not
    /// cleared yet.
    pub(in crate::queues::model) fn holds(&self) -> impl Iterator<Item = (&[u8], Millis)> {
        let groups = self.groups.as_deref().into_iter();
        let holds = groups.flat_map(|groups| groups.in_turn().map(|group| &groups.table[group]));
        holds.filter(|group| group.rare.held_until > 0).map(|group| (&*group.name, group.rare.held_until))
    }

    /// Lists the trees of each group with jobs. The group without a name comes first. The other groups follow in the
    /// order in which claims serve them.
    pub(in crate::queues::model) fn roots_of_each_group(&self) -> impl Iterator<Item = &Roots> {
        let named = self.groups.as_deref().into_iter().flat_map(|groups| {
            let named = groups.in_turn().filter(move |&group| group != groups.nameless);
            named.map(|group| &groups.table[group].roots)
        });
        std::iter::once(&self.roots).chain(named)
    }
}
