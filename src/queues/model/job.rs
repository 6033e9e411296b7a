//! A job in the queue's memory.
//!
//! The job itself contains the links of its tree. So a job takes one slot, ten bytes of the index, and one allocation
//! for its ID and payload.

use super::extras::OwnedExtras;
use super::followers::{Kind, PushBehind};
use super::job_data::{Extras, JobData, Recurrence, Ttl};
use super::node::{HAS_TTL, JobNode, State, TreeId};
use super::tree::Item;
use super::{ALLOCATION, Millis};
use crate::base::chunks::NIL;
use smallvec::SmallVec;
use std::ops::Range;

/// A flag in the last byte of [`JobNode::high`]: the job has a group. The field also has the upper bits of
/// [`Job::created`], and no time is large enough to use this bit.
const GROUPED: u8 = 0x40;
/// A flag in the last byte of [`JobNode::high`]: the job has a recurrence (EVERY).
const RECURRING: u8 = 0x80;
const FLAGS: u8 = GROUPED | HAS_TTL | RECURRING;

/// The optional parts of [`Job::body`], which come before the ID. For each part: the flag of a job that has the part,
/// and the length of the part in bytes.
const PARTS: [(u8, usize); 3] = [(GROUPED, 4), (HAS_TTL, 16), (RECURRING, 16)];

/// Encodes two times as an optional part of [`Job::body`].
fn part_of(times: Option<[Millis; 2]>) -> SmallVec<[u8; 16]> {
    times.into_iter().flatten().flat_map(Millis::to_le_bytes).collect()
}

/// Whether an attempt counts if a NACK ends the attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Attempt {
    Counts,
    /// FREE: the attempt does not count.
    Free,
    /// The job is recurring (EVERY) and has no attempt left. Its count of attempts is reset to 0. It waits for its next
    /// due time.
    Last,
}

#[derive(Clone, Debug)]
pub(super) struct Job {
    pub node: JobNode,
    /// The ID and the payload. Before them, the optional parts that the job has ([`PARTS`]): the number
    /// [`Job::member`], the TTL, and the recurrence.
    pub body: Box<[u8]>,
    pub id_len: u32,
    /// The lower bits of [`Job::created`].
    pub low: u32,
    /// The valid token of the job. 0 if no token is valid.
    pub token: u64,
    /// The data that most jobs do not have. `None` if the job has none of them.
    pub rare: Option<Box<Rare>>,
    pub attempts: u32,
    /// The maximum number of attempts. 0: unlimited.
    pub max_attempts: u32,
}

/// The data that most jobs do not have, in an allocation of their own.
#[derive(Clone, Debug, Default)]
pub(super) struct Rare {
    /// How long the job waits after its lease expires: BACKOFF with JITTER, as it was at the claim. 0 if the job is not
    /// claimed.
    pub backoff: Millis,
    pub extras: OwnedExtras,
    pub behind: Option<Box<PushBehind>>,
}

impl Rare {
    pub fn is_nothing(&self) -> bool {
        self.backoff == 0 && self.extras.extras().is_nothing() && self.behind.is_none()
    }

    fn owned_bytes(&self) -> usize {
        let behind = self.behind.as_ref().map_or(0, |push| push.owned_bytes() + size_of::<PushBehind>() + ALLOCATION);
        size_of::<Rare>() + ALLOCATION + self.extras.owned_bytes() + behind
    }
}

impl Item for Job {
    fn node(&self) -> &JobNode {
        &self.node
    }

    fn node_mut(&mut self) -> &mut JobNode {
        &mut self.node
    }

    fn is_served(&self) -> bool {
        self.node.tree.is_served()
    }
}

impl Job {
    pub fn id(&self) -> &[u8] {
        let start = self.prefix();
        &self.body[start..start + self.id_len as usize]
    }

    pub fn payload(&self) -> &[u8] {
        &self.body[self.prefix() + self.id_len as usize..]
    }

    fn is(&self, flag: u8) -> bool {
        self.node.high[2] & flag != 0
    }

    /// Returns the byte range of an optional part in [`body`](Job::body). The range is empty if the job does not have
    /// the part.
    fn part(&self, flag: u8) -> Range<usize> {
        let mut part = 0..0;
        for (of, len) in PARTS {
            part = part.end..part.end + if self.is(of) { len } else { 0 };
            if of == flag {
                break;
            }
        }
        part
    }

