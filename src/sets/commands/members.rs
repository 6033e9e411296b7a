//! `ZEXP.MEMBERS key [WITHIN duration] [LIMIT offset count] [WITHPTTL]`
//!
//! Returns the live members, soonest to expire first.

use crate::args::{Args, after, flag, once};
use crate::base::time;
use crate::error::Error;
use crate::server::command::{Access, Arg, Keys, Spec};
use crate::server::key::Reading;
use crate::server::{Context, Str};
use crate::sets::ExpiringSet;

pub const SPEC: Spec = Spec {
    name: c"ZEXP.MEMBERS",
    summary: c"Returns the live members of an expiring set, soonest to expire first.",
    complexity: c"O(log N + M) with N the number of members of the set and M the sum of the offset and the number of members returned",
    since: c"0.1.0",
    flags: c"readonly",
    keys: Keys::First(Access::Read),
    arguments: &[
        Arg::key(c"key"),
        Arg::string(c"duration").after(c"WITHIN").optional(),
        Arg::block(c"limit", &[Arg::integer(c"offset"), Arg::integer(c"count")]).after(c"LIMIT").optional(),
        Arg::flag(c"withpttl", c"WITHPTTL").optional().since(c"0.3.0"),
    ],
};

pub fn run<'a>(ctx: &mut Context, arguments: &'a [Str<'a>]) -> Result<(), Error> {
    let now = ctx.now();
    let mut args = Args::new(arguments);
    let key = args.string()?;
    let (mut within, mut limit, mut with_ttl) = (None, None, false);
    while let Some(keyword) = args.trailing_keyword()? {
        match keyword.bytes() {
            b"WITHIN" => once(&mut within, args.duration()?)?,
            b"LIMIT" => once(&mut limit, (args.integer()?, args.integer()?))?,
            b"WITHPTTL" => flag(&mut with_ttl)?,
            _ => return Err(Error::Syntax),
        }
    }
    let until = match within {
        None => f64::INFINITY,
        Some(within) => time::to_score(after(now, within)?),
    };
    // As in ZRANGEBYSCORE, a negative offset returns nothing, and a negative count returns all.
    let (offset, count) = match limit {
        None => (0, usize::MAX),
        Some((offset, _)) if offset < 0 => (0, 0),
        Some((offset, count)) => (to_usize(offset), if count < 0 { usize::MAX } else { to_usize(count) }),
    };

    let mut set = ExpiringSet::<Reading>::expiring(ctx, key)?;
    let ctx = set.shared_ctx();
    let in_pairs = with_ttl && ctx.is_resp3();
    let parts = if with_ttl && !in_pairs { 2 } else { 1 };
    ctx.reply_items(parts, set.live(offset, now, until).take(count), |ctx, element| {
        if in_pairs {
            ctx.reply_array(2);
        }
        ctx.reply_string(element.member.as_str());
        if with_ttl {
            match time::ceil_score(element.score) {
                Some(expiry) if expiry < time::MAX => ctx.reply_count(expiry - now),
                _ => ctx.reply_integer(-1),
            }
        }
    });
    Ok(())
}

fn to_usize(number: i64) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}
