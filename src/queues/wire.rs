//! The form in which effects go to replicas and into AOF files: `ZQ.APPLY key at effect [effect ...]`.
//!
//! One command of our own carries what came out (ids, tokens, absolute times, and `at`, the clock of the server that ran
//! the command), because the public commands say what is wished and would have to be given a second, hidden set of
//! arguments each. An effect is a word and a fixed number of arguments, readable in MONITOR and in an AOF file:
//!
//! | effect | arguments |
//! |---|---|
//! | `PUSH`, `MADE` | id payload due priority attempts every (`MADE`: the queue made up the id; every 0: once) |
//! | `CLAIM` | id token deadline |
//! | `SETTLE` | |
//! | `ACK`, `AGAIN` | id; id due |
//! | `RETRY`, `BURY` | id due; id |
//! | `EXTEND` | id deadline |
//! | `CANCEL` | id |
//! | `MOVE` | id due priority (`-`: as it was) |
//! | `REDRIVE` | count |
//! | `CONFIGURE` | attempts backoff-base backoff-max aging maxlen concurrency rate-limit rate-window paused |
//! | `JOB` | id payload standing time priority seq token attempts max-attempts period anchor |
//! | `TAKEN` | back-at units |
//! | `TOTALS` | token id-ms id-seq seq pushed claimed acked nacked cancelled redriven expired-leases |
//!
//! The last three occur in rewritten AOF files only. [`crate::commands::zq::apply`] reads all of it. Times are Unix milliseconds, durations milliseconds.

use crate::model::queue::{Change, Counters, Effect, Record, Settings, Standing, Taken, Totals};
use crate::server::{OwnedStr, Str};
use std::ffi::CStr;

/// The command that applies effects.
pub const APPLY: &CStr = c"ZQ.APPLY";

/// "As it was".
pub const SAME: &[u8] = b"-";

/// Effects of one moment, as the arguments of [`APPLY`].
#[derive(Default)]
pub struct Words {
    words: Vec<OwnedStr>,
    effects: usize,
    bytes: usize,
    happened: Happened,
}

impl Words {
    pub fn new() -> Words {
        Words::default()
    }

    /// How many effects were added.
    pub fn effects(&self) -> usize {
        self.effects
    }

    /// How long the ids and payloads are.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// What has happened.
    pub fn happened(&self) -> Happened {
        self.happened
    }