    /// Changes an optional part of [`body`](Job::body), or removes it if `part` is empty.
    fn set_part(&mut self, flag: u8, part: &[u8]) {
        let Range { start, end } = self.part(flag);
        if part.len() == end - start {
            self.body[start..end].copy_from_slice(part);
        } else {
            self.body = [&self.body[..start], part, &self.body[end..]].concat().into_boxed_slice();
            self.set_flag(flag, !part.is_empty());
        }
    }

    fn pair(&self, flag: u8) -> Option<[Millis; 2]> {
        let (pair, _) = self.body[self.part(flag)].as_chunks();
        Some([*pair.first()?, *pair.get(1)?].map(Millis::from_le_bytes))
    }

    /// Returns the number of bytes before the ID in [`body`](Job::body).
    fn prefix(&self) -> usize {
        self.part(RECURRING).end
    }

    /// Returns the number of the job's [`Member`](super::items::Member). `NIL` if the job has no group, or is not yet
    /// in its group.
    pub fn member(&self) -> u32 {
        self.body[self.part(GROUPED)].first_chunk().map_or(NIL, |&number| u32::from_le_bytes(number))
    }

    pub fn set_member(&mut self, member: u32) {
        if self.is(GROUPED) {
            self.set_part(GROUPED, &member.to_le_bytes());
        }
    }

    /// Returns a job with this data, except its `extras`. The job is not yet in a tree, in its group or in the index.
    pub fn of(data: &JobData<'_>) -> Job {
        let is_grouped = !data.group.is_empty();
        let member = if is_grouped { &NIL.to_le_bytes()[..] } else { &[] };
        let mut job = Job {
            node: JobNode::new((data.time, data.priority, data.seq)),
            body: [member, data.id, data.payload].concat().into_boxed_slice(),
            id_len: u32::try_from(data.id.len()).unwrap_or(u32::MAX),
            low: 0,
            token: data.token,
            rare: None,
            attempts: data.attempts,
            max_attempts: data.max_attempts,
        };
        job.set_flag(GROUPED, is_grouped);
        if data.ttl.is_some() {
            job.set_ttl(data.ttl);
        }
        if let Some(recurrence) = data.recurrence {
            job.set_recurrence(recurrence);
        }
        if let Some(backoff) = data.backoff {
            job.set_backoff(backoff);
        }
        job.set_created(data.created);
        job
    }

    pub fn set_payload(&mut self, payload: &[u8]) {
        let kept = self.prefix() + self.id_len as usize;
        self.body = [&self.body[..kept], payload].concat().into_boxed_slice();
    }

    /// Adds room for the number of the job's [`Member`](super::items::Member) to [`body`](Job::body), or removes the
    /// room. The job must be in no group.
    pub fn set_grouped(&mut self, is_grouped: bool) {
        let member = NIL.to_le_bytes();
        self.set_part(GROUPED, if is_grouped { &member } else { &[] });
    }

    /// Returns the number of heap bytes that the job owns, without the overhead of the allocation for
    /// [`body`](Job::body).
    pub fn owned_bytes(&self) -> usize {
        self.body.len() + self.rare.as_ref().map_or(0, |rare| rare.owned_bytes())
    }

    pub fn recurrence(&self) -> Option<Recurrence> {
        self.pair(RECURRING).map(|[period, anchor]| Recurrence { period, anchor })
    }

    pub fn ttl(&self) -> Option<Ttl> {
        self.pair(HAS_TTL).map(|[ttl, expires]| Ttl { ttl, expires })
    }

    pub fn change_rare<R>(&mut self, change: impl FnOnce(&mut Rare) -> R) -> R {
        let rare = self.rare.get_or_insert_default();
        let result = change(rare);
        if rare.is_nothing() {
            self.rare = None;
        }
        result
    }

    /// See [`Rare::backoff`].
    pub fn backoff(&self) -> Millis {
        self.rare.as_ref().map_or(0, |rare| rare.backoff)
    }

