//! Replication and keyspace events of sorted sets. Replicas and the AOF get the server's own commands with absolute
//! values.

use crate::base::time::{self, Decimal, Millis};
use crate::config;
use crate::server::context::{EventClass, PendingEvents};
use crate::server::zset::Element;
use crate::server::{Context, OwnedStr, Str};
use smallvec::SmallVec;
use std::iter;

/// The name of a member to write. It is an argument of the command, or a string that the module has created.
pub enum MemberName<'a> {
    Argument(Str<'a>),
    Ours(OwnedStr),
}

impl MemberName<'_> {
    pub(super) fn as_str(&self) -> Str<'_> {
        match self {
            MemberName::Argument(member) => *member,
            MemberName::Ours(member) => member.as_str(),
        }
    }
}

/// Replicates the changes of a set, and collects their keyspace events.
pub(super) struct Effects<'c> {
    ctx: &'c Context,
    name: Str<'c>,
    pub events: PendingEvents,
}

impl<'c> Effects<'c> {
    pub fn new(ctx: &'c Context, name: Str<'c>) -> Effects<'c> {
        Effects { ctx, name, events: PendingEvents::default() }
    }

    /// Replicates the new scores (`put`), and then the removals. In the other order, a removal could empty the set
    /// on a replica, so that the set would lose its TTL there.
    pub fn members(&mut self, put: &[(MemberName<'_>, f64)], removed: &[MemberName<'_>]) {
        if !put.is_empty() {
            let scores: SmallVec<[_; 1]> = put.iter().map(|(_, score)| score_text(*score)).collect();
            let mut arguments: SmallVec<[_; 3]> = SmallVec::with_capacity(1 + 2 * scores.len());
            arguments.push(self.name);
            for ((member, _), score) in put.iter().zip(&scores) {
                arguments.extend([score.as_str(), member.as_str()]);
            }
            self.ctx.replicate(c"ZADD", &arguments);
            self.events.add(EventClass::SortedSet, c"zadd");
        }
        if !removed.is_empty() {
            self.removal(removed.iter().map(MemberName::as_str));
            self.events.add(EventClass::SortedSet, c"zrem");
        }
    }

    /// Replicates `expires`, the key's new TTL, if the TTL has changed. Signals the change of the key to WATCH and
    /// client-side caching.
    pub fn key(&mut self, is_empty: bool, expires: Option<Millis>) {
        if is_empty {
            self.events.add(EventClass::Generic, c"del");
        }
        if let Some(at) = expires {
            self.ctx.replicate_bytes(c"PEXPIREAT", self.name, &[Decimal::of(at).as_bytes()]);
            self.events.add(EventClass::Generic, c"expire");
        }
        self.ctx.signal_modified(self.name);
    }

    /// Replicates the removal of `gone`, the expired members. `first` is the lowest score that remains in the set.
    pub fn expiry(&mut self, gone: &[Element], first: Option<f64>) {
        let Some(last) = gone.last().map(|element| element.score) else { return };
        let whole = match first {
            // RESTORE accepts sets whose members are out of order. In such a set, a score range would miss some
            // members, so ZREM names every removed member.
            _ if !gone.is_sorted_by(|one, next| one.score <= next.score) => 0,
            // If members with the highest removed score remain, a score range would also remove them. So ZREM names the
            // removed members with this score.
            Some(first) if first <= last => gone.partition_point(|element| element.score < last),
            _ => gone.len(),
        };
        let (lower, named) = gone.split_at(whole);
        if let Some(highest) = lower.last() {
            let (from, to) = (OwnedStr::new(b"-inf"), score_text(highest.score));
            self.ctx.replicate(c"ZREMRANGEBYSCORE", &[self.name, from.as_str(), to.as_str()]);
        }
        if !named.is_empty() {
            self.removal(named.iter().map(|element| element.member.as_str()));
        }
        self.events.add(EventClass::Module, c"zexp.expired");
    }

    /// Replicates the removal of a set whose members have all expired.
    pub fn unlink(&mut self) {
        self.ctx.replicate(c"UNLINK", &[self.name]);
        self.key(true, None);
        self.events.add(EventClass::Module, c"zexp.expired");
    }

    fn removal<'m>(&self, members: impl Iterator<Item = Str<'m>>)
    where
        'c: 'm,
    {
        self.ctx.replicate(c"ZREM", &iter::once(self.name).chain(members).collect::<Vec<_>>());
    }
}

/// Formats a score so that ZADD parses it exactly.
fn score_text(score: f64) -> OwnedStr {
    match time::ceil_score(score) {
        Some(whole) if time::to_score(whole) == score => OwnedStr::from_integer(i64::try_from(whole).unwrap_or(0)),
        _ => OwnedStr::new(score.to_string().as_bytes()),
    }
}

/// Publishes a message for each removed member of the set, if `zeitset.announce-members` is on. The channel names the
/// database and key, and the message is the member. Publishing runs no code of other modules, so the caller may keep
/// the set open. The sweeper calls this function after each chunk of removed members, and then checks whether its time
/// limit is reached. So the time for publishing counts towards this limit.
pub(super) fn announce_members(ctx: &Context, name: Str<'_>, gone: &[Element]) {
    if gone.is_empty() || !config::ANNOUNCE_MEMBERS.get() {
        return;
    }
    let mut channel = format!("__zeitset@{}__:expired:", ctx.database()).into_bytes();
    channel.extend_from_slice(name.bytes());
    let channel = OwnedStr::new(&channel);
    gone.iter().for_each(|element| ctx.publish(channel.as_str(), element.member.as_str()));
}
