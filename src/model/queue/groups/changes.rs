//! What commands do to groups: jobs come and go, and units are taken.

use super::{FORGOTTEN_AT_ONCE, Group, Groups, Member, NEVER, SETTLED_AT_ONCE, times};
use crate::model::chunks::NIL;
use crate::model::queue::node::{Links, TREES};
use crate::model::queue::rate::{Rate, RateLog, Taken};
use crate::model::queue::tree::{self, Order};
use crate::model::queue::{Millis, Queue, Settings};
use std::sync::Arc;

impl Groups {
    /// The group of that name; new at the end of the ring if there was none.
    fn named_or_new(&mut self, name: &[u8]) -> u32 {
        if let Some(&known) = self.names.get(name) {
            return known;
        }
        let shared: Arc<[u8]> = name.into();
        self.name_bytes += name.len();
        let group = self.table.insert(Group {
            name: shared.clone(),
            roots: [NIL; TREES + 2],
            jobs: 0,
            links: Links::ALONE,
            turn: 0,
            opens: NEVER,
            ready: NEVER,
            least_opens: NEVER,
            least_ready: NEVER,
            log: RateLog::default(),
        });
        self.names.insert(shared, group);
        if name.is_empty() {
            self.nameless = group;
        }
        self.enqueue(group);
        group
    }

    /// A group that has neither jobs nor units is gone.
    fn drop_group(&mut self, group: u32) {
        self.ring = tree::remove(&mut self.table, self.ring, group, ());
        if group == self.nameless {
            self.nameless = NIL;
        }
        self.names.remove(&self.table[group].name);
        self.name_bytes -= self.table[group].name.len();
        self.table.remove(group);
    }

    /// Notes that the group has units, and when the last one is back.
    pub(super) fn hold(&mut self, group: u32) {
        let Group { turn, log, .. } = &self.table[group];
        if let Some(back) = log.back_at() {
            self.held.insert((back, *turn), group);
        }
    }

    /// Undoes [`hold`](Self::hold), before the log or the turn changes. Whether there was anything to undo.
    pub(super) fn take_held(&mut self, group: u32) -> bool {
        let Group { turn, log, .. } = &self.table[group];
        log.back_at().is_some_and(|back| self.held.remove(&(back, *turn)).is_some())
    }

    fn change_log(&mut self, group: u32, change: impl FnOnce(&mut RateLog)) {
        self.take_held(group);
        change(&mut self.table[group].log);
        self.hold(group);
    }
}

impl Queue {
    /// The groups, which are there from now on.
    fn groups_mut(&mut self) -> &mut Groups {
        if self.groups.is_none() {
            let mut groups = Box::new(Groups::new());
            // A job that is about to come is in no tree yet.
            if self.roots != [NIL; TREES + 2] {
                groups.named_or_new(b"");
            }
            self.groups = Some(groups);
            self.touch(NIL);
        }
        self.groups.as_mut().expect("they have just been made")
    }

    /// A job that is in no tree yet becomes one of a group.
    pub(in crate::model::queue) fn join_group(&mut self, slot: u32, name: &[u8]) {
        if self.groups.is_none() && name.is_empty() {
            return;
        }
        let node = self.jobs[slot].node.clone();
        let groups = self.groups_mut();
        let group = groups.named_or_new(name);
        if !name.is_empty() {
            groups.table[group].jobs += 1;
            let member = groups.members.insert(Member { node, job: slot, group });
            self.jobs[slot].set_member(member);
        }
    }

    /// A job that is in no tree any more leaves its group, and is about to leave the queue.
    pub(in crate::model::queue) fn leave_group(&mut self, slot: u32) {
        let Some(groups) = &mut self.groups else { return };
        let member = self.jobs[slot].member();
        let group = groups.group_of(member);
        let left = if member == NIL {
            self.jobs.len() - groups.members.len() - 1
        } else {
            if let Some(from) = groups.members.remove(member) {
                let moved = &groups.members[member];
                self.jobs[moved.job].set_member(member);
                let root = &mut groups.roots[moved.node.tree as usize];
                *root = tree::renumber(&mut groups.members, *root, from, member);
            }
            groups.table[group].jobs -= 1;
            groups.table[group].jobs as usize
        };
        if left == 0 && groups.table[group].log.back_at().is_none() {
            groups.drop_group(group);
            self.drop_groups();
        } else {
            self.touch_group(group);
        }
    }

    /// Without a group that has a name, and without a setting of groups, there is nothing to be kept.
    fn drop_groups(&mut self) {
        let named = |groups: &Groups| groups.table.len() - usize::from(groups.nameless != NIL);
        let unused = self.groups.as_deref().is_some_and(|groups| named(groups) == 0);
        if unused && !self.settings.concern_groups() {
            self.groups = None;
        }
    }

    /// A job's member goes to the tree where the job itself is.
    pub(in crate::model::queue) fn link_member(&mut self, slot: u32) {
        let job = &self.jobs[slot];
        let member = job.member();
        if let Some(groups) = &mut self.groups
            && member != NIL
        {
            let node = &mut groups.members[member].node;
            (node.time, node.seq, node.priority, node.tree) =
                (job.node.time, job.node.seq, job.node.priority, job.node.tree);
            let root = &mut groups.roots[node.tree as usize];
            *root = tree::insert(&mut groups.members, *root, member, Order::default());
        }
    }

