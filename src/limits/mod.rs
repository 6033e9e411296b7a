//! Rate limits in keys. A limit is a plain string with a recognizable format.
//!
//! [`Limit`] is an open key with a limit. A command first calls `assess`, which checks whether the units fit and
//! computes the change. Then the command calls `commit`, which writes the change and replicates it with the server's
//! own commands and absolute values. [`crate::limits::model`] has the algorithms.

pub mod commands;
pub mod model;
mod report;
pub mod stats;

pub use report::report;

use crate::base::time::Decimal;
use crate::error::Error;
use crate::limits::model::{Algorithm, Assessment, Call, Intent, NotThisFormat, StoredLimit, Update, assess};
use crate::server::context::{EventClass, PendingEvents};
use crate::server::key::{Key, Mode, Writing};
use crate::server::string_value::StringValue;
use crate::server::{Context, Str};

impl From<NotThisFormat> for Error {
    fn from(_: NotThisFormat) -> Error {
        Error::NotLimit
    }
}

/// An open key: a string with a limit, or a missing key in which a call can store a limit.
pub struct Limit<'k, M: Mode> {
    text: StringValue<'k, M>,
    name: Str<'k>,
}

impl<'k, M: Mode> Limit<'k, M> {
    /// Opens a key. Returns an error unless the key holds a string or is missing.
    pub fn open(ctx: &'k mut Context, name: Str<'k>) -> Result<Limit<'k, M>, Error> {
        let text = StringValue::new(Key::open(ctx, name)).ok_or(Error::WrongType)?;
        Ok(Limit { text, name })
    }

    /// Returns the stored limit, or `None` if the key is missing. Returns an error if the string is not a limit.
    pub fn stored(&mut self) -> Result<Option<StoredLimit<'_>>, Error> {
        Ok(self.text.bytes().map(StoredLimit::parse).transpose()?)
    }

    /// Checks whether a call's units fit into the limit, and computes the change to make. Changes nothing itself.
    /// Returns an error if the string is not a limit, or is a limit of another algorithm.
    pub fn assess(&mut self, call: Call, intent: Intent) -> Result<Assessment, Error> {
        assess(call, intent, self.text.bytes()).or_else(|NotThisFormat| {
            let is_same = |stored| match call.policy.algorithm {
                Algorithm::Sliding => matches!(stored, StoredLimit::Sliding(_)),
                Algorithm::Fixed => matches!(stored, StoredLimit::Fixed(_)),
                Algorithm::Leaky => matches!(stored, StoredLimit::Leaky(_)),
            };
            Err(if self.stored()?.is_none_or(is_same) { Error::NotLimit } else { Error::OtherAlgorithm })
        })
    }

    pub fn is_missing(&self) -> bool {
        self.text.is_missing()
    }

    pub fn ctx(&self) -> &Context {
        self.text.key.ctx()
    }
}

impl<'k> Limit<'k, Writing> {
    /// Writes a change to the key, replicates it, and signals it to WATCH and client-side caching. Then closes the key.
    /// If `update` is `None`, only closes the key. Returns the keyspace events, which the caller must send.
    pub fn commit(self, update: Option<Update>) -> (&'k mut Context, PendingEvents) {
        let mut events = PendingEvents::default();
        let Limit { mut text, name } = self;
        let ctx = match update {
            None => return (text.key.close(), events),
            Some(Update::Remove) if text.is_missing() => return (text.key.close(), events),
            Some(Update::Replace { text: bytes, lifetime }) => {
                let before = text.expires_at();
                let at = lifetime.expires_at(before);
                let keeps_ttl = text.set(&bytes);
                if !(keeps_ttl && before == Some(at)) {
                    text.key.expire_at(at);
                }
                let ctx = text.key.close();
                ctx.replicate_bytes(c"SET", name, &[&bytes, b"PXAT", Decimal::of(at).as_bytes()]);
                events.add(EventClass::String, c"set");
                ctx
            }
            Some(Update::Overwrite { parts, lifetime }) => {
                let before = lifetime.and_then(|_| text.expires_at());
                parts.iter().for_each(|part| text.set_part(part.at, &part.bytes));
                let at = lifetime.map(|lifetime| lifetime.expires_at(before)).filter(|&at| before != Some(at));
                if let Some(at) = at {
                    text.key.expire_at(at);
                }
                let ctx = text.key.close();
                for part in parts {
                    let at = Decimal::of(part.at as u64);
                    ctx.replicate_bytes(c"SETRANGE", name, &[at.as_bytes(), &part.bytes]);
                    events.add(EventClass::String, c"setrange");
                }
                if let Some(at) = at {
                    ctx.replicate_bytes(c"PEXPIREAT", name, &[Decimal::of(at).as_bytes()]);
                    events.add(EventClass::Generic, c"expire");
                }
                ctx
            }
            Some(Update::Remove) => {
                let ctx = text.key.unlink();
                ctx.replicate(c"UNLINK", &[name]);
                events.add(EventClass::Generic, c"del");
                ctx
            }
        };
        ctx.signal_modified(name);
        (ctx, events)
    }
}
