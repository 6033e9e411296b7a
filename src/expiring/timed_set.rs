//! A sorted set whose scores are times: opened, recognised, changed and committed.

use super::announce::announce_members;
use super::effects::{Effects, Member, News, replicate_sweep};
use super::tracker;
use crate::error::Error;
use crate::model::marker::Kind;
use crate::model::time::{self, Millis};
use crate::server::key::{Access, Key, Reading, Writing};
use crate::server::zset::{Bound, Element, Range, SortedSet};
use crate::server::{Context, Str, survive};
use smallvec::SmallVec;
use std::ops::{Deref, DerefMut};

/// How many members are removed between two looks at the clock: some 20 to 50 µs worth.
pub(super) const CHUNK: u64 = 64;

/// A sorted set of one [`Kind`], or a key that is free to become one.
#[must_use = "changes must be committed"]
pub struct TimedSet<'k, A: Access> {
    name: Str<'k>,
    kind: Kind,
    set: Guarded<'k, A>,
    /// The member with the highest score and the TTL, both as they were when the key was opened.
    last: Option<Element>,
    ttl: Option<Millis>,
    put: SmallVec<[(Member<'k>, f64); 1]>,
    removed: Vec<Member<'k>>,
}

/// The open set. A panic that comes before the marker of a changed set was set again finds it here.
struct Guarded<'k, A: Access> {
    /// `None` once it is taken out, to be closed.
    set: Option<SortedSet<'k, A>>,
    /// What to do then, from the first change on.
    mend: Option<fn(SortedSet<'k, A>, Str<'k>, Kind)>,
    name: Str<'k>,
    kind: Kind,
}

impl<'k, A: Access> Guarded<'k, A> {
    fn take(&mut self) -> SortedSet<'k, A> {
        self.mend = None;
        self.set.take().expect(OPEN)
    }
}

const OPEN: &str = "the set is open until it is taken out";

impl<'k, A: Access> Deref for Guarded<'k, A> {
    type Target = SortedSet<'k, A>;

    fn deref(&self) -> &SortedSet<'k, A> {
        self.set.as_ref().expect(OPEN)
    }
}

impl<'k, A: Access> DerefMut for Guarded<'k, A> {
    fn deref_mut(&mut self) -> &mut SortedSet<'k, A> {
        self.set.as_mut().expect(OPEN)
    }
}

impl<A: Access> Drop for Guarded<'_, A> {
    fn drop(&mut self) {
        if let (Some(mend), Some(set)) = (self.mend, self.set.take())
            && std::thread::panicking()
        {
            survive(|| mend(set, self.name, self.kind));
        }
    }
}

/// Whether a set may have borne the marker before it came here without anybody telling. While the dataset is new, nobody knows yet: the
/// set is believed as the walk through the dataset will believe it. Of one whose members died before, nobody will know: it is not swept, but
/// a command may fill it again.
fn is_newcomer(ctx: &Context, name: Str<'_>, highest: f64, ttl: Option<Millis>) -> bool {
    if highest <= time::to_score(ctx.now()) {
        return Kind::Expiring.may_have_held_dead(highest, ttl);
    }
    let is_newcomer =
        Kind::Expiring.may_have_held(highest, ttl) && tracker::is_new(ctx) && !tracker::is_arriving(ctx, name);
    if is_newcomer {
        tracker::note_marker_off(ctx, ctx.database(), name, ttl);
    }
    is_newcomer
}

/// Without the marker the set would belong to nobody from now on.
fn mend_marker(mut set: SortedSet<'_, Writing>, name: Str<'_>, kind: Kind) {
    if let Some(marker) = set.last().and_then(|last| kind.ttl(last.score)) {
        set.expire_at(marker);
    }
    if kind == Kind::Expiring {
        tracker::note_marker_off(set.ctx(), set.ctx().database(), name, set.key().expires_at());
    }
}

impl<'k, A: Access> TimedSet<'k, A> {
    /// Opens `name` as a set of `kind`. A missing key is an empty set; another type is an error. A sorted set that does
    /// not bear the marker is accepted if `recognise` says so (given the set, its highest score and its TTL), otherwise it is
    /// an error, and left alone.
    pub(super) fn open(
        ctx: &'k mut Context,
        name: Str<'k>,
        kind: Kind,
        recognise: impl FnOnce(&mut SortedSet<'k, A>, f64, Option<Millis>) -> bool,
    ) -> Result<TimedSet<'k, A>, Error> {
        let mut set = SortedSet::new(Key::open(ctx, name)).ok_or(Error::WrongType)?;
        let last = set.last();
        let ttl = last.as_ref().and_then(|_| set.key().expires_at());
        if let Some(last) = &last
            && !kind.holds(last.score, ttl)
            && !recognise(&mut set, last.score, ttl)
        {
            return Err(Error::NotExpiring);
        }
        let set = Guarded { set: Some(set), mend: None, name, kind };
        let (put, removed) = (SmallVec::new(), Vec::new());
        Ok(TimedSet { name, kind, set, last, ttl, put, removed })
    }

