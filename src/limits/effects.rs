//! Replication and keyspace events of limits. All writes of limits use these functions.
//!
//! A changed key is closed, replicated and signalled to WATCH and client-side caching at once. Keyspace events come last
//! ([`PendingEvents::send`]), because listeners of other modules may do anything to any key.

use crate::model::limit::Write;
use crate::model::time::{self, Decimal, Millis};
use crate::server::context::{EventClass, PendingEvents};
use crate::server::{Context, Str};

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
                let at = Decimal::of(expires_at.unwrap_or(time::MAX));
                ctx.replicate_bytes(c"SET", name, &[bytes, b"PXAT", at.as_bytes()]);
                events.add(EventClass::String, c"set");
                owes_ttl = false;
            }
            Write::Part { at, bytes } => {
                ctx.replicate_bytes(c"SETRANGE", name, &[Decimal::of(*at as u64).as_bytes(), bytes]);
                events.add(EventClass::String, c"setrange");
            }
        }
    }
    if let Some(at) = expires_at.filter(|_| owes_ttl) {
        ctx.replicate_bytes(c"PEXPIREAT", name, &[Decimal::of(at).as_bytes()]);
        events.add(EventClass::Generic, c"expire");
    }
    ctx.signal_modified(name);
    events
}

pub fn replicate_unlink(ctx: &Context, name: Str<'_>) -> PendingEvents {
    ctx.replicate(c"UNLINK", &[name]);
    ctx.signal_modified(name);
    let mut events = PendingEvents::default();
    events.add(EventClass::Generic, c"del");
    events
}
