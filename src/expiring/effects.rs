//! Replication and keyspace events of sorted sets. Replicas and the AOF get the server's own commands with absolute values.

use crate::config;
use crate::model::time::{self, Decimal, Millis};
use crate::server::context::{EventClass, PendingEvents};
use crate::server::zset::Element;
use crate::server::{Context, OwnedStr, Str};
use smallvec::SmallVec;

/// A member to write: an argument of the command, or the module's own string.
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

pub(super) struct Effects<'e, 'k> {
    pub(super) name: Str<'k>,
    pub(super) put: &'e [(MemberName<'k>, f64)],
    pub(super) removed: &'e [MemberName<'k>],
    pub(super) expires: Option<Millis>,
    pub(super) is_empty: bool,
}

impl Effects<'_, '_> {
    /// Returns the earliest expiry of the added members.
    pub(super) fn soonest(&self) -> Option<Millis> {
        self.put.iter().filter_map(|(_, score)| time::ceil_score(*score)).min()
    }

    /// Replicates the changes, and returns the pending events. Additions come first: a removal could otherwise empty
    /// the set, and the set would lose its TTL.
    pub(super) fn replicate(&self, ctx: &Context) -> PendingEvents {
        let mut events = PendingEvents::default();
        if !self.put.is_empty() {
            let scores: SmallVec<[_; 1]> = self.put.iter().map(|(_, score)| score_text(*score)).collect();
            let mut arguments: SmallVec<[_; 3]> = SmallVec::with_capacity(1 + 2 * scores.len());
            arguments.push(self.name);
            for ((member, _), score) in self.put.iter().zip(&scores) {
                arguments.extend([score.as_str(), member.as_str()]);
            }
            ctx.replicate(c"ZADD", &arguments);
            events.add(EventClass::SortedSet, c"zadd");
        }
        if !self.removed.is_empty() {
            let members = self.removed.iter().map(MemberName::as_str);
            let arguments: Vec<_> = std::iter::once(self.name).chain(members).collect();
            ctx.replicate(c"ZREM", &arguments);
            events.add(EventClass::SortedSet, c"zrem");
        }
        if self.is_empty {
            events.add(EventClass::Generic, c"del");
        }
        if let Some(at) = self.expires {
            ctx.replicate_bytes(c"PEXPIREAT", self.name, &[Decimal::of(at).as_bytes()]);
            events.add(EventClass::Generic, c"expire");
        }
        events
    }
}

/// Formats a score so that ZADD parses it exactly.
fn score_text(score: f64) -> OwnedStr {
    match time::ceil_score(score) {
        Some(whole) if time::to_score(whole) == score => OwnedStr::from_integer(i64::try_from(whole).unwrap_or(0)),
        _ => OwnedStr::new(score.to_string().as_bytes()),
    }
}

/// Replicates the removal of the members with the lowest scores. `first` is the lowest remaining score.
pub(super) fn replicate_sweep(ctx: &Context, name: Str<'_>, gone: &[Element], first: Option<f64>) {
    let Some(last) = gone.last().map(|element| element.score) else { return };
    let whole = match first {
        // RESTORE accepts sets whose members are out of order. In such a set, a score range would miss some members.
        _ if !gone.is_sorted_by(|one, next| one.score <= next.score) => 0,
        // If members with the highest removed score remain, a score range would also remove them. So ZREM names the
        // removed members with this score.
        Some(first) if first <= last => gone.partition_point(|element| element.score < last),
        _ => gone.len(),
    };
    let (lower, named) = gone.split_at(whole);
    if let Some(highest) = lower.last() {
        let (from, to) = (OwnedStr::new(b"-inf"), score_text(highest.score));
        ctx.replicate(c"ZREMRANGEBYSCORE", &[name, from.as_str(), to.as_str()]);
    }
    if !named.is_empty() {
        let members = named.iter().map(|element| element.member.as_str());
        ctx.replicate(c"ZREM", &std::iter::once(name).chain(members).collect::<Vec<_>>());
    }
}

/// Publishes a message for each removed member of the set, if `zeitset.announce-members` is on. The channel names the
/// database and key, and the message is the member. Publishing runs no code of other modules, so the caller may keep
/// the set open. The sweeper calls this function after each chunk of removed members. So the time for publishing is
/// part of the slice.
pub(super) fn announce_members(ctx: &Context, name: Str<'_>, gone: &[Element]) {
    if gone.is_empty() || !config::ANNOUNCE_MEMBERS.get() {
        return;
    }
    let mut channel = format!("__zeitset@{}__:expired:", ctx.database()).into_bytes();
    channel.extend_from_slice(name.bytes());
    let channel = OwnedStr::new(&channel);
    gone.iter().for_each(|element| ctx.publish(channel.as_str(), element.member.as_str()));
}
