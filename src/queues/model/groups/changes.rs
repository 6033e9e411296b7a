//! Changes of groups: jobs are added and removed, claims take units, settings change.

use super::times::Times;
use super::{CLEARED_AT_ONCE, Group, Groups, Rare, SETTLED_AT_ONCE};
use crate::base::chunks::{Chunks, NIL};
use crate::base::sparse::{Off, Sparse};
use crate::queues::model::items::Member;
use crate::queues::model::job::Job;
use crate::queues::model::node::{JobNode, Roots};
use crate::queues::model::rate::{Rate, RateLog, Taken};
use crate::queues::model::tree::{self, ServingOrder};
use crate::queues::model::{Millis, NEVER, Queue, Settings};
use std::sync::Arc;

impl Groups {
    /// Returns the number of the group with this name. If there is no such group, creates one without jobs.
    fn named_or_new(&mut self, name: &[u8]) -> u32 {
        if let Some(&known) = self.names.get(name) {
            return known;
        }
        let shared: Arc<[u8]> = name.into();
        self.name_bytes += name.len();
        let group = self.table.insert(Group {
            name: shared.clone(),
            roots: Roots::EMPTY,
            jobs: 0,
            node: JobNode::new((0, 0, 0)),
            times: Times::NEVER,
            least: Times::NEVER,
            most_jobs: 0,
            rare: Sparse::default(),
        });
        self.names.insert(shared, group);
        if name.is_empty() {
            self.nameless = group;
        }
        group
    }

    /// Adds `jobs` to the number of jobs of a group. If the group had no jobs, gives it the last turn: adds it at the
    /// end of the ring ([`ring`](super::ring)). O(log n).
    fn add_jobs(&mut self, group: u32, jobs: u32) {
        let is_idle = self.table[group].jobs == 0;
        self.table[group].jobs += jobs;
        if is_idle {
            self.enqueue(group);
        } else {
            self.update_ring(group);
        }
    }

    /// Changes the tree that contains the entry `member`. `change` gets the tree's root and returns the new root.
    fn change_member_tree(&mut self, member: u32, change: impl FnOnce(&mut Chunks<Member>, u32) -> u32) {
        let root = &mut self.roots[self.members[member].node.tree];
        *root = change(&mut self.members, *root);
    }

    fn drop_group(&mut self, group: u32) {
        if group == self.nameless {
            self.nameless = NIL;
        }
        self.names.remove(&self.table[group].name);
        self.name_bytes -= self.table[group].name.len();
        self.table.remove(group);
    }

    fn change_rare(&mut self, group: u32, change: impl FnOnce(&mut Rare)) {
        let it = &mut self.table[group];
        self.rare_bytes -= it.rare_bytes();
        let before = it.rare.log.last_back_at().map(|back| (back, it.name.clone()));
        change(&mut it.rare);
        if *it.rare == *Rare::OFF {
            it.rare = Sparse::default();
        }
        self.rare_bytes += it.rare_bytes();
        let after = it.rare.log.last_back_at().map(|back| (back, it.name.clone()));
        if before != after {
            before.and_then(|key| self.with_units.remove(&key));
            after.map(|key| self.with_units.insert(key, group));
        }
    }

    fn change_log(&mut self, group: u32, change: impl FnOnce(&mut RateLog)) {
        self.change_rare(group, |rare| change(&mut rare.log));
    }

    /// Holds a group until a time. 0: releases the group.
    fn hold(&mut self, group: u32, until: Millis) {
        if self.table[group].rare.held_until != until {
            self.change_rare(group, |rare| rare.held_until = until);
        }
    }

    fn adopt_rate(&mut self, group: u32, rate: Option<Rate>, at: Millis) {
        self.change_log(group, |log| match rate {
            Some(rate) => log.adopt(rate, at),
            None => log.clear(),
        });
    }
}

/// If the job has a group, returns the groups of the queue and the index of the job's [`Member`].
fn membership<'a>(groups: &'a mut Option<Box<Groups>>, job: &Job) -> Option<(&'a mut Groups, u32)> {
    let member = job.member();
    groups.as_deref_mut().filter(|_| member != NIL).map(|groups| (groups, member))
}

impl Queue {
    /// Returns the [`Groups`] of the queue, and creates it if the queue has none.
    fn groups_mut(&mut self) -> &mut Groups {
        if self.groups.is_none() {
            let mut groups = Box::new(Groups::new());
            // A job that is being added is not counted, because it is not in a tree yet.
            let jobs = self.roots.of_jobs().map(|root| tree::size(&self.jobs, root)).sum();
            if jobs > 0 {
                let nameless = groups.named_or_new(b"");
                groups.add_jobs(nameless, jobs);
            }
            self.groups = Some(groups);
            self.update_group_times_of(NIL);
        }
        self.groups.as_mut().expect("they have just been made")
    }

