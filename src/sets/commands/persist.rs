//! `ZEXP.PERSIST key member [member ...]`
//!
//! Makes live members permanent: sets their score to 2^53-1.

use super::change_each;
use crate::args::Args;
use crate::args::KEY_AND_MEMBERS;
use crate::base::time;
use crate::error::Error;
use crate::server::command::{Access, Keys, Spec};
use crate::server::{Context, Str};

pub const SPEC: Spec = Spec {
    name: c"ZEXP.PERSIST",
    summary: c"Removes the expiry of members of an expiring set.",
    complexity: c"O(log N) for each member, with N the number of members of the set",
    since: c"0.1.0",
    flags: c"write fast",
    keys: Keys::First(Access::Update),
    arguments: KEY_AND_MEMBERS,
};

pub fn run<'a>(ctx: &mut Context, arguments: &'a [Str<'a>]) -> Result<(), Error> {
    let now = ctx.now();
    let mut args = Args::new(arguments);
    let (key, members) = (args.string()?, args.strings()?);

    change_each(ctx, key, members, now, |current| match current {
        None => (None, -2),
        Some(time::MAX) => (current, -1),
        Some(_) => (Some(time::MAX), 1),
    })
}
