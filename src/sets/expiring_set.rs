//! An open sorted set whose scores are expiry times.

use super::effects::{Effects, MemberName, announce_members};
use super::{legacy, tag, tracker};
use crate::base::time::{self, Millis};
use crate::error::Error;
use crate::server::context::PendingEvents;
use crate::server::key::{Key, Mode, Reading, Writing};
use crate::server::zset::{Element, SortedSet};
use crate::server::{Context, Str};
use crate::sets::index::PendingTag;
use crate::sets::settings;
use smallvec::SmallVec;

/// The number of members that the sweeper removes between two readings of the clock. Removing them takes 20 to 50 µs.
const CHUNK: u64 = 64;

/// If all members of a set have expired, and there are at most this many, the sweeper unlinks the set, and the server's
/// background thread frees it. The sweeper first drains a larger set to this size, because freeing a million members
/// would keep the background thread busy for a quarter of a second. Meanwhile, the thread would compete with the server
/// for the memory allocator and, on few cores, for a core. If `zeitset.announce-members` is on, the sweeper removes
/// every member one by one, to publish its name.
const UNLINKED_AT_ONCE: u64 = 1000;

/// How the module recognized the open key as an expiring set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sign {
    Tag,
    /// The key is missing. A command that adds members creates an expiring set with its tag.
    New,
    /// A sorted set without the tag `zeitset:expiring`. ZEXP.ADOPT has opened an ordinary set, or a plain command has
    /// removed the tag and the module has not added it again yet.
    Untagged,
    /// A set of version 0.3, which has no tag. The module recognizes it by the key's TTL, which is this value.
    Legacy(Millis),
}

/// An open expiring set, or a missing key that can become one.
#[must_use = "changes must be committed"]
pub struct ExpiringSet<'k, M: Mode> {
    name: Str<'k>,
    set: SortedSet<'k, M>,
    sign: Sign,
    put: SmallVec<[(MemberName<'k>, f64); 1]>,
    removed: Vec<MemberName<'k>>,
}

impl<'k, M: Mode> ExpiringSet<'k, M> {
    /// Wraps an open key. A missing key is an empty set. Returns an error if the key holds anything but an expiring
    /// set.
    fn of(key: Key<'k, M>, name: Str<'k>) -> Result<ExpiringSet<'k, M>, Error> {
        let mut set = SortedSet::new(key).ok_or(Error::WrongType)?;
        let (ctx, is_new) = (set.key.ctx(), set.is_empty());
        let sign = match tracker::pending(ctx, name) {
            _ if is_new => Some(Sign::New),
            Some(PendingTag::Copied) => None,
            pending => match (set.score(tag::name(ctx)), pending) {
                (Some(tag::SCORE), _) => Some(Sign::Tag),
                (Some(_), _) => None,
                (None, Some(PendingTag::Legacy(ttl))) => Some(Sign::Legacy(ttl)),
                (None, Some(_)) => Some(Sign::Untagged),
                (None, None) => legacy::ttl(&mut set).map(Sign::Legacy),
            },
        };
        Ok(ExpiringSet { name, set, sign: sign.ok_or(Error::NotExpiring)?, put: SmallVec::new(), removed: Vec::new() })
    }

    pub fn expiring(ctx: &'k mut Context, name: Str<'k>) -> Result<ExpiringSet<'k, M>, Error> {
        tracker::note_used(ctx);
        ExpiringSet::of(Key::open(ctx, name), name)
    }

    pub fn ctx(&self) -> &Context {
        self.set.key.ctx()
    }

    pub fn is_empty(&self) -> bool {
        self.set.is_empty()
    }

    /// Returns the number of members, including expired ones. The tag `zeitset:expiring` does not count.
    pub fn len(&self) -> u64 {
        self.set.len().saturating_sub(self.tags())
    }

    /// Returns how many of the sorted set's members are the tag `zeitset:expiring`: 1 or 0.
    fn tags(&self) -> u64 {
        u64::from(self.sign == Sign::Tag)
    }

    /// Returns a member, expired or live, by its rank. Ranks do not count the tag `zeitset:expiring`: the first member
    /// after it has the rank 0.
    pub fn at(&mut self, rank: u64) -> Option<Element> {
        let place = usize::try_from(self.tags() + rank).ok()?;
        self.set.range(f64::NEG_INFINITY, f64::INFINITY).skip_first(place).next()
    }

    /// Returns the rank of the first live member in the sorted set. This rank counts the tag `zeitset:expiring`. `live`
    /// is the number of live members, which have the last ranks.
    pub fn first_live_rank(&self, live: u64) -> u64 {
        self.set.len().saturating_sub(live)
    }

    /// Returns the time at which a live member expires, rounded up to a ms. Returns `None` if the member is missing or
    /// has expired.
    pub fn live_until(&self, member: Str<'_>, now: Millis) -> Option<Millis> {
        let at = self.set.score(member).filter(|&score| score > time::to_score(now))?;
        Some(time::ceil_score(at).unwrap_or(time::MAX))
    }

    /// Returns the members, including expired ones, lowest score first.
    pub fn members(&mut self) -> impl Iterator<Item = Element> {
        self.range(f64::NEG_INFINITY, f64::INFINITY)
    }

    /// Returns the members from one score to another (both inclusive), lowest first. Leaves out the tag
    /// `zeitset:expiring`.
    fn range(&mut self, from: f64, to: f64) -> impl Iterator<Item = Element> {
        self.set.range(from, to).filter(|element| !tag::is_tag(element))
    }

    /// Returns the live members that expire by `until`, soonest first. Skips the first `offset` of these members.
    pub fn live(&mut self, offset: usize, now: Millis, until: f64) -> impl Iterator<Item = Element> {
        let now = time::to_score(now);
        // RESTORE accepts sets whose members are out of order, so an expired member may follow a live one.
        self.set.range(now.next_up(), until).skip_first(offset).filter(move |element| element.score > now)
    }

    /// Returns the number of live members in O(1), if none has expired. Otherwise returns `None`, and the caller must
    /// close the key and call [`Context::count_above`].
    fn cheap_live_count(&mut self, now: Millis) -> Option<u64> {
        debug_assert!(self.is_unchanged());
        let tags = usize::from(self.sign == Sign::Tag);
        let has_expired = self.set.range(f64::NEG_INFINITY, time::to_score(now)).has_more_than(tags);
        (!has_expired).then(|| self.len())
    }

    fn is_unchanged(&self) -> bool {
        self.put.is_empty() && self.removed.is_empty()
    }
}

