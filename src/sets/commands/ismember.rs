//! `ZEXP.ISMEMBER key member`
//!
//! Returns whether a member is live, for example to detect duplicates.

use crate::args::Args;
use crate::error::Error;
use crate::server::command::{Access, Arg, Keys, Spec};
use crate::server::key::Reading;
use crate::server::{Context, Str};
use crate::sets::ExpiringSet;

pub const SPEC: Spec = Spec {
    name: c"ZEXP.ISMEMBER",
    summary: c"Determines whether a member of an expiring set is live.",
    complexity: c"O(1)",
    since: c"0.1.0",
    flags: c"readonly fast",
    keys: Keys::First(Access::Read),
    arguments: &[Arg::key(c"key"), Arg::string(c"member")],
};

pub fn run<'a>(ctx: &mut Context, arguments: &'a [Str<'a>]) -> Result<(), Error> {
    let now = ctx.now();
    let mut args = Args::new(arguments);
    let (key, member) = (args.string()?, args.string()?);
    let set = ExpiringSet::<Reading>::expiring(ctx, key)?;
    set.ctx().reply_bool(set.live_until(member, now).is_some());
    Ok(())
}
