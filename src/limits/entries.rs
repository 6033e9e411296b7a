//! A limit in a sorted set: SLIDING.

use super::effects::{Changes, News};
use super::{believed, restored};
use crate::error::Error;
use crate::model::limit::sliding::{
    Change, Entry, Ledger, MOST_READ, Rewrite, Run, are_entries, are_entries_here_and_there,
};
use crate::model::limit::text::Text;
use crate::model::limit::{Foreign, marker, sliding};
use crate::model::time::{self, Millis};
use crate::server::key::{Access, Key, Writing};
use crate::server::zset::{Bound, Element, SortedSet};
use crate::server::{Context, OwnedStr, Str};

/// Dead entries wait until that many have gathered: they do not count, so they need not go at once, and one removal for
/// many is cheaper than many.
const TRIM_FROM: u64 = 16;

/// The most entries one call trims. More than one per call on average, so that the dead never gain on the living.
const TRIM_MOST: usize = 32;

/// That many stay: a single entry would have to be numbered from 0.
const TRIM_TO: u64 = 2;

/// A set of at least that many entries is replaced as a whole when at most [`MOST_KEPT`] of them stay.
const LARGE: u64 = 2000;
const MOST_KEPT: usize = 500;

/// An open sorted set that is a limit, or a key that is free to become one.
pub struct Entries<'k, A: Access> {
    set: SortedSet<'k, A>,
    name: Str<'k>,
    seen: Seen,
}

/// What of a set was read when it was opened.
#[derive(Clone, Copy, Default)]
pub struct Seen {
    len: u64,
    last: Option<Entry>,
    ttl: Option<Millis>,
    is_restored: bool,
}

impl<'k, A: Access> Entries<'k, A> {
    /// The sorted set in `key`, which holds one, or nothing. Other people's sorted sets are an error, and left alone.
    pub fn read(key: Key<'k, A>, name: Str<'k>) -> Result<Entries<'k, A>, Error> {
        Entries::of(SortedSet::new(key).ok_or(Error::WrongType)?, name)
    }

    fn of(set: SortedSet<'k, A>, name: Str<'k>) -> Result<Entries<'k, A>, Error> {
        if set.is_empty() {
            return Ok(Entries { set, name, seen: Seen::default() });
        }
        Entries::recognise(set, name).map_err(|_| Error::NotLimit)
    }

    /// See [`marker`]: what is believed, and what the odds are.
    pub fn recognise(mut set: SortedSet<'k, A>, name: Str<'k>) -> Result<Entries<'k, A>, Foreign> {
        let last = set.last().map(|last| parse_entry(&last)).transpose()?.ok_or(Foreign)?;
        let (len, ttl) = (set.len(), set.key().expires_at());
        let is_marked = marker::holds(last.at, ttl);
        let is_restored =
            !is_marked && marker::held_before_restore(last.at, ttl) && restored::is_noted(set.ctx(), name);
        let is_limit = match ttl {
            Some(ttl) if is_marked || is_restored => {
                // A single entry is at hand already.
                let is_known = len > 1 && believed::is_known(set.ctx(), name, ttl);
                is_known
                    || has_only_entries(&mut set, len, last).then(|| believed::remember(set.ctx(), name, ttl)).is_some()
            }
            _ => false,
        };
        let seen = Seen { len, last: Some(last), ttl, is_restored };
        is_limit.then_some(Entries { set, name, seen }).ok_or(Foreign)
    }

    pub fn ctx(&self) -> &Context {
        self.set.ctx()
    }

    pub fn seen(&self) -> Seen {
        self.seen
    }

    /// How many entries count, if that is at hand: all do, or none. Otherwise they have to be counted while the key is closed.
    pub fn live_at_hand(&mut self, now: Millis) -> Result<Option<u64>, Foreign> {
        let first = self.first_from(0)?;
        Ok(match (first, self.seen.last) {
            (Some(first), _) if first.at > now => Some(self.seen.len),
            (_, Some(last)) if last.at > now => None,
            _ => Some(0),
        })
    }

    fn from(&mut self, at: Millis) -> impl Iterator<Item = Element> {
        self.set.range(Bound::From(time::to_score(at)), f64::INFINITY)
    }
}

