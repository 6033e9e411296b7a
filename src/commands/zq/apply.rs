//! `ZQ.APPLY key at effect [effect ...]`
//!
//! Carries out effects as [`Words`](crate::queues::wire) wrote them. This is what the other commands replicate and what AOF
//! files hold; no application needs it. It reads no clock, and computes nothing: a replica gets what the master had.
//!
//! Clients may call it as well, because AOF files are also fed to servers by ordinary clients (`redis-cli --pipe`, tools that
//! migrate by the replication stream). It passes by every check of the other commands, `maxmemory` among them, as RESTORE does,
//! and needs the same rights. An effect that does not fit its queue changes nothing. It is passed over; the reply, an integer,
//! tells how many did fit, and of those that come from a master or an AOF file, where all should, the log tells.

use crate::commands::args::Args;
use crate::error::Error;
use crate::model::queue::{
    Attempt, AutoId, Change, Counters, Effect, Extras, Rate, Record, Recurrence, Settings, State, Taken, Totals,
    set_by_name,
};
use crate::model::time::Millis;
use crate::queues::wire::{APPLY, SAME};
use crate::queues::{self, OpenQueue};
use crate::server::command::{Access, Arg, Command, Keys, Spec};
use crate::server::key::Writing;
use crate::server::{Context, Str};

pub struct Apply;

impl Command for Apply {
    const SPEC: Spec = Spec {
        name: APPLY,
        summary: c"Carries out effects that other commands of queues had: for replication and AOF files.",
        complexity: c"O(log N) for each effect, with N the number of jobs of the queue",
        since: c"0.1.0",
        // Not deny-oom: what has happened is not to be refused. A replica that heeds a maxmemory of its own would lose it.
        flags: c"write",
        arity: -4,
        keys: Keys::First(Access::Exchange),
        arguments: &[Arg::key(c"key"), Arg::integer(c"unix-time-milliseconds"), Arg::string(c"effect").multiple()],
    };

    fn run<'a>(ctx: &mut Context, arguments: &'a [Str<'a>]) -> Result<(), Error> {
        let mut args = Args::new(arguments);
        let key = args.string()?;
        ctx.check_right_to_restore(key)?;
        let (at, effects) = read(&mut args)?;
        let mut open = OpenQueue::<Writing>::open(ctx, key)?;
        let misfits = open.change(|queue, recorder| {
            let mut misfits = 0;
            for effect in &effects {
                if queue.apply(effect) {
                    recorder.add(effect);
                } else {
                    misfits += 1;
                }
            }
            misfits
        });
        open.commit_replayed(at);
        if misfits > 0 && ctx.is_replayed() {
            queues::report_misfits(ctx, key, misfits);
        }
        ctx.reply_count(effects.len() as u64 - misfits);
        Ok(())
    }
}

/// Reads `at effect [effect ...]`.
fn read<'a>(args: &mut Args<'a>) -> Result<(Millis, Vec<Effect<'a>>), Error> {
    let at = args.count()?;
    let mut effects = Vec::new();
    while !args.is_empty() {
        effects.push(parse(args, at)?);
    }
    Ok((at, effects))
}

