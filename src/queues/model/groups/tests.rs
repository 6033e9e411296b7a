//! Checks of the invariants of groups.

use super::{Groups, Rare};
use crate::base::chunks::NIL;
use crate::base::sparse::Off;
use crate::queues::model::{Queue, tree};

impl Queue {
    /// Checks the invariants of groups. `seen` has the slots of all jobs.
    pub(in crate::queues::model) fn check_groups(&self, seen: &[u32]) {
        let has_group = |slot: &&u32| self.jobs[**slot].member() != NIL;
        let with_group = seen.iter().filter(has_group).count();
        let Some(groups) = self.groups.as_deref() else {
            assert!(with_group == 0 && !self.settings.concern_groups());
            return;
        };
        let is_held = groups.nameless != NIL && groups.table[groups.nameless].rare.held_until > 0;
        let is_needed = with_group > 0 || !groups.with_units.is_empty() || is_held || self.settings.concern_groups();
        assert!(is_needed, "groups that are needed");
        assert_eq!(groups.members.len(), with_group);
        let mut members = 0;
        for root in groups.roots.of_jobs() {
            members += tree::size(&groups.members, root) as usize;
            let mut times = crate::queues::model::query::ByTime::of(&groups.members, root, None);
            let in_order = times.by_ref().map(|(_, m)| (m.node.time, m.node.priority, m.node.seq)).is_sorted();
            assert!(in_order, "members are in the order of time");
        }
        assert_eq!(members, with_group);
        let in_turn: Vec<u32> = groups.in_turn().collect();
        assert_eq!(groups.names.len(), groups.table.len());
        assert!(in_turn.is_sorted_by_key(|&group| groups.table[group].node.seq));
        let nameless = seen.len() - with_group;
        assert_eq!(in_turn.contains(&groups.nameless), nameless > 0);
        let (mut with_units, mut rare_bytes) = (0, 0);
        for (name, &group) in &groups.names {
            let it = &groups.table[group];
            assert_eq!(name, &it.name);
            assert_eq!(it.name.is_empty(), group == groups.nameless);
            let roots = groups.roots_of(group, &self.roots);
            let jobs: u32 = roots.of_jobs().map(|root| tree::size(&self.jobs, root)).sum();
            assert_eq!((it.jobs, in_turn.contains(&group)), (jobs, jobs > 0));
            assert!(jobs > 0 || it.rare.log.last_back_at().is_some(), "a group costs nothing without jobs");
            assert!(jobs > 0 || it.rare.held_until == 0, "a hold goes with the last job");
            let times = self.times_of(groups, group);
            if jobs > 0 {
                assert_eq!(it.times, times, "a group knows when it opens");
            }
            if let Some(back) = it.rare.log.last_back_at() {
                assert_eq!(groups.with_units.get(&(back, it.name.clone())), Some(&group));
                with_units += 1;
            }
            assert!(*it.rare != *Rare::OFF || it.rare.boxed_bytes() == 0, "memory only for a group that needs it");
            rare_bytes += it.rare_bytes();
        }
        assert_eq!((with_units, rare_bytes), (groups.with_units.len(), groups.rare_bytes));
        self.check_ring(groups, groups.ring);
        for &slot in seen {
            let member = self.jobs[slot].member();
            if member != NIL {
                let it = &groups.members[member];
                assert_eq!(it.job, slot);
                let (a, b) = (&it.node, &self.jobs[slot].node);
                assert_eq!((a.time, a.priority, a.seq, a.tree), (b.time, b.priority, b.seq, b.tree));
            }
        }
        assert_eq!(groups.name_bytes, groups.names.keys().map(|name| name.len()).sum::<usize>());
    }

    fn check_ring(&self, groups: &Groups, root: u32) {
        if root != NIL {
            let it = &groups.table[root];
            let children = [it.node.links.left, it.node.links.right].into_iter().filter(|&child| child != NIL);
            let (least, most_jobs) = children.fold((it.times, it.jobs), |(least, most), child| {
                self.check_ring(groups, child);
                let child = &groups.table[child];
                (least.outer(child.least), most.max(child.most_jobs))
            });
            assert_eq!((it.least, it.most_jobs), (least, most_jobs));
        }
    }
}
