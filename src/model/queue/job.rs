//! One job: the record in the slab, and the two ways it is shown to the outside.
//!
//! A job carries its own tree links (`JobNode`), so being in a queue costs one slot, ten bytes of the index and
//! one allocation (`body`: the id followed by the payload), whatever the number of orders it takes part in.

use super::ids::AutoId;
use super::node::{CLAIMED, JobNode, TreeId};
use super::settings::Settings;
use super::tree::Item;
use super::{MAX_TIME, Millis};
use crate::model::chunks::NIL;
use crate::model::time;

/// The state of a job: by the clock ([`Queue::count`](super::Queue::count), [`JobView`]), or as the last effect left it, which is what is
/// stored ([`Record`]). Stored as these numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum State {
    /// Due, and served as soon as CONCURRENCY, RATE and PAUSED allow.
    Ready = 0,
    /// Its due time lies ahead.
    Delayed = 1,
    /// Somebody holds a lease that has not ended.
    Claimed = 2,
    /// Out of attempts, or buried by a NACK.
    Dead = 3,
}

impl State {
    pub const ALL: [State; 4] = [State::Ready, State::Delayed, State::Claimed, State::Dead];
}

/// In the last byte of [`JobNode::high`]: there is a note. Times do not reach the upper three bits of that byte.
const NOTED: u8 = 0x80;
/// There, too: the job has a group.
const GROUPED: u8 = 0x40;
/// There, too: the job has a TTL.
const PASSING: u8 = 0x20;
const FLAGS: u8 = NOTED | GROUPED | PASSING;

/// What makes a job come back after ACK.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Recurrence {
    /// The distance of two occurrences, 1 ..= [`MAX_TIME`] ms.
    pub period: Millis,
    /// The due time that PUSH, RESCHEDULE or the last ACK set. Retries do not move it, so a job that runs on the hour
    /// keeps running on the hour.
    pub anchor: Millis,
}

impl Recurrence {
    /// The first occurrence after both `now` and the present one.
    pub(super) fn next(self, now: Millis) -> Millis {
        let periods = now.saturating_sub(self.anchor) / self.period.max(1) + 1;
        let ahead = periods.saturating_mul(self.period);
        time::after_at_most(self.anchor, ahead)
    }
}

/// TTL: for how long a job is worth doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ttl {
    /// Counted from the due time that PUSH, RESCHEDULE, REDRIVE or the last ACK (EVERY) set, 1 ..= [`MAX_TIME`] ms.
    pub ttl: Millis,
    /// When that time is over. Retries do not move it.
    pub expires: Millis,
}

impl Ttl {
    pub(super) fn from(due: Millis, ttl: Millis) -> Ttl {
        Ttl { ttl, expires: time::after_at_most(due, ttl) }
    }
}

/// The longest name of a worker, in bytes.
pub const MAX_WORKER: usize = 255;
/// The bytes of an error text that are kept.
pub const MAX_ERROR: usize = 1024;

/// The optional fields of a job, as they are stored. Absent: 0, or no bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Extras<'a> {
    /// When the job was last claimed, if its token does not tell.
    pub claimed: Millis,
    /// When it last failed: was given back, or its lease ended.
    pub failed: Millis,
    /// When a command last made it wait, if nothing else tells: an ACK (EVERY), a NACK with FREE, RESCHEDULE. A claim makes it void.
    pub since: Millis,
    /// The worker that claimed it last, at most [`MAX_WORKER`] bytes.
    pub worker: &'a [u8],
    /// The last error text that was given, at most [`MAX_ERROR`] bytes.
    pub error: &'a [u8],
}

impl Extras<'_> {
    pub(super) fn possible(&self) -> bool {
        self.claimed <= MAX_TIME
            && self.failed <= MAX_TIME
            && self.since <= MAX_TIME
            && self.worker.len() <= MAX_WORKER
            && self.error.len() <= MAX_ERROR
    }

    pub(super) fn is_nothing(&self) -> bool {
        *self == Extras::default()
    }
}

#[derive(Clone, Debug)]
pub(super) struct Job {
    pub node: JobNode,
    /// The number of its [`member`](Job::member) if it has a group, its [`Ttl`] if it has one, the id, the payload.
    pub body: Box<[u8]>,
    pub id_len: u32,
    /// The lower bits of [`Job::created`].
    pub low: u32,
    /// The token that is good for this job; 0: none.
    pub token: u64,
    pub recurrence: Option<Box<Recurrence>>,
    /// Deliveries so far.
    pub attempts: u32,
    /// Deliveries before the job is dead; 0: unlimited.
    pub max_attempts: u32,
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

/// The bytes of a TTL in the body.
const TTL_LEN: usize = 2 * size_of::<Millis>();

impl Ttl {
    fn to_bytes(self) -> [u8; TTL_LEN] {
        (u128::from(self.ttl) | u128::from(self.expires) << 64).to_le_bytes()
    }

