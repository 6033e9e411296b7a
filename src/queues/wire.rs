//! The encoding of effects for replicas and AOF files: `ZQ.APPLY key effects`, with all effects in one argument
//! ([`packed`](crate::base::packed)). The header is `at`, the time of the command in Unix milliseconds.
//!
//! An effect has the results of a command: IDs, tokens, absolute times. The public commands are not replicated, because
//! their arguments have no place for results.
//!
//! In this table, n is a number, s a byte string, ? a number that may be absent, and b a byte.
//!
//! | code | effect | contents |
//! |---|---|---|
//! | 0 | `PUSH` | b: 1 the queue has generated the ID, 2 AGAIN; new job |
//! | 1 | `CLAIM` | s id, n token, n deadline, s worker |
//! | 2 | `SETTLE` | |
//! | 3 | `ACK` | s id, ? due (of the next occurrence) |
//! | 4 | `RETRY` | s id, n due, b attempt, s error |
//! | 5 | `DEAD` | s id, b: 1 the attempt does not count, s error |
//! | 6 | `EXTEND` | s id, n deadline |
//! | 7 | `CANCEL` | s id |
//! | 8 | `MOVE` | s id, ? due, ? priority |
//! | 9 | `CLEAN` | s id |
//! | 10 | `DROP` | s id |
//! | 11 | `REVIVE` | s id |
//! | 12 | `REDRIVE` | n count, group |
//! | 13 | `CONFIGURE` | the fields [`Settings::FIELDS`] |
//! | 14 | `HOLD` | s group, n until (0: released) |
//! | 15 | `EXPIRE` | s id, ? due (of the next occurrence) |
//! | 16 | `FOLLOW` | s id |
//! | 17 | `FOLLOWER` | new job |
//! | 18 | `JOB` | s id, s payload, b state, n time, n priority, n push number, the fields [`JobData::FIELDS`], s worker, s error, s group; n backoff, unless the settings determine it |
//! | 19 | `UNITS` | group, n back at, n units |
//! | 20 | `TURN` | s group |
//! | 21 | `TOTALS` | n last token, n n last ID, n next push number, the fields [`Counters::FIELDS`] |
//! | 22 | `DECLARE` | b: 1 the push has AT or DELAY; new job |
//! | 23 | `DECLARATION` | b: 1 the push has AT or DELAY; new job |
//! | 24 | `PROGRESS` | s id, s text |
//! | 25 | `PROGRESSED` | s id, s text, n time |
//!
//! A new job is: s id, s payload, n due, n priority, n attempts, ? every, s group, ? ttl. A priority is a zigzag
//! number. An attempt is 0 if it counts, 1 if not, and 2 if the job waits for its next occurrence. In `REDRIVE` and
//! `UNITS`, the group may be absent: it is the byte 0, or the byte 1 and then s group. Fields are a bit mask, and the
//! numbers whose bits are set, as in the stored form. Only rewritten AOF files contain `FOLLOWER`, `JOB`, `UNITS`,
//! `TURN`, `TOTALS`, `DECLARATION` and `PROGRESSED`.

use crate::base::packed::{Packer, Unpacker, Unreadable, codes, unzigzag, zigzag};
use crate::base::stream::DecodeError;
use crate::base::time::Millis;
use crate::queues::model::{
    Attempt, AutoId, Change, Counters, Effect, Extras, JobChange, JobData, NewJob, Settings, State, Taken, Totals,
    field,
};
use smallvec::SmallVec;
use std::ffi::CStr;

pub const APPLY: &CStr = c"ZQ.APPLY";

/// The keyspace event for jobs that became dead letters.
pub const DEAD_EVENT: &CStr = c"zq.dead";

codes! {
    PUSH = 0,
    CLAIM = 1,
    SETTLE = 2,
    ACK = 3,
    RETRY = 4,
    DEAD = 5,
    EXTEND = 6,
    CANCEL = 7,
    MOVE = 8,
    CLEAN = 9,
    DROP = 10,
    REVIVE = 11,
    REDRIVE = 12,
    CONFIGURE = 13,
    HOLD = 14,
    EXPIRE = 15,
    FOLLOW = 16,
    FOLLOWER = 17,
    JOB = 18,
    UNITS = 19,
    TURN = 20,
    TOTALS = 21,
    DECLARE = 22,
    DECLARATION = 23,
    PROGRESS = 24,
    PROGRESSED = 25,
}

