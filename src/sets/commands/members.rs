//! `ZEXP.MEMBERS key [WITHIN duration] [LIMIT offset count] [WITHPTTL]`
//!
//! Returns the live members, soonest to expire first.

use crate::args::{Args, after, flag, once};
use crate::base::time::{self, Millis};
use crate::error::Error;
use crate::server::command::{Access, Arg, Keys, Spec};
use crate::server::key::Reading;
use crate::server::{Context, OwnedStr, Str};
use crate::sets::ExpiringSet;

/// Skipping up to this many members takes less time than finding a member by rank.
const FEW: usize = 256;

pub const SPEC: Spec = Spec {
    name: c"ZEXP.MEMBERS",
    summary: c"Returns the live members of an expiring set, soonest to expire first.",
    complexity: c"O(log N + M) with N the number of members of the set and M the number of members returned",
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
    let within = within.map(|within| after(now, within)).transpose()?;
    let until = within.map_or(f64::INFINITY, time::to_score);
    // As in ZRANGEBYSCORE, a negative offset returns nothing, and a negative count returns all.
    let (offset, count) = match limit {
        None => (0, usize::MAX),
        Some((offset, _)) if offset < 0 => (0, 0),
        Some((offset, count)) => (to_usize(offset), if count < 0 { usize::MAX } else { to_usize(count) }),
    };

    // Skipping members is cheaper than a search by rank if the offset is small, and no dearer than the reply if the reply
    // is longer than the offset.
    if offset > FEW {
        let (first, live) = ExpiringSet::counted(ctx, key, now, |set, live| (set.first_live_rank(live), live))?;
        let later = if let Some(until) = within { ctx.count_above(key, until)? } else { 0 };
        let skipped = offset as u64;
        let found = live.saturating_sub(later).saturating_sub(skipped).min(count as u64);
        if found < skipped {
            let from = first + skipped;
            let members = if found == 0 { Vec::new() } else { ctx.members_at(key, from, from + found - 1)? };
            let set = ExpiringSet::<Reading>::expiring(ctx, key)?;
            let needs_expiry = with_ttl || within.is_some();
            let expiry =
                |member: &OwnedStr| if needs_expiry { set.live_until(member.as_str(), now) } else { Some(time::MAX) };
            let members = members.into_iter().filter_map(|member| expiry(&member).map(|expiry| (member, expiry)));
            reply(set.shared_ctx(), now, with_ttl, members.take_while(|(_, expiry)| time::to_score(*expiry) <= until));
            return Ok(());
        }
    }
    let mut set = ExpiringSet::<Reading>::expiring(ctx, key)?;
    let ctx = set.shared_ctx();
    let live = set.live(offset, now, until).take(count);
    let live = live.map(|element| (element.member, time::ceil_score(element.score).unwrap_or(time::MAX)));
    reply(ctx, now, with_ttl, live);
    Ok(())
}

/// Replies with members, and with their remaining times to live in ms if `with_ttl` is true. `members` yields each
/// member and its expiry.
fn reply(ctx: &Context, now: Millis, with_ttl: bool, members: impl Iterator<Item = (OwnedStr, Millis)>) {
    let in_pairs = with_ttl && ctx.is_resp3();
    let parts = if with_ttl && !in_pairs { 2 } else { 1 };
    ctx.reply_items(parts, members, |ctx, (member, expiry)| {
        if in_pairs {
            ctx.reply_array(2);
        }
        ctx.reply_string(member.as_str());
        if with_ttl {
            match expiry {
                time::MAX => ctx.reply_integer(-1),
                expiry => ctx.reply_count(expiry - now),
            }
        }
    });
}

fn to_usize(number: i64) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}
