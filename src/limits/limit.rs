//! A limit of whatever algorithm, open.

use super::effects::News;
use super::{Entries, Seen, TextLimit};
use crate::error::Error;
use crate::model::limit::{Algorithm, Assessed, Change, Held, Policy, sliding};
use crate::model::time::Millis;
use crate::server::key::{Access, Holds, Key, Reading, Writing};
use crate::server::{Context, Str};

/// An open limit, or a key that is free to become one.
pub enum Limit<'k, A: Access> {
    Entries(Entries<'k, A>),
    Text(TextLimit<'k, A>),
}

/// What a key holds, of all algorithms.
pub enum Kept<'k, A: Access> {
    Nothing,
    Limit(Limit<'k, A>),
}

impl<'k, A: Access> Limit<'k, A> {
    /// Opens a limit of an algorithm. A missing key is a limit of which nothing was taken; a limit of another algorithm and
    /// anything else are errors, and left alone.
    pub fn open(ctx: &'k mut Context, name: Str<'k>, algorithm: Algorithm) -> Result<Limit<'k, A>, Error> {
        let key = Key::open(ctx, name);
        match (algorithm, key.holds()) {
            (_, Holds::SomethingElse) => Err(Error::WrongType),
            (Algorithm::Sliding { .. }, Holds::Nothing | Holds::SortedSet) => {
                Entries::read(key, name).map(Limit::Entries)
            }
            (Algorithm::Sliding { .. }, Holds::String) => Err(match TextLimit::read(key, name) {
                Ok(_) => Error::OtherAlgorithm,
                Err(error) => error,
            }),
            (_, Holds::Nothing | Holds::String) => TextLimit::read(key, name).map(Limit::Text),
            (_, Holds::SortedSet) => Err(match Entries::read(key, name) {
                Ok(_) => Error::OtherAlgorithm,
                Err(error) => error,
            }),
        }
    }

    /// Asks whether `cost` more units fit under `policy`, whose algorithm the limit was opened with.
    pub fn assess(&mut self, policy: Policy, now: Millis, cost: u64) -> Result<Assessed, Error> {
        match self {
            Limit::Text(text) => Ok(Assessed::of_string(policy, now, cost, text.stored)?),
            Limit::Entries(entries) => {
                let Algorithm::Sliding { grid } = policy.algorithm else { return Err(Error::OtherAlgorithm) };
                let policy = sliding::Policy { limit: policy.limit, window: policy.window, grid };
                Ok(Assessed::Sliding(sliding::assess(policy, now, cost, entries)?))
            }
        }
    }

    /// What spares the next to open the limit to read it again, if nobody changes it meanwhile.
    pub fn seen(&self) -> Option<Seen> {
        match self {
            Limit::Entries(entries) => Some(entries.seen()),
            Limit::Text(_) => None,
        }
    }

    pub fn ctx(&self) -> &Context {
        match self {
            Limit::Entries(entries) => entries.ctx(),
            Limit::Text(text) => text.ctx(),
        }
    }
}

impl<'k, A: Access> Kept<'k, A> {
    /// Opens a limit of any algorithm.
    pub fn open(ctx: &'k mut Context, name: Str<'k>) -> Result<Kept<'k, A>, Error> {
        let key = Key::open(ctx, name);
        match key.holds() {
            Holds::Nothing => Ok(Kept::Nothing),
            Holds::SortedSet => Ok(Kept::Limit(Limit::Entries(Entries::read(key, name)?))),
            Holds::String => Ok(Kept::Limit(Limit::Text(TextLimit::read(key, name)?))),
            Holds::SomethingElse => Err(Error::WrongType),
        }
    }
}

/// Which algorithm a limit is of, and what of it is in use; `None` if the key is missing. O(log N).
pub fn held_by(ctx: &mut Context, name: Str<'_>, now: Millis) -> Result<Option<(&'static str, Held)>, Error> {
    let of_entries =
        |mut entries: Entries<'_, Reading>, count| Ok(Some(("sliding", sliding::held(now, count, &mut entries)?)));
    match Kept::<Reading>::open(ctx, name)? {
        Kept::Nothing => return Ok(None),
        Kept::Limit(Limit::Text(text)) => {
            let stored = text.stored.ok_or(Error::NotLimit)?;
            return Ok(Some((stored.algorithm(), stored.held(now))));
        }
        Kept::Limit(Limit::Entries(mut entries)) => {
            if let Some(count) = entries.live_at_hand(now)? {
                return of_entries(entries, count);
            }
        }
    }
    let count = ctx.count_above(name, now)?;
    match Kept::<Reading>::open(ctx, name)? {
        Kept::Limit(Limit::Entries(entries)) => of_entries(entries, count),
        _ => Ok(None),
    }
}

impl<'k> Limit<'k, Writing> {
    /// Opens a limit of which something was [`seen`](Limit::seen) a moment ago, and that nobody has changed since.
    pub fn reopen(
        ctx: &'k mut Context,
        name: Str<'k>,
        algorithm: Algorithm,
        seen: Option<Seen>,
    ) -> Result<Limit<'k, Writing>, Error> {
        match seen {
            Some(seen) => Entries::reopen(ctx, name, seen).map(Limit::Entries),
            None => Limit::open(ctx, name, algorithm),
        }
    }

    /// Writes a change that `assessed` comes to, if there is one, and replicates it. A denied check, which changes nothing,
    /// leaves no trace.
    pub fn commit(self, now: Millis, change: Option<Change>, assessed: &Assessed) -> (&'k mut Context, News) {
        match (self, change, assessed) {
            (Limit::Entries(entries), Some(Change::Entry(change)), Assessed::Sliding(assessed)) => {
                entries.write(now, change, assessed)
            }
            (Limit::Text(text), Some(Change::Text(stored)), _) => text.write(Some(stored)),
            (limit, ..) => (limit.close(), News::default()),
        }
    }

    /// Gives back up to `units` that come back at `until`: how many.
    pub fn refund(self, now: Millis, units: u64, until: Millis) -> Result<(&'k mut Context, News, u64), Error> {
        match self {
            Limit::Entries(mut entries) => {
                let (back, rewrite) = sliding::refund(now, units, until, &mut entries)?;
                if back == 0 {
                    return Ok((entries.close(), News::default(), 0));
                }
                let (ctx, news) = entries.rewrite(rewrite);
                Ok((ctx, news, back))
            }
            Limit::Text(text) => {
                let stored = text.stored.ok_or(Error::NotLimit)?;
                let (back, left) = stored.refund(now, units, until)?;
                if back == 0 {
                    return Ok((text.close(), News::default(), 0));
                }
                let (ctx, news) = text.write(left);
                Ok((ctx, news, back))
            }
        }
    }

    pub fn close(self) -> &'k mut Context {
        match self {
            Limit::Entries(entries) => entries.close(),
            Limit::Text(text) => text.close(),
        }
    }
}
