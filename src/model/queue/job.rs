//! One job: the record in the slab, and the two ways it is shown to the outside.
//!
//! A job carries its own tree links (`Node`) and its own hash chain link, so being in a queue costs one slab slot and
//! one allocation (`body`: the id followed by the payload), whatever the number of orders it takes part in.

use super::ids::AutoId;
use super::index::{Chain, Chained};
use super::node::{CLAIMED, Node, Tree};
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

/// In the last byte of [`Node::high`]: there is a note. Times do not reach the upper three bits of that byte.
const NOTED: u8 = 0x80;
/// There, too: the job has a group.
const GROUPED: u8 = 0x40;
/// There, too: it is in a tree of returns.
const RETURNING: u8 = 0x20;
const FLAGS: u8 = NOTED | GROUPED | RETURNING;

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
    pub node: Node,
    /// The number of its [`member`](Job::member) if it has a group, the id, the payload.
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
    pub chain: Chain,
}

impl Item for Job {
    fn node(&self) -> &Node {
        &self.node
    }

    fn node_mut(&mut self) -> &mut Node {
        &mut self.node
    }

    fn is_served(&self) -> bool {
        self.node.tree.is_served()
    }
}

impl Chained for Job {
    fn id(&self) -> &[u8] {
        Job::id(self)
    }

    fn chain(&self) -> Chain {
        self.chain
    }

    fn chain_mut(&mut self) -> &mut Chain {
        &mut self.chain
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

    /// What stands in the body in front of the id.
    fn prefix(&self) -> usize {
        if self.node.high[2] & GROUPED == 0 { 0 } else { size_of::<u32>() }
    }

    /// Its place among the jobs with a group; `NIL`: it has no group, or none yet.
    pub fn member(&self) -> u32 {
        match self.body.first_chunk() {
            Some(&number) if self.prefix() > 0 => u32::from_le_bytes(number),
            _ => NIL,
        }
    }

    /// For a job with a group only.
    pub fn set_member(&mut self, member: u32) {
        let prefix = self.prefix();
        self.body[..prefix].copy_from_slice(&member.to_le_bytes()[..prefix]);
    }

    /// To be called when the body is made.
    pub fn set_grouped(&mut self, grouped: bool) {
        self.set_flag(GROUPED, grouped);
    }

    fn set_flag(&mut self, flag: u8, set: bool) {
        self.node.high[2] = self.node.high[2] & !flag | if set { flag } else { 0 };
    }

    /// When the job was pushed; 0: a queue of format 1 does not tell.
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

    /// Whether the job is in a tree of [returns](super::returns).
    pub fn is_returning(&self) -> bool {
        self.node.high[2] & RETURNING != 0
    }

    pub fn set_returning(&mut self, returning: bool) {
        self.set_flag(RETURNING, returning);
    }

    /// Whether no further delivery is allowed.
    pub fn exhausted(&self) -> bool {
        self.is_exhausted_after(self.attempts)
    }

    pub fn is_exhausted_after(&self, attempts: u32) -> bool {
        self.max_attempts != 0 && attempts >= self.max_attempts
    }

    /// The tree a claimed job belongs to.
    pub fn claimed_tree(&self, settings: &Settings) -> Tree {
        match (self.exhausted(), &self.recurrence) {
            (true, Some(_)) => Tree::Recurring,
            (true, None) => Tree::Spent,
            (false, _) if settings.backoff(self.attempts) > 0 => Tree::Retrying,
            (false, _) => Tree::Leased,
        }
    }

    /// The tree where the job waits for `due`, if a command puts it there at `at`.
    pub fn due_tree(&self, due: Millis, at: Millis) -> Tree {
        if due <= at { Tree::Ready } else { self.delayed_tree(due) }
    }

    /// The same, when `due` lies ahead. A job with EVERY that has not begun its occurrence waits for that; else for a retry.
    pub fn delayed_tree(&self, due: Millis) -> Tree {
        let is_occurrence = self.recurrence.as_ref().is_some_and(|recurrence| recurrence.anchor == due);
        if is_occurrence && self.attempts == 0 { Tree::Upcoming } else { Tree::Scheduled }
    }

    pub fn state(&self, now: Millis, settings: &Settings) -> State {
        let past = self.node.time <= now;
        match (self.node.tree, past) {
            (Tree::Ready, _) | (Tree::Scheduled | Tree::Leased | Tree::Upcoming, true) => State::Ready,
            (Tree::Scheduled | Tree::Upcoming, false) => State::Delayed,
            (Tree::Leased | Tree::Spent | Tree::Retrying | Tree::Recurring, false) => State::Claimed,
            (Tree::Retrying | Tree::Recurring, true) if self.back_at(settings) <= now => State::Ready,
            (Tree::Retrying | Tree::Recurring, true) => State::Delayed,
            (Tree::Spent, true) | (Tree::Dead, _) => State::Dead,
        }
    }

    /// Whether the job is under a lease that has ended, and nothing has happened to it since.
    pub fn is_lapsed(&self, now: Millis) -> bool {
        CLAIMED.contains(&self.node.tree) && self.node.time <= now
    }

    /// Whether that was the last attempt of a job with EVERY: it waits for its next occurrence, or that has begun.
    pub fn has_missed(&self, now: Millis) -> bool {
        self.node.tree == Tree::Recurring && self.node.time <= now
    }

    /// `extras`: what is noted of it.
    pub fn view<'a>(&'a self, now: Millis, settings: &Settings, extras: Extras<'a>, group: &'a [u8]) -> JobView<'a> {
        let time = |time: Millis| (time != 0).then_some(time);
        JobView {
            id: self.id(),
            group,
            payload: self.payload(),
            state: self.state(now, settings),
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
                Tree::Ready => State::Ready,
                Tree::Scheduled | Tree::Upcoming => State::Delayed,
                Tree::Leased | Tree::Spent | Tree::Retrying | Tree::Recurring => State::Claimed,
                Tree::Dead => State::Dead,
            },
            time: self.node.time,
            priority: self.node.priority,
            seq: self.node.seq,
            token: self.token,
            attempts: self.attempts,
            max_attempts: self.max_attempts,
            recurrence: self.recurrence.as_deref().copied(),
            created: self.created(),
            extras,
        }
    }
}