    fn of_bytes(bytes: [u8; TTL_LEN]) -> Ttl {
        let both = u128::from_le_bytes(bytes);
        Ttl { ttl: both as Millis, expires: (both >> 64) as Millis }
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

    /// The bytes of the body in front of the TTL.
    fn member_len(&self) -> usize {
        if self.is(GROUPED) { size_of::<u32>() } else { 0 }
    }

    /// The bytes of the body in front of the id.
    fn prefix(&self) -> usize {
        self.member_len() + if self.is(PASSING) { TTL_LEN } else { 0 }
    }

    /// Its place among the jobs with a group; `NIL`: it has no group, or none yet.
    pub fn member(&self) -> u32 {
        match self.body.first_chunk() {
            Some(&number) if self.is(GROUPED) => u32::from_le_bytes(number),
            _ => NIL,
        }
    }

    /// For a job with a group only.
    pub fn set_member(&mut self, member: u32) {
        let len = self.member_len();
        self.body[..len].copy_from_slice(&member.to_le_bytes()[..len]);
    }

    /// Sets all that the body holds. `grouped`: whether the job has a group; it gets a new place there.
    pub fn set_body(&mut self, grouped: bool, ttl: Option<Ttl>, id: &[u8], payload: &[u8]) {
        let member = if grouped { &NIL.to_le_bytes()[..] } else { &[] };
        let times = ttl.map(Ttl::to_bytes);
        let times = times.as_ref().map_or(&[][..], |times| times);
        self.body = [member, times, id, payload].concat().into_boxed_slice();
        self.id_len = u32::try_from(id.len()).unwrap_or(u32::MAX);
        self.set_flag(GROUPED, grouped);
        self.set_flag(PASSING, ttl.is_some());
    }

    /// The same job with another payload and another TTL.
    pub fn renew_body(&mut self, ttl: Option<Ttl>, payload: &[u8]) {
        let (member, id) = (self.member(), Box::<[u8]>::from(self.id()));
        self.set_body(self.is(GROUPED), ttl, &id, payload);
        self.set_member(member);
    }

    pub fn ttl(&self) -> Option<Ttl> {
        if !self.is(PASSING) {
            return None;
        }
        self.body[self.member_len()..].first_chunk().map(|&times| Ttl::of_bytes(times))
    }

    /// Counts the TTL, if the job has one, from another due time.
    pub fn count_ttl_from(&mut self, due: Millis) {
        if let Some(ttl) = self.ttl() {
            self.set_ttl(Ttl::from(due, ttl.ttl));
        }
    }

    /// For a job with a TTL only.
    pub fn set_ttl(&mut self, ttl: Ttl) {
        let start = self.member_len();
        self.body[start..start + TTL_LEN].copy_from_slice(&ttl.to_bytes());
    }

    /// When the job is no longer worth doing. After the last lease of an occurrence has expired, that of the next one counts.
    pub fn expires(&self, now: Millis, settings: &Settings) -> Option<Millis> {
        let ttl = self.ttl()?;
        let next = self.has_missed(now).then(|| Ttl::from(self.back_at(settings), ttl.ttl));
        Some(next.unwrap_or(ttl).expires)
    }

    fn set_flag(&mut self, flag: u8, set: bool) {
        self.node.high[2] = self.node.high[2] & !flag | if set { flag } else { 0 };
    }

    /// When the job was pushed; 0: not known.
    pub fn created(&self) -> Millis {
        let [a, b, c] = self.node.high;
        u64::from(self.low) | u64::from(u32::from_le_bytes([a, b, c & !FLAGS, 0])) << 32
    }

    pub fn set_created(&mut self, created: Millis) {
        let [a, b, c, _] = ((created.min(super::MAX_TIME) >> 32) as u32).to_le_bytes();
        self.low = created as u32;
        self.node.high = [a, b, c | self.node.high[2] & FLAGS];
    }

    /// Whether the queue has a note on this job; see [`super::notes`].
    pub fn is_noted(&self) -> bool {
        self.node.high[2] & NOTED != 0
    }

    pub fn set_noted(&mut self, noted: bool) {
        self.set_flag(NOTED, noted);
    }

    /// Whether no further delivery is allowed.
    pub fn exhausted(&self) -> bool {
        self.is_exhausted_after(self.attempts)
    }

    pub fn is_exhausted_after(&self, attempts: u32) -> bool {
        self.max_attempts != 0 && attempts >= self.max_attempts
    }

    /// The tree a claimed job belongs to.
    pub fn claimed_tree(&self, settings: &Settings) -> TreeId {
        match (self.exhausted(), &self.recurrence) {
            (true, Some(_)) => TreeId::Recurring,
            (true, None) => TreeId::Spent,
            (false, _) if settings.backoff(self.attempts) > 0 => TreeId::Retrying,
            (false, _) => TreeId::Claimed,
        }
    }

    /// The tree where the job waits for `due`, if a command puts it there at `at`.
    pub fn due_tree(&self, due: Millis, at: Millis) -> TreeId {
        if due <= at { TreeId::Ready } else { self.delayed_tree(due) }
    }

    /// The same, when `due` lies ahead. A job with EVERY that has not begun its occurrence waits for that; else for a retry.
    pub fn delayed_tree(&self, due: Millis) -> TreeId {
        let is_occurrence = self.recurrence.as_ref().is_some_and(|recurrence| recurrence.anchor == due);
        if is_occurrence && self.attempts == 0 { TreeId::Upcoming } else { TreeId::Delayed }
    }

    pub fn state(&self, now: Millis, settings: &Settings) -> State {
        let past = self.node.time <= now;
        match (self.node.tree, past) {
            (TreeId::Ready, _) | (TreeId::Delayed | TreeId::Claimed | TreeId::Upcoming, true) => State::Ready,
            (TreeId::Delayed | TreeId::Upcoming, false) => State::Delayed,
            (TreeId::Claimed | TreeId::Spent | TreeId::Retrying | TreeId::Recurring, false) => State::Claimed,
            (TreeId::Retrying | TreeId::Recurring, true) if self.back_at(settings) <= now => State::Ready,
            (TreeId::Retrying | TreeId::Recurring, true) => State::Delayed,
            (TreeId::Spent, true) | (TreeId::Dead, _) => State::Dead,
        }
    }

    /// Whether the job is under a lease that has ended, and nothing has happened to it since.
    pub fn is_lapsed(&self, now: Millis) -> bool {
        CLAIMED.contains(&self.node.tree) && self.node.time <= now
    }

    /// Whether that was the last attempt of a job with EVERY: it waits for its next occurrence, or that has begun.
    pub fn has_missed(&self, now: Millis) -> bool {
        self.node.tree == TreeId::Recurring && self.node.time <= now
    }

    /// `extras`: what is noted of it. `again`: the payload of the push that waits behind it.
    pub fn view<'a>(
        &'a self,
        now: Millis,
        settings: &Settings,
        extras: Extras<'a>,
        group: &'a [u8],
        again: Option<&'a [u8]>,
    ) -> JobView<'a> {
        let time = |time: Millis| (time != 0).then_some(time);
        let state = self.state(now, settings);
        JobView {
            id: self.id(),
            group,
            payload: self.payload(),
            again,
            state,
            ttl: self.ttl().map(|ttl| ttl.ttl),
            expires: self.expires(now, settings).filter(|_| state != State::Dead),
            due: if self.is_lapsed(now) { self.back_at(settings) } else { self.node.time },
            priority: self.node.priority,
            attempts: if self.has_missed(now) { 0 } else { self.attempts },
            max_attempts: self.max_attempts,
            token: (self.token != 0).then_some(self.token),
            recurrence: self.recurrence.as_deref().copied(),
            created: time(self.created()),
            claimed: time(self.claimed(extras)),
            failed: time(if self.is_lapsed(now) { self.node.time } else { extras.failed }),
            worker: extras.worker,
            error: extras.error,
        }
    }

