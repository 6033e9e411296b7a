//! The encoding of effects for replicas and AOF files: `ZQ.APPLY key at effect [effect ...]`.
//!
//! An effect has the results of a command: IDs, tokens, absolute times. The public commands are not replicated, because
//! their arguments have no place for results. `at` is the time of the command.
//!
//! An effect consists of a name in capitals, its arguments, and its options in the order of the table. An option is a
//! name in lower case and a value. A flag is an option without a value. Unless the table says otherwise, an option
//! with the value 0 or an empty string is omitted.
//!
//! | effect | arguments | options |
//! |---|---|---|
//! | `PUSH`, `PUSHAUTO` | id payload due priority attempts every (0: once) | group, ttl, again (flag) |
//! | `CLAIM` | id token deadline | worker |
//! | `SETTLE` | | |
//! | `ACK` | id | |
//! | `AGAIN` | id due | |
//! | `RETRY` | id due | free or last (flags), error |
//! | `DEAD` | id | free (flag), error |
//! | `EXTEND` | id deadline | |
//! | `CANCEL`, `CLEAN`, `DROP`, `FOLLOW`, `REVIVE` | id | |
//! | `EXPIRE` | id | due (of the next occurrence) |
//! | `MOVE` | id due priority (`-`: unchanged) | |
//! | `REDRIVE` | count | group (empty: the jobs without a group) |
//! | `HOLD` | group until (0: released) | |
//! | `CONFIGURE` | | [`Settings::FIELDS`] |
//! | `FOLLOWER` | id payload due priority attempts every | group, ttl |
//! | `JOB` | id payload state time priority seq | [`Record::FIELDS`], worker, error, group |
//! | `UNITS` | back-at units | group (empty: the jobs without a group; omitted: the units of RATE) |
//! | `TURN` | group | |
//! | `TOTALS` | token id-ms id-seq seq | [`Counters::FIELDS`] |
//!
//! With `PUSHAUTO`, the queue has generated the ID. With `free`, the attempt does not count. With `last`, the job waits
//! for its next occurrence.
//!
//! `state` is the stored state: `ready`, `delayed`, `claimed`, `dead`. Times are Unix milliseconds, and durations are
//! milliseconds. Only rewritten AOF files contain `JOB`, `FOLLOWER`, `UNITS`, `TURN` and `TOTALS`.
//! `commands/apply.rs` decodes all effects.

use crate::base::time::{Decimal, Millis};
use crate::queues::model::{
    Attempt, Change, Counters, Effect, Extras, Field, JobChange, NewJob, Record, Settings, Taken, Totals,
};
use smallvec::SmallVec;
use std::ffi::CStr;

pub const APPLY: &CStr = c"ZQ.APPLY";

/// The keyspace event for jobs that became dead letters.
pub const DEAD_EVENT: &CStr = c"zq.dead";

/// The argument of `MOVE` for a due time or a priority that does not change.
pub const SAME: &[u8] = b"-";

/// The flag of an attempt that does not count.
pub const FREE: &[u8] = b"free";
/// The flag of `RETRY` if a recurring job has no attempt left. The job waits for its next occurrence.
pub const LAST: &[u8] = b"last";

pub const AGAIN: &[u8] = b"again";
pub const TTL: &[u8] = b"ttl";
/// In the effect `EXPIRE`, this option is the next due time of a recurring job.
pub const DUE: &[u8] = b"due";

/// Encoded effects with the same time: the arguments of one [`APPLY`].
#[derive(Default)]
pub struct EncodedEffects {
    /// The text of all arguments. `ends` has the end of each argument in this text.
    text: Vec<u8>,
    ends: Vec<usize>,
    effects: usize,
    happened: SmallVec<[&'static CStr; 2]>,
}

impl EncodedEffects {
    pub fn effects(&self) -> usize {
        self.effects
    }

    pub fn bytes(&self) -> usize {
        self.text.len()
    }

    pub fn happened(&self) -> &[&'static CStr] {
        &self.happened
    }

    /// Returns the arguments of [`APPLY`] after the key.
    pub fn arguments(&self) -> SmallVec<[&[u8]; 12]> {
        let mut start = 0;
        self.ends.iter().map(|&end| &self.text[std::mem::replace(&mut start, end)..end]).collect()
    }

    /// Adds an effect. All added effects must have the same `at`.
    pub fn add(&mut self, effect: &Effect<'_>) {
        if self.ends.is_empty() {
            self.text.reserve(256);
            self.ends.reserve(12);
            self.number(effect.at);
        }
        self.effects += 1;
        match effect.change {
            Change::Push { job, generated, again } => {
                self.word(if generated { b"PUSHAUTO" } else { b"PUSH" }, c"zq.push").new_job(&job).flag(AGAIN, again)
            }
            Change::Job { id, change } => self.job_change(id, change),
            Change::SettleRates => self.arg(b"SETTLE"),
            Change::Redrive { count, group } => self.word(b"REDRIVE", c"zq.redrive").number(count).group(group),
            Change::Hold { group, until } => self.word(b"HOLD", c"zq.hold").arg(group).number(until),
            Change::Configure(settings) => {
                self.word(b"CONFIGURE", c"zq.config").fields(Settings::FIELDS, &settings, &Settings::default())
            }
            Change::RestoreJob(job) => self.job(&job),
            Change::RestoreFollower(job) => self.arg(b"FOLLOWER").new_job(&job),
            Change::RestoreUnits { group, taken: Taken { back_at, units } } => {
                self.arg(b"UNITS").number(back_at).number(units).group(group)
            }
            Change::RestoreTurn { group } => self.arg(b"TURN").arg(group),
            Change::RestoreTotals(Totals { last_token, last_id, next_seq, counters }) => {
                self.arg(b"TOTALS").number(last_token).number(last_id.ms).number(last_id.seq).number(next_seq);
                self.fields(Counters::FIELDS, &counters, &Counters::default())
            }
        };
    }

