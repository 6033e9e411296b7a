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
//! | `CANCEL`, `CLEAN`, `DROP`, `REVIVE` | id |
//! | `MOVE` | id due priority (`-`: as it was) |
//! | `REDRIVE` | count |
//! | `CONFIGURE` | attempts backoff-base backoff-max aging maxlen concurrency rate-limit rate-window paused |
//! | `JOB` | id payload state time priority seq token attempts max-attempts period anchor |
//! | `TAKEN` | back-at units |
//! | `UNITS` | group back-at units |
//! | `TURN` | group |
//! | `TOTALS` | token id-ms id-seq seq pushed claimed acked nacked cancelled redriven expired-leases |
//!
//! What only some have comes behind that, as names and values: then the word ends in `+`, and behind the fixed arguments stands the number
//! of pairs.
//!
//! | effect | pairs |
//! |---|---|
//! | `PUSH+`, `MADE+` | group |
//! | `CLAIM+` | worker |
//! | `RETRY+`, `BURY+` | free (1: the attempt does not count), last (1: the job waits for its next occurrence), error |
//! | `CONFIGURE+` | those of [`Settings::FURTHER`] |
//! | `JOB+` | created claimed failed since worker error group (`JOB` without `created`: as the id tells, or not known) |
//! | `TOTALS+` | those of [`Counters::FURTHER`] |
//!
//! `state` is that which is stored: `ready`, `scheduled` (delayed), `claimed`, `dead`.
//! `JOB`, `TAKEN`, `UNITS`, `TURN` and `TOTALS` occur in rewritten AOF files only. `commands/zq/apply.rs` reads all of it.
//! Times are Unix milliseconds, durations milliseconds.

