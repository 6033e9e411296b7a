//! The data of a job, as in replies, in the stored form and in effects: [`JobData`] and its parts, and [`NewJob`].

use super::field::Field;
use super::ids::AutoId;
use super::node::State;
use super::{MAX_TIME, Millis};
use crate::base::time;

/// The recurrence of a job (EVERY): after an ACK, the job waits for its next run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Recurrence {
    /// The time between two occurrences in ms, 1 ..= [`MAX_TIME`].
    pub period: Millis,
    /// The planned time of the job's current run. PUSH, RESCHEDULE and ACK set this time, but retries do not change it.
    /// So a job that runs on the hour keeps running on the hour.
    pub anchor: Millis,
}

impl Recurrence {
    /// Returns the first occurrence that is after `now` and after the current occurrence.
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

/// The optional texts and times of a job. If absent, a time is 0, and a text is empty.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Extras<'a> {
    /// The time of the last claim. 0 if there was no claim, or if the token contains this time.
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

/// All data of a job. The stored form and AOF files contain the data after the job's latest change. GET and PEEK show
/// the data at the current time. They show, for example, that a lease has expired.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct JobData<'a> {
    pub id: &'a [u8],
    /// The name of the job's group. Empty if the job has no group.
    pub group: &'a [u8],
    pub payload: &'a [u8],
    /// In the stored form, a job with an expired lease remains `Claimed` until an effect changes its state.
    pub state: State,
    /// Depending on the state, the due time, the deadline, or the time at which the job became a dead letter.
    pub time: Millis,
    /// The priority: a lower number is served first.
    pub priority: i32,
    /// The push number, unique in the queue.
    pub seq: u64,
    /// The valid token of the job. 0: no token is valid.
    pub token: u64,
    pub attempts: u32,
    /// The maximum number of attempts. 0: unlimited.
    pub max_attempts: u32,
    pub recurrence: Option<Recurrence>,
    /// The time of the push. 0: unknown.
    pub created: Millis,
    pub ttl: Option<Ttl>,
    /// How long a claimed job waits after its lease expires. `None`: as long as the present settings say.
    pub backoff: Option<Millis>,
    pub extras: Extras<'a>,
}

impl<'a> JobData<'a> {
    /// The optional numbers. Each is stored only if it differs from the number in [`JobData::bare`].
    #[rustfmt::skip]
    pub const FIELDS: [Field<JobData<'a>>; 11] = [
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

    pub fn new(id: &'a [u8], payload: &'a [u8], state: State, time: Millis, priority: i32, seq: u64) -> JobData<'a> {
        JobData {
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
            backoff: None,
            extras: Extras::default(),
        }
    }

    /// Returns this data with the defaults of all optional parts. If the ID has the form of a generated ID, the default
    /// of `created` is the time in the ID. Otherwise, the default is the due time for a waiting job, and 0 for other
    /// jobs.
    pub fn bare(&self) -> JobData<'a> {
        let JobData { id, payload, state, time, priority, seq, .. } = *self;
        let created = match (AutoId::parse(id), state) {
            (Some(auto), _) => auto.ms,
            (None, State::Ready | State::Delayed) => time,
            (None, _) => 0,
        };
        JobData { created, ..JobData::new(id, payload, state, time, priority, seq) }
    }
}

/// A job that a push adds. Unlike the arguments of the push ([`Push`](super::Push)), it does not depend on settings, so
/// effects contain it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NewJob<'a> {
    pub id: &'a [u8],
    pub payload: &'a [u8],
    /// The name of the job's group. Empty if the job has no group.
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
    pub(super) fn job_data(&self, at: Millis, seq: u64) -> JobData<'_> {
        let NewJob { id, payload, group, due, priority, max_attempts, every, ttl } = *self;
        JobData {
            group,
            max_attempts,
            recurrence: every.map(|period| Recurrence { period, anchor: due }),
            created: at,
            ttl: ttl.map(|ttl| Ttl::from(due, ttl)),
            ..JobData::new(id, payload, State::Ready, due, priority, seq)
        }
    }
}
