//! What a change of a limit tells the world: the one place through which every write goes.
//!
//! A changed key is closed, replicated and signalled to WATCH and client-side caching at once. Keyspace events come last, since the
//! code of those who subscribed may do anything to any key: [`News::announce`].

use crate::model::limit::Write;
use crate::model::time::Millis;
use crate::server::context::EventClass;
use crate::server::shared::Shared;
use crate::server::{Context, OwnedStr, Str};
use lazy_static::lazy_static;
use smallvec::SmallVec;
use std::ffi::CStr;

/// The keyspace events owed for a change.
#[must_use = "call `announce` to send the keyspace events"]
#[derive(Default)]
pub struct News(SmallVec<[(EventClass, &'static CStr); 2]>);

impl News {
    fn add(&mut self, class: EventClass, event: &'static CStr) {
        self.0.push((class, event));
    }

    /// Sends the events: the code of those who subscribed runs.
    pub fn announce(self, ctx: &mut Context, name: Str<'_>) {
        if self.0.is_empty() {
            return;
        }
        crate::server::fault!("announce");
        for (class, event) in self.0 {
            ctx.notify(class, event, name);
        }
    }
}

lazy_static! {
    /// A word that is sent with many changes, made once.
    static ref PXAT: Shared<Word> = Shared::new(Word(OwnedStr::new(b"PXAT")));
}

struct Word(OwnedStr);

/// Replicates writes to a string that were made, as SET or SETRANGE, and its new TTL, unless it `keeps_ttl`.
pub fn replicate(ctx: &Context, name: Str<'_>, writes: &[Write], expires_at: Option<Millis>, keeps_ttl: bool) -> News {
    crate::server::fault!("set-changed");
    let mut news = News::default();
    let mut owes_ttl = !keeps_ttl;
    for write in writes {
        match write {
            Write::Whole(bytes) => {
                let (value, at) = (OwnedStr::new(bytes), integer(expires_at.unwrap_or(Millis::MAX)));
                PXAT.with(ctx, |option| ctx.replicate(c"SET", &[name, value.as_str(), option.0.as_str(), at.as_str()]));
                news.add(EventClass::String, c"set");
                owes_ttl = false;
            }
            Write::Part { at, bytes } => {
                let (at, value) = (integer(*at as u64), OwnedStr::new(bytes));
                ctx.replicate(c"SETRANGE", &[name, at.as_str(), value.as_str()]);
                news.add(EventClass::String, c"setrange");
            }
        }
    }
    if let Some(at) = expires_at.filter(|_| owes_ttl) {
        ctx.replicate(c"PEXPIREAT", &[name, integer(at).as_str()]);
        news.add(EventClass::Generic, c"expire");
    }
    ctx.signal_modified(name);
    news
}

/// Replicates the removal of a key.
pub fn replicate_unlink(ctx: &Context, name: Str<'_>) -> News {
    ctx.replicate(c"UNLINK", &[name]);
    ctx.signal_modified(name);
    let mut news = News::default();
    news.add(EventClass::Generic, c"del");
    news
}

fn integer(number: u64) -> OwnedStr {
    OwnedStr::from_integer(i64::try_from(number).unwrap_or(i64::MAX))
}
