//! `ZQ.APPLY key at effect [effect ...]`
//!
//! Applies encoded effects ([`crate::queues::wire`]). The effects have the values that the master computed. Replicas
//! and AOF files get this command instead of the commands that clients sent. Applications do not need this command.
//!
//! A client can also replay an AOF file, so clients may send this command. Like RESTORE, the command bypasses the
//! checks of other commands, and needs the rights of RESTORE. An effect that does not fit the queue changes nothing. If
//! such an effect comes from a master or an AOF file, the server logs it. The reply is the number of effects that fit.

use crate::args::Args;
use crate::base::time::Millis;
use crate::error::Error;
use crate::queues::model::{
    Attempt, AutoId, Change, Counters, Effect, Field, JobChange, NewJob, Record, Settings, State, Taken, Totals,
};
use crate::queues::wire::{AGAIN, APPLY, DUE, FREE, LAST, SAME, TTL};
use crate::queues::{self, OpenQueue};
use crate::server::command::{Access, Arg, Keys, Spec};
use crate::server::key::Writing;
use crate::server::{Context, Str};

pub const SPEC: Spec = Spec {
    name: APPLY,
    summary: c"Applies effects of other commands to a queue, for replication and AOF files.",
    complexity: c"O(log N) for each effect, with N the number of jobs of the queue",
    since: c"0.1.0",
    // With the flag deny-oom, a replica above its own `maxmemory` could refuse effects, and would then differ from its
    // master.
    flags: c"write",
    keys: Keys::First(Access::Exchange),
    arguments: &[Arg::key(c"key"), Arg::integer(c"unix-time-milliseconds"), Arg::string(c"effect").multiple()],
};

pub fn run<'a>(ctx: &mut Context, arguments: &'a [Str<'a>]) -> Result<(), Error> {
    let mut args = Args::new(arguments);
    let key = args.string()?;
    ctx.check_right_to_restore(key)?;
    let (at, effects) = read(&mut args)?;
    let mut open = OpenQueue::<Writing>::open(ctx, key)?;
    let rejected_effects = open.change(|queue, recorder| {
        let mut rejected_effects = 0;
        for effect in &effects {
            if queue.apply(effect) {
                recorder.add(effect);
            } else {
                rejected_effects += 1;
            }
        }
        rejected_effects
    });
    open.commit_replayed(at);
    if rejected_effects > 0 && ctx.is_replayed() {
        queues::report_rejected(ctx, key, rejected_effects);
    }
    ctx.reply_count(effects.len() as u64 - rejected_effects);
    Ok(())
}

fn read<'a>(args: &mut Args<'a>) -> Result<(Millis, Vec<Effect<'a>>), Error> {
    let at = args.count()?;
    let mut effects = Vec::new();
    while !args.is_empty() {
        effects.push(parse(args, at)?);
    }
    Ok((at, effects))
}

