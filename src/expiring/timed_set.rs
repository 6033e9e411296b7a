//! An open sorted set whose scores are expiry times.

use super::effects::{Effects, MemberName, announce_members, replicate_sweep};
use super::tracker;
use crate::config;
use crate::error::Error;
use crate::model::marker;
use crate::model::time::{self, Millis};
use crate::server::context::{EventClass, PendingEvents};
use crate::server::key::{Key, Mode, Reading, Writing};
use crate::server::zset::{Element, ScoreRange, SortedSet};
use crate::server::{Context, Str};
use smallvec::SmallVec;

/// The number of members removed between two readings of the clock. Removing a chunk takes 20 to 50 µs.
pub(super) const CHUNK: u64 = 64;

/// An open expiring set, or a missing key that can become one.
#[must_use = "changes must be committed"]
pub struct TimedSet<'k, M: Mode> {
    name: Str<'k>,
    set: SortedSet<'k, M>,
    /// The member with the highest score when the key was opened. `ttl` is the TTL at that time.
    last: Option<Element>,
    ttl: Option<Millis>,
    put: SmallVec<[(MemberName<'k>, f64); 1]>,
    removed: Vec<MemberName<'k>>,
}

impl<'k, M: Mode> TimedSet<'k, M> {
    /// Wraps an open key. A missing key is an empty set. Returns an error if the key holds another type, or a sorted
    /// set that has no marker and that `recognizes` rejects. `recognizes` gets the context, the highest score and the
    /// TTL.
    fn of(
        key: Key<'k, M>,
        name: Str<'k>,
        recognizes: impl FnOnce(&Context, f64, Option<Millis>) -> bool,
    ) -> Result<TimedSet<'k, M>, Error> {
        let mut set = SortedSet::new(key).ok_or(Error::WrongType)?;
        let last = set.last();
        let ttl = last.as_ref().and_then(|_| set.key.expires_at());
        if let Some(last) = &last
            && !marker::holds(last.score, ttl)
            && !recognizes(set.key.ctx(), last.score, ttl)
        {
            return Err(Error::NotExpiring);
        }
        let (put, removed) = (SmallVec::new(), Vec::new());
        Ok(TimedSet { name, set, last, ttl, put, removed })
    }

    pub fn expiring(ctx: &'k mut Context, name: Str<'k>) -> Result<TimedSet<'k, M>, Error> {
        tracker::note_used(ctx);
        TimedSet::of(Key::open(ctx, name), name, |ctx, highest, ttl| tracker::recognizes(ctx, name, highest, ttl))
    }

    pub fn ctx(&self) -> &Context {
        self.set.key.ctx()
    }

    /// Returns the highest score at the time of opening.
    pub fn highest(&self) -> Option<f64> {
        self.last.as_ref().map(|last| last.score)
    }

    pub fn lowest(&mut self) -> Option<f64> {
        self.set.first().map(|first| first.score)
    }

    /// Counts expired members, too.
    pub fn len(&self) -> u64 {
        self.set.len()
    }

    /// Returns a member's expiry if it has not expired. A fractional score is rounded up to a ms.
    pub fn live_until(&self, member: Str<'_>, now: Millis) -> Option<Millis> {
        let at = self.set.score(member).filter(|&score| score > time::to_score(now))?;
        Some(time::ceil_score(at).unwrap_or(time::MAX))
    }

    pub fn range(&mut self, from: f64, to: f64) -> ScoreRange<'_> {
        self.set.range(from, to)
    }

    /// Returns the live members that expire by `until`, soonest first.
    pub fn live(&mut self, now: Millis, until: f64) -> impl Iterator<Item = Element> {
        self.live_from(0, now, until)
    }

    /// Like [`live`](TimedSet::live), but skips the first `offset` members.
    pub fn live_from(&mut self, offset: usize, now: Millis, until: f64) -> impl Iterator<Item = Element> {
        let now = time::to_score(now);
        // RESTORE accepts sets whose members are out of order, so an expired member may follow a live one.
        self.set.range(now.next_up(), until).pass(offset).filter(move |element| element.score > now)
    }

    /// Returns the number of live members in O(1), if none or all are live. Otherwise returns `None`, and the caller
    /// must close the key and call [`Context::count_above`].
    fn live_count_at_hand(&mut self, now: Millis) -> Option<u64> {
        debug_assert!(self.is_unchanged());
        let now_score = time::to_score(now);
        if self.highest().is_none_or(|highest| highest <= now_score) {
            return Some(0);
        }
        if self.lowest().is_some_and(|lowest| lowest > now_score) {
            return Some(self.len());
        }
        None
    }

    fn is_unchanged(&self) -> bool {
        self.put.is_empty() && self.removed.is_empty()
    }
}