impl<'k> ExpiringSet<'k, Reading> {
    pub fn shared_ctx(&self) -> &'k Context {
        self.set.key.shared_ctx()
    }

    /// Returns the number of live members of a set. O(1) if no member has expired, otherwise O(log N), however many
    /// members have expired.
    pub fn card(ctx: &mut Context, name: Str<'_>, now: Millis) -> Result<u64, Error> {
        let mut set = ExpiringSet::<Reading>::expiring(ctx, name)?;
        if let Some(live) = set.cheap_live_count(now) {
            return Ok(live);
        }
        drop(set);
        Ok(ctx.count_above(name, now)?)
    }

    /// Opens an expiring set, and calls `look` with the set and the number of its live members. Returns the result of
    /// `look`. Counting costs as much as in [`card`](ExpiringSet::card).
    pub fn counted<R>(
        ctx: &mut Context,
        name: Str<'_>,
        now: Millis,
        look: impl FnOnce(&mut ExpiringSet<'_, Reading>, u64) -> R,
    ) -> Result<R, Error> {
        let mut set = ExpiringSet::<Reading>::expiring(ctx, name)?;
        if let Some(live) = set.cheap_live_count(now) {
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
    /// Opens a set for the module's background work. Returns `None` if the key is not an expiring set.
    pub(super) fn to_check(ctx: &'k mut Context, name: Str<'k>) -> Option<ExpiringSet<'k, Writing>> {
        ExpiringSet::of(Key::open_notouch(ctx, name), name).ok().filter(|set| !set.is_empty())
    }

    /// Opens any sorted set, to make it an expiring set. The caller then calls
    /// [`commit_adopted`](ExpiringSet::commit_adopted).
    pub fn adopt(ctx: &'k mut Context, name: Str<'k>) -> Result<ExpiringSet<'k, Writing>, Error> {
        let set = SortedSet::new(Key::open(ctx, name)).ok_or(Error::WrongType)?;
        let sign = match set.score(tag::name(set.key.ctx())) {
            Some(tag::SCORE) => Sign::Tag,
            Some(_) => return Err(Error::TagTaken),
            None => Sign::Untagged,
        };
        Ok(ExpiringSet { name, set, sign, put: SmallVec::new(), removed: Vec::new() })
    }

    /// Returns the set and the number of its live members. O(log N), or O(1) if no member has expired.
    ///
    /// Must be called before any change to the set, because this function may close the key and open it again.
    pub fn live_count(mut self, now: Millis) -> Result<(ExpiringSet<'k, Writing>, u64), Error> {
        if let Some(live) = self.cheap_live_count(now) {
            return Ok((self, live));
        }
        let ctx = self.set.key.close();
        let live = ctx.count_above(self.name, now)?;
        Ok((ExpiringSet::of(Key::open(ctx, self.name), self.name)?, live))
    }

    /// Sets a member's score. A member may be put or removed at most once per commit. The member must not be the tag
    /// `zeitset:expiring`.
    pub fn put(&mut self, member: MemberName<'k>, score: f64) {
        self.set.put(member.as_str(), score);
        self.put.push((member, score));
    }

    pub fn remove(&mut self, member: MemberName<'k>) {
        self.set.remove(member.as_str());
        self.removed.push(member);
    }

    /// Adds the tag `zeitset:expiring` if it is missing, unless the set is empty.
    fn tag(&mut self) {
        if self.sign != Sign::Tag && !self.set.is_empty() {
            let tag = tag::name(self.ctx());
            self.set.put(tag, tag::SCORE);
            self.put.insert(0, (MemberName::Argument(tag), f64::NEG_INFINITY));
        }
    }

    /// Makes the set an expiring set: adds the tag `zeitset:expiring` if it is missing, and commits the changes. Even
    /// if a STORE command has copied the tag into the set, the tag now stays. Replicas wait for the removal of a copied
    /// tag, so this function replicates the removal, and then the tag as a new member. In between, the set must have
    /// another member on the replica, so that the key keeps its TTL.
    pub fn commit_adopted(mut self) -> &'k mut Context {
        let (database, name) = (self.ctx().database(), self.name);
        if tracker::pending(self.ctx(), name) == Some(PendingTag::Copied) {
            Effects::new(self.ctx(), name).removal([tag::name(self.ctx())].into_iter());
            self.sign = Sign::Untagged;
        }
        self.tag();
        tracker::update(self.ctx(), |tracking| tracking.tagged(database, name.bytes()));
        self.commit()
    }

    /// Removes the members that have expired by `now`, lowest score first. Calls `is_time_up` after every [`CHUNK`]
    /// members, and stops when `is_time_up` returns true. Closes the key.
    ///
    /// If all members have expired, unlinks a set of at most [`UNLINKED_AT_ONCE`] members, and drains a larger set to
    /// this size. A set of which only the tag `zeitset:expiring` is left is also unlinked.
    ///
    /// The replicated commands name expired members or a range of past scores. So they remove no live member, even if
    /// the dataset of a replica differs.
    pub(super) fn sweep(mut self, now: Millis, is_time_up: &dyn Fn() -> bool) -> (&'k mut Context, Removed) {
        let now = time::to_score(now);
        let has_live = self.set.range(now.next_up(), f64::INFINITY).has_more_than(0);
        let most = if settings::ANNOUNCE_MEMBERS.get() { 0 } else { UNLINKED_AT_ONCE };
        if !has_live && self.len() <= most {
            return self.unlink(0);
        }
        let left_for_unlink = if has_live { 0 } else { most };
        let mut gone: Vec<Element> = Vec::new();
        // RESTORE accepts sets whose members are out of order, the tag included.
        let mut is_tag_first = true;
        loop {
            let most = CHUNK.min(self.len().saturating_sub(left_for_unlink)) + self.tags();
            let before = gone.len();
            let lowest = self.set.range(f64::NEG_INFINITY, now).take(usize::try_from(most).unwrap_or(0));
            for element in lowest.take_while(|element| element.score <= now) {
                if tag::is_tag(&element) {
                    is_tag_first &= gone[before..].iter().all(|other| other.score == tag::SCORE);
                } else {
                    gone.push(element);
                }
            }
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
        let left = self.len();
        if left == 0 {
            return self.unlink(gone.len() as u64);
        }
        let first = self.members().next().map(|first| first.score);
        let (ctx, name) = (self.set.key.close(), self.name);
        let mut effects = Effects::new(ctx, name);
        if !gone.is_empty() {
            effects.key(false, false);
            effects.expiry(&gone, first, is_tag_first);
        }
        let events = effects.events;
        (ctx, Removed { gone: gone.len() as u64, first, events })
    }

    /// Unlinks a set whose members have all expired. `gone` is the number of members that the caller has already
    /// removed.
    fn unlink(self, gone: u64) -> (&'k mut Context, Removed) {
        let (name, gone) = (self.name, gone + self.len());
        let ctx = self.set.key.unlink();
        let mut effects = Effects::new(ctx, name);
        effects.unlink(gone > 0);
        let events = effects.events;
        (ctx, Removed { gone, first: None, events })
    }

    /// Replicates the changes, signals WATCH and client-side caching, and sends the keyspace events. Before that, adds
    /// the tag `zeitset:expiring` if it is missing, or removes the key if only the tag is left. If nothing has changed,
    /// only closes the key.
    pub fn commit(mut self) -> &'k mut Context {
        if self.is_unchanged() {
            return self.set.key.close();
        }
        self.tag();
        if !self.removed.is_empty() && self.sign == Sign::Tag && self.set.len() == 1 {
            self.remove(MemberName::Argument(tag::name(self.ctx())));
        }
        let is_empty = self.set.is_empty();
        let ttl = || self.set.expires_at();
        let is_persisted = matches!(self.sign, Sign::Legacy(legacy) if !is_empty && ttl() == Some(legacy));
        if is_persisted {
            self.set.key.persist();
        }
        let ExpiringSet { name, put, removed, set, sign, .. } = self;
        let ctx = set.key.close();
        let mut effects = Effects::new(ctx, name);
        effects.members(&put, &removed);
        effects.key(is_empty, is_persisted);
        let events = effects.events;
        note_changed(ctx, name, &put, sign, is_empty);
        events.send(ctx, name);
        ctx
    }
}

