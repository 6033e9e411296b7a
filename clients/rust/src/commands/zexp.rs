//! Sets whose members expire: the commands `ZEXP.*`.
//!
//! ```
//! # fn main() -> Result<(), zeitset_client::Error> {
//! # let Some(url) = std::env::var("ZEITSET_URL").ok() else { return Ok(()) };
//! # let mut connection = redis::Client::open(url)?.get_connection()?;
//! use zeitset_client::zexp;
//!
//! let stored = zexp::add("otp:ann", "5m", ["493811"]).cap(3).query(&mut connection)?;
//! assert_eq!(stored, Some(1));
//! assert_eq!(zexp::rem("otp:ann", "493811").query(&mut connection)?, 1);
//! # Ok(())
//! # }
//! ```

use super::Call;
use crate::{Moment, Period};
use redis::{FromRedisValue, ParsingError, ToRedisArgs, ToSingleRedisArg, Value};
use std::time::Duration;

/// The result of ZEXP.EXPIRE for a member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expired {
    /// The member has the new expiry.
    Set,
    /// The old expiry stays because of GT or LT.
    Kept,
    /// The time is past, so the member was removed.
    Removed,
    /// There is no such live member.
    Missing,
}

impl FromRedisValue for Expired {
    fn from_redis_value(reply: Value) -> Result<Self, ParsingError> {
        match i64::from_redis_value(reply)? {
            1 => Ok(Self::Set),
            0 => Ok(Self::Kept),
            2 => Ok(Self::Removed),
            -2 => Ok(Self::Missing),
            other => Err(format!("expected -2 to 2, got {other}").into()),
        }
    }
}

/// How long a member still lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ttl {
    /// The member expires after this time.
    Remaining(Duration),
    /// The member does not expire.
    Endless,
    /// There is no such live member.
    Missing,
}

impl FromRedisValue for Ttl {
    fn from_redis_value(reply: Value) -> Result<Self, ParsingError> {
        match i64::from_redis_value(reply)? {
            -1 => Ok(Self::Endless),
            -2 => Ok(Self::Missing),
            ms => Ok(Self::Remaining(Duration::from_millis(u64::try_from(ms).map_err(|e| e.to_string())?))),
        }
    }
}

/// The members of a set with their TTLs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WithTtl(pub Vec<(String, Ttl)>);

impl FromRedisValue for WithTtl {
    fn from_redis_value(reply: Value) -> Result<Self, ParsingError> {
        Vec::from_redis_value(reply).map(Self)
    }
}

