//! Tests of the queue: examples of the contract, random histories that are compared with a simple model, and forged
//! bytes.

mod again;
mod check;
mod clean;
mod contract;
mod contract_settings;
mod contract_tokens;
mod declare;
mod format;
mod groups;
mod holds;
mod hostile;
mod ids;
mod model;
mod pairs;
mod progress;
mod random;
mod relocation;
mod scale;
mod ttl;

use super::stats::Stats;
use super::{Change, Claimed, Effect, JobChange, NackOptions, Push, Queue, Settings, State};
use crate::base::stream::{DecodeError, Reader, Writer};

/// A queue and its replica. The replica gets only effects.
pub(super) struct Pair {
    pub primary: Queue,
    pub replica: Queue,
}

/// A copy of a claimed job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Got {
    pub id: Vec<u8>,
    pub payload: Vec<u8>,
    pub token: u64,
    pub attempt: u32,
    pub deadline: u64,
}

impl From<&Claimed<'_>> for Got {
    fn from(job: &Claimed<'_>) -> Self {
        Self {
            id: job.id.to_vec(),
            payload: job.payload.to_vec(),
            token: job.token,
            attempt: job.attempt,
            deadline: job.deadline,
        }
    }
}

fn replicate(replica: &mut Queue, effect: Option<Effect<'_>>) -> bool {
    if let Some(effect) = &effect {
        assert!(replica.apply(effect), "{effect:?} applies");
    }
    effect.is_some()
}

impl Pair {
    pub fn new() -> Self {
        Self { primary: Queue::new(), replica: Queue::new() }
    }

    pub fn configured(change: impl FnOnce(&mut Settings)) -> Self {
        let mut pair = Self::new();
        pair.configure(0, change);
        pair
    }

    pub fn configure(&mut self, now: u64, change: impl FnOnce(&mut Settings)) -> bool {
        let mut settings = *self.primary.settings();
        change(&mut settings);
        let effect = self.primary.configure(now, settings);
        replicate(&mut self.replica, effect)
    }

    /// Pushes a job. Returns its ID, or `None` if a job with this ID was in the queue.
    pub fn push(&mut self, now: u64, push: &Push<'_>) -> Option<Vec<u8>> {
        self.drop_if_expired(now, push).expect("there is room");
        let effect = self.primary.push(now, push).expect("there is room");
        let id = effect.map(|effect| effect.id().expect("a push has an id").to_vec());
        replicate(&mut self.replica, effect);
        id
    }

    /// If the queue has an expired job with the push's ID, drops this job. Commands do this before a push.
    pub fn drop_if_expired(&mut self, now: u64, push: &Push<'_>) -> Result<(), super::Full> {
        let Pair { primary, replica } = self;
        primary.drop_if_expired(now, push.id.unwrap_or_default(), |effect| assert!(replica.apply(effect)))
    }

    /// Pushes a job with an ID, due at `due`.
    pub fn job(&mut self, now: u64, id: &str, due: u64) {
        self.job_with(now, id, due, |_| {});
    }

