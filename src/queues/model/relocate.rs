//! Moves the memory of a queue for defragmentation: the jobs and their bodies, the index, the members of groups, and
//! the entries of [`super::due_entries`].

use super::Queue;
use super::groups::Groups;
use crate::base::chunks::Chunks;
use crate::base::relocate::{Mover, Relocate, in_steps};

impl Relocate for Queue {
    /// Each step moves one array of jobs, group members or due entries, or one shard of the index.
    fn relocate(&mut self, from: usize, mover: &mut impl Mover) -> Option<usize> {
        let jobs = self.jobs.chunks_mut();
        let index = &mut self.index;
        let mut none = [];
        let members = self.groups.as_deref_mut().map_or(none.as_mut_slice(), Groups::member_chunks_mut);
        let due_entries = self.due_entries.get_mut().map_or(&mut [][..], Chunks::chunks_mut);
        let steps = [jobs.len(), index.relocations(), members.len(), due_entries.len()];
        in_steps(from, steps.iter().sum(), mover, |step, mover| {
            if step < steps[0] {
                mover.vec(&mut jobs[step]);
                jobs[step].iter_mut().for_each(|job| mover.bytes(&mut job.body));
            } else if step < steps[0] + steps[1] {
                index.relocate(step - steps[0], mover);
            } else if step < steps[0] + steps[1] + steps[2] {
                mover.vec(&mut members[step - steps[0] - steps[1]]);
            } else {
                mover.vec(&mut due_entries[step - steps[0] - steps[1] - steps[2]]);
            }
        })
    }
}
