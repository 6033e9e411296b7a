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
pub struct WithTtl<S = String>(pub Vec<(S, Ttl)>);

impl<S: FromRedisValue> FromRedisValue for WithTtl<S> {
    fn from_redis_value(reply: Value) -> Result<Self, ParsingError> {
        Vec::from_redis_value(reply).map(Self)
    }
}

commands! {
    /// Returns the number of live members, exactly.
    > r#"let live: u64 = zexp::card("online").query(&mut redis)?;"#
    pub Card card(key: text) -> u64 = "ZEXP.CARD"
    /// Returns whether the member is in the set.
    > r#"let is_online: bool = zexp::ismember("online", "ann").query(&mut redis)?;"#
    pub IsMember ismember(key: text, member: text) -> bool = "ZEXP.ISMEMBER"
    /// Returns for each member whether it is in the set.
    > r#"let are_online: Vec<bool> = zexp::mismember("online", &["ann", "bob"]).query(&mut redis)?;"#
    pub MIsMember mismember(key: text, members: texts) -> Vec<bool> = "ZEXP.MISMEMBER"
    /// Returns live members, soonest to expire first.
    > r#"let soon: Vec<String> = zexp::members("online").within("10s").limit(0, 100).query(&mut redis)?;"#
    pub Members members(key: text) -> Vec<String> = "ZEXP.MEMBERS" {
        > r#"zexp::members("online")"#
        /// Only members that expire within this time.
        within(time: period = "10s") = "WITHIN",
        /// Skips `offset` members, and returns at most `count`; -1 means all.
        limit(offset: u64 = 0, count: i64 = 100) = "LIMIT",
    } + ["WITHPTTL"]
    /// Removes members. Returns how many were in the set.
    > r#"let removed: u64 = zexp::rem("online", &["ann", "bob"]).query(&mut redis)?;"#
    pub Rem rem(key: text, members: texts) -> u64 = "ZEXP.REM"
    /// Removes the expiry of members. Returns 1, -1 (had none) or -2 (no such live member) for each.
    > r#"let results: Vec<i64> = zexp::persist("flags", &["beta"]).query(&mut redis)?;"#
    pub Persist persist(key: text, members: texts) -> Vec<i64> = "ZEXP.PERSIST"
    /// Returns the seconds until each member expires; -1: it has no expiry; -2: it is not in the set.
    > r#"assert_eq!(zexp::ttl("nobody", "ann").query(&mut redis)?, [-2]);"#
    pub TtlSeconds ttl(key: text, members: texts) -> Vec<i64> = "ZEXP.TTL"
    /// Returns how long each member still lives.
    > r#"assert_eq!(zexp::pttl("nobody", "ann").query(&mut redis)?, [zexp::Ttl::Missing]);"#
    pub Pttl pttl(key: text, members: texts) -> Vec<Ttl> = "ZEXP.PTTL"
    /// Returns random live members: up to `count` different ones. With a negative `count`, members may repeat.
    > r#"let some: Vec<String> = zexp::randmember("online", 3).query(&mut redis)?;"#
    pub RandMember randmember(key: text, count: i64) -> Vec<String> = "ZEXP.RANDMEMBER"
    /// Removes and returns up to `count` members, soonest to expire first.
    > r#"let next: Vec<String> = zexp::pop("reminders", 10).query(&mut redis)?;"#
    pub Pop pop(key: text, count: u64) -> Vec<String> = "ZEXP.POP"
    /// Turns a sorted set whose scores are times into an expiring set. Returns how many members are live.
    > r#"let live: u64 = zexp::adopt("sessions").unit("S").plus("30m").query(&mut redis)?;"#
    pub Adopt adopt(key: text) -> u64 = "ZEXP.ADOPT" {
        > r#"zexp::adopt("sessions")"#
        /// The unit of the scores: `S` or `MS`.
        unit(unit: text = "MS") = "UNIT",
        /// Adds a lifetime to each score.
        plus(ttl: period = "30m") = "PLUS",
        /// Adopts the set even if all members expire at once.
        force() = "FORCE",
    } + ["S" "MS"]
    Add new_add(key: text) -> Option<u64> = "ZEXP.ADD" {
        > r#"zexp::add("online", "1m", ["ann"])"#
        /// Only adds new members.
        nx() = "NX",
        /// Only changes present members.
        xx() = "XX",
        /// Changes an expiry only if the new one is later.
        gt() = "GT",
        /// Changes an expiry only if the new one is sooner.
        lt() = "LT",
        /// Also counts members whose expiry changed.
        ch() = "CH",
        /// Does nothing if the set would have more than `count` live members.
        cap(count: u64 = 3) = "CAP",
    } + ["AT"]
    Expire new_expire(key: text) -> Vec<Expired> = "ZEXP.EXPIRE" {
        > r#"zexp::expire("online", "5m", &["ann"])"#
        /// Changes an expiry only if the new one is later.
        gt() = "GT",
        /// Changes an expiry only if the new one is sooner.
        lt() = "LT",
    } + ["AT"]
}

