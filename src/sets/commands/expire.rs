//! `ZEXP.EXPIRE key [GT | LT] [AT] ttl member [member ...]`
//!
//! Sets the expiry of live members.

use super::{AT, COMPARISON, allows, change_each, expiry};
use crate::args::{Args, flag, once};
use crate::error::Error;
use crate::server::command::{Access, Arg, Keys, Spec};
use crate::server::{Context, Str};
use std::cmp::Ordering;

pub const SPEC: Spec = Spec {
    name: c"ZEXP.EXPIRE",
    summary: c"Sets the expiry of members of an expiring set.",
    complexity: c"O(log N) for each member, with N the number of members of the set",
    since: c"0.1.0",
    flags: c"write fast",
    keys: Keys::First(Access::Update),
    arguments: &[Arg::key(c"key"), COMPARISON, AT, Arg::string(c"ttl"), Arg::string(c"member").multiple()],
};

pub fn run<'a>(ctx: &mut Context, arguments: &'a [Str<'a>]) -> Result<(), Error> {
    let now = ctx.now();
    let mut args = Args::new(arguments);
    let key = args.string()?;
    let (mut comparison, mut is_instant) = (None, false);
    while let Some(keyword) = args.leading_keyword() {
        match keyword.bytes() {
            b"GT" => once(&mut comparison, Ordering::Greater)?,
            b"LT" => once(&mut comparison, Ordering::Less)?,
            b"AT" => flag(&mut is_instant)?,
            _ => return Err(Error::Syntax),
        }
    }
    let expiry = expiry(&mut args, is_instant, now)?;
    let members = args.strings().map_err(|_| Error::Syntax)?;

    change_each(ctx, key, members, now, |current| match current {
        None => (None, -2),
        Some(at) if !allows(comparison, expiry, at) => (current, 0),
        Some(_) if expiry > now => (Some(expiry), 1),
        Some(_) => (None, 2),
    })
}
