//! A job, and its public form, the [`Record`].
//!
//! The links of a tree are in the jobs themselves. So a job takes one slot, ten bytes of the index, and one allocation
//! for its ID and payload.

use super::field::Field;
use super::ids::AutoId;
use super::node::{JobNode, State, TreeId};
use super::settings::Settings;
use super::tree::Item;
use super::{ALLOCATION, MAX_TIME, Millis};
use crate::base::chunks::NIL;
use crate::base::time;

/// A flag in the last byte of [`JobNode::high`]: the job has optional texts or times. Times do not use this bit.
const HAS_EXTRAS: u8 = 0x80;
/// A flag in the last byte of [`JobNode::high`]: the job has a group.
const GROUPED: u8 = 0x40;
const FLAGS: u8 = HAS_EXTRAS | GROUPED;

/// EVERY: after an ACK, the job waits for its next run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Recurrence {
    /// The time between two occurrences in ms, 1 ..= [`MAX_TIME`].
    pub period: Millis,
    /// The planned time of the job's current run. PUSH, RESCHEDULE and ACK set this time, but retries do not change it.
    /// So a job that runs on the hour keeps running on the hour.
    pub anchor: Millis,
}

impl Recurrence {
    /// Returns the first occurrence that is after `now` and after the present occurrence.
    pub(super) fn next(self, now: Millis) -> Millis {
        let periods = now.saturating_sub(self.anchor) / self.period.max(1) + 1;
        let ahead = periods.saturating_mul(self.period);
        time::after_at_most(self.anchor, ahead)
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ttl {
    /// The TTL in ms, 1 ..= [`MAX_TIME`]. The TTL begins at the job's due time.
    pub ttl: Millis,
    /// The end of the TTL. Retries do not change this time.
    pub expires: Millis,
}

impl Ttl {
    pub(super) fn from(due: Millis, ttl: Millis) -> Ttl {
        Ttl { ttl, expires: time::after_at_most(due, ttl) }
    }
}

/// The maximum length of a worker's name in bytes.
pub const MAX_WORKER: usize = 255;
/// The maximum length of an error text in bytes. Longer texts are truncated.
pub const MAX_ERROR: usize = 1024;
/// The maximum length of the text of PROGRESS in bytes.
pub const MAX_PROGRESS: usize = 1024;

/// Whether an attempt counts when a NACK ends it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Attempt {
    Counts,
    /// FREE: the attempt does not count.
    Free,
    /// The job is recurring (EVERY) and has no attempt left. Its count of attempts is reset to 0. It waits for its next
    /// due time.
    Last,
}

/// The optional texts and times of a job. If absent, a time is 0, and a text is empty.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Extras<'a> {
    /// The time of the last claim. 0 if the token contains this time.
    pub claimed: Millis,
    /// The time of the last failure: a NACK, or the expiry of a lease.
    pub failed: Millis,
    /// The time at which the job began to wait. It is stored after RESCHEDULE and after NACK with FREE. For a recurring
    /// job, it is also stored after an ACK and after the end of the TTL. 0: not stored.
    pub since: Millis,
    /// The worker of the last claim, at most [`MAX_WORKER`] bytes.
    pub worker: &'a [u8],
    /// The last error text, at most [`MAX_ERROR`] bytes.
    pub error: &'a [u8],
    /// The last text of PROGRESS, at most [`MAX_PROGRESS`] bytes.
    pub progress: &'a [u8],
    /// The time of the last PROGRESS. 0 if `progress` is empty.
    pub progressed: Millis,
}

impl Extras<'_> {
    pub(super) fn possible(&self) -> bool {
        self.claimed <= MAX_TIME
            && self.failed <= MAX_TIME
            && self.since <= MAX_TIME
            && self.worker.len() <= MAX_WORKER
            && self.error.len() <= MAX_ERROR
            && self.progress.len() <= MAX_PROGRESS
            && self.progressed <= MAX_TIME
            && !(self.progress.is_empty() && self.progressed != 0)
    }

    pub(super) fn is_nothing(&self) -> bool {
        *self == Extras::default()
    }
}