use crate::model::queue::{
    Attempt, Change, Counters, Effect, Extras, Record, Settings, State, Taken, Totals, set_ones,
};
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
            Change::Push { id, payload, due, priority, max_attempts, every, generated, group } => {
                let pairs = [Pair::words("group", group)];
                let (without, with) = if generated { (b"MADE", b"MADE+") } else { (b"PUSH", b"PUSH+") };
                self.open(without, with, &pairs, Event::Push);
                self.body(id).body(payload).number(due).signed(priority.into());
                self.number(max_attempts.into()).number(every.unwrap_or(0));
                self.pairs(&pairs);
            }
            Change::Claim { id, token, deadline, worker } => {
                let words = [Pair::words("worker", worker)];
                self.open(b"CLAIM", b"CLAIM+", &words, Event::Claim).body(id).number(token).number(deadline);
                self.pairs(&words);
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
                let pairs = [
                    Pair::number("free", (attempt == Attempt::Free).into()),
                    Pair::number("last", (attempt == Attempt::Last).into()),
                    Pair::words("error", error),
                ];
                self.open(b"RETRY", b"RETRY+", &pairs, Event::Nack).body(id).number(due);
                self.pairs(&pairs);
            }
            Change::Bury { id, is_free, error } => {
                let pairs = [Pair::number("free", is_free.into()), Pair::words("error", error)];
                self.open(b"BURY", b"BURY+", &pairs, Event::Dead).body(id);
                self.pairs(&pairs);
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
            Change::Redrive { count } => {
                self.word(b"REDRIVE", Event::Redrive).number(count);
            }
            Change::Configure(settings) => self.settings(&settings),
            Change::RestoreJob(job) => self.job(&job),
            Change::RestoreRate(Taken { back_at, units }) => {
                self.bare(b"TAKEN").number(back_at).number(units);
            }
            Change::RestoreUnits { group, taken: Taken { back_at, units } } => {
                self.bare(b"UNITS").body(group).number(back_at).number(units);
            }
            Change::RestoreTurn { group } => {
                self.bare(b"TURN").body(group);
            }
            Change::RestoreTotals(totals) => self.totals(&totals),
        }
    }

    fn settings(&mut self, settings: &Settings) {
        let Settings { attempts, backoff_base, backoff_max, aging, maxlen, concurrency, rate, paused, .. } = *settings;
        let pairs: Vec<_> =
            set_ones(Settings::FURTHER, settings).map(|(field, value)| Pair::number(field.name, value)).collect();
        let (limit, window) = rate.map_or((0, 0), |rate| (rate.limit, rate.window));
        self.open(b"CONFIGURE", b"CONFIGURE+", &pairs, Event::Config).number(attempts.into());
        for number in [backoff_base, backoff_max, aging, maxlen, concurrency, limit, window, paused.into()] {
            self.number(number);
        }
        self.pairs(&pairs);
    }

    fn job(&mut self, job: &Record<'_>) {
        let state: &[u8] = match job.state {
            State::Ready => b"ready",
            State::Delayed => b"scheduled",
            State::Claimed => b"claimed",
            State::Dead => b"dead",
        };
        let recurrence = job.recurrence.map_or((0, 0), |recurrence| (recurrence.period, recurrence.anchor));
        let Extras { claimed, failed, since, worker, error } = job.extras;
        let created = if job.created == Record::created_by_id(job.id) { 0 } else { job.created };
        let pairs = [
            Pair::number("created", created),
            Pair::number("claimed", claimed),
            Pair::number("failed", failed),
            Pair::number("since", since),
            Pair::words("worker", worker),
            Pair::words("error", error),
            Pair::words("group", job.group),
        ];
        self.bare(Pair::either(b"JOB", b"JOB+", &pairs)).body(job.id).body(job.payload).bare(state);
        self.number(job.time).signed(job.priority.into());
        for number in [job.seq, job.token, job.attempts.into(), job.max_attempts.into(), recurrence.0, recurrence.1] {
            self.number(number);
        }
        self.pairs(&pairs);
    }

    fn totals(&mut self, totals: &Totals) {
        let Totals { last_token, last_id, next_seq, counters } = *totals;
        let Counters { pushed, claimed, acked, nacked, cancelled, redriven, expired_leases, .. } = counters;
        let pairs: Vec<_> =
            set_ones(Counters::FURTHER, &counters).map(|(field, value)| Pair::number(field.name, value)).collect();
        self.bare(Pair::either(b"TOTALS", b"TOTALS+", &pairs));
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
        self.pairs(&pairs);
    }

    /// The word of an effect that may have pairs.
    fn open(&mut self, without: &[u8], with: &[u8], pairs: &[Pair<'_>], event: Event) -> &mut Words {
        self.word(Pair::either(without, with, pairs), event)
    }

    /// Writes the pairs that are set, if there are any.
    fn pairs(&mut self, pairs: &[Pair<'_>]) {
        let count = pairs.iter().filter(|pair| pair.is_set()).count();
        if count == 0 {
            return;
        }
        self.number(count as u64);
        for pair in pairs.iter().filter(|pair| pair.is_set()) {
            self.bare(pair.name.as_bytes());
            match pair.value {
                Value::Number(number) => self.number(number),
                Value::Words(words) => self.body(words),
            };
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

/// A name and a value; 0 and no bytes are not written.
struct Pair<'a> {
    name: &'static str,
    value: Value<'a>,
}

enum Value<'a> {
    Number(u64),
    Words(&'a [u8]),
}

impl<'a> Pair<'a> {
    fn number(name: &'static str, number: u64) -> Pair<'a> {
        Pair { name, value: Value::Number(number) }
    }

    fn words(name: &'static str, words: &'a [u8]) -> Pair<'a> {
        Pair { name, value: Value::Words(words) }
    }

    fn is_set(&self) -> bool {
        match self.value {
            Value::Number(number) => number != 0,
            Value::Words(words) => !words.is_empty(),
        }
    }

    /// One word for an effect without pairs, another for one with pairs.
    fn either<'w>(without: &'w [u8], with: &'w [u8], pairs: &[Pair<'_>]) -> &'w [u8] {
        if pairs.iter().any(Pair::is_set) { with } else { without }
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
    Clean,
}

impl Event {
    const ALL: [Event; 11] = [
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
        Event::Clean,
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
            Event::Clean => c"zq.clean",
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