/// A flag of the effect `PUSH`: the queue has generated the job's ID.
const PUSH_GENERATED: u8 = 1;
const PUSH_AGAIN: u8 = 2;

const ATTEMPTS: [Attempt; 3] = [Attempt::Counts, Attempt::Free, Attempt::Last];

/// Returns the code of an effect, and the keyspace event that it has, if any.
fn code_of(change: &Change<'_>) -> (u8, Option<&'static CStr>) {
    match change {
        Change::Push { .. } => (PUSH, Some(c"zq.push")),
        Change::Declare { .. } => (DECLARE, Some(c"zq.push")),
        Change::Job { change, .. } => match change {
            JobChange::Claim { .. } => (CLAIM, Some(c"zq.claim")),
            JobChange::Ack { .. } => (ACK, Some(c"zq.ack")),
            JobChange::Retry { .. } => (RETRY, Some(c"zq.nack")),
            JobChange::Dead { .. } => (DEAD, Some(DEAD_EVENT)),
            JobChange::Extend { .. } => (EXTEND, Some(c"zq.extend")),
            JobChange::Cancel => (CANCEL, Some(c"zq.cancel")),
            JobChange::Reschedule { .. } => (MOVE, Some(c"zq.reschedule")),
            JobChange::Clean => (CLEAN, Some(c"zq.clean")),
            JobChange::Drop => (DROP, None),
            JobChange::Expire { .. } => (EXPIRE, Some(c"zq.expired")),
            JobChange::Follow => (FOLLOW, None),
            JobChange::Revive => (REVIVE, Some(c"zq.redrive")),
            JobChange::Progress { .. } => (PROGRESS, Some(c"zq.progress")),
        },
        Change::SettleRates => (SETTLE, None),
        Change::Redrive { .. } => (REDRIVE, Some(c"zq.redrive")),
        Change::Hold { .. } => (HOLD, Some(c"zq.hold")),
        Change::Configure(_) => (CONFIGURE, Some(c"zq.config")),
        Change::RestoreJob(_) => (JOB, None),
        Change::RestoreFollower(_) => (FOLLOWER, None),
        Change::RestoreDeclaration { .. } => (DECLARATION, None),
        Change::RestoreProgress { .. } => (PROGRESSED, None),
        Change::RestoreUnits { .. } => (UNITS, None),
        Change::RestoreTurn { .. } => (TURN, None),
        Change::RestoreTotals(_) => (TOTALS, None),
    }
}

