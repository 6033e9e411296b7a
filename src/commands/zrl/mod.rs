//! ZRL: rate limits. This file has the parsing of policies and the six fields of a reply that the commands share.

pub mod cell;
pub mod check;
pub mod info;
pub mod mcheck;
pub mod peek;
pub mod refund;
pub mod throttle;
pub mod top;

use super::args::{Args, after, flag, once};
use crate::error::Error;
use crate::model::limit::sliding;
use crate::model::limit::{Algorithm, Policy, Verdict};
use crate::model::time::Millis;
use crate::server::command::Arg;
use crate::server::{Context, Str};
use smallvec::{SmallVec, smallvec};

const COST: Arg = Arg::integer(c"units").after(c"COST").optional();
const ALGORITHM: Arg = Arg::one_of(
    c"algorithm",
    &[Arg::flag(c"sliding", c"SLIDING"), Arg::flag(c"fixed", c"FIXED"), Arg::flag(c"leaky", c"LEAKY")],
)
.optional();
const GRID: Arg =
    Arg::one_of(c"grid", &[Arg::flag(c"exact", c"EXACT"), Arg::string(c"duration").after(c"PRECISION")]).optional();
const FORCE: Arg = Arg::flag(c"force", c"FORCE").optional().since(c"0.2.0");

/// `key limit window [COST units] [SLIDING | FIXED | LEAKY] [EXACT | PRECISION duration] [FORCE]`: the arguments of CHECK and PEEK.
pub const ARGUMENTS: &[Arg] =
    &[Arg::key(c"key"), Arg::integer(c"limit"), Arg::string(c"window"), COST, ALGORITHM, GRID, FORCE];

/// A limit and its window, as given.
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

/// The options of a check. `costs` and `algorithms` have one element for all keys, or one per key.
pub struct Options {
    costs: SmallVec<[u64; 1]>,
    algorithms: SmallVec<[Algorithm; 1]>,
    grid: Option<Millis>,
    pub force: bool,
}

impl Options {
    pub fn parse(args: &mut Args<'_>, keys: usize) -> Result<Options, Error> {
        if args.is_empty() {
            let (costs, algorithms) = (smallvec![1], smallvec![Algorithm::Sliding]);
            return Ok(Options { costs, algorithms, grid: None, force: false });
        }
        let (mut costs, mut algorithms, mut grid, mut force) = (None, None, None, false);
        let mut next = args.trailing_keyword()?;
        while let Some(keyword) = next.take() {
            let word = |keyword: &str| match keyword {
                "SLIDING" => Some(Algorithm::Sliding),
                "FIXED" => Some(Algorithm::Fixed),
                "LEAKY" => Some(Algorithm::Leaky),
                _ => None,
            };
            match keyword.as_str() {
                "COST" => {
                    let mut units: SmallVec<[u64; 1]> = smallvec![args.units()?];
                    while args.is_at_number() {
                        units.push(args.units()?);
                    }
                    once(&mut costs, units)?;
                }
                "EXACT" => once(&mut grid, 1)?,
                "PRECISION" => once(&mut grid, args.duration()?)?,
                "FORCE" => flag(&mut force)?,
                first => {
                    let mut words: SmallVec<[Algorithm; 1]> = smallvec![word(first).ok_or(Error::Syntax)?];
                    next = args.trailing_keyword()?;
                    while let Some(another) = next.as_ref().and_then(|keyword| word(keyword.as_str())) {
                        words.push(another);
                        next = args.trailing_keyword()?;
                    }
                    once(&mut algorithms, words)?;
                    continue;
                }
            }
            next = args.trailing_keyword()?;
        }
        let costs = costs.unwrap_or(smallvec![1]);
        let algorithms = algorithms.unwrap_or(smallvec![Algorithm::Sliding]);
        let fits = |given: usize| given == 1 || given == keys;
        // Only SLIDING uses the precision.
        let has_use = grid.is_none() || algorithms.contains(&Algorithm::Sliding);
        if !(fits(costs.len()) && fits(algorithms.len()) && has_use) {
            return Err(Error::Syntax);
        }
        Ok(Options { costs, algorithms, grid, force })
    }

    /// Returns the units to take from a key.
    pub fn cost(&self, key: usize) -> u64 {
        if let [one] = self.costs[..] { one } else { self.costs[key] }
    }

    /// Returns the policy for a key's quota under these options.
    pub fn policy(&self, key: usize, quota: Quota, now: Millis) -> Result<Policy, Error> {
        let Quota { limit, window } = quota;
        after(now, window)?;
        let algorithm = if let [one] = self.algorithms[..] { one } else { self.algorithms[key] };
        let grid = self.grid.unwrap_or_else(|| sliding::default_grid(limit, window));
        if algorithm == Algorithm::Sliding && grid > window {
            return Err(Error::Precision);
        }
        Ok(Policy { algorithm, limit, window, grid })
    }
}

/// The parsed arguments of CHECK and PEEK.
pub struct Request<'a> {
    pub key: Str<'a>,
    pub policy: Policy,
    pub cost: u64,
    pub force: bool,
}

impl<'a> Request<'a> {
    pub fn parse(arguments: &'a [Str<'a>], now: Millis) -> Result<Request<'a>, Error> {
        let mut args = Args::new(arguments);
        let key = args.string()?;
        let quota = Quota::parse(&mut args)?;
        let options = Options::parse(&mut args, 1)?;
        Ok(Request { key, policy: options.policy(0, quota, now)?, cost: options.cost(0), force: options.force })
    }
}

/// Replies the six fields of a verdict.
pub fn reply(ctx: &Context, verdict: &Verdict) {
    ctx.reply_array(6);
    ctx.reply_bool(verdict.allowed);
    ctx.reply_count(verdict.limit);
    ctx.reply_integer(verdict.remaining);
    ctx.reply_integer(verdict.retry_after.as_integer());
    ctx.reply_count(verdict.reset_after);
    ctx.reply_count(verdict.charged_until);
}