commands! {
    /// Returns the number of live members, exactly.
    Card card(key: text) -> u64 = "ZEXP.CARD"
    /// Returns whether the member is in the set.
    IsMember ismember(key: text, member: text) -> bool = "ZEXP.ISMEMBER"
    /// Returns for each member whether it is in the set.
    MIsMember mismember(key: text, members: texts) -> Vec<bool> = "ZEXP.MISMEMBER"
    /// Returns live members, soonest to expire first.
    Members members(key: text) -> Vec<String> = "ZEXP.MEMBERS" {
        /// Only members that expire within this time.
        within(time: period) = "WITHIN",
        /// Skips `offset` members, and returns at most `count`; -1 means all.
        limit(offset: u64, count: i64) = "LIMIT",
    } + ["WITHPTTL"]
    /// Removes members. Returns how many were in the set.
    Rem rem(key: text, members: texts) -> u64 = "ZEXP.REM"
    /// Removes the expiry of members. Returns 1, -1 (had none) or -2 (no such live member) for each.
    Persist persist(key: text, members: texts) -> Vec<i64> = "ZEXP.PERSIST"
    /// Returns the seconds until each member expires; -1: it has no expiry; -2: it is not in the set.
    TtlSeconds ttl(key: text, members: texts) -> Vec<i64> = "ZEXP.TTL"
    /// Returns how long each member still lives.
    Pttl pttl(key: text, members: texts) -> Vec<Ttl> = "ZEXP.PTTL"
    /// Returns random live members: up to `count` different ones. With a negative `count`, members may repeat.
    RandMember randmember(key: text, count: i64) -> Vec<String> = "ZEXP.RANDMEMBER"
    /// Removes and returns up to `count` members, soonest to expire first.
    Pop pop(key: text, count: u64) -> Vec<String> = "ZEXP.POP"
    /// Turns a sorted set whose scores are times into an expiring set. Returns how many members are live.
    Adopt adopt(key: text) -> u64 = "ZEXP.ADOPT" {
        /// The unit of the scores: `S` or `MS`.
        unit(unit: text) = "UNIT",
        /// Adds a lifetime to each score.
        plus(ttl: period) = "PLUS",
        /// Even if all members expire at once.
        force() = "FORCE",
    } + ["S" "MS"]
    /// Adds options to [`add`], [`add_until`] and [`add_each`].
    Add new_add(key: text) -> Option<u64> = "ZEXP.ADD" {
        /// Only adds new members.
        nx() = "NX",
        /// Only changes present members.
        xx() = "XX",
        /// Only changes an expiry to a later one.
        gt() = "GT",
        /// Only changes an expiry to a sooner one.
        lt() = "LT",
        /// Also counts members whose expiry changed.
        ch() = "CH",
        /// Does nothing if the set would have more than `count` live members.
        cap(count: u64) = "CAP",
    } + ["AT"]
    /// Adds options to [`expire`] and [`expire_at`].
    Expire new_expire(key: text) -> Vec<Expired> = "ZEXP.EXPIRE" {
        /// Only changes an expiry to a later one.
        gt() = "GT",
        /// Only changes an expiry to a sooner one.
        lt() = "LT",
    } + ["AT"]
}

impl Call<Members, Vec<String>> {
    /// Also returns the TTL of each member. Adds `WITHPTTL`.
    pub fn with_ttl(self) -> Call<Members, WithTtl> {
        self.with("WITHPTTL").reply_as()
    }
}

/// Adds members that live for `ttl`. Returns how many were added, or None if CAP refused.
pub fn add<M: ToSingleRedisArg>(
    key: impl ToSingleRedisArg,
    ttl: impl Into<Period>,
    members: impl IntoIterator<Item = M>,
) -> Call<Add, Option<u64>> {
    let ttl = ttl.into();
    add_each(key, members.into_iter().map(|member| (ttl.clone(), member)))
}

/// Adds members, each with its own TTL.
pub fn add_each<P: Into<Period>, M: ToSingleRedisArg>(
    key: impl ToSingleRedisArg,
    members: impl IntoIterator<Item = (P, M)>,
) -> Call<Add, Option<u64>> {
    members.into_iter().fold(new_add(key), |call, (ttl, member)| call.then(ttl.into()).then(member))
}

/// Adds members that live until `at`.
pub fn add_until<M: ToSingleRedisArg>(
    key: impl ToSingleRedisArg,
    at: impl Into<Moment>,
    members: impl IntoIterator<Item = M>,
) -> Call<Add, Option<u64>> {
    let at = at.into();
    members.into_iter().fold(new_add(key).then("AT"), |call, member| call.then(at.clone()).then(member))
}

/// Gives live members another expiry. Returns the result for each member.
pub fn expire(
    key: impl ToSingleRedisArg,
    ttl: impl Into<Period>,
    members: impl ToRedisArgs,
) -> Call<Expire, Vec<Expired>> {
    new_expire(key).then(ttl.into()).then(members)
}

/// Gives live members an expiry at a moment. Returns the result for each member.
pub fn expire_at(
    key: impl ToSingleRedisArg,
    at: impl Into<Moment>,
    members: impl ToRedisArgs,
) -> Call<Expire, Vec<Expired>> {
    new_expire(key).then("AT").then(at.into()).then(members)
}
