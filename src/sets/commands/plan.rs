//! The planned changes of a command that names several members.
//!
//! The command first plans a change for each member, and carries out the plan only if the whole command is valid. If a
//! command names a member twice, the result is the same as after two commands. Each member is written and replicated
//! once.

use crate::base::time::{self, Millis};
use crate::error::Error;
use crate::server::Str;
use crate::server::key::Writing;
use crate::sets::{ExpiringSet, MemberName, is_tag_name};
use hashbrown::HashMap;
use smallvec::SmallVec;

/// Up to this many members, a linear search is faster than a hash table.
const FEW: usize = 8;

/// A member with its expiry before and after the command. `None` means that the member is absent or expired.
struct PlannedMember<'a> {
    member: Str<'a>,
    before: Option<Millis>,
    after: Option<Millis>,
}

pub struct Plan<'a> {
    steps: SmallVec<[PlannedMember<'a>; 1]>,
    /// The index of each member in `steps`. Empty if there are at most [`FEW`] members.
    index: HashMap<&'a [u8], usize>,
}

#[derive(Clone, Copy, Debug, Default)]
pub struct Counts {
    pub added: u64,
    /// The number of members whose expiry changes.
    pub moved: u64,
    pub removed: u64,
}

impl<'a> Plan<'a> {
    pub fn new() -> Plan<'a> {
        Plan { steps: SmallVec::new(), index: HashMap::new() }
    }

    fn position(&self, member: Str<'a>) -> Option<usize> {
        match self.index.is_empty() {
            true => self.steps.iter().position(|step| step.member.bytes() == member.bytes()),
            false => self.index.get(member.bytes()).copied(),
        }
    }

    /// Plans a member's expiry. `decide` gets the expiry planned so far, and returns the new expiry and the result of
    /// this call. An expiry of `None` means that the member is absent or expired. Returns an error if `member` is
    /// `zeitset:expiring`, the mark of expiring sets, which only the module writes.
    pub fn decide<R>(
        &mut self,
        set: &ExpiringSet<'_, Writing>,
        now: Millis,
        member: Str<'a>,
        decide: impl FnOnce(Option<Millis>) -> (Option<Millis>, R),
    ) -> Result<R, Error> {
        if is_tag_name(member) {
            return Err(Error::TagAsMember);
        }
        if let Some(position) = self.position(member) {
            let step = &mut self.steps[position];
            let (after, result) = decide(step.after);
            step.after = after;
            return Ok(result);
        }
        let before = set.live_until(member, now);
        let (after, result) = decide(before);
        self.steps.push(PlannedMember { member, before, after });
        if self.steps.len() == FEW + 1 {
            self.index = self.steps.iter().enumerate().map(|(at, step)| (step.member.bytes(), at)).collect();
        } else if self.steps.len() > FEW {
            self.index.insert(member.bytes(), self.steps.len() - 1);
        }
        Ok(result)
    }

    pub fn counts(&self) -> Counts {
        self.steps.iter().fold(Counts::default(), |mut counts, step| {
            match (step.before, step.after) {
                (None, Some(_)) => counts.added += 1,
                (Some(_), None) => counts.removed += 1,
                (before, after) if before != after => counts.moved += 1,
                _ => {}
            }
            counts
        })
    }

    /// Puts all members first, and then removes members, which is also the order of replication. In the order of the
    /// arguments, a removal could empty a set that has no tag, so that the key would lose its TTL.
    pub fn carry_out<'k>(self, mut set: ExpiringSet<'k, Writing>)
    where
        'a: 'k,
    {
        let changed = || self.steps.iter().filter(|step| step.before != step.after);
        for step in changed() {
            if let Some(expiry) = step.after {
                set.put(MemberName::Argument(step.member), time::to_score(expiry));
            }
        }
        for step in changed().filter(|step| step.after.is_none()) {
            set.remove(MemberName::Argument(step.member));
        }
        set.commit();
    }
}
