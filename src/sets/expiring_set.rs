//! An open sorted set whose scores are expiry times.

use super::effects::{Effects, MemberName, announce_members};
use super::tracker;
use crate::base::time::{self, Millis};
use crate::config;
use crate::error::Error;
use crate::server::context::PendingEvents;
use crate::server::key::{Key, Mode, Reading, Writing};
use crate::server::zset::{Element, ScoreRange, SortedSet};
use crate::server::{Context, Str};
use crate::sets::index::marker;
use smallvec::SmallVec;

/// The number of members that the sweeper removes between two readings of the clock. Removing them takes 20 to 50 µs.
const CHUNK: u64 = 64;

/// If all members of a set have expired, and there are at most this many, the sweeper unlinks the set, and the server's
/// background thread frees it. The sweeper first drains a larger set to this size, because freeing a million members
/// would keep the background thread busy for a quarter of a second. Meanwhile, the thread would compete with the server
/// for the memory allocator and, on few cores, for a core. If `zexp.expired` events are on, the sweeper removes every
/// member one by one.
const UNLINKED_AT_ONCE: u64 = 1000;

/// An open expiring set, or a missing key that can become one.
#[must_use = "changes must be committed"]
pub struct ExpiringSet<'k, M: Mode> {
    name: Str<'k>,
    set: SortedSet<'k, M>,
    /// The highest score when the key was opened. `ttl` is the TTL at that time.
    highest: Option<f64>,
    ttl: Option<Millis>,
    put: SmallVec<[(MemberName<'k>, f64); 1]>,
    removed: Vec<MemberName<'k>>,
}

impl<'k, M: Mode> ExpiringSet<'k, M> {
    /// Wraps an open key. A missing key is an empty set. Returns an error if the key holds another type. If a sorted
    /// set has no marker, calls `recognizes` with the context, the highest score and the TTL. Returns an error if
    /// `recognizes` returns false.
    fn of(
        key: Key<'k, M>,
        name: Str<'k>,
        recognizes: impl FnOnce(&Context, f64, Option<Millis>) -> bool,
    ) -> Result<ExpiringSet<'k, M>, Error> {
        let mut set = SortedSet::new(key).ok_or(Error::WrongType)?;
        let highest = set.last().map(|last| last.score);
        let ttl = highest.and_then(|_| set.key.expires_at());
        if let Some(highest) = highest
            && !marker::holds(highest, ttl)
            && !recognizes(set.key.ctx(), highest, ttl)
        {
            return Err(Error::NotExpiring);
        }
        let (put, removed) = (SmallVec::new(), Vec::new());
        Ok(ExpiringSet { name, set, highest, ttl, put, removed })
    }

    pub fn expiring(ctx: &'k mut Context, name: Str<'k>) -> Result<ExpiringSet<'k, M>, Error> {
        tracker::note_used(ctx);
        ExpiringSet::of(Key::open(ctx, name), name, |ctx, highest, ttl| tracker::recognizes(ctx, name, highest, ttl))
    }

    pub fn ctx(&self) -> &Context {
        self.set.key.ctx()
    }

    /// Returns the highest score at the time of opening.
    pub fn highest(&self) -> Option<f64> {
        self.highest
    }

    pub fn lowest(&mut self) -> Option<f64> {
        self.set.first().map(|first| first.score)
    }

    /// Returns the number of members, including expired ones.
    pub fn len(&self) -> u64 {
        self.set.len()
    }

    /// Returns the time at which a live member expires, rounded up to a ms. Returns `None` if the member is missing or
    /// has expired.
    pub fn live_until(&self, member: Str<'_>, now: Millis) -> Option<Millis> {
        let at = self.set.score(member).filter(|&score| score > time::to_score(now))?;
        Some(time::ceil_score(at).unwrap_or(time::MAX))
    }

    pub fn range(&mut self, from: f64, to: f64) -> ScoreRange<'_> {
        self.set.range(from, to)
    }

    /// Returns the live members that expire by `until`, soonest first. Skips the first `offset` of these members.
    pub fn live(&mut self, offset: usize, now: Millis, until: f64) -> impl Iterator<Item = Element> {
        let now = time::to_score(now);
        // RESTORE accepts sets whose members are out of order, so an expired member may follow a live one.
        self.set.range(now.next_up(), until).skip_first(offset).filter(move |element| element.score > now)
    }

    /// Returns the number of live members in O(1), if none or all are live. Otherwise returns `None`, and the caller
    /// must close the key and call [`Context::count_above`].
    fn live_count_at_hand(&mut self, now: Millis) -> Option<u64> {
        debug_assert!(self.is_unchanged());
        let now_score = time::to_score(now);
        if self.highest.is_none_or(|highest| highest <= now_score) {
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

impl<'k> ExpiringSet<'k, Reading> {
    pub fn shared_ctx(&self) -> &'k Context {
        self.set.key.shared_ctx()
    }

    /// Opens an expiring set, and passes the set and the number of its live members to `look`. Returns the result of
    /// `look`. O(1) if no member has expired, otherwise O(log N), however many members have expired.
    pub fn counted<R>(
        ctx: &mut Context,
        name: Str<'_>,
        now: Millis,
        look: impl FnOnce(&mut ExpiringSet<'_, Reading>, u64) -> R,
    ) -> Result<R, Error> {
        let mut set = ExpiringSet::<Reading>::expiring(ctx, name)?;
        if let Some(live) = set.live_count_at_hand(now) {
            return Ok(look(&mut set, live));
        }
        drop(set);
        let live = ctx.count_above(name, now)?;
        Ok(look(&mut ExpiringSet::expiring(ctx, name)?, live))
    }
}

/// `put` and `remove` change the set immediately. [`commit`](ExpiringSet::commit) replicates these changes and sends
/// the keyspace events. `sweep` replicates its own changes, and returns the events for the caller to send. A caller
/// that opens an existing set for writing must call `commit` or `sweep`, unless the caller returns an error.
impl<'k> ExpiringSet<'k, Writing> {
    /// Opens a set for the sweeper, which restores the marker and deletes expired members. The set must have the marker
    /// or be dirty. Returns an error for any other sorted set.
    pub(super) fn to_check(ctx: &'k mut Context, name: Str<'k>) -> Result<ExpiringSet<'k, Writing>, Error> {
        ExpiringSet::of(Key::open_notouch(ctx, name), name, |ctx, _, ttl| tracker::is_dirty(ctx, name, ttl))
    }

    /// Opens any sorted set, to make it an expiring set.
    pub fn adopt(ctx: &'k mut Context, name: Str<'k>) -> Result<ExpiringSet<'k, Writing>, Error> {
        ExpiringSet::of(Key::open(ctx, name), name, |_, _, _| true)
    }

    /// Returns the set and the number of its live members. O(log N), or O(1) if no member has expired.
    ///
    /// Must be called before any change to the set, because this function may close the key and open it again.
    pub fn live_count(mut self, now: Millis) -> Result<(ExpiringSet<'k, Writing>, u64), Error> {
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

    /// Restores the marker. If `deletes` is true, also removes the members that have expired by `now`, lowest score
    /// first. Calls `is_time_up` after every [`CHUNK`] members, and stops when `is_time_up` returns true. If all
    /// members have expired, unlinks a set of at most [`UNLINKED_AT_ONCE`] members, and drains a larger set to this
    /// size. Closes the key.
    ///
    /// Does not set a marker in the past, because the server would then remove all members at once.
    ///
    /// The replicated commands name expired members or a range of past scores. So they remove no live member, even if
    /// the dataset of a replica differs.
    pub(super) fn sweep(
        mut self,
        now: Millis,
        deletes: bool,
        is_time_up: &dyn Fn() -> bool,
    ) -> (&'k mut Context, Removed) {
        let marker = self.highest.and_then(marker::of).filter(|&marker| marker > now);
        let now = time::to_score(now);
        let most = if config::ANNOUNCE_MEMBERS.get() { 0 } else { UNLINKED_AT_ONCE };
        let spared = match self.highest {
            _ if !deletes => u64::MAX,
            Some(highest) if highest <= now && self.len() <= most => return self.unlink(),
            Some(highest) if highest <= now => most,
            _ => 0,
        };
        let expires = marker.filter(|_| marker != self.ttl);
        if let Some(marker) = expires {
            self.set.key.expire_at(marker);
        }
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
        let (ctx, name) = (self.set.key.close(), self.name);
        let mut effects = Effects::new(ctx, name);
        if !gone.is_empty() || expires.is_some() {
            effects.key(first.is_none(), expires);
            effects.expiry(&gone, first);
        }
        let events = effects.events;
        (ctx, Removed { gone: gone.len() as u64, first, is_marked: marker.is_some(), events })
    }

    /// Unlinks a set whose members have all expired.
    fn unlink(self) -> (&'k mut Context, Removed) {
        let (name, gone) = (self.name, self.len());
        let ctx = self.set.key.unlink();
        let mut effects = Effects::new(ctx, name);
        effects.unlink();
        let events = effects.events;
        (ctx, Removed { gone, first: None, is_marked: false, events })
    }

    /// Completes the changes: restores the marker, replicates the changes, signals WATCH and client-side caching, and
    /// sends the keyspace events. The marker is a TTL that depends on the set's highest score. If neither the members
    /// nor the TTL change, only closes the key.
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
        let ExpiringSet { name, put, removed, set, highest, .. } = self;
        let ctx = set.key.close();
        let mut effects = Effects::new(ctx, name);
        effects.members(&put, &removed);
        effects.key(is_empty, expires);
        let events = effects.events;
        let database = ctx.database();
        let soonest = put.iter().filter_map(|(_, score)| time::ceil_score(*score)).min();
        tracker::update(ctx, |tracking| match is_empty {
            true => tracking.database(database).forget(name.bytes()),
            false => tracking.database(database).change(name.bytes(), soonest, highest.is_none()),
        });
        events.send(ctx, name);
        ctx
    }

    /// Returns the highest score after the changes. Reads the set only if the highest score may have decreased.
    fn highest_now(&mut self) -> Option<f64> {
        let put = self.put.iter().map(|(_, score)| *score).reduce(f64::max);
        match (put, self.highest) {
            (Some(put), before) if before.is_none_or(|before| put >= before) => Some(put),
            (None, before) if self.is_unchanged() => before,
            _ => self.set.last().map(|last| last.score),
        }
    }

    /// Returns the key's TTL after the changes. If the key was missing, or if members were removed, this function reads
    /// the TTL from the server. A key that loses all its members also loses its TTL.
    fn ttl_now(&self) -> Option<Millis> {
        if self.highest.is_some() && self.removed.is_empty() { self.ttl } else { self.set.key.expires_at() }
    }
}

/// The result of a [sweep](ExpiringSet::sweep).
pub(super) struct Removed {
    /// The number of removed members.
    pub gone: u64,
    /// The lowest remaining score. `None` if the key is gone.
    pub first: Option<f64>,
    pub is_marked: bool,
    pub events: PendingEvents,
}