    /// Opens an expiring set: one that bears the marker, or of which it is known that it did until plain commands changed it, or may
    /// have borne it before it came here without anybody telling.
    pub fn expiring(ctx: &'k mut Context, name: Str<'k>) -> Result<TimedSet<'k, A>, Error> {
        tracker::note_used(ctx);
        TimedSet::open(ctx, name, Kind::Expiring, |set, highest, ttl| {
            ttl.is_some() && (tracker::is_touched(set.ctx(), name) || is_newcomer(set.ctx(), name, highest, ttl))
        })
    }

    /// What of the context does no harm to an open set.
    pub fn ctx(&self) -> &Context {
        self.set.ctx()
    }

    /// The highest score, as it was when the key was opened.
    pub fn highest(&self) -> Option<f64> {
        self.last.as_ref().map(|last| last.score)
    }

    /// The lowest score.
    pub fn lowest(&mut self) -> Option<f64> {
        self.first(Bound::From(f64::NEG_INFINITY)).map(|first| first.score)
    }

    /// The member with the lowest score within the bound.
    pub(super) fn first(&mut self, from: Bound) -> Option<Element> {
        self.set.first(from)
    }

    /// Number of members, dead ones included.
    pub fn len(&self) -> u64 {
        self.set.len()
    }

    /// A member's expiry, if it is live. Scores between two ms expire with the later one.
    pub fn live_until(&self, member: Str<'_>, now: Millis) -> Option<Millis> {
        let at = self.set.score(member).filter(|&score| score > time::to_score(now))?;
        Some(time::ceil_score(at).unwrap_or(time::MAX))
    }

    /// The members in the order of their scores.
    pub fn range(&mut self, from: Bound, to: f64) -> Range<'_> {
        self.set.range(from, to)
    }

    /// The live members that expire by `until`, soonest first.
    pub fn live(&mut self, now: Millis, until: f64) -> impl Iterator<Item = Element> {
        self.live_from(0, now, until)
    }

    /// As [`live`](TimedSet::live), the first `offset` of them passed over.
    pub fn live_from(&mut self, offset: usize, now: Millis, until: f64) -> impl Iterator<Item = Element> {
        let now = time::to_score(now);
        // RESTORE takes sets whose members are not in order: behind a live one, there may be a dead one.
        self.set.range(Bound::Beyond(now), until).pass(offset).filter(move |element| element.score > now)
    }

    /// How many members are live, if that is at hand: none is, or all are. O(1). Otherwise they have to be counted while the key
    /// is closed ([`Context::count_above`]).
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
    /// See [`ReadKey::shared_ctx`](crate::server::key::ReadKey::shared_ctx).
    pub fn shared_ctx(&self) -> &'k Context {
        self.set.shared_ctx()
    }

    /// Opens an expiring set, counts its live members, and shows it to `look` with their number. O(1) when none is dead, otherwise
    /// O(log N), however many are.
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