    /// Adds a job to a group. The job must not be in a tree yet.
    pub(in crate::queues::model) fn join_group(&mut self, slot: u32, name: &[u8]) {
        if self.groups.is_none() && name.is_empty() {
            return;
        }
        let node = self.jobs[slot].node.clone();
        let groups = self.groups_mut();
        let group = groups.named_or_new(name);
        groups.add_jobs(group, 1);
        if !name.is_empty() {
            let member = groups.members.push(Member { node, job: slot, group });
            self.jobs[slot].set_member(member);
        }
    }

    /// Removes a job from its group. The job must not be in a tree any more.
    pub(in crate::queues::model) fn leave_group(&mut self, slot: u32) {
        let Some(groups) = &mut self.groups else { return };
        let member = self.jobs[slot].member();
        let group = groups.group_of(member);
        if member != NIL
            && let Some(from) = groups.members.remove(member)
        {
            self.jobs[groups.members[member].job].set_member(member);
            groups.change_member_tree(member, |members, root| tree::renumber(members, root, from, member));
        }
        groups.table[group].jobs -= 1;
        if groups.table[group].jobs == 0 {
            groups.hold(group, 0);
            groups.dequeue(group);
        } else {
            groups.update_ring(group);
        }
        self.update_or_drop_group(group);
    }

    /// Updates a group that has lost a job or units of GROUPRATE. If the group has no job and no taken unit left,
    /// removes the group.
    fn update_or_drop_group(&mut self, group: u32) {
        let Some(groups) = &mut self.groups else { return };
        let Group { jobs, rare, .. } = &groups.table[group];
        if *jobs == 0 && rare.log.last_back_at().is_none() {
            groups.drop_group(group);
            self.drop_groups();
        } else {
            self.update_group_times(group);
        }
    }

    /// Frees the queue's [`Groups`] if no job has a group, no group is held, and no setting needs groups.
    fn drop_groups(&mut self) {
        let is_unused = |groups: &Groups| match groups.nameless {
            NIL => groups.table.len() == 0,
            nameless => groups.table.len() == 1 && groups.table[nameless].rare.held_until == 0,
        };
        if self.groups.as_deref().is_some_and(is_unused) && !self.settings.concern_groups() {
            self.groups = None;
        }
    }

    /// Returns the time at which the hold of a group ends. This time may have passed. Returns 0 if the group is not
    /// held, and `None` if it has no job.
    pub(in crate::queues::model) fn held_until(&self, name: &[u8]) -> Option<Millis> {
        let Some(groups) = &self.groups else { return (name.is_empty() && !self.is_empty()).then_some(0) };
        let group = &groups.table[*groups.names.get(name)?];
        (group.jobs > 0).then_some(group.rare.held_until)
    }

    /// Holds a group until a time. If `until` is 0, releases the group. Returns false, and does nothing, if the group
    /// has no job.
    pub(in crate::queues::model) fn hold_group(&mut self, name: &[u8], until: Millis) -> bool {
        let held_until = self.held_until(name);
        if held_until.is_some_and(|held| held != until) {
            let groups = self.groups_mut();
            let group = groups.named_or_new(name);
            groups.hold(group, until);
            self.update_group_times(group);
            self.drop_groups();
        }
        held_until.is_some()
    }

    /// If the job has a group, adds the job's [`Member`] to one of the trees that contain the jobs of all groups. The
    /// `TreeId` in the job's node selects the tree.
    pub(in crate::queues::model) fn link_member(&mut self, slot: u32) {
        let Some((groups, member)) = membership(&mut self.groups, &self.jobs[slot]) else { return };
        groups.members[member].node = self.jobs[slot].node.clone();
        groups.change_member_tree(member, |members, root| tree::insert(members, root, member, ServingOrder::default()));
    }

    pub(in crate::queues::model) fn unlink_member(&mut self, slot: u32) {
        let Some((groups, member)) = membership(&mut self.groups, &self.jobs[slot]) else { return };
        groups.change_member_tree(member, |members, root| tree::remove(members, root, member, ServingOrder::default()));
    }

    /// After a job has moved to another place in memory, stores its new `slot` in its [`Member`].
    pub(in crate::queues::model) fn renumber_member(&mut self, slot: u32) {
        let Some((groups, member)) = membership(&mut self.groups, &self.jobs[slot]) else { return };
        groups.members[member].job = slot;
    }

    /// Updates the times of a group ([`times_of`](Self::times_of)). `member` is the number of a [`Member`] of the
    /// group, or `NIL` for the group without a name. Must be called after each change of a job. O(log n).
    pub(in crate::queues::model) fn update_group_times_of(&mut self, member: u32) {
        if let Some(groups) = &self.groups {
            let group = groups.group_of(member);
            self.update_group_times(group);
        }
    }

    fn update_group_times(&mut self, group: u32) {
        let Some(groups) = &self.groups else { return };
        if group == NIL || groups.table[group].jobs == 0 {
            return;
        }
        let times = self.times_of(groups, group);
        if let Some(groups) = &mut self.groups {
            groups.set_times(group, times);
        }
    }