/// Returns the name of an effect, for the log.
pub fn name_of(effect: &Effect<'_>) -> &'static str {
    name(code_of(&effect.change).0).expect("each code has a name")
}

/// Encoded effects with the same time. They form the argument of one ZQ.APPLY.
#[derive(Default)]
pub struct EncodedEffects {
    packed: Packer,
    effects: usize,
    happened: SmallVec<[&'static CStr; 2]>,
}

impl EncodedEffects {
    pub fn effects(&self) -> usize {
        self.effects
    }

    pub fn happened(&self) -> &[&'static CStr] {
        &self.happened
    }

    /// Returns the encoded effects, which are the argument of ZQ.APPLY after the key.
    pub fn bytes(&self) -> &[u8] {
        self.packed.bytes()
    }

    /// Adds an effect. All added effects must have the same time (`at`).
    pub fn add(&mut self, effect: &Effect<'_>) {
        if self.packed.begin() {
            self.packed.number(effect.at);
        }
        self.effects += 1;
        let (code, event) = code_of(&effect.change);
        if let Some(event) = event.filter(|event| !self.happened.contains(event)) {
            self.happened.push(event);
        }
        self.packed.effect(code, |to| write(&effect.change, to));
    }
}

fn write(change: &Change<'_>, to: &mut Packer) {
    match *change {
        Change::Push { job, generated, again } => {
            to.byte(if generated { PUSH_GENERATED } else { 0 } | if again { PUSH_AGAIN } else { 0 });
            write_new_job(&job, to);
        }
        Change::Declare { job, is_timed } | Change::RestoreDeclaration { job, is_timed } => {
            write_new_job(&job, to.byte(is_timed.into()));
        }
        Change::Job { id, change } => write_job_change(change, to.text(id)),
        Change::SettleRates => {}
        Change::Redrive { count, group } => write_group(group, to.number(count)),
        Change::Hold { group, until } => {
            to.text(group).number(until);
        }
        Change::Configure(settings) => field::write_fields(Settings::FIELDS, &settings, to),
        Change::RestoreJob(job) => write_job(&job, to),
        Change::RestoreFollower(job) => write_new_job(&job, to),
        Change::RestoreProgress { id, text, at } => {
            to.text(id).text(text).number(at);
        }
        Change::RestoreUnits { group, taken: Taken { back_at, units } } => {
            write_group(group, to);
            to.number(back_at).number(units);
        }
        Change::RestoreTurn { group } => {
            to.text(group);
        }
        Change::RestoreTotals(Totals { last_token, last_id, next_seq, counters }) => {
            to.number(last_token).number(last_id.ms).number(last_id.seq).number(next_seq);
            field::write_fields(Counters::FIELDS, &counters, to);
        }
    }
}

/// Writes the fields of a change that come after the job's ID.
fn write_job_change(change: JobChange<'_>, to: &mut Packer) {
    match change {
        JobChange::Claim { token, deadline, worker } => to.number(token).number(deadline).text(worker),
        JobChange::Ack { next_due } | JobChange::Expire { next_due } => to.option(next_due),
        JobChange::Retry { due, attempt, error } => to.number(due).byte(attempt as u8).text(error),
        JobChange::Dead { is_free, error } => to.byte(is_free.into()).text(error),
        JobChange::Extend { deadline } => to.number(deadline),
        JobChange::Progress { text } => to.text(text),
        JobChange::Reschedule { due, priority } => {
            to.option(due).option(priority.map(|priority| zigzag(priority.into())))
        }
        JobChange::Cancel | JobChange::Clean | JobChange::Drop | JobChange::Follow | JobChange::Revive => to,
    };
}

fn write_new_job(job: &NewJob<'_>, to: &mut Packer) {
    let NewJob { id, payload, group, due, priority, max_attempts, every, ttl } = *job;
    to.text(id).text(payload).number(due).number(zigzag(priority.into())).number(max_attempts.into());
    to.option(every).text(group).option(ttl);
}

fn write_job(job: &JobData<'_>, to: &mut Packer) {
    let Extras { worker, error, .. } = job.extras;
    to.text(job.id).text(job.payload).byte(job.state as u8);
    to.number(job.time).number(zigzag(job.priority.into())).number(job.seq);
    field::write_changed(&JobData::FIELDS, job, &job.bare(), to);
    to.text(worker).text(error).text(job.group);
    if let Some(backoff) = job.backoff {
        to.number(backoff);
    }
}

fn write_group(group: Option<&[u8]>, to: &mut Packer) {
    match group {
        Some(group) => to.byte(1).text(group),
        None => to.byte(0),
    };
}

/// Decodes the argument of [`APPLY`] after the key: the time, and one or more effects.
pub fn decode(argument: &[u8]) -> Result<(Millis, Vec<Effect<'_>>), Unreadable> {
    let of_all = |why| Unreadable::new("effects", why);
    let mut from = Unpacker::begin(argument).map_err(of_all)?;
    let at = from.number().map_err(of_all)?;
    let effects = from.effects(name, |code, from| Ok(Effect { at, change: read(code, from)? }))?;
    if effects.is_empty() { Err(of_all(DecodeError::Truncated)) } else { Ok((at, effects)) }
}

fn read<'a>(code: u8, from: &mut Unpacker<'a>) -> Result<Change<'a>, DecodeError> {
    Ok(match code {
        PUSH => {
            let flags = from.byte()?;
            field::ensure(flags <= PUSH_GENERATED | PUSH_AGAIN, "unknown flag")?;
            let [generated, again] = [PUSH_GENERATED, PUSH_AGAIN].map(|flag| flags & flag != 0);
            Change::Push { job: read_new_job(from)?, generated, again }
        }
        DECLARE => Change::Declare { is_timed: from.flag()?, job: read_new_job(from)? },
        DECLARATION => Change::RestoreDeclaration { is_timed: from.flag()?, job: read_new_job(from)? },
        PROGRESSED => Change::RestoreProgress { id: from.text()?, text: from.text()?, at: from.number()? },
        SETTLE => Change::SettleRates,
        REDRIVE => Change::Redrive { count: from.number()?, group: read_group(from)? },
        HOLD => Change::Hold { group: from.text()?, until: from.number()? },
        CONFIGURE => Change::Configure(field::read_fields(Settings::FIELDS, from)?),
        JOB => Change::RestoreJob(read_job(from)?),
        FOLLOWER => Change::RestoreFollower(read_new_job(from)?),
        UNITS => {
            let group = read_group(from)?;
            Change::RestoreUnits { group, taken: Taken { back_at: from.number()?, units: from.number()? } }
        }
        TURN => Change::RestoreTurn { group: from.text()? },
        TOTALS => Change::RestoreTotals(Totals {
            last_token: from.number()?,
            last_id: AutoId { ms: from.number()?, seq: from.number()? },
            next_seq: from.number()?,
            counters: field::read_fields(Counters::FIELDS, from)?,
        }),
        _ => Change::Job { id: from.text()?, change: read_job_change(code, from)? },
    })
}