    pub(in crate::model::queue) fn unlink_member(&mut self, slot: u32) {
        let member = self.jobs[slot].member();
        if let Some(groups) = &mut self.groups
            && member != NIL
        {
            let root = &mut groups.roots[groups.members[member].node.tree as usize];
            *root = tree::remove(&mut groups.members, *root, member, Order::default());
        }
    }

    /// A job has moved into another slot.
    pub(in crate::model::queue) fn renumber_member(&mut self, slot: u32) {
        let member = self.jobs[slot].member();
        if let Some(groups) = &mut self.groups
            && member != NIL
        {
            groups.members[member].job = slot;
        }
    }

    /// Finds out again when the group of a job opens: after anything that changes it. O(log n).
    pub(in crate::model::queue) fn touch(&mut self, member: u32) {
        if let Some(groups) = &self.groups {
            let group = groups.group_of(member);
            self.touch_group(group);
        }
    }

    fn touch_group(&mut self, group: u32) {
        let order = self.order();
        let Some(groups) = &mut self.groups else { return };
        if group == NIL {
            return;
        }
        let roots = if group == groups.nameless { &self.roots } else { &groups.table[group].roots };
        let times = times::of(&self.jobs, self.returns.own(), roots, &self.settings, order, &groups.table[group].log);
        groups.set_times(group, times);
    }

    /// The group of a job has been served: a unit is taken, and its turn is over. The caller moves the job.
    pub(in crate::model::queue) fn serve_group(&mut self, slot: u32, at: Millis) {
        let member = self.jobs[slot].member();
        let rate = self.settings.group_rate;
        if let Some(groups) = &mut self.groups {
            let group = groups.group_of(member);
            if let Some(rate) = rate {
                groups.change_log(group, |log| log.take(rate, at));
            }
            groups.requeue(group);
        }
    }

    /// Forgets units that are back, a few: so the memory of groups follows what there is to know about them.
    pub(in crate::model::queue) fn forget_units(&mut self, at: Millis) {
        for _ in 0..FORGOTTEN_AT_ONCE {
            let Some(groups) = &mut self.groups else { return };
            let Some((&(back, _), &group)) = groups.held.first_key_value() else { return };
            if back > at {
                return;
            }
            groups.change_log(group, RateLog::clear);
            let jobs = match group == groups.nameless {
                true => self.jobs.len() - groups.members.len(),
                false => groups.table[group].jobs as usize,
            };
            if jobs == 0 {
                groups.drop_group(group);
                self.drop_groups();
            } else {
                self.touch_group(group);
            }
        }
    }

    /// Brings forward units that are held for longer than a window, of some groups.
    pub(in crate::model::queue) fn settle_groups(&mut self, rate: Rate, at: Millis) {
        for _ in 0..SETTLED_AT_ONCE {
            let Some(groups) = &mut self.groups else { return };
            let Some((&(back, _), &group)) = groups.held.last_key_value() else { return };
            if back <= rate.horizon(at) {
                return;
            }
            groups.change_log(group, |log| log.settle(rate, at));
            self.touch_group(group);
        }
    }

    /// The settings have changed. O(1), but O(groups) if that concerns them.
    pub(in crate::model::queue) fn adopt_in_groups(&mut self, at: Millis, old: &Settings) {
        let settings = self.settings;
        let order = self.order();
        if settings.concern_groups() {
            self.groups_mut();
        }
        let Some(groups) = &mut self.groups else { return };
        let all: Vec<u32> = groups.table.slots().collect();
        if settings.group_rate != old.group_rate {
            for &group in &all {
                groups.change_log(group, |log| match settings.group_rate {
                    Some(rate) => log.adopt(rate, at),
                    None => log.clear(),
                });
            }
        }
        for &group in &all {
            if group != groups.nameless && order != old.order() {
                let roots = groups.table[group].roots;
                for &root in &roots[..TREES] {
                    tree::rerank(&mut self.jobs, root, order);
                }
                self.returns.rerank(&roots, order);
            }
            let roots = if group == groups.nameless { &self.roots } else { &groups.table[group].roots };
            let (ready, opens) =
                times::of(&self.jobs, self.returns.own(), roots, &settings, order, &groups.table[group].log);
            (groups.table[group].ready, groups.table[group].opens) = (ready, opens);
        }
        tree::rerank(&mut groups.table, groups.ring, ());
        let nameless = self.jobs.len() - groups.members.len();
        for group in all {
            let jobs = if group == groups.nameless { nameless } else { groups.table[group].jobs as usize };
            if jobs == 0 && groups.table[group].log.back_at().is_none() {
                groups.drop_group(group);
            }
        }
        self.drop_groups();
    }

    /// Restores the turn of a group: behind all whose turn was restored before. False if there is no such group.
    pub(in crate::model::queue) fn restore_turn(&mut self, name: &[u8]) -> bool {
        let Some(groups) = &mut self.groups else { return false };
        let group = groups.names.get(name).copied();
        group.inspect(|&group| groups.requeue(group)).is_some()
    }

    /// Restores units of a group, which come in the order of time; false, and nothing done, unless they are possible.
    pub(in crate::model::queue) fn restore_units(&mut self, name: &[u8], taken: Taken) -> bool {
        if self.settings.group_rate.is_none() || !RateLog::default().restore(taken) {
            return false;
        }
        let groups = self.groups_mut();
        let group = groups.named_or_new(name);
        let mut fits = false;
        groups.change_log(group, |log| fits = log.restore(taken));
        self.touch_group(group);
        fits
    }
}
