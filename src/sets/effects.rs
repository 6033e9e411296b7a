//! Replicates changes of expiring sets, and collects their keyspace events. Replicas and the AOF get the server's own
//! commands with absolute values.

use crate::base::time;
use crate::server::context::{EventClass, PendingEvents};
use crate::server::zset::Element;
use crate::server::{Context, OwnedStr, Str};
use crate::sets::settings;
use smallvec::SmallVec;
use std::iter;

/// The name of a member to write: an argument of the command, or a string that the module has created.
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
    /// on a replica, so that the key would lose its TTL there.
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

    /// Signals the change of the key to WATCH and client-side caching. If `is_persisted` is true, first replicates the
    /// removal of the key's TTL.
    pub fn key(&mut self, is_empty: bool, is_persisted: bool) {
        if is_persisted {
            self.ctx.replicate(c"PERSIST", &[self.name]);
            self.events.add(EventClass::Generic, c"persist");
        }
        if is_empty {
            self.events.add(EventClass::Generic, c"del");
        }
        self.ctx.signal_modified(self.name);
    }

    /// Replicates the removal of the expired members `gone`. `first` is the lowest remaining score, not counting the
    /// tag `zeitset:expiring`. The tag has the score `-inf`, so it usually comes before all members with a higher
    /// score. `is_tag_first` is false if a removed member with a higher score came before the tag.
    ///
    /// Replicates one ZREMRANGEBYSCORE, and ZREM for the members that its range must not cover:
    ///
    /// - The members with the score `-inf`, because the tag has this score, too.
    /// - The members with the highest removed score, if members with this score remain.
    /// - All members, if the set is out of order. A range would miss some of them, or remove the tag.
    pub fn expiry(&mut self, gone: &[Element], first: Option<f64>, is_tag_first: bool) {
        let Some(last) = gone.last().map(|element| element.score) else { return };
        let is_sorted = is_tag_first && gone.is_sorted_by(|one, next| one.score <= next.score);
        let is_lowest = |element: &Element| !is_sorted || element.score == f64::NEG_INFINITY;
        let start = gone.partition_point(is_lowest);
        let end = match first {
            _ if !is_sorted => gone.len(),
            Some(first) if first <= last => gone.partition_point(|element| element.score < last).max(start),
            _ => gone.len(),
        };
        if let Some(highest) = gone[start..end].last() {
            let (from, to) = (OwnedStr::new(b"(-inf"), score_text(highest.score));
            self.ctx.replicate(c"ZREMRANGEBYSCORE", &[self.name, from.as_str(), to.as_str()]);
        }
        if start > 0 || end < gone.len() {
            self.removal(gone[..start].iter().chain(&gone[end..]).map(|element| element.member.as_str()));
        }
        self.events.add(EventClass::Module, c"zexp.expired");
    }

    /// Replicates the removal of the key of a set without live members. `has_expired` tells whether the set had expired
    /// members.
    pub fn unlink(&mut self, has_expired: bool) {
        self.ctx.replicate(c"UNLINK", &[self.name]);
        self.key(true, false);
        if has_expired {
            self.events.add(EventClass::Module, c"zexp.expired");
        }
    }

    pub fn removal<'m>(&self, members: impl Iterator<Item = Str<'m>>)
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
    if gone.is_empty() || !settings::ANNOUNCE_MEMBERS.get() {
        return;
    }
    let mut channel = format!("__zeitset@{}__:expired:", ctx.database()).into_bytes();
    channel.extend_from_slice(name.bytes());
    let channel = OwnedStr::new(&channel);
    gone.iter().for_each(|element| ctx.publish(channel.as_str(), element.member.as_str()));
}