fn read_job_change<'a>(code: u8, from: &mut Unpacker<'a>) -> Result<JobChange<'a>, DecodeError> {
    Ok(match code {
        CLAIM => JobChange::Claim { token: from.number()?, deadline: from.number()?, worker: from.text()? },
        ACK => JobChange::Ack { next_due: from.option()? },
        RETRY => JobChange::Retry {
            due: from.number()?,
            attempt: *ATTEMPTS.get(usize::from(from.byte()?)).ok_or(DecodeError::Invalid("unknown attempt"))?,
            error: from.text()?,
        },
        DEAD => JobChange::Dead { is_free: from.flag()?, error: from.text()? },
        EXTEND => JobChange::Extend { deadline: from.number()? },
        CANCEL => JobChange::Cancel,
        MOVE => JobChange::Reschedule { due: from.option()?, priority: from.option()?.map(priority).transpose()? },
        CLEAN => JobChange::Clean,
        DROP => JobChange::Drop,
        REVIVE => JobChange::Revive,
        EXPIRE => JobChange::Expire { next_due: from.option()? },
        FOLLOW => JobChange::Follow,
        PROGRESS => JobChange::Progress { text: from.text()? },
        _ => return Err(crate::base::packed::UNKNOWN),
    })
}

fn read_new_job<'a>(from: &mut Unpacker<'a>) -> Result<NewJob<'a>, DecodeError> {
    Ok(NewJob {
        id: from.text()?,
        payload: from.text()?,
        due: from.number()?,
        priority: priority(from.number()?)?,
        max_attempts: from.small()?,
        every: from.option()?,
        group: from.text()?,
        ttl: from.option()?,
    })
}

fn read_job<'a>(from: &mut Unpacker<'a>) -> Result<JobData<'a>, DecodeError> {
    let (id, payload) = (from.text()?, from.text()?);
    let state = *State::ALL.get(usize::from(from.byte()?)).ok_or(DecodeError::Invalid("unknown state"))?;
    let (time, priority, seq) = (from.number()?, priority(from.number()?)?, from.number()?);
    let mut job = JobData::new(id, payload, state, time, priority, seq).bare();
    field::read_changed(&JobData::FIELDS, &mut job, from)?;
    (job.extras.worker, job.extras.error, job.group) = (from.text()?, from.text()?, from.text()?);
    job.backoff = if from.is_empty() { None } else { Some(from.number()?) };
    Ok(job)
}

fn read_group<'a>(from: &mut Unpacker<'a>) -> Result<Option<&'a [u8]>, DecodeError> {
    if from.flag()? { from.text().map(Some) } else { Ok(None) }
}

fn priority(number: u64) -> Result<i32, DecodeError> {
    i32::try_from(unzigzag(number)).map_err(|_| DecodeError::Invalid("priority out of range"))
}

#[cfg(test)]
pub mod tests;