/// Changes are made at once, but are replicated and announced only by [`commit`](TimedSet::commit), which every call that opened for
/// writing ends with.
impl<'k> TimedSet<'k, Writing> {
    /// Opens a set that may be swept: one whose marker holds, or is known to be off because plain commands changed the set
    /// (`is_touched`). Unlike a command, the sweeper does not know what a key is meant to be, and so takes nothing on trust.
    pub fn to_sweep(ctx: &'k mut Context, name: Str<'k>, is_touched: bool) -> Result<TimedSet<'k, Writing>, Error> {
        TimedSet::open(ctx, name, Kind::Expiring, |_, _, ttl| is_touched && ttl.is_some())
    }

    /// Opens any sorted set, to make it one of `kind`.
    pub fn adopt(ctx: &'k mut Context, name: Str<'k>, kind: Kind) -> Result<TimedSet<'k, Writing>, Error> {
        TimedSet::open(ctx, name, kind, |_, _, _| true)
    }

    /// How many members are live. O(1) when none is dead, otherwise O(log N), however many are.
    ///
    /// The set must not have been changed: it may be closed and opened again on the way.
    pub fn live_count(mut self, now: Millis) -> Result<(TimedSet<'k, Writing>, u64), Error> {
        if let Some(live) = self.live_count_at_hand(now) {
            return Ok((self, live));
        }
        let ctx = self.set.take().close();
        let live = ctx.count_above(self.name, now)?;
        self.set.set = Some(SortedSet::new(Key::open(ctx, self.name)).ok_or(Error::WrongType)?);
        Ok((self, live))
    }

    /// Sets a member's score. A member may be put or removed once between opening and commit.
    pub fn put(&mut self, member: Member<'k>, score: f64) {
        self.set.mend = Some(mend_marker);
        self.set.put(member.as_str(), score);
        self.put.push((member, score));
        crate::server::fault!("set-changed");
    }

    /// Removes a member.
    pub fn remove(&mut self, member: Member<'k>) {
        self.set.mend = Some(mend_marker);
        self.set.remove(member.as_str());
        self.removed.push(member);
        crate::server::fault!("set-changed");
    }

    /// Removes the whole key, its members freed in the background. To be done when all of them are dead; to be announced.
    pub fn unlink(mut self) -> &'k mut Context {
        let ctx = self.set.take().unlink();
        let name = self.name;
        ctx.replicate(c"UNLINK", &[name]);
        ctx.signal_modified(name);
        ctx
    }

    /// Removes members that are dead at `now`, lowest first, each by its own score, until none but the last `spared` are left or
    /// `is_time_up` says so, which is asked every [`CHUNK`] members. Closes the key; to be announced.
    ///
    /// No other code runs meanwhile. What is replicated names members or is a range of scores in the past: whatever a replica or an
    /// AOF holds, it takes nothing along that lives. It is as much work there as here.
    pub fn sweep(mut self, now: Millis, spared: u64, is_time_up: impl Fn() -> bool) -> (&'k mut Context, Swept) {
        let now = time::to_score(now);
        let mut gone: Vec<Element> = Vec::new();
        loop {
            let most = CHUNK.min(self.set.len().saturating_sub(spared));
            let lowest = self.set.range(Bound::From(f64::NEG_INFINITY), now).take(usize::try_from(most).unwrap_or(0));
            let before = gone.len();
            gone.extend(lowest.take_while(|element| element.score <= now));
            if gone.len() == before {
                break;
            }
            self.set.mend = Some(mend_marker);
            for element in &gone[before..] {
                self.set.remove(element.member.as_str());
            }
            announce_members(self.set.ctx(), self.name, &gone[before..]);
            if is_time_up() {
                break;
            }
        }
        let first = self.set.first(Bound::From(f64::NEG_INFINITY)).map(|first| first.score);
        let (ctx, name) = (self.set.take().close(), self.name);
        if !gone.is_empty() {
            replicate_sweep(ctx, name, &gone, first);
            ctx.signal_modified(name);
        }
        (ctx, Swept { gone: gone.len() as u64, first })
    }

    /// Closes a set that was not changed.
    pub fn close(mut self) -> &'k mut Context {
        debug_assert!(self.is_unchanged());
        self.set.take().close()
    }

    /// Completes the changes: the marker is set again where it is off, and what was done goes to the replicas, to the
    /// AOF, to WATCH and client-side caching, and to those who listen for events. Without a change, nothing of this.
    pub fn commit(self) -> &'k mut Context {
        let name = self.name;
        let (ctx, news) = self.commit_quietly();
        if let Some(news) = news {
            news.announce(ctx, name);
        }
        ctx
    }

    /// As [`commit`](TimedSet::commit), but those who listen for events have still to be told: by a command that changes
    /// several keys, once all of them are done.
    pub fn commit_quietly(mut self) -> (&'k mut Context, Option<News>) {
        let off = self.highest_now().filter(|&highest| !self.kind.holds(highest, self.ttl_now()));
        let expires = off.and_then(|highest| self.kind.ttl(highest));
        if let Some(marker) = expires {
            self.set.expire_at(marker);
        }
        if self.is_unchanged() && expires.is_none() {
            return (self.set.take().close(), None);
        }
        let is_empty = self.set.is_empty();
        let was_missing = self.last.is_none();
        let ctx = self.set.take().close();
        let TimedSet { name, kind, put, removed, .. } = self;
        let effects = Effects { name, put: &put, removed: &removed, expires };
        effects.replicate(ctx);
        ctx.signal_modified(name);
        if kind == Kind::Expiring {
            match is_empty {
                true => tracker::forget(ctx, ctx.database(), name),
                false => tracker::note_written(ctx, name, effects.soonest(), was_missing),
            }
        }
        let news = News {
            has_put: !put.is_empty(),
            has_removed: !removed.is_empty(),
            is_empty,
            has_expiry: expires.is_some(),
        };
        (ctx, Some(news))
    }

    /// The highest score after the changes, read again only where it may have sunk.
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

    /// The key's TTL after the changes: a key that was emptied on the way, or is new, has none.
    fn ttl_now(&self) -> Option<Millis> {
        if self.last.is_some() && self.removed.is_empty() { self.ttl } else { self.set.key().expires_at() }
    }
}

/// What a sweep came to.
pub struct Swept {
    pub gone: u64,
    /// The lowest score that is left; `None` if the key is gone.
    pub first: Option<f64>,
}