impl<'k> TimedSet<'k, Reading> {
    pub fn shared_ctx(&self) -> &'k Context {
        self.set.key.shared_ctx()
    }

    /// Opens an expiring set, and passes the set and the number of its live members to `look`. O(1) if no member has
    /// expired, otherwise O(log N), however many members have expired.
    pub fn counted<R>(
        ctx: &mut Context,
        name: Str<'_>,
        now: Millis,
        look: impl FnOnce(&mut TimedSet<'_, Reading>, u64) -> R,
    ) -> Result<R, Error> {
        let mut set = TimedSet::<Reading>::expiring(ctx, name)?;
        if let Some(live) = set.live_count_at_hand(now) {
            return Ok(look(&mut set, live));
        }
        drop(set);
        let live = ctx.count_above(name, now)?;
        Ok(look(&mut TimedSet::expiring(ctx, name)?, live))
    }
}

/// `put` and `remove` change the set immediately. [`commit`](TimedSet::commit) replicates these changes and sends the
/// keyspace events. `unlink` and `sweep` replicate their own changes, and return the events for the caller to send. A
/// caller that opens an existing set for writing must call one of these three functions, unless it returns an error.
impl<'k> TimedSet<'k, Writing> {
    /// Opens a set to restore its marker and delete its expired members. The module chose this key, not a client. So
    /// the function accepts only a set that has the marker or is dirty.
    pub(super) fn to_check(ctx: &'k mut Context, name: Str<'k>) -> Result<TimedSet<'k, Writing>, Error> {
        TimedSet::of(Key::open_notouch(ctx, name), name, |ctx, _, ttl| tracker::is_dirty(ctx, name, ttl))
    }

    /// Opens any sorted set, to make it an expiring set.
    pub fn adopt(ctx: &'k mut Context, name: Str<'k>) -> Result<TimedSet<'k, Writing>, Error> {
        TimedSet::of(Key::open(ctx, name), name, |_, _, _| true)
    }

    /// Counts the live members. O(1) if no member has expired, otherwise O(log N), however many members have expired.
    ///
    /// The set must be unchanged, because this function may close the key and open it again.
    pub fn live_count(mut self, now: Millis) -> Result<(TimedSet<'k, Writing>, u64), Error> {
        if let Some(live) = self.live_count_at_hand(now) {
            return Ok((self, live));
        }
        let ctx = self.set.key.close();
        let live = ctx.count_above(self.name, now)?;
        self.set = SortedSet::new(Key::open(ctx, self.name)).ok_or(Error::WrongType)?;
        Ok((self, live))
    }

    /// Sets a member's score. A member may be put or removed at most once per commit.
    pub fn put(&mut self, member: MemberName<'k>, score: f64) {
        self.set.put(member.as_str(), score);
        self.put.push((member, score));
    }

    pub fn remove(&mut self, member: MemberName<'k>) {
        self.set.remove(member.as_str());
        self.removed.push(member);
    }

    /// Removes the key. The server frees the members in the background. All members must have expired.
    pub(super) fn unlink(mut self) -> (&'k mut Context, PendingEvents) {
        let name = self.name;
        if config::ANNOUNCE_MEMBERS.get() {
            let gone: Vec<_> = self.range(f64::NEG_INFINITY, f64::INFINITY).collect();
            announce_members(self.ctx(), name, &gone);
        }
        let ctx = self.set.key.unlink();
        ctx.replicate(c"UNLINK", &[name]);
        ctx.signal_modified(name);
        let mut events = PendingEvents::default();
        events.add(EventClass::Generic, c"del");
        events.add(EventClass::Module, c"zexp.expired");
        (ctx, events)
    }

    /// Restores the marker, and removes the members that have expired by `now`, lowest score first. Stops when only
    /// `spared` members remain, or when `is_time_up` returns true. Calls `is_time_up` every [`CHUNK`] members. Closes
    /// the key.
    ///
    /// Does not set a marker in the past, because the server would then remove all members at once.
    ///
    /// During the sweep, no other code runs. The replicated commands name members or a range of past scores. So they
    /// never remove a live member, even if the dataset of a replica differs. Replaying them takes as long as the sweep.
    pub(super) fn sweep(
        mut self,
        now: Millis,
        spared: u64,
        is_time_up: &dyn Fn() -> bool,
    ) -> (&'k mut Context, Removed) {
        let marker = self.highest().and_then(marker::of).filter(|&marker| marker > now);
        let expires = marker.filter(|_| marker != self.ttl);
        if let Some(marker) = expires {
            self.set.key.expire_at(marker);
        }
        let now = time::to_score(now);
        let mut gone: Vec<Element> = Vec::new();
        loop {
            let most = CHUNK.min(self.set.len().saturating_sub(spared));
            let lowest = self.set.range(f64::NEG_INFINITY, now).take(usize::try_from(most).unwrap_or(0));
            let before = gone.len();
            gone.extend(lowest.take_while(|element| element.score <= now));
            if gone.len() == before {
                break;
            }
            for element in &gone[before..] {
                self.set.remove(element.member.as_str());
            }
            announce_members(self.set.key.ctx(), self.name, &gone[before..]);
            if is_time_up() {
                break;
            }
        }
        let first = self.lowest();
        let is_marked = expires.is_some() || marker::holds(self.highest().unwrap_or(f64::NAN), self.ttl);
        let (ctx, name) = (self.set.key.close(), self.name);
        let effects = Effects { name, put: &[], removed: &[], expires, is_empty: first.is_none() };
        let mut events = effects.replicate(ctx);
        if !gone.is_empty() {
            replicate_sweep(ctx, name, &gone, first);
            events.add(EventClass::Module, c"zexp.expired");
        }
        if !gone.is_empty() || expires.is_some() {
            ctx.signal_modified(name);
        }
        (ctx, Removed { gone: gone.len() as u64, first, is_marked, events })
    }

    /// Completes the changes: sets the key's TTL to the set's marker if they differ, replicates the changes, signals
    /// WATCH and client-side caching, and sends the keyspace events. Does nothing if there are no changes.
    pub fn commit(mut self) -> &'k mut Context {
        let off = self.highest_now().filter(|&highest| !marker::holds(highest, self.ttl_now()));
        let expires = off.and_then(marker::of);
        if let Some(marker) = expires {
            self.set.key.expire_at(marker);
        }
        if self.is_unchanged() && expires.is_none() {
            return self.set.key.close();
        }
        let is_empty = self.set.is_empty();
        let was_missing = self.last.is_none();
        let ctx = self.set.key.close();
        let TimedSet { name, put, removed, .. } = self;
        let effects = Effects { name, put: &put, removed: &removed, expires, is_empty };
        let events = effects.replicate(ctx);
        ctx.signal_modified(name);
        let (database, soonest) = (ctx.database(), effects.soonest());
        tracker::update(ctx, |tracking| match is_empty {
            true => tracking.forget(database, name.bytes()),
            false => tracking.change(database, name.bytes(), soonest, was_missing),
        });
        events.send(ctx, name);
        ctx
    }

    /// Returns the highest score after the changes. Reads it from the set only if it may have decreased.
    fn highest_now(&mut self) -> Option<f64> {
        let put = self
            .put
            .iter()
            .map(|(_, score)| *score)
            .fold(None, |highest: Option<f64>, score| Some(highest.map_or(score, |highest| highest.max(score))));
        match (put, self.highest()) {
            (Some(put), before) if before.is_none_or(|before| put >= before) => Some(put),
            (None, before) if self.is_unchanged() => before,
            _ => self.set.last().map(|last| last.score),
        }
    }

    /// Returns the key's TTL after the changes. If the key was missing, or if members were removed, this function reads
    /// the TTL from the server. The set may have been empty in between, and then the key has lost its TTL.
    fn ttl_now(&self) -> Option<Millis> {
        if self.last.is_some() && self.removed.is_empty() { self.ttl } else { self.set.key.expires_at() }
    }
}

pub(super) struct Removed {
    pub gone: u64,
    /// The lowest remaining score. `None` if the key is gone.
    pub first: Option<f64>,
    pub is_marked: bool,
    pub events: PendingEvents,
}
