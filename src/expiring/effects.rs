//! What a change of a sorted set tells the world: replicas and the AOF, as native commands with absolute values, and those who
//! listen for events.

use crate::model::time::{self, Millis};
use crate::server::context::EventClass;
use crate::server::zset::Element;
use crate::server::{Context, OwnedStr, Str};
use smallvec::SmallVec;

/// A member to be written: an argument of the command, or a string of our own.
pub enum Member<'a> {
    Argument(Str<'a>),
    Ours(OwnedStr),
}

impl Member<'_> {
    pub(super) fn as_str(&self) -> Str<'_> {
        match self {
            Member::Argument(member) => *member,
            Member::Ours(member) => member.as_str(),
        }
    }
}

/// What a commit tells those who listen for events.
#[must_use = "somebody listens, perhaps"]
pub struct News {
    pub(super) has_put: bool,
    pub(super) has_removed: bool,
    pub(super) is_empty: bool,
    pub(super) has_expiry: bool,
}

impl News {
    /// Runs the code of those who listen.
    pub fn announce(self, ctx: &mut Context, name: Str<'_>) {
        crate::server::fault!("announce");
        if self.has_put {
            ctx.notify(EventClass::SortedSet, c"zadd", name);
        }
        if self.has_removed {
            ctx.notify(EventClass::SortedSet, c"zrem", name);
        }
        if self.is_empty {
            ctx.notify(EventClass::Generic, c"del", name);
        }
        if self.has_expiry {
            ctx.notify(EventClass::Generic, c"expire", name);
        }
    }
}

/// What a commit tells replicas and the AOF.
pub(super) struct Effects<'e, 'k> {
    pub(super) name: Str<'k>,
    pub(super) put: &'e [(Member<'k>, f64)],
    pub(super) removed: &'e [Member<'k>],
    pub(super) expires: Option<Millis>,
}

impl Effects<'_, '_> {
    /// When the first of the members that were put expires.
    pub(super) fn soonest(&self) -> Option<Millis> {
        self.put.iter().filter_map(|(_, score)| time::ceil_score(*score)).min()
    }

    /// Native commands with absolute values. What is put comes first, so that no removal can empty the set, and lose its
    /// TTL, on the way.
    pub(super) fn replicate(&self, ctx: &Context) {
        if !self.put.is_empty() {
            let scores: SmallVec<[_; 1]> = self.put.iter().map(|(_, score)| score_text(*score)).collect();
            let mut arguments: SmallVec<[_; 3]> = SmallVec::with_capacity(1 + 2 * scores.len());
            arguments.push(self.name);
            for ((member, _), score) in self.put.iter().zip(&scores) {
                arguments.extend([score.as_str(), member.as_str()]);
            }
            ctx.replicate(c"ZADD", &arguments);
        }
        if !self.removed.is_empty() {
            let members = self.removed.iter().map(Member::as_str);
            let arguments: Vec<_> = std::iter::once(self.name).chain(members).collect();
            ctx.replicate(c"ZREM", &arguments);
        }
        if let Some(at) = self.expires {
            let at = OwnedStr::from_integer(i64::try_from(at).unwrap_or(i64::MAX));
            ctx.replicate(c"PEXPIREAT", &[self.name, at.as_str()]);
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

/// Replicates that the members with the lowest scores are gone, and `first` is the lowest score by now.
pub(super) fn replicate_sweep(ctx: &Context, name: Str<'_>, gone: &[Element], first: Option<f64>) {
    let Some(last) = gone.last().map(|element| element.score) else { return };
    let whole = match first {
        // RESTORE takes sets whose members are not in order: a range of scores would not find them.
        _ if !gone.is_sorted_by(|one, next| one.score <= next.score) => 0,
        // Of the highest score, some may be left: then those that are gone are named.
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
