//! `ZEXP.RANDMEMBER key [count]`
//!
//! Returns random live members. As in SRANDMEMBER, the members are distinct if `count` is positive, and may repeat if
//! `count` is negative.

use crate::args::Args;
use crate::base::random::Random;
use crate::base::time::{self, Millis};
use crate::error::Error;
use crate::server::command::{Access, Arg, Keys, Spec};
use crate::server::key::Reading;
use crate::server::under_lock::UnderLock;
use crate::server::zset::Element;
use crate::server::{Context, OwnedStr, Str};
use crate::sets::ExpiringSet;
use hashbrown::HashSet;
use lazy_static::lazy_static;

/// The maximum number of members for a negative count, so that the reply fits into memory.
const MAX_REPEATED: u64 = 1 << 20;

/// One lookup by rank takes as long as iterating over this many members. If more than 1/`WALK` of the live members
/// are requested, the command iterates over all of them.
const WALK: u64 = 12;

lazy_static! {
    /// The random number generator for all calls. A new generator for each call would take as long as several random
    /// numbers.
    static ref RANDOM: UnderLock<Random> = UnderLock::new(Random::new());
}

pub const SPEC: Spec = Spec {
    name: c"ZEXP.RANDMEMBER",
    summary: c"Returns random live members of an expiring set.",
    complexity: c"O(log N) for each member returned, with N the number of members of the set, and never more than O(N)",
    since: c"0.1.0",
    flags: c"readonly",
    keys: Keys::First(Access::Read),
    arguments: &[Arg::key(c"key"), Arg::integer(c"count").optional()],
};

pub fn run<'a>(ctx: &mut Context, arguments: &'a [Str<'a>]) -> Result<(), Error> {
    let now = ctx.now();
    let mut args = Args::new(arguments);
    let key = args.string()?;
    let count = if args.is_empty() { None } else { Some(args.integer()?) };
    args.finish()?;
    if count.is_some_and(|count| count < 0 && count.unsigned_abs() > MAX_REPEATED) {
        return Err(Error::TooManyRepeated);
    }

    let Some(count) = count else { return reply_one(ctx, key, now) };
    let (first, chosen, pool) = ExpiringSet::counted(ctx, key, now, |set, live| {
        let most = count.unsigned_abs();
        let chosen = RANDOM.with(set.ctx(), |random| match count {
            0.. => distinct_below(random, live, most.min(live)),
            _ if live == 0 => Vec::new(),
            _ => below(random, live, most),
        });
        let pool = (chosen.len() as u64 > live / WALK).then(|| Pool::of(set.live(0, now, f64::INFINITY)));
        (set.first_live_rank(live), chosen, pool)
    })?;
    if let Some(pool) = pool {
        ctx.reply_array(chosen.len());
        for rank in chosen {
            // RESTORE accepts sets whose members are out of order. For such a set, the pool may have fewer members than
            // were counted.
            match pool.get(rank) {
                Some(member) => ctx.reply_bytes(member),
                None => ctx.reply_null(),
            }
        }
        return Ok(());
    }
    let members = chosen.into_iter().map(|rank| member_at(ctx, key, first + rank)).collect::<Result<Vec<_>, _>>()?;
    ctx.reply_array(members.len());
    members.iter().for_each(|member| reply_member(ctx, member.as_ref()));
    Ok(())
}

/// Replies with one random member, or null if none is live.
///
/// Draws from all members, because most sets have no expired members. If the drawn member has expired, draws again,
/// from the live members. So every live member is equally likely. The live members are counted only if the drawn member
/// has expired, or if its rank is too high for a cheap lookup (above [`WALK`]).
fn reply_one(ctx: &mut Context, key: Str<'_>, now: Millis) -> Result<(), Error> {
    let mut set = ExpiringSet::<Reading>::expiring(ctx, key)?;
    let all = set.len();
    let rank = if all == 0 { 0 } else { below_one(set.ctx(), all) };
    let near = if rank <= WALK { set.at(rank).filter(|element| element.score > time::to_score(now)) } else { None };
    let is_empty = set.is_empty();
    drop(set);
    let member = match near {
        _ if is_empty => None,
        Some(element) => Some(element.member),
        None => {
            let (first, live) = ExpiringSet::counted(ctx, key, now, |set, live| (set.first_live_rank(live), live))?;
            // The draw as a rank in the sorted set: the last `all` ranks are those of the members.
            let drawn = first + live - all + rank;
            match live {
                0 => None,
                _ if drawn >= first => member_at(ctx, key, drawn)?,
                _ => member_at(ctx, key, first + below_one(ctx, live))?,
            }
        }
    };
    reply_member(ctx, member.as_ref());
    Ok(())
}

fn below_one(ctx: &Context, bound: u64) -> u64 {
    RANDOM.with(ctx, |random| random.below(bound))
}

fn member_at(ctx: &mut Context, key: Str<'_>, rank: u64) -> Result<Option<OwnedStr>, Error> {
    Ok(ctx.members_at(key, rank, rank)?.pop())
}

fn reply_member(ctx: &Context, member: Option<&OwnedStr>) {
    match member {
        Some(member) => ctx.reply_string(member.as_str()),
        None => ctx.reply_null(),
    }
}

/// All live members in one buffer. Allocating a string for each member would take most of the command's time.
#[derive(Default)]
struct Pool {
    bytes: Vec<u8>,
    ends: Vec<usize>,
}

impl Pool {
    fn of(members: impl Iterator<Item = Element>) -> Pool {
        let mut pool = Pool::default();
        for element in members {
            pool.bytes.extend_from_slice(element.member.bytes());
            pool.ends.push(pool.bytes.len());
        }
        pool
    }

    fn get(&self, rank: u64) -> Option<&[u8]> {
        let rank = usize::try_from(rank).ok()?;
        let end = *self.ends.get(rank)?;
        let start = rank.checked_sub(1).map_or(0, |before| self.ends[before]);
        Some(&self.bytes[start..end])
    }
}

fn below(random: &mut Random, bound: u64, count: u64) -> Vec<u64> {
    (0..count).map(|_| random.below(bound)).collect()
}

/// Returns `count` distinct random numbers below `bound`. All choices are equally likely. O(count). (Robert Floyd's
/// algorithm: J. Bentley, Programming Pearls, "A sample of brilliance", 1987.)
fn distinct_below(random: &mut Random, bound: u64, count: u64) -> Vec<u64> {
    if count == bound {
        return (0..bound).collect();
    }
    let mut chosen = HashSet::new();
    for highest in bound - count..bound {
        let number = random.below(highest + 1);
        if !chosen.insert(number) {
            chosen.insert(highest);
        }
    }
    chosen.into_iter().collect()
}