/// Reads the next effect; all that [`Words::add`](crate::queues::wire::Words::add) writes, and nothing else.
fn parse<'a>(args: &mut Args<'a>, at: Millis) -> Result<Effect<'a>, Error> {
    let word = args.string()?.bytes();
    let id = |args: &mut Args<'a>| args.string().map(Str::bytes);
    let change = match word {
        b"PUSH" | b"MADE" | b"PUSH+" | b"MADE+" => Change::Push {
            id: id(args)?,
            payload: id(args)?,
            due: args.count()?,
            priority: args.priority()?,
            max_attempts: args.attempts()?,
            every: Some(args.count()?).filter(|&every| every > 0),
            generated: word.starts_with(b"MADE"),
            group: group(word, args)?,
        },
        b"CLAIM" | b"CLAIM+" => {
            let (id, token, deadline) = (id(args)?, args.count()?, args.count()?);
            let mut worker: &[u8] = &[];
            pairs(word, args, |name, args| {
                match name {
                    b"worker" => worker = args.string()?.bytes(),
                    _ => return Err(Error::Syntax),
                }
                Ok(())
            })?;
            Change::Claim { id, token, deadline, worker }
        }
        b"SETTLE" => Change::SettleRate,
        b"ACK" => Change::Ack { id: id(args)?, again: None },
        b"AGAIN" => Change::Ack { id: id(args)?, again: Some(args.count()?) },
        b"RETRY" | b"RETRY+" => {
            let (id, due) = (id(args)?, args.count()?);
            let (attempt, error) = given_back(word, args)?;
            Change::Retry { id, due, attempt, error }
        }
        b"BURY" | b"BURY+" => {
            let id = id(args)?;
            let (attempt, error) = given_back(word, args)?;
            Change::Bury { id, is_free: attempt == Attempt::Free, error }
        }
        b"EXTEND" => Change::Extend { id: id(args)?, deadline: args.count()? },
        b"CANCEL" => Change::Cancel { id: id(args)? },
        b"CLEAN" => Change::Clean { id: id(args)? },
        b"DROP" => Change::Drop { id: id(args)? },
        b"REVIVE" => Change::Revive { id: id(args)? },
        b"MOVE" => Change::Reschedule {
            id: id(args)?,
            due: unless_same(args, Args::count)?,
            priority: unless_same(args, Args::priority)?,
        },
        b"REDRIVE" => Change::Redrive { count: args.count()? },
        b"CONFIGURE" | b"CONFIGURE+" => Change::Configure(settings(word, args)?),
        b"JOB" | b"JOB+" => Change::RestoreJob(job(word, args)?),
        b"TAKEN" => Change::RestoreRate(Taken { back_at: args.count()?, units: args.count()? }),
        b"UNITS" => {
            Change::RestoreUnits { group: id(args)?, taken: Taken { back_at: args.count()?, units: args.count()? } }
        }
        b"TURN" => Change::RestoreTurn { group: id(args)? },
        b"TOTALS" | b"TOTALS+" => Change::RestoreTotals(totals(word, args)?),
        _ => return Err(Error::Syntax),
    };
    Ok(Effect { at, change })
}

fn unless_same<'a, T>(
    args: &mut Args<'a>,
    read: impl FnOnce(&mut Args<'a>) -> Result<T, Error>,
) -> Result<Option<T>, Error> {
    if args.skip(SAME) { Ok(None) } else { read(args).map(Some) }
}

/// Reads the pairs of an effect, if its word says that it has any.
fn pairs<'a>(
    word: &[u8],
    args: &mut Args<'a>,
    mut read: impl FnMut(&[u8], &mut Args<'a>) -> Result<(), Error>,
) -> Result<(), Error> {
    if word.ends_with(b"+") {
        for _ in 0..args.count()? {
            let name = args.string()?.bytes();
            read(name, args)?;
        }
    }
    Ok(())
}

fn group<'a>(word: &[u8], args: &mut Args<'a>) -> Result<&'a [u8], Error> {
    let mut group: &[u8] = &[];
    pairs(word, args, |name, args| {
        match name {
            b"group" => group = args.string()?.bytes(),
            _ => return Err(Error::Syntax),
        }
        Ok(())
    })?;
    Ok(group)
}

fn given_back<'a>(word: &[u8], args: &mut Args<'a>) -> Result<(Attempt, &'a [u8]), Error> {
    let (mut attempt, mut error) = (Attempt::Counts, &[] as &[u8]);
    pairs(word, args, |name, args| {
        match name {
            b"free" if args.count()? == 1 => attempt = Attempt::Free,
            b"last" if args.count()? == 1 => attempt = Attempt::Last,
            b"error" => error = args.string()?.bytes(),
            _ => return Err(Error::Syntax),
        }
        Ok(())
    })?;
    Ok((attempt, error))
}

fn settings(word: &[u8], args: &mut Args<'_>) -> Result<Settings, Error> {
    let mut settings = Settings {
        attempts: args.attempts()?,
        backoff_base: args.count()?,
        backoff_max: args.count()?,
        aging: args.count()?,
        maxlen: args.count()?,
        concurrency: args.count()?,
        rate: match (args.count()?, args.count()?) {
            (0, 0) => None,
            (limit, window) => Some(Rate { limit, window }),
        },
        paused: args.count()? != 0,
        ..Settings::default()
    };
    pairs(word, args, |name, args| {
        let value = args.count()?;
        if set_by_name(Settings::FURTHER, &mut settings, name, value) { Ok(()) } else { Err(Error::Syntax) }
    })?;
    Ok(settings)
}

