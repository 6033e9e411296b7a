//! `ZEXP.POP key [count]`
//!
//! Removes and returns live members, soonest to expire first.

use crate::args::Args;
use crate::error::Error;
use crate::server::command::{Access, Arg, Keys, Spec};
use crate::server::key::Writing;
use crate::server::{Context, OwnedStr, Str};
use crate::sets::{ExpiringSet, MemberName};

pub const SPEC: Spec = Spec {
    name: c"ZEXP.POP",
    summary: c"Removes and returns live members of an expiring set, soonest to expire first.",
    complexity: c"O(log N) for each member returned, with N the number of members of the set",
    since: c"0.1.0",
    flags: c"write fast",
    keys: Keys::First(Access::Take),
    arguments: &[Arg::key(c"key"), Arg::integer(c"count").optional()],
};

pub fn run<'a>(ctx: &mut Context, arguments: &'a [Str<'a>]) -> Result<(), Error> {
    let now = ctx.now();
    let mut args = Args::new(arguments);
    let key = args.string()?;
    let count = if args.is_empty() { None } else { Some(args.count()?) };
    args.finish()?;

    let mut set = ExpiringSet::<Writing>::expiring(ctx, key)?;
    let most = usize::try_from(count.unwrap_or(1)).unwrap_or(usize::MAX);
    let popped: Vec<OwnedStr> = set.live(0, now, f64::INFINITY).take(most).map(|element| element.member).collect();
    for member in &popped {
        set.remove(MemberName::Ours(member.clone()));
    }
    set.commit();
    match (count, popped.first()) {
        (None, None) => ctx.reply_null(),
        (None, Some(member)) => ctx.reply_string(member.as_str()),
        (Some(_), _) => {
            ctx.reply_set(popped.len());
            popped.iter().for_each(|member| ctx.reply_string(member.as_str()));
        }
    }
    Ok(())
}
