//! Replication and keyspace events of limits. All writes go through here.
//!
//! A changed key is closed, replicated and signalled to WATCH and client-side caching at once. Keyspace events come last
//! ([`PendingEvents::send`]), because listeners of other modules may do anything to any key.

use crate::model::limit::Write;
use crate::model::time::Millis;
use crate::server::context::{EventClass, PendingEvents};
use crate::server::shared::Shared;
use crate::server::{Context, OwnedStr, Str};
use lazy_static::lazy_static;

lazy_static! {
    /// The option's name, made once because most changes replicate it.
    static ref PXAT: Shared<Word> = Shared::new(Word(OwnedStr::new(b"PXAT")));
}

struct Word(OwnedStr);

/// Replicates writes to a string, as SET or SETRANGE, and the new TTL unless `keeps_ttl`.
pub fn replicate(
    ctx: &Context,
    name: Str<'_>,
    writes: &[Write],
    expires_at: Option<Millis>,
    keeps_ttl: bool,
) -> PendingEvents {
    let mut events = PendingEvents::default();
    let mut owes_ttl = !keeps_ttl;
    for write in writes {
        match write {
            Write::Replace(bytes) => {
                let (value, at) = (OwnedStr::new(bytes), integer(expires_at.unwrap_or(Millis::MAX)));
                PXAT.with(ctx, |option| ctx.replicate(c"SET", &[name, value.as_str(), option.0.as_str(), at.as_str()]));
                events.add(EventClass::String, c"set");
                owes_ttl = false;
            }
            Write::Part { at, bytes } => {
                let (at, value) = (integer(*at as u64), OwnedStr::new(bytes));
                ctx.replicate(c"SETRANGE", &[name, at.as_str(), value.as_str()]);
                events.add(EventClass::String, c"setrange");
            }
        }
    }
    if let Some(at) = expires_at.filter(|_| owes_ttl) {
        ctx.replicate(c"PEXPIREAT", &[name, integer(at).as_str()]);
        events.add(EventClass::Generic, c"expire");
    }
    ctx.signal_modified(name);
    events
}

/// Replicates the removal of a key.
pub fn replicate_unlink(ctx: &Context, name: Str<'_>) -> PendingEvents {
    ctx.replicate(c"UNLINK", &[name]);
    ctx.signal_modified(name);
    let mut events = PendingEvents::default();
    events.add(EventClass::Generic, c"del");
    events
}

fn integer(number: u64) -> OwnedStr {
    OwnedStr::from_integer(i64::try_from(number).unwrap_or(i64::MAX))
}