    /// Updates the group of a job that is being claimed: takes a unit of GROUPRATE, moves the group to the end of the
    /// ring, and ends the group's hold (ZQ.HOLD). Must be called while the job is in no tree.
    pub(in crate::queues::model) fn serve_group(&mut self, slot: u32, at: Millis) {
        let member = self.jobs[slot].member();
        let rate = self.settings.group_rate;
        if let Some(groups) = &mut self.groups {
            let group = groups.group_of(member);
            if let Some(rate) = rate {
                groups.change_log(group, |log| log.take(rate, at));
            }
            groups.requeue(group);
            if groups.table[group].rare.held_until != 0 {
                groups.hold(group, 0);
                self.drop_groups();
            }
        }
    }

    /// Frees memory: clears the logs of taken units (GROUPRATE, [`RateLog`]) of up to `most` groups whose units are all
    /// available again at `at`. Returns the number of cleared logs.
    pub(in crate::queues::model) fn clear_unit_logs(&mut self, most: usize, at: Millis) -> usize {
        for cleared in 0..most {
            let Some(groups) = &mut self.groups else { return cleared };
            let Some(((back, _), &group)) = groups.with_units.first_key_value() else { return cleared };
            if *back > at {
                return cleared;
            }
            groups.change_log(group, RateLog::clear);
            self.update_or_drop_group(group);
        }
        most
    }

    /// Clears the logs of taken units (GROUPRATE) of some groups whose units are all available again. If GROUPRATE is
    /// off, also clears logs with units that are still taken. Returns the number of changed groups.
    ///
    /// After a change of GROUPRATE or a step back of the clock, a unit can stay taken for longer than one window. This
    /// function limits that time to one window, for the units of at most [`SETTLED_AT_ONCE`] groups.
    pub(in crate::queues::model) fn settle_groups(&mut self, at: Millis) -> usize {
        let Some(rate) = self.settings.group_rate else { return self.clear_unit_logs(CLEARED_AT_ONCE, NEVER) };
        let mut settled = self.clear_unit_logs(CLEARED_AT_ONCE, at);
        for _ in 0..SETTLED_AT_ONCE {
            let Some(groups) = &mut self.groups else { break };
            let Some(((back, _), &group)) = groups.with_units.last_key_value() else { break };
            if *back <= rate.back_at(at) {
                break;
            }
            groups.change_log(group, |log| log.settle(rate, at));
            self.update_group_times(group);
            settled += 1;
        }
        settled
    }

    /// If the group has no jobs, adapts the times of its taken units to the current GROUPRATE. Must be called before
    /// the group gets a job.
    pub(in crate::queues::model) fn update_idle_rate(&mut self, name: &[u8], at: Millis) {
        let Some(groups) = &mut self.groups else { return };
        if let Some(&group) = groups.names.get(name)
            && groups.table[group].jobs == 0
        {
            groups.adopt_rate(group, self.settings.group_rate, at);
        }
    }

    /// Updates the groups after a change of settings. O(1), unless the change concerns groups: O(groups with jobs), or
    /// O(n) if AGING or ORDERED changes.
    pub(in crate::queues::model) fn adopt_in_groups(&mut self, at: Millis, old: &Settings) {
        let settings = *self.settings;
        if settings.concern_groups() {
            self.groups_mut();
        }
        let Some(mut groups) = self.groups.take() else { return };
        let concerned: Vec<u32> =
            if settings.of_groups() == old.of_groups() { Vec::new() } else { groups.in_turn().collect() };
        for &group in &concerned {
            if settings.group_rate != old.group_rate {
                groups.adopt_rate(group, settings.group_rate, at);
            }
            if group != groups.nameless && self.order() != old.order() {
                self.rerank(groups.table[group].roots, self.order());
            }
            groups.table[group].times = self.times_of(&groups, group);
        }
        if !concerned.is_empty() {
            tree::rerank(&mut groups.table, groups.ring, ServingOrder::default());
        }
        self.groups = Some(groups);
        self.drop_groups();
    }

    /// Moves a group with jobs to the end of the order in which groups take turns. To restore this order, call the
    /// function for each group in the order. Returns false if there is no such group.
    pub(in crate::queues::model) fn restore_turn(&mut self, name: &[u8]) -> bool {
        // Without [`Groups`], only the group without a name exists.
        let Some(groups) = &mut self.groups else { return name.is_empty() && self.jobs.len() > 0 };
        let Some(&group) = groups.names.get(name) else { return false };
        if groups.table[group].jobs > 0 {
            groups.requeue(group);
        }
        true
    }

    /// Restores units that claims have taken from GROUPRATE: appends them to the log of a group. A group's units must
    /// be restored in the order of their times. Returns false, and appends nothing, if [`RateLog::restore`] rejects
    /// these units.
    pub(in crate::queues::model) fn restore_units(&mut self, name: &[u8], taken: Taken) -> bool {
        if !RateLog::default().restore(taken) {
            return false;
        }
        let groups = self.groups_mut();
        let group = groups.named_or_new(name);
        let mut fits = false;
        groups.change_log(group, |log| fits = log.restore(taken));
        self.update_group_times(group);
        fits
    }
}