/// After a change of a set, tells the tracker when the sweeper must visit the set, or that the set is gone.
fn note_changed(ctx: &Context, name: Str<'_>, put: &[(MemberName<'_>, f64)], sign: Sign, is_empty: bool) {
    let (database, key) = (ctx.database(), name.bytes());
    if is_empty {
        tracker::with(ctx, |tracking| tracking.gone(database, key));
        return;
    }
    if put.is_empty() {
        return;
    }
    let soonest = put.iter().filter_map(|(_, score)| time::ceil_score(*score)).min();
    tracker::update(ctx, |tracking| match sign {
        Sign::Untagged | Sign::Legacy(_) => tracking.tagged(database, key),
        Sign::Tag | Sign::New => tracking.database(database).change(key, soonest, sign == Sign::New),
    });
}

/// Removes the tag `zeitset:expiring` that a STORE command has copied into an ordinary set. Returns the events for the
/// caller to send.
pub(super) fn remove_copied_tag(ctx: &mut Context, name: Str<'_>) -> PendingEvents {
    let tag = tag::name(ctx);
    let set = SortedSet::<Writing>::new(Key::open_notouch(ctx, name));
    let Some(mut set) = set.filter(|set| set.score(tag).is_some()) else { return PendingEvents::default() };
    set.remove(tag);
    let is_empty = set.is_empty();
    drop(set);
    let mut effects = Effects::new(ctx, name);
    effects.members(&[], &[MemberName::Argument(tag)]);
    effects.key(is_empty, false);
    effects.events
}

/// The result of a [sweep](ExpiringSet::sweep).
pub(super) struct Removed {
    /// The number of removed members.
    pub gone: u64,
    /// The lowest remaining score. `None` if the key is gone.
    pub first: Option<f64>,
    pub events: PendingEvents,
}