fn job<'a>(word: &[u8], args: &mut Args<'a>) -> Result<Record<'a>, Error> {
    let id = args.string()?.bytes();
    let mut job = Record {
        id,
        group: b"",
        payload: args.string()?.bytes(),
        state: match args.string()?.bytes() {
            b"ready" => State::Ready,
            b"scheduled" => State::Delayed,
            b"claimed" => State::Claimed,
            b"dead" => State::Dead,
            _ => return Err(Error::Syntax),
        },
        time: args.count()?,
        priority: args.priority()?,
        seq: args.count()?,
        token: args.count()?,
        attempts: args.attempts()?,
        max_attempts: args.attempts()?,
        recurrence: match (args.count()?, args.count()?) {
            (0, _) => None,
            (period, anchor) => Some(Recurrence { period, anchor }),
        },
        created: Record::created_by_id(id),
        extras: Extras::default(),
    };
    pairs(word, args, |name, args| {
        match name {
            b"created" => job.created = args.count()?,
            b"claimed" => job.extras.claimed = args.count()?,
            b"failed" => job.extras.failed = args.count()?,
            b"since" => job.extras.since = args.count()?,
            b"worker" => job.extras.worker = args.string()?.bytes(),
            b"error" => job.extras.error = args.string()?.bytes(),
            b"group" => job.group = args.string()?.bytes(),
            _ => return Err(Error::Syntax),
        }
        Ok(())
    })?;
    Ok(job)
}