fn has_only_entries(set: &mut SortedSet<'_, impl Access>, len: u64, last: Entry) -> bool {
    match len {
        1 => are_entries([Ok(last)]),
        _ if len > MOST_READ => are_entries_here_and_there(last, |at, most| {
            set.range(Bound::From(time::to_score(at)), f64::INFINITY)
                .take(most)
                .map(|element| parse_entry(&element))
                .collect()
        }),
        _ => are_entries(set.range(Bound::From(f64::NEG_INFINITY), f64::INFINITY).map(|element| parse_entry(&element))),
    }
}

fn parse_entry(element: &Element) -> Result<Entry, Foreign> {
    Entry::parse(element.score, element.member.bytes())
}

impl<A: Access> Ledger for Entries<'_, A> {
    fn first_from(&mut self, at: Millis) -> Result<Option<Entry>, Foreign> {
        // With one entry, as most limits have it most of the time, the first is the last, which is at hand.
        if self.seen.len <= 1 {
            return Ok(self.seen.last.filter(|last| last.at >= at));
        }
        self.set.first(Bound::From(time::to_score(at))).as_ref().map(parse_entry).transpose()
    }

    fn last(&mut self) -> Result<Option<Entry>, Foreign> {
        Ok(self.seen.last)
    }

    fn some_from(&mut self, at: Millis, most: usize) -> Result<Vec<Entry>, Foreign> {
        self.from(at).take(most).map(|element| parse_entry(&element)).collect()
    }
}

