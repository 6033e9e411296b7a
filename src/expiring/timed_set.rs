//! A sorted set whose scores are times: opened, recognised, changed and committed.

use super::sweeper;
use crate::error::Error;
use crate::model::marker::{Kind, TOLERANCE};
use crate::model::time::{self, Millis};
use crate::server::context::EventClass;
use crate::server::key::{Key, Mode};
use crate::server::zset::{Bound, Element, Range, SortedSet};
use crate::server::{Context, OwnedStr, Str, survive};
use smallvec::SmallVec;

/// How many members are removed between two looks at the clock: some 20 to 50 µs worth.
const CHUNK: u64 = 64;

/// A member to be written: an argument of the command, or a string of our own.
pub enum Member<'a> {
    Argument(Str<'a>),
    Ours(OwnedStr),
}

impl Member<'_> {
    fn as_str(&self) -> Str<'_> {
        match self {
            Member::Argument(member) => *member,
            Member::Ours(member) => member.as_str(),
        }
    }
}

/// A sorted set of one [`Kind`], or a key that is free to become one.
///
/// Changes are made at once, but become whole only with [`commit`](TimedSet::commit), which every call that opened for
/// writing ends with.
#[must_use = "changes must be committed"]
pub struct TimedSet<'a> {
    ctx: Context<'a>,
    name: Str<'a>,
    kind: Kind,
    set: SortedSet<'a>,
    /// The member with the highest score and the TTL, both as they were when the key was opened.
    last: Option<Element>,
    ttl: Option<Millis>,
    /// For how long the set holds things: see [`Kind::ttl`].
    span: Millis,
    put: SmallVec<[(Member<'a>, f64); 1]>,
    removed: Vec<Member<'a>>,
    trimmed: i64,
    /// Behind the set: dropped when that is closed.
    pending: Pending<'a>,
}

/// What is left of a set that was changed, after a panic before its marker was set again.
struct Pending<'a> {
    ctx: Context<'a>,
    name: Str<'a>,
    kind: Kind,
    is_changed: bool,
}

impl Drop for Pending<'_> {
    /// Without the marker the set would belong to nobody from now on.
    fn drop(&mut self) {
        if !self.is_changed || !std::thread::panicking() {
            return;
        }
        survive(|| {
            let Some(mut set) = SortedSet::new(Key::open(self.ctx, self.name, Mode::Write)) else { return };
            if let Some(marker) = set.last().and_then(|last| self.kind.ttl(last.score, 0)) {
                set.key_mut().expire_at(marker);
            }
            drop(set);
            if self.kind == Kind::Expiring {
                sweeper::heal(self.ctx, self.ctx.database(), self.name);
            }
        });
    }
}

impl<'a> TimedSet<'a> {
    /// Opens `name` as a set of `kind`. A missing key is an empty set; another type is an error. A sorted set that does
    /// not bear the marker is accepted if `recognise` says so (given the set, its highest score and its TTL), else it is
    /// an error, and left alone.
    pub(super) fn open(
        ctx: Context<'a>,
        name: Str<'a>,
        mode: Mode,
        kind: Kind,
        recognise: impl FnOnce(&mut SortedSet<'a>, f64, Option<Millis>) -> bool,
    ) -> Result<TimedSet<'a>, Error> {
        let mut set = SortedSet::new(Key::open(ctx, name, mode)).ok_or(Error::WrongType)?;
        let last = set.last();
        let ttl = last.as_ref().and_then(|_| set.key().expires_at());
        if let Some(last) = &last
            && !kind.holds(last.score, ttl)
            && !recognise(&mut set, last.score, ttl)
        {
            return Err(match kind {
                Kind::Expiring => Error::NotExpiring,
                Kind::Limit => Error::NotLimit,
            });
        }
        let pending = Pending { ctx, name, kind, is_changed: false };
        let (put, removed) = (SmallVec::new(), Vec::new());
        Ok(TimedSet { ctx, name, kind, set, last, ttl, span: 0, put, removed, trimmed: 0, pending })
    }