fn totals(word: &[u8], args: &mut Args<'_>) -> Result<Totals, Error> {
    let mut totals = Totals {
        last_token: args.count()?,
        last_id: AutoId { ms: args.count()?, seq: args.count()? },
        next_seq: args.count()?,
        counters: Counters {
            pushed: args.count()?,
            claimed: args.count()?,
            acked: args.count()?,
            nacked: args.count()?,
            cancelled: args.count()?,
            redriven: args.count()?,
            expired_leases: args.count()?,
            ..Counters::default()
        },
    };
    pairs(word, args, |name, args| {
        let value = args.count()?;
        if set_by_name(Counters::FURTHER, &mut totals.counters, name, value) { Ok(()) } else { Err(Error::Syntax) }
    })?;
    Ok(totals)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::queues::wire::Words;
    use crate::server::OwnedStr;
    use crate::server::alone::without_a_server;
    use proptest::prelude::*;

    /// How many kinds of change there are.
    const KINDS: usize = 18;

    /// Without a wildcard: a new kind of change does not compile until it has a number here, and `Stuff::change` makes it.
    fn kind(change: &Change<'_>) -> usize {
        match change {
            Change::Push { .. } => 0,
            Change::Claim { .. } => 1,
            Change::SettleRate => 2,
            Change::Ack { .. } => 3,
            Change::Retry { .. } => 4,
            Change::Bury { .. } => 5,
            Change::Extend { .. } => 6,
            Change::Cancel { .. } => 7,
            Change::Reschedule { .. } => 8,
            Change::Clean { .. } => 9,
            Change::Drop { .. } => 10,
            Change::Revive { .. } => 11,
            Change::Redrive { .. } => 12,
            Change::Configure(_) => 13,
            Change::RestoreJob(_) => 14,
            Change::RestoreRate(_) => 15,
            Change::RestoreUnits { .. } | Change::RestoreTurn { .. } => 16,
            Change::RestoreTotals(_) => 17,
        }
    }

    /// What a change is made of. The wire has integers of 63 bits.
    #[derive(Clone, Debug)]
    struct Stuff {
        kind: usize,
        words: [Vec<u8>; 5],
        numbers: [u64; 16],
        small: [u32; 3],
        priority: i32,
        choices: [bool; 3],
    }

    fn stuff() -> impl Strategy<Value = Stuff> {
        let word = prop_oneof![
            2 => prop::collection::vec(any::<u8>(), 0..12),
            // What the queue makes up, and what looks like parts of the wire.
            1 => prop::sample::select(vec![&b"1795237731925-3"[..], b"-", b"JOB+", b"worker", b"1"]).prop_map(<[u8]>::to_vec),
        ];
        let number = || prop_oneof![Just(0), Just(1), 0..=i64::MAX.unsigned_abs()];
        let numbers = prop::array::uniform16(number());
        let small = prop::array::uniform3(any::<u32>());
        let parts = (0..KINDS, prop::array::uniform5(word), numbers, small, any::<i32>(), any::<[bool; 3]>());
        parts.prop_map(|(kind, words, numbers, small, priority, choices)| Stuff {
            kind,
            words,
            numbers,
            small,
            priority,
            choices,
        })
    }

    impl Stuff {
        fn change(&self) -> Change<'_> {
            let [id, payload, group, worker, error] = [0, 1, 2, 3, 4].map(|at| self.words[at].as_slice());
            let [first, second, third, fourth, ..] = self.numbers;
            let [yes, or, and] = self.choices;
            let (priority, due) = (self.priority, first);
            let taken = Taken { back_at: first, units: second };
            match self.kind {
                0 => Change::Push {
                    id,
                    payload,
                    due,
                    priority,
                    max_attempts: self.small[0],
                    every: Some(second).filter(|&every| every > 0),
                    generated: yes,
                    group,
                },
                1 => Change::Claim { id, token: first, deadline: second, worker },
                2 => Change::SettleRate,
                3 => Change::Ack { id, again: yes.then_some(first) },
                4 => {
                    let attempt = [Attempt::Counts, Attempt::Free, Attempt::Last][self.small[0] as usize % 3];
                    Change::Retry { id, due, attempt, error }
                }
                5 => Change::Bury { id, is_free: yes, error },
                6 => Change::Extend { id, deadline: first },
                7 => Change::Cancel { id },
                8 => Change::Reschedule { id, due: yes.then_some(due), priority: or.then_some(priority) },
                9 => Change::Clean { id },
                10 => Change::Drop { id },
                11 => Change::Revive { id },
                12 => Change::Redrive { count: first },
                13 => Change::Configure(self.settings()),
                14 => Change::RestoreJob(Record {
                    id,
                    group,
                    payload,
                    state: [State::Ready, State::Delayed, State::Claimed, State::Dead][self.small[0] as usize % 4],
                    time: first,
                    priority,
                    seq: second,
                    token: third,
                    attempts: self.small[1],
                    max_attempts: self.small[2],
                    recurrence: yes.then_some(Recurrence { period: self.numbers[5].max(1), anchor: self.numbers[6] }),
                    // Of an id that tells when its job was pushed, that is known.
                    created: if or { Record::created_by_id(id) } else { fourth.max(1) },
                    extras: Extras {
                        claimed: self.numbers[7],
                        failed: self.numbers[8],
                        since: self.numbers[9],
                        worker,
                        error,
                    },
                }),
                15 => Change::RestoreRate(taken),
                16 if and => Change::RestoreTurn { group },
                16 => Change::RestoreUnits { group, taken },
                _ => Change::RestoreTotals(self.totals()),
            }
        }

        fn settings(&self) -> Settings {
            let [backoff_base, backoff_max, aging, maxlen, concurrency, limit, window, ..] = self.numbers;
            let mut settings = Settings {
                attempts: self.small[0],
                backoff_base,
                backoff_max,
                aging,
                maxlen,
                concurrency,
                rate: self.choices[0].then_some(Rate { limit: limit.max(1), window }),
                paused: self.choices[1],
                ..Settings::default()
            };
            for (field, &value) in Settings::FURTHER.iter().zip(&self.numbers[8..]).filter(|(_, value)| **value > 0) {
                (field.set)(&mut settings, value);
            }
            settings
        }

        fn totals(&self) -> Totals {
            let [last_token, ms, seq, next_seq, pushed, claimed, acked, nacked, cancelled, ..] = self.numbers;
            let mut counters = Counters {
                pushed,
                claimed,
                acked,
                nacked,
                cancelled,
                redriven: self.small[0].into(),
                expired_leases: self.small[1].into(),
                ..Counters::default()
            };
            for (field, &value) in Counters::FURTHER.iter().zip(&self.numbers[9..]) {
                (field.set)(&mut counters, value);
            }
            Totals { last_token, last_id: AutoId { ms, seq }, next_seq, counters }
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        /// What a master writes is what its replicas read.
        #[test]
        fn effects_are_read_as_they_were_written(at in 0..=i64::MAX.unsigned_abs(), stuff in prop::collection::vec(stuff(), 1..8)) {
            without_a_server();
            let effects: Vec<_> = stuff.iter().map(|stuff| Effect { at, change: stuff.change() }).collect();
            for (effect, stuff) in effects.iter().zip(&stuff) {
                prop_assert_eq!(kind(&effect.change), stuff.kind);
            }
            let mut words = Words::new();
            effects.iter().for_each(|effect| words.add(effect));
            prop_assert_eq!(words.effects(), effects.len());
            let key = OwnedStr::new(b"q");
            let mut outcome = None;
            words.send(key.as_str(), |command, arguments| {
                assert_eq!(command, APPLY);
                let mut args = Args::new(arguments);
                assert!(args.string().is_ok_and(|key| key.bytes() == b"q"));
                let (read_at, read) = read(&mut args).expect("what was written can be read");
                outcome = Some(read_at == at && read == effects);
                assert_eq!(read, effects);
            });
            prop_assert_eq!(outcome, Some(true));
        }
    }
}