    pub fn job_with(&mut self, now: u64, id: &str, due: u64, more: impl FnOnce(&mut Push<'_>)) {
        let mut push = Push { payload: b"payload", id: Some(id.as_bytes()), due, ..Push::default() };
        more(&mut push);
        assert_eq!(self.push(now, &push).as_deref(), Some(id.as_bytes()));
    }

    pub fn claim(&mut self, now: u64, deadline: u64, count: u64) -> Vec<Got> {
        self.claim_as(now, deadline, count, "")
    }

    pub fn claim_as(&mut self, now: u64, deadline: u64, count: u64, worker: &str) -> Vec<Got> {
        let Pair { primary, replica } = self;
        let sink = |effect: &Effect<'_>| assert!(replica.apply(effect), "{effect:?} applies");
        let jobs = primary.claim(now.saturating_mul(1000), deadline, count, worker.as_bytes(), sink);
        jobs.iter().map(Got::from).collect()
    }

    /// Declares a recurring job. Returns whether this changed something.
    pub fn declare(&mut self, now: u64, is_timed: bool, push: &Push<'_>) -> bool {
        self.drop_if_expired(now, push).expect("there is room");
        let effect = self.primary.declare(now, push, is_timed).expect("there is room");
        replicate(&mut self.replica, effect)
    }

    /// Stores the text of PROGRESS. Returns whether the token is valid.
    pub fn progress(&mut self, now: u64, id: &str, token: u64, text: &str) -> bool {
        let effect = self.primary.progress(now, id.as_bytes(), token, text.as_bytes());
        replicate(&mut self.replica, effect.flatten());
        effect.is_some()
    }

    /// Runs the upkeep.
    pub fn keep_up(&mut self, now: u64) {
        let Self { primary, replica } = self;
        primary.run_upkeep(now, |effect| assert!(replica.apply(effect)));
    }

    /// Claims one job. Returns its token.
    pub fn take(&mut self, now: u64, deadline: u64, id: &str) -> u64 {
        let got = self.claim(now, deadline, 1);
        assert_eq!(got.len(), 1, "a job is claimable");
        assert_eq!(got[0].id, id.as_bytes());
        got[0].token
    }

    pub fn ack(&mut self, now: u64, id: &str, token: u64) -> bool {
        let effect = self.primary.ack(now, id.as_bytes(), token);
        replicate(&mut self.replica, effect)
    }

    /// NACKs a job. Returns `None` if the token is not valid, `Some(None)` if the job becomes a dead letter, and
    /// otherwise the new due time.
    pub fn nack(&mut self, now: u64, id: &str, token: u64, fate: super::Fate) -> Option<Option<u64>> {
        self.nack_with(now, id, token, fate, NackOptions::default())
    }

    pub fn nack_with(
        &mut self,
        now: u64,
        id: &str,
        token: u64,
        fate: super::Fate,
        options: NackOptions<'_>,
    ) -> Option<Option<u64>> {
        let given = self.primary.nack(now, id.as_bytes(), token, fate, options);
        replicate(&mut self.replica, given);
        given.map(|effect| match effect.change {
            Change::Job { change: JobChange::Retry { due, .. }, .. } => Some(due),
            _ => None,
        })
    }

    pub fn extend(&mut self, now: u64, id: &str, token: u64, deadline: u64) -> bool {
        let effect = self.primary.extend(now, id.as_bytes(), token, deadline);
        replicate(&mut self.replica, effect.flatten());
        effect.is_some()
    }

    pub fn cancel(&mut self, now: u64, id: &str) -> bool {
        let effect = self.primary.cancel(now, id.as_bytes());
        replicate(&mut self.replica, effect)
    }

    pub fn reschedule(&mut self, now: u64, id: &str, due: Option<u64>, priority: Option<i32>) -> bool {
        let effect = self.primary.reschedule(now, id.as_bytes(), due, priority);
        replicate(&mut self.replica, effect.flatten());
        effect.is_some()
    }

    pub fn redrive(&mut self, now: u64, count: u64) -> bool {
        let effect = self.primary.redrive(now, None, count);
        replicate(&mut self.replica, effect)
    }

    pub fn hold(&mut self, now: u64, group: &str, until: u64) -> bool {
        let effect = self.primary.hold(now, group.as_bytes(), until);
        replicate(&mut self.replica, effect.flatten());
        effect.is_some()
    }

    pub fn state(&self, now: u64, id: &str) -> Option<State> {
        self.primary.get(now, id.as_bytes()).map(|job| job.state)
    }

    pub fn expires(&self, now: u64, id: &str) -> Option<u64> {
        let ttl = self.primary.get(now, id.as_bytes()).expect("a job").ttl;
        ttl.map(|ttl| ttl.expires).filter(|&expires| expires != 0)
    }

    pub fn ids(&self, now: u64, state: State) -> Vec<String> {
        let jobs = self.primary.peek(now, state.into());
        jobs.map(|job| String::from_utf8_lossy(job.id).into_owned()).collect()
    }

    /// Returns the numbers of ready, delayed, claimed and dead jobs.
    pub fn counts(&self, now: u64) -> [u64; 4] {
        let stats = self.primary.stats(now);
        [stats.ready, stats.delayed, stats.claimed, stats.dead]
    }

    /// Checks the invariants of both queues. Checks that the replica, a loaded RDB file and a loaded AOF file are equal
    /// to the primary.
    pub fn check(&self) {
        self.primary.check();
        self.replica.check();
        let bytes = encoded(&self.primary);
        assert_eq!(bytes, encoded(&self.replica), "the replica agrees");
        assert_eq!(bytes, encoded(&decoded(&bytes)), "what is saved is loaded");
        assert_eq!(bytes, encoded(&rebuilt(&self.primary)), "an AOF rebuilds it");
    }
}

impl Drop for Pair {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            self.check();
        }
    }
}

/// Checks the two equations of ZQ.STATS: one for jobs, one for claims.
pub(super) fn assert_sums(stats: &Stats) {
    let t = &stats.totals;
    let here = stats.ready + stats.delayed + stats.claimed + stats.dead;
    assert_eq!(t.pushed + t.recurred, here + t.replaced + t.acked + t.cancelled + t.cleaned + t.dropped + t.expired);
    assert_eq!(t.claimed + t.late, stats.claimed + t.acked + t.nacked + t.expired_leases + t.revoked);
}

pub(super) fn encoded(queue: &Queue) -> Vec<u8> {
    let mut bytes = Vec::new();
    queue.encode(&mut bytes);
    bytes
}

pub(super) fn decoded(bytes: &[u8]) -> Queue {
    let mut reader = ByteReader(bytes);
    let queue = Queue::decode(&mut reader).expect("what was encoded decodes");
    assert!(reader.number().is_err(), "and to the last byte");
    queue.check();
    queue
}

pub(super) fn rebuilt(queue: &Queue) -> Queue {
    let mut new = Queue::new();
    for effect in queue.rebuild() {
        assert!(new.apply(&effect), "{effect:?} applies");
    }
    new.check();
    new
}

/// Writes plain bytes: a number as LEB128, a byte string after its length.
impl Writer for Vec<u8> {
    fn number(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.push(value as u8);
    }

    fn bytes(&mut self, bytes: &[u8]) {
        self.number(bytes.len() as u64);
        self.extend_from_slice(bytes);
    }
}

/// Reads the numbers and byte strings that were written to a `Vec<u8>`.
#[derive(Clone, Copy, Debug)]
pub struct ByteReader<'a>(pub &'a [u8]);

impl<'a> Reader for ByteReader<'a> {
    type Bytes = &'a [u8];

    fn number(&mut self) -> Result<u64, DecodeError> {
        let mut value = 0;
        for shift in (0..64).step_by(7) {
            let (&byte, rest) = self.0.split_first().ok_or(DecodeError::Truncated)?;
            self.0 = rest;
            let bits = u64::from(byte & 0x7f);
            if bits << shift >> shift != bits {
                return Err(DecodeError::Truncated);
            }
            value |= bits << shift;
            if byte < 0x80 {
                return Ok(value);
            }
        }
        Err(DecodeError::Truncated)
    }

    fn bytes(&mut self) -> Result<&'a [u8], DecodeError> {
        let len = usize::try_from(self.number()?).map_err(|_| DecodeError::Truncated)?;
        let (bytes, rest) = self.0.split_at_checked(len).ok_or(DecodeError::Truncated)?;
        self.0 = rest;
        Ok(bytes)
    }
}