/// Decodes the next effect. [`EncodedEffects::add`](crate::queues::wire::EncodedEffects::add) encodes effects.
fn parse<'a>(args: &mut Args<'a>, at: Millis) -> Result<Effect<'a>, Error> {
    let of_job = |id: &'a [u8], change: JobChange<'a>| Change::Job { id, change };
    let word = bytes(args)?;
    let change = match word {
        b"PUSH" | b"PUSHAUTO" => {
            Change::Push { job: new_job(args)?, generated: word == b"PUSHAUTO", again: args.skip(AGAIN) }
        }
        b"CLAIM" => of_job(
            bytes(args)?,
            JobChange::Claim { token: args.count()?, deadline: args.count()?, worker: text(args, b"worker")? },
        ),
        b"SETTLE" => Change::SettleRates,
        b"ACK" => of_job(bytes(args)?, JobChange::Ack { again: None }),
        b"AGAIN" => of_job(bytes(args)?, JobChange::Ack { again: Some(args.count()?) }),
        b"RETRY" => of_job(
            bytes(args)?,
            JobChange::Retry {
                due: args.count()?,
                attempt: match (args.skip(FREE), args.skip(LAST)) {
                    (false, false) => Attempt::Counts,
                    (true, false) => Attempt::Free,
                    (false, true) => Attempt::Last,
                    (true, true) => return Err(Error::Syntax),
                },
                error: text(args, b"error")?,
            },
        ),
        b"DEAD" => of_job(bytes(args)?, JobChange::Dead { is_free: args.skip(FREE), error: text(args, b"error")? }),
        b"EXTEND" => of_job(bytes(args)?, JobChange::Extend { deadline: args.count()? }),
        b"CANCEL" => of_job(bytes(args)?, JobChange::Cancel),
        b"CLEAN" => of_job(bytes(args)?, JobChange::Clean),
        b"DROP" => of_job(bytes(args)?, JobChange::Drop),
        b"EXPIRE" => of_job(bytes(args)?, JobChange::Expire { again: optional(args, DUE, Args::count)? }),
        b"FOLLOW" => of_job(bytes(args)?, JobChange::Follow),
        b"REVIVE" => of_job(bytes(args)?, JobChange::Revive),
        b"MOVE" => of_job(
            bytes(args)?,
            JobChange::Reschedule {
                due: unless_same(args, Args::count)?,
                priority: unless_same(args, Args::priority)?,
            },
        ),
        b"REDRIVE" => Change::Redrive { count: args.count()?, group: optional(args, b"group", bytes)? },
        b"HOLD" => Change::Hold { group: bytes(args)?, until: args.count()? },
        b"CONFIGURE" => Change::Configure(fields(Settings::FIELDS, args)?),
        b"JOB" => Change::RestoreJob(job(args)?),
        b"FOLLOWER" => Change::RestoreFollower(new_job(args)?),
        b"UNITS" => Change::RestoreUnits {
            taken: Taken { back_at: args.count()?, units: args.count()? },
            group: optional(args, b"group", bytes)?,
        },
        b"TURN" => Change::RestoreTurn { group: bytes(args)? },
        b"TOTALS" => Change::RestoreTotals(Totals {
            last_token: args.count()?,
            last_id: AutoId { ms: args.count()?, seq: args.count()? },
            next_seq: args.count()?,
            counters: fields(Counters::FIELDS, args)?,
        }),
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

/// If the option `name` follows, decodes its value with `read`. Otherwise, returns `None`.
fn optional<'a, T>(
    args: &mut Args<'a>,
    name: &[u8],
    read: impl FnOnce(&mut Args<'a>) -> Result<T, Error>,
) -> Result<Option<T>, Error> {
    if args.skip(name) { read(args).map(Some) } else { Ok(None) }
}

/// If the option `name` follows, returns its text. Otherwise, returns an empty text.
fn text<'a>(args: &mut Args<'a>, name: &[u8]) -> Result<&'a [u8], Error> {
    Ok(optional(args, name, Args::word)?.map_or(b"", Str::bytes))
}

fn bytes<'a>(args: &mut Args<'a>) -> Result<&'a [u8], Error> {
    args.string().map(Str::bytes)
}

fn new_job<'a>(args: &mut Args<'a>) -> Result<NewJob<'a>, Error> {
    let (id, payload) = (bytes(args)?, bytes(args)?);
    Ok(NewJob {
        id,
        payload,
        due: args.count()?,
        priority: args.priority()?,
        max_attempts: args.attempts()?,
        every: Some(args.count()?).filter(|&every| every > 0),
        group: text(args, b"group")?,
        ttl: optional(args, TTL, Args::count)?,
    })
}

fn fields<T: Default>(table: &[Field<T>], args: &mut Args<'_>) -> Result<T, Error> {
    let mut of = T::default();
    put_fields(table, &mut of, args)?;
    Ok(of)
}

/// Decodes the optional fields that `table` lists, and sets them in `of`.
fn put_fields<T>(table: &[Field<T>], of: &mut T, args: &mut Args<'_>) -> Result<(), Error> {
    for field in table {
        if args.skip(field.name.as_bytes()) && !field.put(of, args.count()?) {
            return Err(Error::OutOfRange);
        }
    }
    Ok(())
}

fn job<'a>(args: &mut Args<'a>) -> Result<Record<'a>, Error> {
    let (id, payload) = (bytes(args)?, bytes(args)?);
    let state = bytes(args)?;
    let state = State::ALL.into_iter().find(|it| it.name().as_bytes() == state).ok_or(Error::Syntax)?;
    let mut job = Record::new(id, payload, state, args.count()?, args.priority()?, args.count()?).bare();
    put_fields(&Record::FIELDS, &mut job, args)?;
    job.extras.worker = text(args, b"worker")?;
    job.extras.error = text(args, b"error")?;
    job.group = text(args, b"group")?;
    Ok(job)
}

#[cfg(test)]
mod tests;
