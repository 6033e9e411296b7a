//! The text form of effects, which masters and AOF files of Zeitset 0.3 send: `ZQ.APPLY key at effect [effect ...]`.
//! [`super::wire`] has the current form. `at` is the time of the command. All numbers are decimal.
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
//! | `JOB` | id payload state time priority seq | [`JobData::FIELDS`], worker, error, group |
//! | `UNITS` | back-at units | group (empty: the jobs without a group; omitted: the units of RATE) |
//! | `TURN` | group | |
//! | `TOTALS` | token id-ms id-seq seq | [`Counters::FIELDS`] |
//!
//! With `PUSHAUTO`, the queue has generated the ID. With `free`, the attempt does not count. With `last`, the job waits
//! for its next occurrence.
//!
//! `state` is the stored state: `ready`, `delayed`, `claimed`, `dead`. Times are Unix milliseconds, and durations are
//! milliseconds. Only rewritten AOF files contain `JOB`, `FOLLOWER`, `UNITS`, `TURN` and `TOTALS`.

use crate::args::Args;
use crate::base::packed::Unreadable;
use crate::base::time::Millis;
use crate::error::Error;
use crate::queues::model::{
    Attempt, AutoId, Change, Counters, Effect, Field, JobChange, JobData, NewJob, Settings, State, Taken, Totals,
};
use crate::server::Str;

/// The argument of `MOVE` for a due time or a priority that does not change.
const SAME: &[u8] = b"-";

/// Decodes the arguments of ZQ.APPLY after the key. If an effect cannot be decoded, the error contains the effect's
/// first word.
pub fn decode<'a>(arguments: &'a [Str<'a>]) -> Result<(Millis, Vec<Effect<'a>>), (Unreadable, Error)> {
    let mut args = Args::new(arguments);
    let mut word = Args::new(arguments);
    let at = args.count().map_err(|error| unreadable(&mut word, error))?;
    let mut effects = Vec::new();
    while !args.is_empty() {
        let mut word = args.clone();
        effects.push(parse(&mut args, at).map_err(|error| unreadable(&mut word, error))?);
    }
    if effects.is_empty() { Err(unreadable(&mut word, Error::Arity)) } else { Ok((at, effects)) }
}

fn unreadable(args: &mut Args<'_>, error: Error) -> (Unreadable, Error) {
    let word = args.string().map_or_else(|_| "effects".to_owned(), |word| word.to_string());
    (Unreadable::new(word, error.text().to_string_lossy()), error)
}

/// Decodes the next effect.
fn parse<'a>(args: &mut Args<'a>, at: Millis) -> Result<Effect<'a>, Error> {
    let of_job = |id: &'a [u8], change: JobChange<'a>| Change::Job { id, change };
    let word = bytes(args)?;
    let change = match word {
        b"PUSH" | b"PUSHAUTO" => {
            Change::Push { job: new_job(args)?, generated: word == b"PUSHAUTO", again: args.skip(b"again") }
        }
        b"CLAIM" => of_job(
            bytes(args)?,
            JobChange::Claim { token: args.count()?, deadline: args.count()?, worker: text(args, b"worker")? },
        ),
        b"SETTLE" => Change::SettleRates,
        b"ACK" => of_job(bytes(args)?, JobChange::Ack { next_due: None }),
        b"AGAIN" => of_job(bytes(args)?, JobChange::Ack { next_due: Some(args.count()?) }),
        b"RETRY" => of_job(
            bytes(args)?,
            JobChange::Retry {
                due: args.count()?,
                attempt: match (args.skip(b"free"), args.skip(b"last")) {
                    (false, false) => Attempt::Counts,
                    (true, false) => Attempt::Free,
                    (false, true) => Attempt::Last,
                    (true, true) => return Err(Error::Syntax),
                },
                error: text(args, b"error")?,
            },
        ),
        b"DEAD" => of_job(bytes(args)?, JobChange::Dead { is_free: args.skip(b"free"), error: text(args, b"error")? }),
        b"EXTEND" => of_job(bytes(args)?, JobChange::Extend { deadline: args.count()? }),
        b"CANCEL" => of_job(bytes(args)?, JobChange::Cancel),
        b"CLEAN" => of_job(bytes(args)?, JobChange::Clean),
        b"DROP" => of_job(bytes(args)?, JobChange::Drop),
        b"EXPIRE" => of_job(bytes(args)?, JobChange::Expire { next_due: optional(args, b"due", Args::count)? }),
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
    Ok(optional(args, name, Args::option_value)?.map_or(b"", Str::bytes))
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
        ttl: optional(args, b"ttl", Args::count)?,
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

fn job<'a>(args: &mut Args<'a>) -> Result<JobData<'a>, Error> {
    let (id, payload) = (bytes(args)?, bytes(args)?);
    let state = bytes(args)?;
    let state = State::ALL.into_iter().find(|it| it.name().as_bytes() == state).ok_or(Error::Syntax)?;
    let mut job = JobData::new(id, payload, state, args.count()?, args.priority()?, args.count()?).bare();
    put_fields(&JobData::FIELDS, &mut job, args)?;
    job.extras.worker = text(args, b"worker")?;
    job.extras.error = text(args, b"error")?;
    job.group = text(args, b"group")?;
    Ok(job)
}

#[cfg(test)]
mod tests;