    fn job_change(&mut self, id: &[u8], change: JobChange<'_>) -> &mut EncodedEffects {
        match change {
            JobChange::Claim { token, deadline, worker } => {
                self.word(b"CLAIM", c"zq.claim").arg(id).number(token).number(deadline).option(b"worker", worker)
            }
            JobChange::Ack { again: None } => self.word(b"ACK", c"zq.ack").arg(id),
            JobChange::Ack { again: Some(due) } => self.word(b"AGAIN", c"zq.ack").arg(id).number(due),
            JobChange::Retry { due, attempt, error } => {
                self.word(b"RETRY", c"zq.nack").arg(id).number(due);
                self.flag(FREE, attempt == Attempt::Free).flag(LAST, attempt == Attempt::Last).option(b"error", error)
            }
            JobChange::Dead { is_free, error } => {
                self.word(b"DEAD", DEAD_EVENT).arg(id).flag(FREE, is_free).option(b"error", error)
            }
            JobChange::Extend { deadline } => self.word(b"EXTEND", c"zq.extend").arg(id).number(deadline),
            JobChange::Cancel => self.word(b"CANCEL", c"zq.cancel").arg(id),
            JobChange::Clean => self.word(b"CLEAN", c"zq.clean").arg(id),
            JobChange::Drop => self.arg(b"DROP").arg(id),
            JobChange::Expire { again } => self.word(b"EXPIRE", c"zq.expired").arg(id).time(DUE, again),
            JobChange::Follow => self.arg(b"FOLLOW").arg(id),
            JobChange::Revive => self.word(b"REVIVE", c"zq.redrive").arg(id),
            JobChange::Reschedule { due, priority } => {
                self.word(b"MOVE", c"zq.reschedule").arg(id);
                match due {
                    Some(due) => self.number(due),
                    None => self.arg(SAME),
                };
                match priority {
                    Some(priority) => self.signed(priority.into()),
                    None => self.arg(SAME),
                }
            }
        }
    }

    fn new_job(&mut self, job: &NewJob<'_>) -> &mut EncodedEffects {
        let NewJob { id, payload, group, due, priority, max_attempts, every, ttl } = *job;
        self.arg(id).arg(payload).number(due).signed(priority.into());
        self.number(max_attempts.into()).number(every.unwrap_or(0)).option(b"group", group).time(TTL, ttl)
    }

    fn job(&mut self, job: &Record<'_>) -> &mut EncodedEffects {
        let Extras { worker, error, .. } = job.extras;
        self.arg(b"JOB").arg(job.id).arg(job.payload).arg(job.state.name().as_bytes());
        self.number(job.time).signed(job.priority.into()).number(job.seq);
        self.fields(&Record::FIELDS, job, &job.bare());
        self.option(b"worker", worker).option(b"error", error).option(b"group", job.group)
    }

    fn fields<T>(&mut self, fields: &[Field<T>], of: &T, default: &T) -> &mut EncodedEffects {
        for (name, value) in fields.iter().filter_map(|field| Some((field.name, field.changed(of, default)?))) {
            self.arg(name.as_bytes()).number(value);
        }
        self
    }

    fn flag(&mut self, name: &[u8], is_set: bool) -> &mut EncodedEffects {
        if is_set { self.arg(name) } else { self }
    }

    fn option(&mut self, name: &[u8], value: &[u8]) -> &mut EncodedEffects {
        if value.is_empty() { self } else { self.arg(name).arg(value) }
    }

    fn group(&mut self, group: Option<&[u8]>) -> &mut EncodedEffects {
        match group {
            Some(group) => self.arg(b"group").arg(group),
            None => self,
        }
    }

    fn time(&mut self, name: &[u8], value: Option<Millis>) -> &mut EncodedEffects {
        match value {
            Some(value) => self.arg(name).number(value),
            None => self,
        }
    }

    fn word(&mut self, word: &[u8], event: &'static CStr) -> &mut EncodedEffects {
        if !self.happened.contains(&event) {
            self.happened.push(event);
        }
        self.arg(word)
    }

    fn arg(&mut self, arg: &[u8]) -> &mut EncodedEffects {
        self.text.extend_from_slice(arg);
        self.ends.push(self.text.len());
        self
    }

    fn number(&mut self, number: u64) -> &mut EncodedEffects {
        self.arg(Decimal::of(number.min(i64::MAX.unsigned_abs())).as_bytes())
    }

    fn signed(&mut self, number: i64) -> &mut EncodedEffects {
        if number < 0 {
            self.text.push(b'-');
        }
        self.number(number.unsigned_abs())
    }
}
