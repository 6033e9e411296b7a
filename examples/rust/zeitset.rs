//! The replies of Zeitset as Rust types. Copy this file into your project, and extend it as you need.

use redis::{Connection, FromRedisValue, ParsingError, RedisResult, Value, cmd, from_redis_value};
use std::time::Duration;

/// The six numbers of ZRL.CHECK.
#[allow(dead_code, reason = "the tour needs no refund")]
pub struct Limit {
    pub allowed: bool,
    pub limit: u64,
    /// Below 0: in debt (FORCE).
    pub remaining: i64,
    pub retry_after: Retry,
    /// The time until all units are free.
    pub reset_after: Duration,
    /// Unix time in milliseconds at which the units of this call become available again. Pass it to ZRL.REFUND.
    pub charged_until_ms: u64,
}

/// When the same call succeeds, if other calls take no units before.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Retry {
    /// This call has succeeded.
    Unneeded,
    After(Duration),
    /// The cost is higher than the limit.
    Never,
}

impl FromRedisValue for Limit {
    fn from_redis_value(reply: Value) -> Result<Self, ParsingError> {
        let (allowed, limit, remaining, retry_after_ms, reset_after_ms, charged_until_ms): (_, _, _, i64, _, _) =
            from_redis_value(reply)?;
        let retry_after = match u64::try_from(retry_after_ms) {
            Ok(0) => Retry::Unneeded,
            Ok(ms) => Retry::After(Duration::from_millis(ms)),
            Err(_) => Retry::Never,
        };
        let reset_after = Duration::from_millis(reset_after_ms);
        Ok(Limit { allowed, limit, remaining, retry_after, reset_after, charged_until_ms })
    }
}

impl Limit {
    /// Returns HTTP header fields: Retry-After, and the fields of draft-ietf-httpapi-ratelimit-headers. `window` is in
    /// seconds.
    pub fn headers(&self, policy: &str, window: u64) -> Vec<(&'static str, String)> {
        let retry = match self.retry_after {
            Retry::After(wait) => Some(seconds(wait)),
            Retry::Unneeded | Retry::Never => None,
        };
        let t = retry.unwrap_or(seconds(self.reset_after));
        let mut fields = vec![
            ("RateLimit-Policy", format!("\"{policy}\";q={};w={window}", self.limit)),
            ("RateLimit", format!("\"{policy}\";r={};t={t}", self.remaining.max(0))),
        ];
        fields.extend(retry.map(|wait| ("Retry-After", wait.to_string())));
        fields
    }
}

/// Returns whole seconds, rounded up, so that a client waits long enough.
fn seconds(duration: Duration) -> u128 {
    duration.as_millis().div_ceil(1000)
}

/// Takes one unit from a limit if one is free: `check(&mut redis, "search:ann", 5, "1m")`.
pub fn check(redis: &mut Connection, key: &str, limit: u64, window: &str) -> RedisResult<Limit> {
    cmd("ZRL.CHECK").arg(key).arg(limit).arg(window).query(redis)
}

/// A job that ZQ.CLAIM has leased to this client. A client that has the token may acknowledge it.
#[allow(dead_code, reason = "the tour is quicker than its leases")]
pub struct Job {
    pub queue: String,
    pub id: String,
    pub token: u64,
    pub attempt: u32,
    pub deadline_ms: u64,
    pub payload: String,
}

impl FromRedisValue for Job {
    fn from_redis_value(reply: Value) -> Result<Self, ParsingError> {
        let (queue, id, token, attempt, deadline_ms, payload) = from_redis_value(reply)?;
        Ok(Job { queue, id, token, attempt, deadline_ms, payload })
    }
}

/// Claims the next due job. Returns None if no job is due within `block`. The connection's read timeout (default: none)
/// must be longer than `block`. An asynchronous connection has a response timeout (default: half a second) instead,
/// which must also be longer than `block`.
pub fn claim(redis: &mut Connection, queue: &str, lease: &str, block: &str) -> RedisResult<Option<Job>> {
    let jobs: Vec<Job> =
        cmd("ZQ.CLAIM").arg(1).arg(queue).arg("LEASE").arg(lease).arg("BLOCK").arg(block).query(redis)?;
    Ok(jobs.into_iter().next())
}