#[derive(Clone, Debug)]
pub(super) struct Job {
    pub node: JobNode,
    /// The ID, followed by the payload. If the job has a group, the number [`Job::member`] is before the ID.
    pub body: Box<[u8]>,
    pub id_len: u32,
    /// The lower bits of [`Job::created`].
    pub low: u32,
    /// The valid token. 0 if no token is valid.
    pub token: u64,
    /// `None` if the job has neither EVERY nor TTL.
    pub timing: Option<Box<Timing>>,
    pub attempts: u32,
    /// The maximum number of attempts. 0: unlimited.
    pub max_attempts: u32,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Timing {
    /// If the job has no EVERY, the period is 0.
    pub recurrence: Recurrence,
    /// If the job has no TTL, `ttl` and `expires` are 0.
    pub ttl: Ttl,
}

impl Timing {
    pub fn boxed(recurrence: Option<Recurrence>, ttl: Option<Ttl>) -> Option<Box<Timing>> {
        let timing = Timing { recurrence: recurrence.unwrap_or_default(), ttl: ttl.unwrap_or_default() };
        (timing != Timing::default()).then(|| Box::new(timing))
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

    /// Returns the number of bytes before the ID in [`body`](Job::body).
    fn prefix(&self) -> usize {
        if self.is(GROUPED) { size_of::<u32>() } else { 0 }
    }

    /// Returns the number of the job's [`Member`](super::items::Member). `NIL` if the job has no group, or is not yet
    /// in its group.
    pub fn member(&self) -> u32 {
        match self.body.first_chunk() {
            Some(&number) if self.is(GROUPED) => u32::from_le_bytes(number),
            _ => NIL,
        }
    }

    pub fn set_member(&mut self, member: u32) {
        let len = self.prefix();
        self.body[..len].copy_from_slice(&member.to_le_bytes()[..len]);
    }

    /// Returns a job with the values of a record, except its `extras`. The job is not yet in a tree, in its group or in
    /// the index.
    pub fn of(record: &Record<'_>) -> Job {
        let is_grouped = !record.group.is_empty();
        let member = if is_grouped { &NIL.to_le_bytes()[..] } else { &[] };
        let mut job = Job {
            node: JobNode::new((record.time, record.priority, record.seq)),
            body: [member, record.id, record.payload].concat().into_boxed_slice(),
            id_len: u32::try_from(record.id.len()).unwrap_or(u32::MAX),
            low: 0,
            token: record.token,
            timing: Timing::boxed(record.recurrence, record.ttl),
            attempts: record.attempts,
            max_attempts: record.max_attempts,
        };
        job.set_flag(GROUPED, is_grouped);
        job.set_created(record.created);
        job
    }

    pub fn set_payload(&mut self, payload: &[u8]) {
        let kept = self.prefix() + self.id_len as usize;
        self.body = [&self.body[..kept], payload].concat().into_boxed_slice();
    }

    /// Makes room for the number of the job's [`Member`](super::items::Member), or removes it. The job must be in no
    /// group.
    pub fn set_grouped(&mut self, is_grouped: bool) {
        let member = if is_grouped { &NIL.to_le_bytes()[..] } else { &[] };
        self.body = [member, &self.body[self.prefix()..]].concat().into_boxed_slice();
        self.set_flag(GROUPED, is_grouped);
    }

    /// Returns the bytes that the job owns. They do not include the overhead of the allocation for [`body`](Job::body).
    pub fn owned_bytes(&self) -> usize {
        self.body.len() + if self.timing.is_some() { size_of::<Timing>() + ALLOCATION } else { 0 }
    }

    pub fn recurrence(&self) -> Option<Recurrence> {
        Some(self.timing.as_ref()?.recurrence).filter(|recurrence| recurrence.period > 0)
    }

    pub fn ttl(&self) -> Option<Ttl> {
        Some(self.timing.as_ref()?.ttl).filter(|ttl| ttl.ttl > 0)
    }

    pub fn set_ttl(&mut self, ttl: Option<Ttl>) {
        self.timing = Timing::boxed(self.recurrence(), ttl);
    }

    /// Restarts the TTL at `due`. Does nothing if the job has no TTL.
    pub fn count_ttl_from(&mut self, due: Millis) {
        if let (Some(ttl), Some(timing)) = (self.ttl(), &mut self.timing) {
            timing.ttl = Ttl::from(due, ttl.ttl);
        }
    }

    /// Returns the time at which the job's TTL ends. A recurring job that [has missed](Job::has_missed) a run gets a
    /// new TTL for its next run.
    pub fn expires(&self, now: Millis, settings: &Settings) -> Option<Millis> {
        let ttl = self.ttl()?;
        let next = self.has_missed(now).then(|| Ttl::from(self.back_at(settings), ttl.ttl));
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

    pub fn has_extras(&self) -> bool {
        self.is(HAS_EXTRAS)
    }

    pub fn set_has_extras(&mut self, with_extras: bool) {
        self.set_flag(HAS_EXTRAS, with_extras);
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
    pub fn claimed_tree(&self, settings: &Settings) -> TreeId {
        match (self.exhausted(), self.recurrence()) {
            (true, Some(_)) => TreeId::ClaimedRecurring,
            (true, None) => TreeId::ClaimedLast,
            (false, _) if settings.backoff(self.attempts) > 0 => TreeId::ClaimedBackoff,
            (false, _) => TreeId::Claimed,
        }
    }

    /// Returns the tree that the job enters with the due time `due`. `at` is the time of the present command.
    pub fn due_tree(&self, due: Millis, at: Millis) -> TreeId {
        if due <= at { TreeId::Ready } else { self.delayed_tree(due) }
    }

    /// Returns the tree that the job enters if `due` is in the future: [`TreeId::Upcoming`] for a recurring job that
    /// waits for an occurrence, [`TreeId::Delayed`] for all other jobs.
    pub fn delayed_tree(&self, due: Millis) -> TreeId {
        let is_occurrence = self.recurrence().is_some_and(|recurrence| recurrence.anchor == due);
        if is_occurrence && self.attempts == 0 { TreeId::Upcoming } else { TreeId::Delayed }
    }

    pub fn state(&self, now: Millis, settings: &Settings) -> State {
        let (before, after) = self.node.tree.states();
        if now < self.node.time {
            before
        } else if now < self.back_at(settings) {
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

    /// Returns the time of the last claim, from `extras` or from the token. Returns 0 if neither contains it.
    pub fn claimed(&self, extras: Extras<'_>) -> Millis {
        if extras.claimed != 0 { extras.claimed } else { self.token / 1000 }
    }
}

/// All data of a job. The stored form and AOF files contain the data after the job's latest change. GET and PEEK show
/// the data at the current time. They show, for example, that a lease has expired.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record<'a> {
    pub id: &'a [u8],
    /// Empty if the job has no group.
    pub group: &'a [u8],
    pub payload: &'a [u8],
    /// In the stored form, a job with an expired lease remains `Claimed` until an effect changes its state.
    pub state: State,
    /// The due time, the deadline, or the time at which the job became a dead letter.
    pub time: Millis,
    /// A lower number is served first.
    pub priority: i32,
    /// The push number, unique in the queue.
    pub seq: u64,
    /// The valid token. 0: none.
    pub token: u64,
    pub attempts: u32,
    /// The maximum number of attempts. 0: unlimited.
    pub max_attempts: u32,
    pub recurrence: Option<Recurrence>,
    /// The time of the push. 0: unknown.
    pub created: Millis,
    pub ttl: Option<Ttl>,
    pub extras: Extras<'a>,
}

impl<'a> Record<'a> {
    /// The optional numbers. Each is stored only if it differs from the number in [`Record::bare`].
    #[rustfmt::skip]
    pub const FIELDS: [Field<Record<'a>>; 11] = [
        Field::plain("token", u64::MAX, |job| job.token, |job, n| job.token = n),
        Field::plain("attempts", u32::MAX as u64, |job| job.attempts.into(), |job, n| job.attempts = n as u32),
        Field::plain("max_attempts", u32::MAX as u64, |job| job.max_attempts.into(), |job, n| job.max_attempts = n as u32),
        Field::plain("period", u64::MAX, |job| job.recurrence.map_or(0, |it| it.period), |job, n| job.recurrence.get_or_insert_default().period = n),
        Field::plain("anchor", u64::MAX, |job| job.recurrence.map_or(0, |it| it.anchor), |job, n| job.recurrence.get_or_insert_default().anchor = n),
        Field::plain("created", u64::MAX, |job| job.created, |job, n| job.created = n),
        Field::plain("claimed", u64::MAX, |job| job.extras.claimed, |job, n| job.extras.claimed = n),
        Field::plain("failed", u64::MAX, |job| job.extras.failed, |job, n| job.extras.failed = n),
        Field::plain("since", u64::MAX, |job| job.extras.since, |job, n| job.extras.since = n),
        Field::plain("ttl", u64::MAX, |job| job.ttl.map_or(0, |it| it.ttl), |job, n| job.ttl.get_or_insert_default().ttl = n),
        Field::plain("expires", u64::MAX, |job| job.ttl.map_or(0, |it| it.expires), |job, n| job.ttl.get_or_insert_default().expires = n),
    ];

    pub fn new(id: &'a [u8], payload: &'a [u8], state: State, time: Millis, priority: i32, seq: u64) -> Record<'a> {
        Record {
            id,
            group: b"",
            payload,
            state,
            time,
            priority,
            seq,
            token: 0,
            attempts: 0,
            max_attempts: 0,
            recurrence: None,
            created: 0,
            ttl: None,
            extras: Extras::default(),
        }
    }

    /// Returns a record of the job in which all optional parts have their defaults. If the ID has the form of a
    /// generated ID, the default of `created` is the time in the ID. Otherwise, the default is the due time for a
    /// waiting job, and 0 for other jobs.
    pub fn bare(&self) -> Record<'a> {
        let Record { id, payload, state, time, priority, seq, .. } = *self;
        let created = match (AutoId::parse(id), state) {
            (Some(auto), _) => auto.ms,
            (None, State::Ready | State::Delayed) => time,
            (None, _) => 0,
        };
        Record { created, ..Record::new(id, payload, state, time, priority, seq) }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NewJob<'a> {
    pub id: &'a [u8],
    pub payload: &'a [u8],
    /// Empty if the job has no group.
    pub group: &'a [u8],
    pub due: Millis,
    pub priority: i32,
    /// The maximum number of attempts, from the push or from the settings. 0: unlimited.
    pub max_attempts: u32,
    /// EVERY, in ms.
    pub every: Option<Millis>,
    /// TTL, in ms.
    pub ttl: Option<Millis>,
}

impl NewJob<'_> {
    pub(super) fn possible(&self) -> bool {
        let durations = self.every.into_iter().chain(self.ttl);
        self.due <= MAX_TIME && durations.into_iter().all(|duration| (1..=MAX_TIME).contains(&duration))
    }

    /// Returns the job that a push at `at` adds. `seq` is its push number.
    pub(super) fn record(&self, at: Millis, seq: u64) -> Record<'_> {
        let NewJob { id, payload, group, due, priority, max_attempts, every, ttl } = *self;
        Record {
            group,
            max_attempts,
            recurrence: every.map(|period| Recurrence { period, anchor: due }),
            created: at,
            ttl: ttl.map(|ttl| Ttl::from(due, ttl)),
            ..Record::new(id, payload, State::Ready, due, priority, seq)
        }
    }
}
