//! Rate limits: the commands `ZRL.*`. The `Limiter` (feature `limiter`) calls them for you.

use super::{Call, items, next};
use crate::{Moment, Period};
use redis::{FromRedisValue, ParsingError, ToSingleRedisArg, Value, from_redis_value};
use std::time::Duration;

/// The decision of a limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Check {
    /// Whether the units were taken (ZRL.PEEK: would be taken).
    pub allowed: bool,
    /// The limit, as given in the call.
    pub limit: u64,
    /// Units that are free after this call, at least 0.
    pub remaining: u64,
    /// Units in use beyond the limit, taken by FORCE. Later calls are denied until this debt is paid.
    pub debt: u64,
    /// The wait after which the same call succeeds, if other callers take no units; 0: the call was allowed. None: the
    /// call costs more than the limit, and never succeeds.
    pub retry_after: Option<Duration>,
    /// The time until all units are free.
    pub reset_after: Duration,
    /// Unix time in ms at which the units of this call become available again; 0 if none were taken.
    pub charged_until_ms: u64,
}

impl FromRedisValue for Check {
    fn from_redis_value(reply: Value) -> Result<Self, ParsingError> {
        let items = &mut items(reply)?;
        let (allowed, limit, remaining): (_, _, i64) = (next(items)?, next(items)?, next(items)?);
        Ok(Self {
            allowed,
            limit,
            remaining: remaining.max(0).unsigned_abs(),
            debt: remaining.min(0).unsigned_abs(),
            retry_after: u64::try_from(next::<i64>(items)?).ok().map(Duration::from_millis),
            reset_after: Duration::from_millis(next(items)?),
            charged_until_ms: next(items)?,
        })
    }
}

/// The decision of several limits together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Checks {
    /// Whether units were taken from all limits. If not, units were taken from none.
    pub allowed: bool,
    /// The decision of each limit. `allowed` is true if the limit alone would have allowed the call.
    pub checks: Vec<Check>,
}

impl FromRedisValue for Checks {
    fn from_redis_value(reply: Value) -> Result<Self, ParsingError> {
        let items = &mut items(reply)?;
        Ok(Self { allowed: next(items)?, checks: items.map(from_redis_value).collect::<Result<_, _>>()? })
    }
}

super::reply! { map
    /// The reply of ZRL.INFO.
    Info {
        /// `sliding`, `fixed`, `leaky` or `throttle`.
        algorithm: String,
        /// Units in use, including a debt. None for limits of ZRL.THROTTLE.
        units: Option<u64>,
        /// How many points in time the key stores.
        slots: u64,
        /// Unix ms at which the next unit becomes available again.
        next_available_ms: Option<u64>,
        /// Unix ms at which all units are available again.
        all_available_ms: Option<u64>,
    }
}

super::reply! { array
    /// The reply of ZRL.THROTTLE, in seconds.
    #[derive(Copy)]
    Throttle {
        /// Whether the call is denied.
        limited: bool,
        /// The limit: the burst + 1.
        limit: i64,
        /// How many units are free.
        remaining: i64,
        /// The seconds after which the call succeeds; -1 if it was allowed.
        retry_after: i64,
        /// The seconds until all units are free.
        reset_after: i64,
    }
}

super::reply! { array
    /// A key that was denied often (ZRL.TOP). The true number of denials is from `denied - error` to `denied`.
    Denied<S> {
        /// The Redis key of the limit.
        key: S,
        /// How often the key was denied, at most.
        denied: u64,
        /// The Unix time in ms from which on the denials of the key are counted.
        since_ms: u64,
        /// By how much `denied` may be too high.
        error: u64,
    }
}

/// One limit of ZRL.MCHECK: the Redis key, the limit and the window.
pub type Quota<K, W> = (K, u64, W);

