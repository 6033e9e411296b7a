//! An open limit.

use super::effects;
use crate::error::Error;
use crate::model::limit::{Assessed, LimitUsage, Policy, Refund, StoredLimit, Update, Write, assess};
use crate::model::time::Millis;
use crate::server::context::PendingEvents;
use crate::server::key::{Key, Mode, Reading, Writing};
use crate::server::text::Text;
use crate::server::{Context, Str};

/// An open string that is a limit, or a missing key that can become one.
pub struct Limit<'k, M: Mode> {
    text: Text<'k, M>,
    name: Str<'k>,
}

impl<'k, M: Mode> Limit<'k, M> {
    /// Opens a key that holds a string or is missing.
    pub fn open(ctx: &'k mut Context, name: Str<'k>) -> Result<Limit<'k, M>, Error> {
        let text = Text::new(Key::open(ctx, name)).ok_or(Error::WrongType)?;
        Ok(Limit { text, name })
    }

    /// Calls `look` with the stored limit, or with `None` if the key is missing. Returns an error if the string is not
    /// a limit.
    pub fn read<R>(&mut self, look: impl FnOnce(Option<StoredLimit<'_>>) -> Result<R, Error>) -> Result<R, Error> {
        if self.text.is_missing() {
            return look(None);
        }
        self.text.read(|text, expires_at| look(Some(StoredLimit::parse(text, expires_at)?)))
    }

    /// Checks whether `cost` more units fit under `policy`, and calls `look` with the result.
    pub fn assess<R>(
        &mut self,
        policy: Policy,
        now: Millis,
        cost: u64,
        look: impl FnOnce(&dyn Assessed) -> R,
    ) -> Result<R, Error> {
        self.read(|stored| assess(policy, now, cost, stored, look)?.ok_or(Error::OtherAlgorithm))
    }

    pub fn is_missing(&self) -> bool {
        self.text.is_missing()
    }

    pub fn ctx(&self) -> &Context {
        self.text.key.ctx()
    }
}

/// Returns a limit's algorithm and its units in use. `None` if the key is missing. O(log N).
pub fn usage_of(ctx: &mut Context, name: Str<'_>, now: Millis) -> Result<Option<(&'static str, LimitUsage)>, Error> {
    Limit::<Reading>::open(ctx, name)?.read(|stored| match stored {
        None => Ok(None),
        Some(stored) => Ok(Some((stored.algorithm(), stored.usage(now)?))),
    })
}

impl<'k> Limit<'k, Writing> {
    /// Makes and replicates a change. If `change` is `None`, as for a denied check, only closes the key.
    pub fn commit(mut self, change: Option<Update>) -> (&'k mut Context, PendingEvents) {
        let Some(Update { writes, lifetime }) = change else {
            return (self.text.key.close(), PendingEvents::default());
        };
        let before = lifetime.and_then(|_| self.text.expires_at());
        let expires_at = lifetime.map(|lifetime| lifetime.expires_at(before));
        let mut keeps_ttl = expires_at == before;
        for write in &writes {
            match write {
                Write::Part { at, bytes } => self.text.set_part(*at, bytes),
                Write::Replace(bytes) => keeps_ttl &= self.text.set(bytes),
            }
        }
        if let Some(at) = expires_at.filter(|_| !keeps_ttl) {
            self.text.key.expire_at(at);
        }
        let ctx = self.text.key.close();
        let events = effects::replicate(ctx, self.name, &writes, expires_at, keeps_ttl);
        (ctx, events)
    }

    /// Refunds up to `units` units of an earlier call, whose units would become available again at `until`. Returns the
    /// number of refunded units.
    pub fn refund(
        mut self,
        now: Millis,
        units: u64,
        until: Millis,
    ) -> Result<(&'k mut Context, PendingEvents, u64), Error> {
        let Refund { units, left } = self.read(|stored| match stored {
            None => Ok(Refund::NOTHING),
            Some(stored) => Ok(stored.refund(now, units, until)?),
        })?;
        let (ctx, events) = match left {
            None if units > 0 => self.remove(),
            change => self.commit(change),
        };
        Ok((ctx, events, units))
    }

    pub fn remove(self) -> (&'k mut Context, PendingEvents) {
        if self.text.is_missing() {
            return (self.text.key.close(), PendingEvents::default());
        }
        let ctx = self.text.key.unlink();
        let events = effects::replicate_unlink(ctx, self.name);
        (ctx, events)
    }
}
