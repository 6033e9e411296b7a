//! What a command with several members is going to do, worked out before anything is done.
//!
//! A member named twice is treated as if it had come in two calls: the second sees what the first did. Nothing is written
//! until the whole command is known to pass, and then each member once, so that what is replicated says each once.

use crate::expiring::{Member, TimedSet};
use crate::model::time::{self, Millis};
use crate::server::Str;
use crate::server::key::Writing;
use hashbrown::HashMap;
use smallvec::SmallVec;

/// Up to that many members, a look through all of them is faster than a hash table.
const FEW: usize = 8;

/// A member, with its expiry before and after. `None`: not there, or dead.
struct Step<'a> {
    member: Str<'a>,
    before: Option<Millis>,
    after: Option<Millis>,
}

/// The steps of one command.
pub struct Plan<'a> {
    steps: SmallVec<[Step<'a>; 1]>,
    /// Where a member's step is, once there are more than [`FEW`].
    index: HashMap<&'a [u8], usize>,
}

/// What a plan comes to.
#[derive(Clone, Copy, Debug, Default)]
pub struct Outcome {
    pub added: u64,
    /// Members that have another expiry than before.
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

    /// Decides on a member: `decide` gets the expiry it has by now (`None`: it is not there) and returns the one it shall
    /// have. Returns what `decide` got and returned.
    pub fn decide(
        &mut self,
        set: &TimedSet<'_, Writing>,
        now: Millis,
        member: Str<'a>,
        decide: impl FnOnce(Option<Millis>) -> Option<Millis>,
    ) -> (Option<Millis>, Option<Millis>) {
        if let Some(position) = self.position(member) {
            let step = &mut self.steps[position];
            let was = step.after;
            step.after = decide(was);
            return (was, step.after);
        }
        let before = set.live_until(member, now);
        let after = decide(before);
        self.steps.push(Step { member, before, after });
        if self.steps.len() == FEW + 1 {
            self.index = self.steps.iter().enumerate().map(|(at, step)| (step.member.bytes(), at)).collect();
        } else if self.steps.len() > FEW {
            self.index.insert(member.bytes(), self.steps.len() - 1);
        }
        (before, after)
    }

    pub fn outcome(&self) -> Outcome {
        self.steps.iter().fold(Outcome::default(), |mut outcome, step| {
            match (step.before, step.after) {
                (None, Some(_)) => outcome.added += 1,
                (Some(_), None) => outcome.removed += 1,
                (before, after) if before != after => outcome.moved += 1,
                _ => {}
            }
            outcome
        })
    }

    /// Writes what the plan changes, and commits.
    pub fn carry_out<'k>(self, mut set: TimedSet<'k, Writing>)
    where
        'a: 'k,
    {
        for Step { member, before, after } in self.steps {
            match after {
                _ if before == after => {}
                Some(expiry) => set.put(Member::Argument(member), time::to_score(expiry)),
                None => set.remove(Member::Argument(member)),
            }
        }
        set.commit();
    }
}