    /// When the job was last claimed; 0: never, as far as is known. The token holds the moment of its claim, unless the clock had
    /// stepped back or the claim was one of very many; then the note has it.
    pub fn claimed(&self, extras: Extras<'_>) -> Millis {
        if extras.claimed != 0 { extras.claimed } else { self.token / 1000 }
    }

    pub fn record<'a>(&'a self, extras: Extras<'a>, group: &'a [u8]) -> Record<'a> {
        Record {
            id: self.id(),
            group,
            payload: self.payload(),
            state: match self.node.tree {
                TreeId::Ready => State::Ready,
                TreeId::Delayed | TreeId::Upcoming => State::Delayed,
                TreeId::Claimed | TreeId::Spent | TreeId::Retrying | TreeId::Recurring => State::Claimed,
                TreeId::Dead => State::Dead,
            },
            time: self.node.time,
            priority: self.node.priority,
            seq: self.node.seq,
            token: self.token,
            attempts: self.attempts,
            max_attempts: self.max_attempts,
            recurrence: self.recurrence.as_deref().copied(),
            created: self.created(),
            ttl: self.ttl(),
            extras,
        }
    }
}

/// A job as GET and PEEK show it: what of a [`Record`] they show, as the clock has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct JobView<'a> {
    pub id: &'a [u8],
    pub group: &'a [u8],
    pub payload: &'a [u8],
    /// The payload of the push that waits behind it (AGAIN).
    pub again: Option<&'a [u8]>,
    pub state: State,
    pub ttl: Option<Millis>,
    /// When it expires; `None` without a TTL, and for a dead letter.
    pub expires: Option<Millis>,
    /// Ready and delayed: the due time. Claimed: the lease's deadline. Dead: when it died.
    pub due: Millis,
    pub priority: i32,
    pub attempts: u32,
    pub max_attempts: u32,
    pub token: Option<u64>,
    pub recurrence: Option<Recurrence>,
    pub created: Option<Millis>,
    pub claimed: Option<Millis>,
    pub failed: Option<Millis>,
    pub worker: &'a [u8],
    pub error: &'a [u8],
}

