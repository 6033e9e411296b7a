//! `ZEXP.PTTL key member [member ...]`
//!
//! Returns the remaining time to live of members in milliseconds.

use super::ttl::reply_remaining;
use crate::args::KEY_AND_MEMBERS;
use crate::error::Error;
use crate::server::command::{Access, Keys, Spec};
use crate::server::{Context, Str};

pub const SPEC: Spec = Spec {
    name: c"ZEXP.PTTL",
    summary: c"Returns the remaining time to live of members of an expiring set in milliseconds.",
    complexity: c"O(1) for each member",
    since: c"0.1.0",
    flags: c"readonly fast",
    keys: Keys::First(Access::Read),
    arguments: KEY_AND_MEMBERS,
};

pub fn run<'a>(ctx: &mut Context, arguments: &'a [Str<'a>]) -> Result<(), Error> {
    reply_remaining(ctx, arguments, |remaining| remaining)
}