    pub fn extras(&self) -> Extras<'_> {
        self.rare.as_ref().map_or_else(Extras::default, |rare| rare.extras.extras())
    }

    /// Returns the push that waits for the end of the job's claim (AGAIN, DECLARE), if any.
    pub fn behind(&self) -> Option<&PushBehind> {
        self.rare.as_ref()?.behind.as_deref()
    }

    pub fn follower(&self) -> Option<&PushBehind> {
        self.behind().filter(|push| push.kind == Kind::Follower)
    }

    pub fn declaration(&self) -> Option<&PushBehind> {
        self.behind().filter(|push| push.kind != Kind::Follower)
    }

    pub fn set_recurrence(&mut self, recurrence: Recurrence) {
        self.set_part(RECURRING, &part_of(Some([recurrence.period, recurrence.anchor])));
    }

    pub fn set_backoff(&mut self, backoff: Millis) {
        self.change_rare(|rare| rare.backoff = backoff);
    }

    pub fn set_ttl(&mut self, ttl: Option<Ttl>) {
        self.set_part(HAS_TTL, &part_of(ttl.map(|it| [it.ttl, it.expires])));
    }

    /// Restarts the TTL at `due`. Does nothing if the job has no TTL.
    pub fn count_ttl_from(&mut self, due: Millis) {
        self.set_ttl(self.ttl().map(|it| Ttl::from(due, it.ttl)));
    }

    /// Returns the time at which the job's TTL ends. A recurring job that [has missed](Job::has_missed) a run gets a
    /// new TTL for its next run.
    pub fn expires(&self, now: Millis) -> Option<Millis> {
        let ttl = self.ttl()?;
        let next = self.has_missed(now).then(|| Ttl::from(self.due_again_at(), ttl.ttl));
        Some(next.unwrap_or(ttl).expires)
    }

    fn set_flag(&mut self, flag: u8, set: bool) {
        self.node.high[2] = self.node.high[2] & !flag | if set { flag } else { 0 };
    }

    /// Returns the time of the push. 0: unknown.
    pub fn created(&self) -> Millis {
        let [a, b, c] = self.node.high;
        u64::from(self.low) | u64::from(u32::from_le_bytes([a, b, c & !FLAGS, 0])) << 32
    }

    pub fn set_created(&mut self, created: Millis) {
        let [a, b, c, _] = ((created.min(super::MAX_TIME) >> 32) as u32).to_le_bytes();
        self.low = created as u32;
        self.node.high = [a, b, c | self.node.high[2] & FLAGS];
    }

    /// Whether the job has no attempt left.
    pub fn exhausted(&self) -> bool {
        self.is_exhausted_after(self.attempts)
    }

    /// Whether a NACK can make the job wait for another attempt. `attempt` tells whether the present attempt counts.
    pub fn may_retry(&self, attempt: Attempt) -> bool {
        match attempt {
            Attempt::Counts => !self.exhausted(),
            Attempt::Free => !self.is_exhausted_after(self.attempts.saturating_sub(1)),
            Attempt::Last => self.recurrence().is_some(),
        }
    }

    pub fn is_exhausted_after(&self, attempts: u32) -> bool {
        self.max_attempts != 0 && attempts >= self.max_attempts
    }

    /// Returns the tree that the job enters when a worker claims it.
    pub fn claimed_tree(&self) -> TreeId {
        match (self.exhausted(), self.recurrence()) {
            (true, Some(_)) => TreeId::ClaimedRecurring,
            (true, None) => TreeId::ClaimedLast,
            (false, _) if self.backoff() > 0 => TreeId::ClaimedBackoff,
            (false, _) => TreeId::Claimed,
        }
    }

    /// Returns the tree to which the job must be added if it is due at `due`. `at` is the time of the current command.
    pub fn due_tree(&self, due: Millis, at: Millis) -> TreeId {
        if due <= at { TreeId::Ready } else { self.delayed_tree(due) }
    }

    /// Returns the tree that the job enters if `due` is in the future: [`TreeId::Upcoming`] for a recurring job that
    /// waits for an occurrence, [`TreeId::Delayed`] for all other jobs.
    pub fn delayed_tree(&self, due: Millis) -> TreeId {
        let is_occurrence = self.recurrence().is_some_and(|recurrence| recurrence.anchor == due);
        if is_occurrence && self.attempts == 0 { TreeId::Upcoming } else { TreeId::Delayed }
    }

    pub fn state(&self, now: Millis) -> State {
        let (before, after) = self.node.tree.states();
        if now < self.node.time {
            before
        } else if now < self.due_again_at() {
            State::Delayed
        } else {
            after
        }
    }

    /// Whether the job's stored state is still [`State::Claimed`], but the lease has expired.
    pub fn is_lease_expired(&self, now: Millis) -> bool {
        TreeId::OF_LEASES.contains(&self.node.tree) && self.node.time <= now
    }

    /// Whether the job is recurring, has no attempt left, and has an [expired lease](Job::is_lease_expired). Such a job
    /// has missed its run.
    pub fn has_missed(&self, now: Millis) -> bool {
        self.node.tree == TreeId::ClaimedRecurring && self.node.time <= now
    }

    /// Returns the time of the last claim, from the extras or from the token. Returns 0 if neither contains it.
    pub fn claimed(&self) -> Millis {
        let claimed = self.extras().claimed;
        if claimed != 0 { claimed } else { self.token / 1000 }
    }
}