/// All there is to know about a job: what is serialised, and what an AOF rewrite restores.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record<'a> {
    /// Unique in the queue.
    pub id: &'a [u8],
    /// Empty: none.
    pub group: &'a [u8],
    /// As pushed.
    pub payload: &'a [u8],
    /// As the last effect left it, whatever the clock has made of it since: a job whose lease has ended is still claimed.
    pub state: State,
    /// By `state`: due time, lease deadline or moment of death.
    pub time: Millis,
    /// Lower is served first.
    pub priority: i32,
    /// Order of push; unique in the queue.
    pub seq: u64,
    /// 0: no token is good.
    pub token: u64,
    /// Deliveries so far.
    pub attempts: u32,
    /// Deliveries before the job is dead; 0: unlimited.
    pub max_attempts: u32,
    /// EVERY.
    pub recurrence: Option<Recurrence>,
    /// When it was pushed; 0: not known.
    pub created: Millis,
    /// TTL.
    pub ttl: Option<Ttl>,
    /// What most jobs do not have.
    pub extras: Extras<'a>,
}

impl<'a> Record<'a> {
    /// The numbers that a job may lack. A new one goes to the end.
    #[rustfmt::skip]
    pub const NUMBERS: [&'static str; 11] = [
        "token", "attempts", "max_attempts", "period", "anchor", "created", "claimed", "failed", "since", "ttl", "expires",
    ];

    /// A job of which nothing else is known.
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
            created: Record::created_by_default(id, state, time),
            ttl: None,
            extras: Extras::default(),
        }
    }

    /// When a job was pushed if nothing is stored about that: an id that the queue made up begins with it; otherwise, when it is due.
    fn created_by_default(id: &[u8], state: State, time: Millis) -> Millis {
        match (AutoId::parse(id), state) {
            (Some(auto), _) => auto.ms,
            (None, State::Ready | State::Delayed) => time,
            (None, _) => 0,
        }
    }

    /// Its [`NUMBERS`](Self::NUMBERS), where they differ from those of [`Record::new`].
    pub fn numbers(&self) -> [Option<u64>; Record::NUMBERS.len()] {
        let (period, anchor) = self.recurrence.map_or((0, 0), |recurrence| (recurrence.period, recurrence.anchor));
        let (ttl, expires) = self.ttl.map_or((0, 0), |ttl| (ttl.ttl, ttl.expires));
        let Extras { claimed, failed, since, .. } = self.extras;
        let created = Record::created_by_default(self.id, self.state, self.time);
        let some = |number: u64| (number != 0).then_some(number);
        [
            some(self.token),
            some(self.attempts.into()),
            some(self.max_attempts.into()),
            some(period),
            some(anchor),
            (self.created != created).then_some(self.created),
            some(claimed),
            some(failed),
            some(since),
            some(ttl),
            some(expires),
        ]
    }

    /// Sets one of the [`NUMBERS`](Self::NUMBERS); they come in their order. False if it is not possible.
    pub fn set_number(&mut self, at: usize, number: u64) -> bool {
        let small = u32::try_from(number).ok();
        match at {
            0 => self.token = number,
            1 => self.attempts = small.unwrap_or(0),
            2 => self.max_attempts = small.unwrap_or(0),
            3 => self.recurrence = Some(Recurrence { period: number, anchor: 0 }),
            4 => match &mut self.recurrence {
                Some(recurrence) => recurrence.anchor = number,
                None => return false,
            },
            5 => self.created = number,
            6 => self.extras.claimed = number,
            7 => self.extras.failed = number,
            8 => self.extras.since = number,
            9 => self.ttl = Some(Ttl { ttl: number, expires: 0 }),
            _ => match &mut self.ttl {
                Some(ttl) => ttl.expires = number,
                None => return false,
            },
        }
        !matches!(at, 1 | 2) || small.is_some()
    }
}