    /// Opens an expiring set. Two kinds of sets are accepted although their TTL is off: those of which it is known that
    /// plain commands changed them, and those where it is off by little, as it is after a MIGRATE: the command that calls
    /// says what the key is meant to be.
    pub fn expiring(ctx: Context<'a>, name: Str<'a>, mode: Mode, now: Millis) -> Result<TimedSet<'a>, Error> {
        let set = TimedSet::open(ctx, name, mode, Kind::Expiring, |_, highest, ttl| {
            let is_off_by_little =
                highest > time::to_score(now) && Kind::Expiring.nearly_holds(highest, ttl, TOLERANCE);
            is_off_by_little || (ttl.is_some() && sweeper::is_touched(ctx, name))
        })?;
        if mode == Mode::Read && !set.is_marked() {
            // Reads never write; the sweeper sets the marker again.
            sweeper::heal(ctx, ctx.database(), name);
        }
        Ok(set)
    }

    /// Opens a set that may be swept: one whose marker holds, or is known to be off because plain commands changed the set
    /// (`is_touched`). Unlike a command, the sweeper does not know what a key is meant to be, and so takes nothing on trust.
    pub fn to_sweep(ctx: Context<'a>, name: Str<'a>, is_touched: bool) -> Result<TimedSet<'a>, Error> {
        TimedSet::open(ctx, name, Mode::Write, Kind::Expiring, |_, highest, ttl| {
            is_touched && ttl.is_some() && Kind::Expiring.ttl(highest, 0).is_some()
        })
    }

    /// Whether the marker held when the key was opened. A missing key needs none.
    fn is_marked(&self) -> bool {
        self.highest().is_none_or(|highest| self.kind.holds(highest, self.ttl))
    }

    /// Opens any sorted set for writing, to make it one of `kind`.
    pub fn adopt(ctx: Context<'a>, name: Str<'a>, kind: Kind) -> Result<TimedSet<'a>, Error> {
        TimedSet::open(ctx, name, Mode::Write, kind, |_, _, _| true)
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

    /// The member that had the highest score when the key was opened.
    pub(super) fn last(&self) -> Option<&Element> {
        self.last.as_ref()
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
    pub fn range(&mut self, from: Bound, to: f64) -> Range<'_, 'a> {
        self.set.range(from, to)
    }

    /// The live members, soonest to expire first.
    pub fn live(&mut self, now: Millis) -> Range<'_, 'a> {
        self.set.range(Bound::Beyond(time::to_score(now)), f64::INFINITY)
    }

    /// How many members are live. O(1) when none is dead, else O(log N), however many are.
    ///
    /// The set must not have been changed: it may be closed and opened again on the way.
    pub fn live_count(mut self, mode: Mode, now: Millis) -> (TimedSet<'a>, u64) {
        debug_assert!(self.is_unchanged());
        let now_score = time::to_score(now);
        if self.highest().is_none_or(|highest| highest <= now_score) {
            return (self, 0);
        }
        if self.lowest().is_some_and(|lowest| lowest > now_score) {
            let count = self.len();
            return (self, count);
        }
        // Counting is a command, and no command may be called on a key that is open.
        let (ctx, name) = (self.ctx, self.name);
        self.reopen(mode, || ctx.count_above(name, now))
    }

    /// Closes the key, runs `while_closed`, and opens it again.
    fn reopen<T>(self, mode: Mode, while_closed: impl FnOnce() -> T) -> (TimedSet<'a>, T) {
        let TimedSet { ctx, name, kind, set, last, ttl, span, put, removed, trimmed, pending } = self;
        drop(set);
        let result = while_closed();
        let set = SortedSet::new(Key::open(ctx, name, mode)).expect("nothing ran in between that changes the key");
        (TimedSet { ctx, name, kind, set, last, ttl, span, put, removed, trimmed, pending }, result)
    }

    /// Lets the marker of a set that holds things for `span` be set seldom.
    pub(super) fn holds_for(&mut self, span: Millis) {
        self.span = span;
    }

    fn is_unchanged(&self) -> bool {
        self.put.is_empty() && self.removed.is_empty() && self.trimmed == 0
    }

    /// Sets a member's score. A member may be put or removed once between opening and commit.
    pub fn put(&mut self, member: Member<'a>, score: f64) {
        self.pending.is_changed = true;
        self.set.put(member.as_str(), score);
        self.put.push((member, score));
        crate::server::fault!("set-changed");
    }

    /// Removes a member.
    pub fn remove(&mut self, member: Member<'a>) {
        self.pending.is_changed = true;
        self.set.remove(member.as_str());
        self.removed.push(member);
        crate::server::fault!("set-changed");
    }

    /// Removes the whole key, its members freed in the background. To be done when all of them are dead.
    pub fn unlink(mut self) {
        self.set.key_mut().unlink();
        let TimedSet { ctx, name, set, .. } = self;
        drop(set);
        ctx.replicate(c"UNLINK", &[name]);
        ctx.signal_modified(name);
        ctx.notify(EventClass::Generic, c"del", name);
    }

    /// Closes the key and removes dead members, lowest first, until all `dead` ones are gone or `is_time_up` says so, which
    /// is asked every [`CHUNK`] members. At least one member of the set must be live. Returns how many are gone.
    pub fn sweep(self, dead: u64, mut is_time_up: impl FnMut() -> bool) -> u64 {
        let TimedSet { ctx, name, set, .. } = self;
        drop(set);
        let mut gone = 0;
        while gone < dead {
            let chunk = (dead - gone).min(CHUNK);
            ctx.remove_lowest(name, chunk);
            gone += chunk;
            if is_time_up() {
                break;
            }
        }
        // One command for all chunks: a replica does in one go what was done here in one slice.
        let (first, last) = (OwnedStr::from_integer(0), OwnedStr::from_integer(i64::try_from(gone).unwrap_or(0) - 1));
        ctx.replicate(c"ZREMRANGEBYRANK", &[name, first.as_str(), last.as_str()]);
        ctx.signal_modified(name);
        gone
    }

    /// Removes members that are dead at `now`, lowest first, `most` of them at the most.
    pub fn trim(&mut self, now: Millis, most: usize) {
        let lowest: Vec<_> = self.set.range(Bound::From(f64::NEG_INFINITY), time::to_score(now)).take(most).collect();
        self.pending.is_changed |= !lowest.is_empty();
        for element in &lowest {
            self.set.remove(element.member.as_str());
        }
        self.trimmed += i64::try_from(lowest.len()).unwrap_or(0);
    }

    /// Makes the changes whole: the marker is set again where it is off, and what was done goes to the replicas, to the
    /// AOF, to WATCH and client-side caching, and to those who listen for events. Without a change, nothing of this.
    pub fn commit(mut self) {
        let off = self.highest_now().filter(|&highest| !self.kind.holds(highest, self.ttl_now()));
        let expires = off.and_then(|highest| self.kind.ttl(highest, self.span));
        if let Some(marker) = expires {
            self.set.key_mut().expire_at(marker);
        }
        if self.is_unchanged() && expires.is_none() {
            return;
        }
        let is_empty = self.set.is_empty();
        let was_missing = self.last.is_none();
        let TimedSet { ctx, name, kind, set, put, removed, trimmed, .. } = self;
        drop(set);
        let effects = Effects { ctx, name, put: &put, removed: &removed, trimmed, expires, is_empty };
        effects.replicate();
        if kind == Kind::Expiring {
            match is_empty {
                true => sweeper::forget(ctx, name),
                false => sweeper::note(ctx, name, effects.soonest(), was_missing),
            }
        }
        sweeper::while_we_announce(|| effects.announce());
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

/// What a commit tells the world.
struct Effects<'e, 'a> {
    ctx: Context<'a>,
    name: Str<'a>,
    put: &'e [(Member<'a>, f64)],
    removed: &'e [Member<'a>],
    trimmed: i64,
    expires: Option<Millis>,
    is_empty: bool,
}

