//! `ZEXP.RANDMEMBER key [count]`
//!
//! Returns random live members. As in SRANDMEMBER, the members are distinct if `count` is positive, and may repeat if
//! `count` is negative.

use crate::args::Args;
use crate::base::random::Random;
use crate::error::Error;
use crate::server::command::{Access, Arg, Keys, Spec};
use crate::server::zset::Element;
use crate::server::{Context, Str};
use crate::sets::ExpiringSet;
use hashbrown::HashSet;

/// The maximum number of members for a negative count, so that the reply fits into memory.
const MOST_REPEATED: u64 = 1 << 20;

/// One lookup by rank takes as long as iterating over this many members. If more than 1/`WALK` of the live members
/// are requested, the command iterates over all of them.
const WALK: u64 = 12;

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
    if count.is_some_and(|count| count < 0 && count.unsigned_abs() > MOST_REPEATED) {
        return Err(Error::TooManyRepeated);
    }

    let (dead, chosen, pool) = ExpiringSet::counted(ctx, key, now, |set, live| {
        let wanted = match count {
            None => live.min(1),
            Some(count) if count >= 0 => live.min(count.unsigned_abs()),
            Some(_) if live == 0 => 0,
            Some(count) => count.unsigned_abs(),
        };
        let distinct = count.is_none_or(|count| count >= 0);
        let random = Random::new();
        let chosen = if distinct { distinct_below(random, live, wanted) } else { below(random, live, wanted) };
        let pool = (wanted > live / WALK).then(|| Pool::of(set.live(0, now, f64::INFINITY)));
        (set.len().saturating_sub(live), chosen, pool)
    })?;
    if let Some(pool) = pool {
        reply_head(ctx, count, chosen.len());
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
    let members = chosen.into_iter().map(|rank| ctx.member_at(key, dead + rank)).collect::<Result<Vec<_>, _>>()?;
    reply_head(ctx, count, members.len());
    for member in members {
        match member {
            Some(member) => ctx.reply_string(member.as_str()),
            None => ctx.reply_null(),
        }
    }
    Ok(())
}

fn reply_head(ctx: &Context, count: Option<i64>, members: usize) {
    if count.is_some() {
        ctx.reply_array(members);
    } else if members == 0 {
        ctx.reply_null();
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

fn below(mut random: Random, bound: u64, count: u64) -> Vec<u64> {
    (0..count).map(|_| random.below(bound)).collect()
}

/// Returns `count` distinct random numbers below `bound`. All choices are equally likely. O(count). (Robert Floyd's
/// algorithm: J. Bentley, Programming Pearls, "A sample of brilliance", 1987.)
fn distinct_below(mut random: Random, bound: u64, count: u64) -> Vec<u64> {
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