impl<'k> Entries<'k, Writing> {
    /// Opens a set that was closed a moment ago, and that nobody has changed since, without reading it again. But its time may have
    /// come meanwhile: then there is nothing.
    pub fn reopen(ctx: &'k mut Context, name: Str<'k>, seen: Seen) -> Result<Entries<'k, Writing>, Error> {
        let set = SortedSet::new(Key::open(ctx, name)).ok_or(Error::WrongType)?;
        if set.len() == seen.len { Ok(Entries { set, name, seen }) } else { Entries::of(set, name) }
    }

    pub fn close(self) -> &'k mut Context {
        self.set.close()
    }

    /// Writes a change that `assessed` comes to, lets some of the dead entries go when many must have gathered, and replicates
    /// what was done.
    pub fn write(mut self, now: Millis, change: Change, assessed: &sliding::Assessed) -> (&'k mut Context, News) {
        if let Some(kept) = self.kept_by(now, change) {
            return self.renew(kept, change, assessed.window());
        }
        let mut changes = Changes::default();
        let replaced = self.replaced_by(change);
        let change = if replaced.len() as u64 == self.seen.len { change.alone() } else { change };
        let member = change.run.member();
        let put = OwnedStr::new(member.as_bytes());
        self.set.put(put.as_str(), time::to_score(change.at));
        changes.put.push((put, change.at));
        // At once: a panic that leaves a set without the marker would leave it to nobody.
        self.mark(&mut changes, change.at, assessed.window());
        crate::server::fault!("set-changed");
        for old in replaced {
            if old.bytes() != member.as_bytes() {
                self.remove(&mut changes, old);
            }
        }
        let len = self.seen.len + 1;
        if len >= assessed.live_entries().saturating_add(TRIM_FROM) {
            self.trim(&mut changes, now);
        }
        self.finish(changes)
    }

    /// The members that a change does away with.
    fn replaced_by(&mut self, change: Change) -> Vec<OwnedStr> {
        match self.seen.last {
            _ if !change.replaces => Vec::new(),
            // The last moment is held by one entry.
            Some(last) if last.at == change.at => vec![OwnedStr::new(last.run.member().as_bytes())],
            _ => self.from(change.at).map(|element| element.member).collect(),
        }
    }

    /// What stays of a large set of which a change leaves little. Those that are dead do not.
    fn kept_by(&mut self, now: Millis, change: Change) -> Option<Vec<Element>> {
        let is_last = self.seen.last.is_some_and(|last| last.at == change.at);
        if !change.replaces || is_last || self.seen.len < LARGE {
            return None;
        }
        let end = time::to_score(change.at);
        let kept = self.from(now + 1).take_while(|element| element.score < end).take(MOST_KEPT + 1);
        let kept: Vec<_> = kept.collect();
        (kept.len() <= MOST_KEPT).then_some(kept)
    }

    /// Puts a new set in the place of this one, which a thread of the server frees: to remove the entries one by one would hold up all
    /// clients.
    fn renew(self, kept: Vec<Element>, change: Change, window: Millis) -> (&'k mut Context, News) {
        let (name, is_restored) = (self.name, self.seen.is_restored);
        let ctx = self.set.unlink();
        ctx.replicate(c"UNLINK", &[name]);
        let change = if kept.is_empty() { change.alone() } else { change };
        let set = SortedSet::new(Key::open(ctx, name)).expect("the key was just removed");
        let mut renewed = Entries { set, name, seen: Seen { is_restored, ..Seen::default() } };
        let mut changes = Changes::default();
        for Element { member, score } in kept {
            renewed.set.put(member.as_str(), score);
            changes.put.extend(time::ceil_score(score).map(|at| (member, at)));
        }
        renewed.put(&mut changes, change.at, change.run.member());
        renewed.mark(&mut changes, change.at, window);
        renewed.finish(changes)
    }

    fn put(&mut self, changes: &mut Changes, at: Millis, member: Text) {
        let member = OwnedStr::new(member.as_bytes());
        self.set.put(member.as_str(), time::to_score(at));
        changes.put.push((member, at));
        crate::server::fault!("set-changed");
    }

    fn remove(&mut self, changes: &mut Changes, member: OwnedStr) {
        self.set.remove(member.as_str());
        changes.removed.push(member);
    }

    /// Removes dead entries, lowest first.
    fn trim(&mut self, changes: &mut Changes, now: Millis) {
        let most = usize::try_from(self.set.len().saturating_sub(TRIM_TO)).unwrap_or(0).min(TRIM_MOST);
        let dead: Vec<_> = self.set.range(Bound::From(f64::NEG_INFINITY), time::to_score(now)).take(most).collect();
        for element in dead {
            self.remove(changes, element.member);
        }
    }

    /// Writes entries again.
    pub fn rewrite(mut self, rewrite: Rewrite) -> (&'k mut Context, News) {
        let mut changes = Changes::default();
        for (at, member) in rewrite.put {
            self.put(&mut changes, at, member);
        }
        for member in rewrite.gone {
            self.remove(&mut changes, OwnedStr::new(member.as_bytes()));
        }
        changes.is_empty = self.set.is_empty();
        let mut last = self.set.last().and_then(|last| parse_entry(&last).ok());
        if let Some(only) = last.filter(|only| self.set.len() == 1 && only.run.start != 0) {
            self.put(&mut changes, only.at, Run { start: 0, ..only.run }.member());
            self.remove(&mut changes, OwnedStr::new(only.run.member().as_bytes()));
            last = Some(only);
        }
        if let Some(last) = last {
            self.mark(&mut changes, last.at, 0);
        }
        self.finish(changes)
    }

    /// Sets the marker where it is off.
    fn mark(&mut self, changes: &mut Changes, last: Millis, window: Millis) {
        if !marker::holds(last, self.seen.ttl) {
            let ttl = marker::ttl(last, window);
            self.set.expire_at(ttl);
            changes.expires_at = Some(ttl);
            believed::remember(self.set.ctx(), self.name, ttl);
        }
    }

    /// Closes the key, and replicates.
    fn finish(self, changes: Changes) -> (&'k mut Context, News) {
        let (name, is_restored) = (self.name, self.seen.is_restored);
        let ctx = self.set.close();
        if is_restored {
            restored::forget(ctx, name);
        }
        let news = changes.replicate(ctx, name);
        (ctx, news)
    }
}
