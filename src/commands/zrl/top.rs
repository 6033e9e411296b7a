//! `ZRL.TOP [COUNT n] [RESET]`
//!
//! Which keys of this database were denied most since the server started, or since RESET. Only keys that the caller may read.

use crate::commands::args::{Args, flag, once};
use crate::error::Error;
use crate::limits::figures;
use crate::server::command::{Arg, Command, Keys, Spec};
use crate::server::{Context, OwnedStr, Str};

/// How many are told unless COUNT says it.
const USUAL: u64 = 10;

pub struct Top;

impl Command for Top {
    const SPEC: Spec = Spec {
        name: c"ZRL.TOP",
        summary: c"Returns the rate limits that denied most.",
        complexity: c"O(1): at most 256 keys are counted",
        since: c"0.2.0",
        flags: c"readonly",
        arity: -1,
        keys: Keys::None,
        arguments: &[Arg::integer(c"count").after(c"COUNT").optional(), Arg::flag(c"reset", c"RESET").optional()],
    };

    fn run<'a>(ctx: &mut Context, arguments: &'a [Str<'a>]) -> Result<(), Error> {
        let mut args = Args::new(arguments);
        let (mut count, mut reset) = (None, false);
        while let Some(keyword) = args.trailing_keyword()? {
            match keyword.as_str() {
                "COUNT" => once(&mut count, args.positive()?)?,
                "RESET" => flag(&mut reset)?,
                _ => return Err(Error::Syntax),
            }
        }
        let most = usize::try_from(count.unwrap_or(USUAL)).unwrap_or(usize::MAX);
        let caller = ctx.user();
        let is_shown = |key: &[u8]| caller.as_ref().is_some_and(|caller| caller.may_read(OwnedStr::new(key).as_str()));
        let top: Vec<_> = figures::top(ctx).into_iter().filter(|counter| is_shown(&counter.key)).take(most).collect();
        if reset {
            figures::reset_top(ctx);
        }
        ctx.reply_array(top.len());
        for counter in top {
            ctx.reply_array(3);
            ctx.reply_bytes(&counter.key);
            ctx.reply_count(counter.count);
            ctx.reply_count(counter.since);
        }
        Ok(())
    }
}
