//! `ZRL.TOP [COUNT n] [RESET]`
//!
//! Returns the keys of this database with the most denials since the server started or since the last RESET. Only keys
//! that the caller may read are returned. Each element of the reply is `[key, denied, since_ms, error]`. The true
//! number of denials is between `denied - error` and `denied`.
//!
//! The command has the flag `readonly`, because RESET changes no key. A replica resets its own counters. RESET clears
//! the counts of all databases and all users, so the caller needs the right to call ZRL.CHECK with every counted key of
//! this database.

use super::check;
use crate::args::{Args, flag, once};
use crate::error::Error;
use crate::limits::stats;
use crate::server::command::{Arg, Keys, Spec};
use crate::server::user::User;
use crate::server::{Context, OwnedStr, Str};

/// The default COUNT.
const DEFAULT_COUNT: u64 = 10;

pub const SPEC: Spec = Spec {
    name: c"ZRL.TOP",
    summary: c"Returns the rate limits with the most denials.",
    complexity: c"O(1): at most 256 keys are counted",
    since: c"0.2.0",
    flags: c"readonly",
    keys: Keys::None,
    arguments: &[Arg::integer(c"count").after(c"COUNT").optional(), Arg::flag(c"reset", c"RESET").optional()],
};

pub fn run<'a>(ctx: &mut Context, arguments: &'a [Str<'a>]) -> Result<(), Error> {
    let mut args = Args::new(arguments);
    let (mut count, mut reset) = (None, false);
    while let Some(keyword) = args.trailing_keyword()? {
        match keyword.bytes() {
            b"COUNT" => once(&mut count, args.positive()?)?,
            b"RESET" => flag(&mut reset)?,
            _ => return Err(Error::Syntax),
        }
    }
    let most = usize::try_from(count.unwrap_or(DEFAULT_COUNT)).unwrap_or(usize::MAX);
    let caller = ctx.user();
    let counters = stats::top(ctx);
    if reset {
        let call = [check::SPEC.name.to_bytes(), b"1", b"1"].map(OwnedStr::new);
        let [name, limit, window] = call.each_ref().map(OwnedStr::as_str);
        let may_check = |caller: &User, key: &[u8]| caller.may_run(&[name, OwnedStr::new(key).as_str(), limit, window]);
        if !caller.as_ref().is_some_and(|caller| counters.iter().all(|counter| may_check(caller, &counter.key))) {
            return Err(Error::NoRightToCheck);
        }
        stats::reset_top(ctx);
    }
    let is_shown = |key: &[u8]| caller.as_ref().is_some_and(|caller| caller.may_read(OwnedStr::new(key).as_str()));
    let top: Vec<_> = counters.into_iter().filter(|counter| is_shown(&counter.key)).take(most).collect();
    ctx.reply_array(top.len());
    for counter in top {
        ctx.reply_array(4);
        ctx.reply_bytes(&counter.key);
        ctx.reply_count(counter.count);
        ctx.reply_count(counter.since);
        ctx.reply_count(counter.error);
    }
    Ok(())
}
