//! ZRL: rate limits. What the commands share: how a policy is written, and the six fields of a reply.

pub mod check;
pub mod mcheck;
pub mod peek;
pub mod refund;
pub mod throttle;

use super::args::{Args, once};
use crate::error::Error;
use crate::expiring::limit::LimitSet;
use crate::model::limit::{Algorithm, Assessed, Policy, Verdict};
use crate::model::time::{self, Millis};
use crate::server::command::Arg;
use crate::server::{Context, Str};

/// `[COST units] [SLIDING | FIXED | LEAKY] [EXACT | PRECISION duration]`
pub const OPTIONS: [Arg; 3] = [
    Arg::integer(c"units").after(c"COST").optional(),
    Arg::one_of(
        c"algorithm",
        &[Arg::flag(c"sliding", c"SLIDING"), Arg::flag(c"fixed", c"FIXED"), Arg::flag(c"leaky", c"LEAKY")],
    )
    .optional(),
    Arg::one_of(c"grid", &[Arg::flag(c"exact", c"EXACT"), Arg::string(c"duration").after(c"PRECISION")]).optional(),
];

/// `key limit window` and the options: the arguments of CHECK and PEEK.
pub const ARGUMENTS: &[Arg] =
    &[Arg::key(c"key"), Arg::integer(c"limit"), Arg::string(c"window"), OPTIONS[0], OPTIONS[1], OPTIONS[2]];

/// A limit and its window, as written.
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

#[derive(Clone, Copy, PartialEq, Eq)]
enum Grid {
    Exact,
    Precision(Millis),
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Word {
    Sliding,
    Fixed,
    Leaky,
}

/// The options of a check.
pub struct Options {
    pub cost: u64,
    algorithm: Word,
    grid: Option<Grid>,
}

impl Options {
    pub fn parse(args: &mut Args<'_>) -> Result<Options, Error> {
        let (mut cost, mut algorithm, mut grid) = (None, None, None);
        while let Some(keyword) = args.trailing_keyword()? {
            match keyword.as_str() {
                "COST" => once(&mut cost, args.units()?)?,
                "SLIDING" => once(&mut algorithm, Word::Sliding)?,
                "FIXED" => once(&mut algorithm, Word::Fixed)?,
                "LEAKY" => once(&mut algorithm, Word::Leaky)?,
                "EXACT" => once(&mut grid, Grid::Exact)?,
                "PRECISION" => once(&mut grid, Grid::Precision(args.duration()?))?,
                _ => return Err(Error::Syntax),
            }
        }
        let algorithm = algorithm.unwrap_or(Word::Sliding);
        // Only SLIDING rounds to a grid.
        if grid.is_some() && algorithm != Word::Sliding {
            return Err(Error::Syntax);
        }
        Ok(Options { cost: cost.unwrap_or(1), algorithm, grid })
    }

    /// The policy that a quota means under these options.
    pub fn policy(&self, quota: Quota, now: Millis) -> Result<Policy, Error> {
        let Quota { limit, window } = quota;
        if now + window > time::MAX {
            return Err(Error::TooFar);
        }
        let algorithm = match (self.algorithm, self.grid) {
            (Word::Fixed, _) => Algorithm::Fixed,
            (Word::Leaky, _) => Algorithm::Leaky,
            (Word::Sliding, None) => Algorithm::Sliding { grid: Policy::default_grid(limit, window) },
            (Word::Sliding, Some(Grid::Exact)) => Algorithm::Sliding { grid: 1 },
            (Word::Sliding, Some(Grid::Precision(grid))) if grid > window => return Err(Error::Precision),
            (Word::Sliding, Some(Grid::Precision(grid))) => Algorithm::Sliding { grid },
        };
        Ok(Policy { limit, window, algorithm })
    }
}

/// What CHECK and PEEK ask.
pub struct Request<'a> {
    pub key: Str<'a>,
    pub policy: Policy,
    pub cost: u64,
}

impl<'a> Request<'a> {
    pub fn parse(arguments: &'a [Str<'a>], now: Millis) -> Result<Request<'a>, Error> {
        let mut args = Args::new(arguments);
        let key = args.string()?;
        let quota = Quota::parse(&mut args)?;
        let options = Options::parse(&mut args)?;
        Ok(Request { key, policy: options.policy(quota, now)?, cost: options.cost })
    }
}

/// Takes the units that fit.
fn charge(limit: &mut LimitSet<'_>, assessed: &Assessed, now: Millis) -> Verdict {
    let (verdict, change) = assessed.charge();
    if let Some(change) = change {
        limit.apply(now, change, assessed);
    }
    verdict
}

/// Takes nothing, and writes nothing but what is owed.
fn refuse(limit: &mut LimitSet<'_>, assessed: &Assessed, now: Millis) -> Verdict {
    if let Some(change) = assessed.settlement() {
        limit.apply(now, change, assessed);
    }
    assessed.verdict()
}

/// Replies the six fields.
pub fn reply(ctx: Context<'_>, verdict: &Verdict) {
    ctx.reply_array(6);
    ctx.reply_bool(verdict.allowed);
    ctx.reply_count(verdict.limit);
    ctx.reply_count(verdict.remaining);
    ctx.reply_integer(verdict.retry_after.as_integer());
    ctx.reply_count(verdict.reset_after);
    ctx.reply_count(verdict.charged_until);
}