impl Call<Members, Vec<String>> {
    /// Also returns the TTL of each member. Adds `WITHPTTL`.
    ///
    #[doc = example!(r#"let zexp::WithTtl(members) = zexp::members("online").with_ttl().query(&mut redis)?;"#)]
    pub fn with_ttl(self) -> Call<Members, WithTtl> {
        self.with("WITHPTTL").reply_as()
    }
}

/// Adds members that live for `ttl`. Returns how many were added, or None if CAP refused them.
///
#[doc = example!(r#"let added: Option<u64> = zexp::add("online", "1m", ["ann", "bob"]).cap(1000).query(&mut redis)?;"#)]
pub fn add<M: ToSingleRedisArg>(
    key: impl ToSingleRedisArg,
    ttl: impl Into<Period>,
    members: impl IntoIterator<Item = M>,
) -> Call<Add, Option<u64>> {
    let ttl = ttl.into();
    add_each(key, members.into_iter().map(|member| (ttl.clone(), member)))
}

/// Adds members, each with its own TTL.
///
#[doc = example!(r#"zexp::add_each("tokens", [("5m", "short"), ("1d", "long")]).nx().query(&mut redis)?;"#)]
pub fn add_each<P: Into<Period>, M: ToSingleRedisArg>(
    key: impl ToSingleRedisArg,
    members: impl IntoIterator<Item = (P, M)>,
) -> Call<Add, Option<u64>> {
    members.into_iter().fold(new_add(key), |call, (ttl, member)| call.then(ttl.into()).then(member))
}

/// Adds members that live until `at`.
///
#[doc = example!(r#"zexp::add_until("offers", "2030-01-01T00:00:00Z", ["spring"]).query(&mut redis)?;"#)]
pub fn add_until<M: ToSingleRedisArg>(
    key: impl ToSingleRedisArg,
    at: impl Into<Moment>,
    members: impl IntoIterator<Item = M>,
) -> Call<Add, Option<u64>> {
    let at = at.into();
    members.into_iter().fold(new_add(key).then("AT"), |call, member| call.then(at.clone()).then(member))
}

/// Gives live members another expiry. Returns the result for each member.
///
#[doc = example!(r#"let results: Vec<zexp::Expired> = zexp::expire("online", "5m", &["ann"]).gt().query(&mut redis)?;"#)]
pub fn expire(
    key: impl ToSingleRedisArg,
    ttl: impl Into<Period>,
    members: impl ToRedisArgs,
) -> Call<Expire, Vec<Expired>> {
    new_expire(key).then(ttl.into()).then(members)
}

/// Gives live members an expiry at a moment. Returns the result for each member.
///
#[doc = example!(r#"let results = zexp::expire_at("offers", "2031-01-01T00:00:00Z", &["spring"]).query(&mut redis)?;"#)]
pub fn expire_at(
    key: impl ToSingleRedisArg,
    at: impl Into<Moment>,
    members: impl ToRedisArgs,
) -> Call<Expire, Vec<Expired>> {
    new_expire(key).then("AT").then(at.into()).then(members)
}