commands! {
    /// Takes units if they fit.
    > r#"let check: zrl::Check = zrl::check("search:ann", 5, "1m").cost(2).query(&mut redis)?;"#
    pub CheckCommand check(key: text, limit: u64, window: period) -> Check = "ZRL.CHECK" {
        > r#"zrl::check("search:ann", 5, "1m")"#
        /// How many units to take; 1 by default.
        cost(units: u64 = 2) = "COST",
        /// A unit becomes available again one window after it was taken. This is the default.
        sliding() = "SLIDING",
        /// Units become available again at the end of the window.
        fixed() = "FIXED" > r#"zrl::check("daily:ann", 100, "1d")"#,
        /// Units become available again one by one (GCRA).
        leaky() = "LEAKY" > r#"zrl::check("calls:ann", 100, "1m")"#,
        /// Units become available again exactly to the millisecond, however high the limit is.
        exact() = "EXACT",
        /// The precision of the time at which a unit becomes available again.
        precision(duration: period = "1s") = "PRECISION",
        /// Takes the units even if they do not fit.
        force() = "FORCE",
    } & ["ZRL.PEEK"]
    MCheck new_mcheck(numkeys: u64) -> Checks = "ZRL.MCHECK" {
        > r#"zrl::mcheck([("a:s", 5, "1s"), ("a:d", 1000, "1d")])"#
        /// How many units to take: one number for all keys, or a number for each key.
        cost(units: texts = &[1, 5]) = "COST",
        /// The precision of SLIDING keys, as for [`check()`].
        precision(duration: period = "1s") = "PRECISION",
        /// The exact precision for SLIDING keys, as for [`check()`].
        exact() = "EXACT",
        /// Takes the units from all keys even if they do not fit.
        force() = "FORCE",
    } + ["SLIDING" "FIXED" "LEAKY"]
    Refund new_refund(key: text, units: u64) -> u64 = "ZRL.REFUND" + ["AT"]
    /// Returns how many units of a limit are in use; None if the key is missing.
    > r#"let info: Option<zrl::Info> = zrl::info("search:ann").query(&mut redis)?;"#
    pub InfoCommand info(key: text) -> Option<Info> = "ZRL.INFO"
    /// Calls the command with the arguments and the reply of redis-cell's CL.THROTTLE.
    > r#"let reply: zrl::Throttle = zrl::throttle("user:ann", 15, 30, 60, 1).query(&mut redis)?;"#
    pub ThrottleCommand throttle(key: text, max_burst: u64, count: u64, period_s: u64, quantity: i64) -> Throttle = "ZRL.THROTTLE"
    /// Returns the keys that were denied most often.
    > r#"let denied: Vec<zrl::Denied> = zrl::top().count(3).query(&mut redis)?;"#
    pub Top top() -> Vec<Denied> = "ZRL.TOP" {
        > r#"zrl::top()"#
        /// The number of keys; 10 by default.
        count(keys: u64 = 10) = "COUNT",
        /// Sets all counts to 0 after the reply.
        reset() = "RESET",
    }
}

/// Returns what [`check()`] would return, and takes nothing. The options are those of [`check()`].
///
/// Calls `ZRL.PEEK`.
///
#[doc = example!(r#"let check: zrl::Check = zrl::peek("search:ann", 5, "1m").query(&mut redis)?;"#)]
pub fn peek(key: impl ToSingleRedisArg, limit: u64, window: impl Into<Period>) -> Call<CheckCommand, Check> {
    check_with("ZRL.PEEK", key, limit, &window.into())
}

pub(crate) fn check_with(
    word: &str,
    key: impl ToSingleRedisArg,
    limit: u64,
    window: &Period,
) -> Call<CheckCommand, Check> {
    Call::new(word).with(key).with(limit).with(window)
}

/// Takes units from several limits, or from none.
///
#[doc = example!(r#"let checks: zrl::Checks = zrl::mcheck([("a:s", 5, "1s"), ("a:d", 1000, "1d")]).query(&mut redis)?;"#)]
pub fn mcheck<K: ToSingleRedisArg, W: Into<Period>>(
    quotas: impl IntoIterator<Item = Quota<K, W>>,
) -> Call<MCheck, Checks> {
    let (mut keys, mut windows) = (Vec::new(), Vec::new());
    for (key, limit, window) in quotas {
        keys.push(key);
        windows.push((limit, window.into()));
    }
    let call = keys.iter().fold(new_mcheck(keys.len() as u64), |call, key| call.with(key));
    windows.into_iter().fold(call, |call, (limit, window)| call.with(limit).with(window))
}

impl<R> Call<MCheck, R> {
    /// The algorithms: one for all keys, or one for each key. For example `["SLIDING", "LEAKY"]`.
    ///
    #[doc = example!(r#"zrl::mcheck([("f:ann", 5, "1s"), ("g:ann", 9, "1d")]).algorithms(&["FIXED", "LEAKY"]).query(&mut redis)?;"#)]
    pub fn algorithms(self, words: impl redis::ToRedisArgs) -> Self {
        self.with(words)
    }
}

/// Returns units that one call took. `charged_until` is [`Check::charged_until_ms`] of that call.
///
#[doc = example!("let check = zrl::check(\"jobs:ann\", 100, \"1h\").cost(3).query(&mut redis)?;\nassert_eq!(zrl::refund(\"jobs:ann\", 3, check.charged_until_ms).query(&mut redis)?, 3);")]
pub fn refund(key: impl ToSingleRedisArg, units: u64, charged_until: impl Into<Moment>) -> Call<Refund, u64> {
    new_refund(key, units).with("AT").with(charged_until.into())
}
