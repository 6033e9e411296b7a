//! ZRL: rate limits. This file has the functions that several commands share.

mod cell;
mod check;
mod info;
mod mcheck;
mod peek;
mod refund;
mod throttle;
mod top;

use crate::args::{Args, after, flag, once};
use crate::base::time::Millis;
use crate::error::Error;
use crate::limits::model::{Algorithm, Call, Intent, MAX_UNITS, Policy, Verdict};
use crate::server::command::{Arg, Command, commands};
use crate::server::{Context, Str};
use smallvec::SmallVec;

/// The commands for rate limits. A rate limit is a plain string.
pub const COMMANDS: &[Command] = commands![check, info, mcheck, peek, refund, throttle, top];

/// The command that the module argument `cell` adds: CL.THROTTLE, which is ZRL.THROTTLE under redis-cell's name.
pub const CELL: &[Command] = commands![cell];

const COST: Arg = Arg::integer(c"units").after(c"COST").optional();
const ALGORITHM: Arg = Arg::one_of(
    c"algorithm",
    &[Arg::flag(c"sliding", c"SLIDING"), Arg::flag(c"fixed", c"FIXED"), Arg::flag(c"leaky", c"LEAKY")],
)
.optional();
const PRECISION: Arg =
    Arg::one_of(c"precision", &[Arg::flag(c"exact", c"EXACT"), Arg::string(c"duration").after(c"PRECISION")])
        .optional();
const FORCE: Arg = Arg::flag(c"force", c"FORCE").optional().since(c"0.2.0");

/// The arguments of CHECK and PEEK:
/// `key limit window [COST units] [SLIDING | FIXED | LEAKY] [EXACT | PRECISION duration] [FORCE]`.
pub const ARGUMENTS: &[Arg] =
    &[Arg::key(c"key"), Arg::integer(c"limit"), Arg::string(c"window"), COST, ALGORITHM, PRECISION, FORCE];

#[derive(Clone, Copy)]
pub struct Quota {
    limit: u64,
    window: Millis,
}

impl Quota {
    pub fn parse(args: &mut Args<'_>) -> Result<Quota, Error> {
        Ok(Quota { limit: args.limit()?, window: args.duration()? })
    }
}

/// The options of a check. `costs` and `algorithms` have no element, one element for all keys, or one element per key.
pub struct Options {
    costs: SmallVec<[u64; 1]>,
    algorithms: SmallVec<[Algorithm; 1]>,
    precision: Option<Millis>,
    pub intent: Intent,
}

impl Options {
    pub fn parse(args: &mut Args<'_>, keys: usize) -> Result<Options, Error> {
        let (mut costs, mut algorithms) = (SmallVec::new(), SmallVec::<[_; 1]>::new());
        let (mut precision, mut is_forced) = (None, false);
        let mut follows_algorithm = false;
        while let Some(keyword) = args.trailing_keyword()? {
            let algorithm = match keyword.bytes() {
                b"SLIDING" => Some(Algorithm::Sliding),
                b"FIXED" => Some(Algorithm::Fixed),
                b"LEAKY" => Some(Algorithm::Leaky),
                _ => None,
            };
            match (algorithm, keyword.bytes()) {
                (Some(algorithm), _) if follows_algorithm || algorithms.is_empty() => algorithms.push(algorithm),
                (None, b"COST") if costs.is_empty() => {
                    costs.push(args.units()?);
                    while args.is_at_value() {
                        costs.push(args.units()?);
                    }
                }
                (None, b"EXACT") => once(&mut precision, 1)?,
                (None, b"PRECISION") => once(&mut precision, args.duration()?)?,
                (None, b"FORCE") => flag(&mut is_forced)?,
                _ => return Err(Error::Syntax),
            }
            follows_algorithm = algorithm.is_some();
        }
        let fits = |given: usize| given <= 1 || given == keys;
        // Only SLIDING uses the precision.
        let has_use = precision.is_none() || algorithms.is_empty() || algorithms.contains(&Algorithm::Sliding);
        if !(fits(costs.len()) && fits(algorithms.len()) && has_use) {
            return Err(Error::Syntax);
        }
        let intent = if is_forced { Intent::Force } else { Intent::Take };
        Ok(Options { costs, algorithms, precision, intent })
    }

    pub fn call(&self, key: usize, Quota { limit, window }: Quota, now: Millis) -> Result<Call, Error> {
        after(now, window)?;
        let algorithm = of_key(&self.algorithms, key).unwrap_or(Algorithm::Sliding);
        let precision = self.precision;
        if algorithm == Algorithm::Sliding && precision.is_some_and(|precision| precision > window) {
            return Err(Error::Precision);
        }
        let policy = Policy { algorithm, limit, window, precision };
        Ok(Call { policy, now, cost: of_key(&self.costs, key).unwrap_or(1) })
    }
}

/// Returns the value of an option for the key at index `key`. An option has one value for each key, or one for all keys.
/// Returns `None` if the client did not give the option.
fn of_key<T: Copy>(values: &[T], key: usize) -> Option<T> {
    if let [one] = *values { Some(one) } else { values.get(key).copied() }
}

/// Parses the arguments of CHECK and PEEK. Returns the key, the call, and the intent. With FORCE, the intent is
/// [`Intent::Force`]. Otherwise, the intent is [`Intent::Take`].
pub fn parse<'a>(ctx: &Context, arguments: &'a [Str<'a>]) -> Result<(Str<'a>, Call, Intent), Error> {
    let now = ctx.now();
    let mut args = Args::new(arguments);
    let key = args.string()?;
    let quota = Quota::parse(&mut args)?;
    let options = Options::parse(&mut args, 1)?;
    Ok((key, options.call(0, quota, now)?, options.intent))
}

pub fn reply(ctx: &Context, verdict: &Verdict) {
    ctx.reply_array(6);
    ctx.reply_bool(verdict.allowed);
    ctx.reply_count(verdict.limit);
    ctx.reply_integer(verdict.remaining);
    ctx.reply_integer(verdict.retry_after.map_or(-1, u64::cast_signed));
    ctx.reply_count(verdict.reset_after);
    ctx.reply_count(verdict.charged_until);
}

impl Args<'_> {
    /// Parses a limit: 1 to 2^53-1.
    pub fn limit(&mut self) -> Result<u64, Error> {
        self.units().and_then(|units| if units == 0 { Err(Error::Units) } else { Ok(units) })
    }

    /// Parses a cost: 0 to 2^53-1.
    pub fn units(&mut self) -> Result<u64, Error> {
        u64::try_from(self.integer()?).ok().filter(|&units| units <= MAX_UNITS).ok_or(Error::Units)
    }
}