/// A job as GET and PEEK show it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct JobView<'a> {
    /// The caller's, or generated.
    pub id: &'a [u8],
    /// Empty: none.
    pub group: &'a [u8],
    /// As pushed.
    pub payload: &'a [u8],
    /// By the clock.
    pub state: State,
    /// Ready and delayed: the due time. Claimed: the lease's deadline. Dead: when it died.
    pub due: Millis,
    /// Lower is served first.
    pub priority: i32,
    /// Deliveries so far.
    pub attempts: u32,
    /// Deliveries before the job is dead; 0: unlimited.
    pub max_attempts: u32,
    /// The token that is still good, if any.
    pub token: Option<u64>,
    /// EVERY.
    pub recurrence: Option<Recurrence>,
    /// When it was pushed; `None`: not known.
    pub created: Option<Millis>,
    /// When it was last claimed.
    pub claimed: Option<Millis>,
    /// When it last failed: was given back, or its lease ended.
    pub failed: Option<Millis>,
    /// The worker that claimed it last; empty if there is none, or if it gave no name.
    pub worker: &'a [u8],
    /// The last error text that was given; empty: none.
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
    /// What most jobs do not have.
    pub extras: Extras<'a>,
}

impl Record<'_> {
    /// What an id alone tells of when its job was pushed: those that the queue made up begin with it. 0: nothing.
    pub fn created_by_id(id: &[u8]) -> Millis {
        AutoId::parse(id).map_or(0, |auto| auto.ms)
    }

    /// When a job was pushed of which nothing is stored about that: by its id, or, if it waits, when it is due.
    pub(super) fn created_by_default(id: &[u8], state: State, time: Millis) -> Millis {
        match (Record::created_by_id(id), state) {
            (0, State::Ready | State::Delayed) => time,
            (by_id, _) => by_id,
        }
    }
}
