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
    AutoId, Change, Counters, Effect, Rate, Record, Recurrence, Settings, Standing, Taken, Totals,
};
use crate::model::time::Millis;
use crate::queues::OpenQueue;
use crate::queues::wire::{APPLY, SAME};
use crate::server::command::{Access, Arg, Command, Keys, Spec};
use crate::server::key::Mode;
use crate::server::{Context, Str};

pub struct Apply;

impl Command for Apply {
    const SPEC: Spec = Spec {
        name: APPLY,
        summary: c"Carries out effects that other commands of queues had: for replication and AOF files.",
        complexity: c"O(log N) for each effect, with N the number of jobs of the queue",
        since: c"0.1.0",
        flags: c"write deny-oom",
        arity: -4,
        keys: Keys::First(Access::Exchange),
        arguments: &[Arg::key(c"key"), Arg::integer(c"unix-time-milliseconds"), Arg::string(c"effect").multiple()],
    };

    fn run<'a>(ctx: Context<'a>, arguments: &'a [Str<'a>]) -> Result<(), Error> {
        let mut args = Args::new(arguments);
        let key = args.string()?;
        let at = args.count()?;
        let mut effects = Vec::new();
        while !args.is_empty() {
            effects.push(parse(&mut args, at)?);
        }
        let mut open = OpenQueue::open(ctx, key, Mode::Write)?;
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
        open.commit(at);
        if misfits > 0 && ctx.is_replayed() {
            let line = format!("zeitset: {misfits} replicated effects do not fit the queue they are for");
            ctx.log(c"warning", &line);
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
        b"PUSH" | b"MADE" => Change::Push {
            id: id(args)?,
            payload: id(args)?,
            due: args.count()?,
            priority: args.priority()?,
            max_attempts: args.attempts()?,
            every: Some(args.count()?).filter(|&every| every > 0),
            generated: word == b"MADE",
        },
        b"CLAIM" => Change::Claim { id: id(args)?, token: args.count()?, deadline: args.count()? },
        b"SETTLE" => Change::SettleRate,
        b"ACK" => Change::Ack { id: id(args)?, again: None },
        b"AGAIN" => Change::Ack { id: id(args)?, again: Some(args.count()?) },
        b"RETRY" => Change::Retry { id: id(args)?, due: args.count()? },
        b"BURY" => Change::Bury { id: id(args)? },
        b"EXTEND" => Change::Extend { id: id(args)?, deadline: args.count()? },
        b"CANCEL" => Change::Cancel { id: id(args)? },
        b"MOVE" => Change::Reschedule {
            id: id(args)?,
            due: unless_same(args, Args::count)?,
            priority: unless_same(args, Args::priority)?,
        },
        b"REDRIVE" => Change::Redrive { count: args.count()? },
        b"CONFIGURE" => Change::Configure(settings(args)?),
        b"JOB" => Change::RestoreJob(job(args)?),
        b"TAKEN" => Change::RestoreRate(Taken { back_at: args.count()?, units: args.count()? }),
        b"TOTALS" => Change::RestoreTotals(totals(args)?),
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

fn settings(args: &mut Args<'_>) -> Result<Settings, Error> {
    Ok(Settings {
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
    })
}

fn job<'a>(args: &mut Args<'a>) -> Result<Record<'a>, Error> {
    Ok(Record {
        id: args.string()?.bytes(),
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
    })
}

fn totals(args: &mut Args<'_>) -> Result<Totals, Error> {
    Ok(Totals {
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
        },
    })
}
