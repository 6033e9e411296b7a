//! An open limit.

use super::effects::{self, News};
use crate::error::Error;
use crate::model::limit::{Assessed, Change, Held, Policy, Refund, Stored, Write};
use crate::model::time::Millis;
use crate::server::key::{Access, Key, Reading, Writing};
use crate::server::text::Text;
use crate::server::{Context, Str};

/// An open string that is a limit, or a key that is free to become one.
pub struct Limit<'k, A: Access> {
    text: Text<'k, A>,
    name: Str<'k>,
}

impl<'k, A: Access> Limit<'k, A> {
    /// Opens a key, which holds a string or nothing.
    pub fn open(ctx: &'k mut Context, name: Str<'k>) -> Result<Limit<'k, A>, Error> {
        let text = Text::new(Key::open(ctx, name)).ok_or(Error::WrongType)?;
        Ok(Limit { text, name })
    }

    /// Shows what the key holds to `look`: `None` is a limit of which nothing was taken. Somebody else's string is an error.
    pub fn read<R>(&mut self, look: impl FnOnce(Option<Stored<'_>>) -> Result<R, Error>) -> Result<R, Error> {
        if self.text.is_missing() {
            return look(None);
        }
        self.text.read(|text, expires_at| look(Some(Stored::parse(text, expires_at)?)))
    }

    /// Asks whether `cost` more units fit under `policy`, and shows the answer to `look`.
    pub fn assess<R>(
        &mut self,
        policy: Policy,
        now: Millis,
        cost: u64,
        look: impl FnOnce(&Assessed<'_>) -> R,
    ) -> Result<R, Error> {
        self.read(|stored| Ok(look(&Assessed::of(policy, now, cost, stored)?.ok_or(Error::OtherAlgorithm)?)))
    }

    pub fn is_missing(&self) -> bool {
        self.text.is_missing()
    }

    pub fn ctx(&self) -> &Context {
        self.text.ctx()
    }
}

/// Returns which algorithm a limit is of, and what of it is in use; `None` if the key is missing. O(log N).
pub fn held_by(ctx: &mut Context, name: Str<'_>, now: Millis) -> Result<Option<(&'static str, Held)>, Error> {
    Limit::<Reading>::open(ctx, name)?.read(|stored| match stored {
        None => Ok(None),
        Some(stored) => Ok(Some((stored.algorithm(), stored.held(now)?))),
    })
}

impl<'k> Limit<'k, Writing> {
    /// Makes a change, if there is one, and replicates it. Without one, as of a denied check, there is no trace.
    pub fn commit(mut self, change: Option<Change>) -> (&'k mut Context, News) {
        let Some(Change { writes, lifetime }) = change else { return (self.text.close(), News::default()) };
        let before = lifetime.and_then(|_| self.text.expires_at());
        let expires_at = lifetime.map(|lifetime| lifetime.expires_at(before));
        let mut keeps_ttl = expires_at == before;
        for write in &writes {
            match write {
                Write::Part { at, bytes } => self.text.set_part(*at, bytes),
                Write::Whole(bytes) => {
                    keeps_ttl &= self.text.len() == Some(bytes.len());
                    self.text.set(bytes);
                }
            }
        }
        if let Some(at) = expires_at.filter(|_| !keeps_ttl) {
            self.text.expire_at(at);
        }
        let ctx = self.text.close();
        let news = effects::replicate(ctx, self.name, &writes, expires_at, keeps_ttl);
        (ctx, news)
    }

    /// Gives back up to `units` that become available again at `until`; returns how many.
    pub fn refund(mut self, now: Millis, units: u64, until: Millis) -> Result<(&'k mut Context, News, u64), Error> {
        let Refund { units, left } = self.read(|stored| match stored {
            None => Ok(Refund::NOTHING),
            Some(stored) => Ok(stored.refund(now, units, until)?),
        })?;
        let (ctx, news) = match left {
            None if units > 0 => self.remove(),
            change => self.commit(change),
        };
        Ok((ctx, news, units))
    }

    /// Removes the key.
    pub fn remove(self) -> (&'k mut Context, News) {
        if self.text.is_missing() {
            return (self.text.close(), News::default());
        }
        let ctx = self.text.unlink();
        let news = effects::replicate_unlink(ctx, self.name);
        (ctx, news)
    }
}
