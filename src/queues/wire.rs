//! The encoding of effects for replicas and AOF files: `ZQ.APPLY key at effect [effect ...]`.
//!
//! An effect has the results of a command: IDs, tokens, absolute times. The public commands are not replicated, because
//! their arguments have no place for results. `at` is the time of the command.
//!
//! An effect consists of a name in capitals, its arguments, and its options in the order below. An option is a name in
//! lower case and a value. A flag is an option without a value. An option is omitted if its value is 0 or an empty
//! string.
//!
//! | effect | arguments | options |
//! |---|---|---|
//! | `PUSH`, `MADE` | id payload due priority attempts every (`MADE`: the queue generated the ID; every 0: once) | group, ttl, the flag again |
//! | `CLAIM` | id token deadline | worker |
//! | `SETTLE` | | |
//! | `ACK`, `AGAIN` | id; id due | |
//! | `RETRY` | id due | the flag free (the attempt does not count) or last (the job waits for its next occurrence), error |
//! | `BURY` | id | the flag free, error |
//! | `EXTEND` | id deadline | |
//! | `CANCEL`, `CLEAN`, `DROP`, `FOLLOW`, `REVIVE` | id | |
//! | `EXPIRE` | id | due (of the next occurrence) |
//! | `MOVE` | id due priority (`-`: unchanged) | |
//! | `REDRIVE` | count | group (empty: the jobs without a group) |
//! | `HOLD` | group until (0: released) | |
//! | `CONFIGURE` | | those of [`Settings::FIELDS`] |
//! | `FOLLOWER` | as `PUSH` | group, ttl |
//! | `JOB` | id payload state time priority seq | those of [`Record::FIELDS`], worker, error, group |
//! | `TAKEN` | back-at units | |
//! | `UNITS` | group back-at units | |
//! | `TURN` | group | |
//! | `TOTALS` | token id-ms id-seq seq | those of [`Counters::FIELDS`] |
//!
//! `state` is the stored state: `ready`, `delayed`, `claimed`, `dead`. Times are Unix milliseconds, and durations are
//! milliseconds. Only rewritten AOF files contain `JOB`, `FOLLOWER`, `TAKEN`, `UNITS`, `TURN` and `TOTALS`.
//! `commands/zq/apply.rs` decodes all effects.

use crate::model::queue::{
    Attempt, Change, Counters, Effect, Extras, Field, NewJob, Record, Settings, State, Taken, Totals,
};
use crate::model::time::{Decimal, Millis};
use smallvec::SmallVec;
use std::ffi::CStr;

pub const APPLY: &CStr = c"ZQ.APPLY";

/// The argument of `MOVE` if the due time, or the priority, does not change.
pub const SAME: &[u8] = b"-";

/// The flag of an attempt that does not count.
pub const FREE: &[u8] = b"free";
/// The flag of the last attempt before the next occurrence.
pub const LAST: &[u8] = b"last";

pub const AGAIN: &[u8] = b"again";
pub const TTL: &[u8] = b"ttl";
/// The option for the due time of the next occurrence.
pub const DUE: &[u8] = b"due";

/// Encoded effects with the same time: the arguments of one [`APPLY`].
#[derive(Default)]
pub struct EncodedEffects {
    /// The text of all arguments. `ends` has the end of each argument in this text.
    text: Vec<u8>,
    ends: Vec<usize>,
    effects: usize,
    bytes: usize,
    happened: Events,
}

impl EncodedEffects {
    pub fn new() -> EncodedEffects {
        EncodedEffects::default()
    }

    pub fn effects(&self) -> usize {
        self.effects
    }

    pub fn bytes(&self) -> usize {
        self.bytes
    }

    pub fn happened(&self) -> Events {
        self.happened
    }

    /// Returns the arguments after the key.
    pub fn arguments(&self) -> SmallVec<[&[u8]; 12]> {
        let mut start = 0;
        self.ends.iter().map(|&end| &self.text[std::mem::replace(&mut start, end)..end]).collect()
    }

