//! `ZEXP.CARD key`
//!
//! Returns the number of live members. Expired members never count, even if the server has not deleted them yet.

use crate::args::Args;
use crate::error::Error;
use crate::server::command::{Access, Arg, Keys, Spec};
use crate::server::{Context, Str};
use crate::sets::ExpiringSet;

pub const SPEC: Spec = Spec {
    name: c"ZEXP.CARD",
    summary: c"Returns the number of live members of an expiring set.",
    complexity: c"O(log N) with N the number of members of the set; O(1) while no expired member waits for removal",
    since: c"0.1.0",
    flags: c"readonly fast",
    keys: Keys::First(Access::Read),
    arguments: &[Arg::key(c"key")],
};

pub fn run<'a>(ctx: &mut Context, arguments: &'a [Str<'a>]) -> Result<(), Error> {
    let now = ctx.now();
    let key = Args::new(arguments).string()?;
    let live = ExpiringSet::card(ctx, key, now)?;
    ctx.reply_count(live);
    Ok(())
}