    /// Hands the command and its arguments to `send`.
    pub fn send(&self, key: Str<'_>, send: impl FnOnce(&CStr, &[Str<'_>])) {
        let arguments: Vec<_> = std::iter::once(key).chain(self.words.iter().map(OwnedStr::as_str)).collect();
        send(APPLY, &arguments);
    }

    /// Adds an effect. All effects of one command have the same `at`.
    pub fn add(&mut self, effect: &Effect<'_>) {
        if self.words.is_empty() {
            self.number(effect.at);
        }
        self.effects += 1;
        match effect.change {
            Change::Push { id, payload, due, priority, max_attempts, every, generated } => {
                self.word(if generated { b"MADE" } else { b"PUSH" }, Event::Push);
                self.body(id).body(payload).number(due).signed(priority.into());
                self.number(max_attempts.into()).number(every.unwrap_or(0));
            }
            Change::Claim { id, token, deadline } => {
                self.word(b"CLAIM", Event::Claim).body(id).number(token).number(deadline);
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
            Change::Retry { id, due } => {
                self.word(b"RETRY", Event::Nack).body(id).number(due);
            }
            Change::Bury { id } => {
                self.word(b"BURY", Event::Dead).body(id);
            }
            Change::Extend { id, deadline } => {
                self.word(b"EXTEND", Event::Extend).body(id).number(deadline);
            }
            Change::Cancel { id } => {
                self.word(b"CANCEL", Event::Cancel).body(id);
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
            Change::Redrive { count } => {
                self.word(b"REDRIVE", Event::Redrive).number(count);
            }
            Change::Configure(settings) => self.settings(&settings),
            Change::RestoreJob(job) => self.job(&job),
            Change::RestoreRate(Taken { back_at, units }) => {
                self.bare(b"TAKEN").number(back_at).number(units);
            }
            Change::RestoreTotals(totals) => self.totals(&totals),
        }
    }

    fn settings(&mut self, settings: &Settings) {
        let Settings { attempts, backoff_base, backoff_max, aging, maxlen, concurrency, rate, paused } = *settings;
        let (limit, window) = rate.map_or((0, 0), |rate| (rate.limit, rate.window));
        self.word(b"CONFIGURE", Event::Config).number(attempts.into());
        for number in [backoff_base, backoff_max, aging, maxlen, concurrency, limit, window, paused.into()] {
            self.number(number);
        }
    }

    fn job(&mut self, job: &Record<'_>) {
        let standing: &[u8] = match job.standing {
            Standing::Ready => b"ready",
            Standing::Scheduled => b"scheduled",
            Standing::Claimed => b"claimed",
            Standing::Dead => b"dead",
        };
        let recurrence = job.recurrence.map_or((0, 0), |recurrence| (recurrence.period, recurrence.anchor));
        self.bare(b"JOB").body(job.id).body(job.payload).bare(standing);
        self.number(job.time).signed(job.priority.into());
        for number in [job.seq, job.token, job.attempts.into(), job.max_attempts.into(), recurrence.0, recurrence.1] {
            self.number(number);
        }
    }

    fn totals(&mut self, totals: &Totals) {
        let Totals { last_token, last_id, next_seq, counters } = *totals;
        let Counters { pushed, claimed, acked, nacked, cancelled, redriven, expired_leases } = counters;
        self.bare(b"TOTALS");
        for number in [
            last_token,
            last_id.ms,
            last_id.seq,
            next_seq,
            pushed,
            claimed,
            acked,
            nacked,
            cancelled,
            redriven,
            expired_leases,
        ] {
            self.number(number);
        }
    }

    fn word(&mut self, word: &[u8], event: Event) -> &mut Words {
        self.happened.add(event);
        self.bare(word)
    }

    fn bare(&mut self, word: &[u8]) -> &mut Words {
        self.words.push(OwnedStr::new(word));
        self
    }

    fn body(&mut self, bytes: &[u8]) -> &mut Words {
        self.bytes += bytes.len();
        self.bare(bytes)
    }

    fn number(&mut self, number: u64) -> &mut Words {
        self.signed(i64::try_from(number).unwrap_or(i64::MAX))
    }

    fn signed(&mut self, number: i64) -> &mut Words {
        self.words.push(OwnedStr::from_integer(number));
        self
    }
}

/// What keyspace events tell of.
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
}

impl Event {
    const ALL: [Event; 10] = [
        Event::Push,
        Event::Claim,
        Event::Ack,
        Event::Nack,
        Event::Dead,
        Event::Extend,
        Event::Cancel,
        Event::Reschedule,
        Event::Redrive,
        Event::Config,
    ];

    pub fn name(self) -> &'static CStr {
        match self {
            Event::Push => c"zq.push",
            Event::Claim => c"zq.claim",
            Event::Ack => c"zq.ack",
            Event::Nack => c"zq.nack",
            Event::Dead => c"zq.dead",
            Event::Extend => c"zq.extend",
            Event::Cancel => c"zq.cancel",
            Event::Reschedule => c"zq.reschedule",
            Event::Redrive => c"zq.redrive",
            Event::Config => c"zq.config",
        }
    }
}

/// A set of events.
#[derive(Clone, Copy, Debug, Default)]
pub struct Happened(u16);

impl Happened {
    fn add(&mut self, event: Event) {
        self.0 |= 1 << event as u8;
    }

    pub fn events(self) -> impl Iterator<Item = Event> {
        Event::ALL.into_iter().filter(move |&event| self.0 & 1 << event as u8 != 0)
    }
}