    /// Adds an effect. All effects of one command have the same `at`.
    pub fn add(&mut self, effect: &Effect<'_>) {
        if self.ends.is_empty() {
            self.text.reserve(256);
            self.ends.reserve(12);
            self.number(effect.at);
        }
        self.effects += 1;
        match effect.change {
            Change::Push { job, generated, again } => {
                self.word(if generated { b"MADE" } else { b"PUSH" }, Event::Push).new_job(&job);
                if again {
                    self.bare(AGAIN);
                }
            }
            Change::Claim { id, token, deadline, worker } => {
                self.word(b"CLAIM", Event::Claim).body(id).number(token).number(deadline).option(b"worker", worker);
            }
            Change::SettleRate => {
                self.bare(b"SETTLE");
            }
            Change::Ack { id, again: None } => {
                self.word(b"ACK", Event::Ack).body(id);
            }
            Change::Ack { id, again: Some(due) } => {
                self.word(b"AGAIN", Event::Ack).body(id).number(due);
            }
            Change::Retry { id, due, attempt, error } => {
                self.word(b"RETRY", Event::Nack).body(id).number(due);
                match attempt {
                    Attempt::Counts => self,
                    Attempt::Free => self.bare(FREE),
                    Attempt::Last => self.bare(LAST),
                }
                .option(b"error", error);
            }
            Change::Bury { id, is_free, error } => {
                self.word(b"BURY", Event::Dead).body(id);
                if is_free { self.bare(FREE) } else { self }.option(b"error", error);
            }
            Change::Extend { id, deadline } => {
                self.word(b"EXTEND", Event::Extend).body(id).number(deadline);
            }
            Change::Cancel { id } => {
                self.word(b"CANCEL", Event::Cancel).body(id);
            }
            Change::Clean { id } => {
                self.word(b"CLEAN", Event::Clean).body(id);
            }
            Change::Drop { id } => {
                self.bare(b"DROP").body(id);
            }
            Change::Expire { id, again } => {
                self.word(b"EXPIRE", Event::Expire).body(id).time(DUE, again);
            }
            Change::Follow { id } => {
                self.bare(b"FOLLOW").body(id);
            }
            Change::Revive { id } => {
                self.word(b"REVIVE", Event::Redrive).body(id);
            }
            Change::Reschedule { id, due, priority } => {
                self.word(b"MOVE", Event::Reschedule).body(id);
                match due {
                    Some(due) => self.number(due),
                    None => self.bare(SAME),
                };
                match priority {
                    Some(priority) => self.signed(priority.into()),
                    None => self.bare(SAME),
                };
            }
            Change::Redrive { count, group } => {
                self.word(b"REDRIVE", Event::Redrive).number(count);
                if let Some(group) = group {
                    self.bare(b"group").body(group);
                }
            }
            Change::Hold { group, until } => {
                self.word(b"HOLD", Event::Hold).body(group).number(until);
            }
            Change::Configure(settings) => {
                self.word(b"CONFIGURE", Event::Config).fields(Settings::FIELDS, &settings, &Settings::default())
            }
            Change::RestoreJob(job) => self.job(&job),
            Change::RestoreFollower(job) => {
                self.bare(b"FOLLOWER").new_job(&job);
            }
            Change::RestoreRate(Taken { back_at, units }) => {
                self.bare(b"TAKEN").number(back_at).number(units);
            }
            Change::RestoreUnits { group, taken: Taken { back_at, units } } => {
                self.bare(b"UNITS").body(group).number(back_at).number(units);
            }
            Change::RestoreTurn { group } => {
                self.bare(b"TURN").body(group);
            }
            Change::RestoreTotals(Totals { last_token, last_id, next_seq, counters }) => {
                self.bare(b"TOTALS").number(last_token).number(last_id.ms).number(last_id.seq).number(next_seq);
                self.fields(Counters::FIELDS, &counters, &Counters::default());
            }
        }
    }

    fn new_job(&mut self, job: &NewJob<'_>) -> &mut EncodedEffects {
        let NewJob { id, payload, group, due, priority, max_attempts, every, ttl } = *job;
        self.body(id).body(payload).number(due).signed(priority.into());
        self.number(max_attempts.into()).number(every.unwrap_or(0)).option(b"group", group).time(TTL, ttl)
    }

    fn job(&mut self, job: &Record<'_>) {
        let state: &[u8] = match job.state {
            State::Ready => b"ready",
            State::Delayed => b"delayed",
            State::Claimed => b"claimed",
            State::Dead => b"dead",
        };
        let Extras { worker, error, .. } = job.extras;
        self.bare(b"JOB").body(job.id).body(job.payload).bare(state);
        self.number(job.time).signed(job.priority.into()).number(job.seq);
        self.fields(&Record::FIELDS, job, &job.bare());
        self.option(b"worker", worker).option(b"error", error).option(b"group", job.group);
    }

    fn fields<T>(&mut self, fields: &[Field<T>], of: &T, default: &T) {
        for (name, value) in fields.iter().filter_map(|field| Some((field.name, field.changed(of, default)?))) {
            self.bare(name.as_bytes()).number(value);
        }
    }

    fn option(&mut self, name: &[u8], value: &[u8]) -> &mut EncodedEffects {
        if value.is_empty() { self } else { self.bare(name).body(value) }
    }

    fn time(&mut self, name: &[u8], value: Option<Millis>) -> &mut EncodedEffects {
        match value {
            Some(value) => self.bare(name).number(value),
            None => self,
        }
    }

    fn word(&mut self, word: &[u8], event: Event) -> &mut EncodedEffects {
        self.happened.add(event);
        self.bare(word)
    }

    fn bare(&mut self, word: &[u8]) -> &mut EncodedEffects {
        self.text.extend_from_slice(word);
        self.ends.push(self.text.len());
        self
    }

    fn body(&mut self, bytes: &[u8]) -> &mut EncodedEffects {
        self.bytes += bytes.len();
        self.bare(bytes)
    }

    fn number(&mut self, number: u64) -> &mut EncodedEffects {
        self.bare(Decimal::of(number.min(i64::MAX.unsigned_abs())).as_bytes())
    }

    fn signed(&mut self, number: i64) -> &mut EncodedEffects {
        if number < 0 {
            self.text.push(b'-');
        }
        self.number(number.unsigned_abs())
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Event {
    Push,
    Claim,
    Ack,
    Nack,
    Dead,
    Extend,
    Cancel,
    Reschedule,
    Redrive,
    Config,
    Clean,
    Hold,
    Expire,
}

/// The names of the events, in the order of [`Event`].
const EVENT_NAMES: [&CStr; 13] = [
    c"zq.push",
    c"zq.claim",
    c"zq.ack",
    c"zq.nack",
    c"zq.dead",
    c"zq.extend",
    c"zq.cancel",
    c"zq.reschedule",
    c"zq.redrive",
    c"zq.config",
    c"zq.clean",
    c"zq.hold",
    c"zq.expired",
];

impl Event {
    pub fn name(self) -> &'static CStr {
        EVENT_NAMES[self as usize]
    }
}

#[derive(Clone, Copy, Debug, Default)]
pub struct Events(u16);

impl Events {
    fn add(&mut self, event: Event) {
        self.0 |= 1 << event as u8;
    }

    pub fn names(self) -> impl Iterator<Item = &'static CStr> {
        EVENT_NAMES.into_iter().zip(0..).filter(move |(_, event)| self.0 & 1 << event != 0).map(|(name, _)| name)
    }
}
