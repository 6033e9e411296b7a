//! One job: the record in the slab, and the two ways it is shown to the outside.
//!
//! A job carries its own tree links (`Node`) and its own hash chain link, so being in a queue costs one slab slot and
//! one allocation (`body`: the id followed by the payload), whatever the number of orders it takes part in.

use super::Millis;

/// "No slot": the end of a chain, an empty tree.
pub(super) const NIL: u32 = u32::MAX;

/// Where a job stands: exactly one of five trees. This is canonical state; it changes by effects only, never because
/// time passes. What the clock makes of it is [`State`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Place {
    /// Ready because a command said so (a push that was due at once, a NACK without delay, REDRIVE). It stays ready
    /// when the clock steps back.
    Ready = 0,
    /// Waits for its due time.
    Scheduled = 1,
    /// Claimed with attempts left: when the lease ends it is due again.
    Leased = 2,
    /// Claimed for the last time: when the lease ends it is dead.
    Spent = 3,
    /// Dead by command.
    Dead = 4,
}

pub(super) const PLACES: usize = 5;

/// The state of a job as the clock sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum State {
    /// Due, and served as soon as CONCURRENCY, RATE and PAUSED allow.
    Ready,
    /// Its due time lies ahead.
    Delayed,
    /// Somebody holds a lease that has not ended.
    Claimed,
    /// Out of attempts, or buried by a NACK.
    Dead,
}

/// The part of a job the trees look at, kept together so that a step down a tree touches one spot of memory.
#[derive(Clone, Debug)]
pub(super) struct Node {
    /// Due time; lease deadline while claimed; moment of death when dead.
    pub time: Millis,
    /// Order of push; unique in the queue.
    pub seq: u64,
    pub priority: i32,
    pub left: u32,
    pub right: u32,
    /// Jobs in this subtree.
    pub size: u32,
    /// The job of this subtree that is served first.
    pub best: u32,
    pub place: Place,
}

/// What makes a job come back after ACK.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Recurrence {
    /// The distance of two occurrences, 1 ..= [`MAX_TIME`](super::MAX_TIME) ms.
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
        self.anchor.saturating_add(ahead).min(super::MAX_TIME)
    }
}

#[derive(Clone, Debug)]
pub(super) struct Job {
    pub node: Node,
    /// The id, then the payload.
    pub body: Box<[u8]>,
    pub id_len: usize,
    /// The token that is good for this job; 0: none.
    pub token: u64,
    pub recurrence: Option<Box<Recurrence>>,
    /// Deliveries so far.
    pub attempts: u32,
    /// Deliveries before the job is dead; 0: unlimited.
    pub max_attempts: u32,
    /// Hash of the id, and the next job in the same bucket (in a vacant slot: the next vacant one).
    pub hash: u32,
    pub next: u32,
}

impl Job {
    pub fn id(&self) -> &[u8] {
        &self.body[..self.id_len]
    }

    pub fn payload(&self) -> &[u8] {
        &self.body[self.id_len..]
    }

    /// Whether no further delivery is allowed.
    pub fn exhausted(&self) -> bool {
        self.max_attempts != 0 && self.attempts >= self.max_attempts
    }

    /// The tree a claimed job belongs to.
    pub fn claimed_place(&self) -> Place {
        if self.exhausted() { Place::Spent } else { Place::Leased }
    }

    pub fn state(&self, now: Millis) -> State {
        let past = self.node.time <= now;
        match (self.node.place, past) {
            (Place::Ready, _) | (Place::Scheduled | Place::Leased, true) => State::Ready,
            (Place::Scheduled, false) => State::Delayed,
            (Place::Leased | Place::Spent, false) => State::Claimed,
            (Place::Spent, true) | (Place::Dead, _) => State::Dead,
        }
    }

    pub fn view(&self, now: Millis) -> JobView<'_> {
        JobView {
            id: self.id(),
            payload: self.payload(),
            state: self.state(now),
            due: self.node.time,
            priority: self.node.priority,
            attempts: self.attempts,
            max_attempts: self.max_attempts,
            token: (self.token != 0).then_some(self.token),
            recurrence: self.recurrence.as_deref().copied(),
        }
    }

    pub fn record(&self) -> Record<'_> {
        Record {
            id: self.id(),
            payload: self.payload(),
            standing: match self.node.place {
                Place::Ready => Standing::Ready,
                Place::Scheduled => Standing::Scheduled,
                Place::Leased | Place::Spent => Standing::Claimed,
                Place::Dead => Standing::Dead,
            },
            time: self.node.time,
            priority: self.node.priority,
            seq: self.node.seq,
            token: self.token,
            attempts: self.attempts,
            max_attempts: self.max_attempts,
            recurrence: self.recurrence.as_deref().copied(),
        }
    }
}

/// A job as GET and PEEK show it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct JobView<'a> {
    /// The caller's, or generated.
    pub id: &'a [u8],
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
}

/// How a job stands in the canonical state; see [`Record`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// Ready whatever the clock says.
    Ready,
    /// Due at `time`.
    Scheduled,
    /// Under a lease that ends at `time`.
    Claimed,
    /// Dead since `time`.
    Dead,
}

/// All there is to know about a job: what is serialised, and what an AOF rewrite restores.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record<'a> {
    /// Unique in the queue.
    pub id: &'a [u8],
    /// As pushed.
    pub payload: &'a [u8],
    /// What `time` means.
    pub standing: Standing,
    /// Due time, lease deadline or moment of death.
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
}
