//! `ZQ.LIST [AFTER key] [COUNT n]`
//!
//! Returns the names of the queues of this database in order, at most COUNT (default 100). AFTER continues after a
//! name, even if no queue has this name. Queues that the user may not read are left out.

use super::{PAGE, Page};
use crate::commands::args::Args;
use crate::error::Error;
use crate::queues::names;
use crate::server::command::{Keys, Spec};
use crate::server::{Context, Str};

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
    let names = names::list(ctx, after, count, is_shown);
    ctx.reply_array(names.len());
    for name in names {
        ctx.reply_string(name.as_str());
    }
    Ok(())
}