impl Effects<'_, '_> {
    /// When the first of the members that were put expires.
    fn soonest(&self) -> Option<Millis> {
        self.put.iter().filter_map(|(_, score)| time::ceil_score(*score)).min()
    }

    /// Native commands with absolute values. What is put comes first, so that no removal can empty the set, and lose its
    /// TTL, on the way.
    fn replicate(&self) {
        if !self.put.is_empty() {
            let scores: SmallVec<[_; 1]> = self.put.iter().map(|(_, score)| score_text(*score)).collect();
            let mut arguments: SmallVec<[_; 3]> = SmallVec::with_capacity(1 + 2 * scores.len());
            arguments.push(self.name);
            for ((member, _), score) in self.put.iter().zip(&scores) {
                arguments.extend([score.as_str(), member.as_str()]);
            }
            self.ctx.replicate(c"ZADD", &arguments);
        }
        if !self.removed.is_empty() {
            let members = self.removed.iter().map(Member::as_str);
            let arguments: Vec<_> = std::iter::once(self.name).chain(members).collect();
            self.ctx.replicate(c"ZREM", &arguments);
        }
        if self.trimmed > 0 {
            let (first, last) = (OwnedStr::from_integer(0), OwnedStr::from_integer(self.trimmed - 1));
            self.ctx.replicate(c"ZREMRANGEBYRANK", &[self.name, first.as_str(), last.as_str()]);
        }
        if let Some(at) = self.expires {
            let at = OwnedStr::from_integer(i64::try_from(at).unwrap_or(i64::MAX));
            self.ctx.replicate(c"PEXPIREAT", &[self.name, at.as_str()]);
        }
    }

    fn announce(&self) {
        crate::server::fault!("announce");
        self.ctx.signal_modified(self.name);
        if !self.put.is_empty() {
            self.ctx.notify(EventClass::SortedSet, c"zadd", self.name);
        }
        if !self.removed.is_empty() || self.trimmed > 0 {
            self.ctx.notify(EventClass::SortedSet, c"zrem", self.name);
        }
        if self.is_empty {
            self.ctx.notify(EventClass::Generic, c"del", self.name);
        }
        if self.expires.is_some() {
            self.ctx.notify(EventClass::Generic, c"expire", self.name);
        }
    }
}

/// A score as ZADD reads it back exactly.
fn score_text(score: f64) -> OwnedStr {
    match time::ceil_score(score) {
        Some(whole) if time::to_score(whole) == score => OwnedStr::from_integer(i64::try_from(whole).unwrap_or(0)),
        _ => OwnedStr::new(score.to_string().as_bytes()),
    }
}
