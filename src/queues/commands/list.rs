//! `ZQ.LIST [AFTER key] [COUNT n]`
//!
//! Returns the names of the queues of this database in order, at most COUNT (default 100). AFTER continues after a
//! name, even if no queue has this name. Queues that the user may not read are left out.

use super::{PAGE, Page};
use crate::args::Args;
use crate::error::Error;
use crate::queues::{OpenQueue, registry};
use crate::server::command::{Keys, Spec};
use crate::server::{Context, OwnedStr, Str};
use std::ops::Bound;

/// The default of COUNT.
const DEFAULT_COUNT: u64 = 100;

pub const SPEC: Spec = Spec {
    name: c"ZQ.LIST",
    summary: c"Returns the names of the queues in the selected database.",
    complexity: c"O(M*log(N)) with M the number of names scanned and N the number of queues of the database",
    since: c"0.2.0",
    flags: c"readonly",
    keys: Keys::None,
    arguments: &PAGE,
};

pub fn run<'a>(ctx: &mut Context, arguments: &'a [Str<'a>]) -> Result<(), Error> {
    let mut args = Args::new(arguments);
    let Page { after, count } = Page::parse(&mut args, DEFAULT_COUNT)?;
    let caller = ctx.user();
    let is_shown = |name: Str<'_>| caller.as_ref().is_some_and(|caller| caller.may_read(name));
    let mut from = after.map_or(Bound::Unbounded, |after| Bound::Excluded(after.into()));
    let mut listed = Vec::new();
    while listed.len() < count {
        let Some(next) = registry::next(ctx, from) else { break };
        let name = OwnedStr::new(&next);
        from = Bound::Excluded(next);
        if !OpenQueue::open_notouch(ctx, name.as_str()).is_ok_and(|open| !open.is_new()) {
            // On a replica, a key seems to be missing when its TTL has passed by the replica's clock. The master can
            // still remove the TTL.
            if ctx.is_master() {
                registry::remove(ctx, name.as_str());
            }
        } else if is_shown(name.as_str()) {
            listed.push(name);
        }
    }
    ctx.reply_array(listed.len());
    for name in listed {
        ctx.reply_string(name.as_str());
    }
    Ok(())
}
