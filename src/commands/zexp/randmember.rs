//! `ZEXP.RANDMEMBER key [count]`
//!
//! Live members at random: as SRANDMEMBER, distinct ones for a positive count, with repetitions for a negative one.

use crate::commands::args::Args;
use crate::error::Error;
use crate::expiring::TimedSet;
use crate::server::command::{Access, Arg, Command, Keys, Spec};
use crate::server::key::Mode;
use crate::server::{Context, OwnedStr, Str};
use hashbrown::HashSet;

pub struct RandMember;

/// The most members, repetitions included, that a negative count may ask for: a reply has to fit into memory.
const MOST_REPEATED: u64 = 1 << 20;

impl Command for RandMember {
    const SPEC: Spec = Spec {
        name: c"ZEXP.RANDMEMBER",
        summary: c"Returns live members of an expiring set at random.",
        complexity:
            c"O(log N) for each member returned, with N the number of members of the set, and never more than O(N)",
        since: c"0.1.0",
        flags: c"readonly",
        arity: -2,
        keys: Keys::First(Access::Read),
        arguments: &[Arg::key(c"key"), Arg::integer(c"count").optional()],
    };

    fn run<'a>(ctx: Context<'a>, arguments: &'a [Str<'a>]) -> Result<(), Error> {
        let now = ctx.now();
        let mut args = Args::new(arguments);
        let key = args.string()?;
        let count = if args.is_empty() { None } else { Some(args.integer()?) };
        args.finish()?;
        if count.is_some_and(|count| count < 0 && count.unsigned_abs() > MOST_REPEATED) {
            return Err(Error::OutOfRange);
        }

        let set = TimedSet::expiring(ctx, key, Mode::Read, now)?;
        let all = set.len();
        let (mut set, live) = set.live_count(Mode::Read, now);
        let wanted = match count {
            None => live.min(1),
            Some(count) if count >= 0 => live.min(count.unsigned_abs()),
            Some(_) if live == 0 => 0,
            Some(count) => count.unsigned_abs(),
        };
        let distinct = count.is_none_or(|count| count >= 0);
        let chosen = if distinct { distinct_below(ctx, live, wanted) } else { below(ctx, live, wanted) };

        // Members by rank cost a look-up each; for many of them it is cheaper to walk through all.
        let pool: Option<Vec<OwnedStr>> =
            (wanted > live / 4).then(|| set.live(now).map(|element| element.member).collect());
        drop(set);
        if count.is_some() {
            ctx.reply_array(chosen.len());
        } else if chosen.is_empty() {
            ctx.reply_null();
        }
        let dead = all - live;
        for rank in chosen {
            let member = match &pool {
                // RESTORE takes sets whose members are not in order: then there are fewer here than were counted.
                Some(pool) => usize::try_from(rank).ok().and_then(|rank| pool.get(rank)).cloned(),
                None => ctx.member_at(key, dead + rank),
            };
            match member {
                Some(member) => ctx.reply_string(member.as_str()),
                None => ctx.reply_null(),
            }
        }
        Ok(())
    }
}

/// `count` numbers below `bound`, each on its own.
fn below(ctx: Context<'_>, bound: u64, count: u64) -> Vec<u64> {
    (0..count).map(|_| ctx.random_below(bound)).collect()
}

/// `count` different numbers below `bound`, all choices being equally likely, in O(count).
/// (Robert Floyd's algorithm: J. Bentley, Programming Pearls, "A sample of brilliance", 1987.)
fn distinct_below(ctx: Context<'_>, bound: u64, count: u64) -> Vec<u64> {
    if count == bound {
        return (0..bound).collect();
    }
    let mut chosen = HashSet::new();
    for highest in bound - count..bound {
        let number = ctx.random_below(highest + 1);
        if !chosen.insert(number) {
            chosen.insert(highest);
        }
    }
    chosen.into_iter().collect()
}
