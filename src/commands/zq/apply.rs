//! `ZQ.APPLY key at effect [effect ...]`
//!
//! Carries out effects as [`Words`](crate::queues::wire) wrote them. This is what the other commands replicate and what AOF
//! files hold; no application needs it. It reads no clock, and computes nothing: a replica gets what the master had.
//!
//! Anybody who may write the key may call it, because AOF files are also fed to servers by ordinary clients (`redis-cli
//! --pipe`, tools that migrate by the replication stream), and it opens no door: RESTORE can put any state whatever into a
//! key, and an effect that does not fit its queue changes nothing. It is passed over; the reply, an integer, tells how many
//! did fit, and of those that come from a master or an AOF file, where all should, the log tells.

use crate::commands::args::Args;
use crate::error::Error;
use crate::model::queue::{
    Attempt, AutoId, Change, Counters, Effect, Extras, Rate, Record, Recurrence, Settings, Standing, Taken, Totals,
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
        let at = args.count()?;
        let mut effects = Vec::new();
        while !args.is_empty() {
            effects.push(parse(&mut args, at)?);
        }
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
        standing: match args.string()?.bytes() {
            b"ready" => Standing::Ready,
            b"scheduled" => Standing::Scheduled,
            b"claimed" => Standing::Claimed,
            b"dead" => Standing::Dead,
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
