//! Queues: the commands `ZQ.*`. `Queue` and `Worker` (features `queue`, `worker`) call them for you.

use super::{Call, items, next};
use crate::Period;
use redis::{FromRedisValue, ParsingError, ToSingleRedisArg, Value, from_redis_value};
use std::collections::HashMap;

super::reply! { array
    /// A claimed job.
    Claim<S> {
        /// The key of the queue.
        key: S,
        /// The ID of the job.
        id: S,
        /// The token, which ZQ.ACK and ZQ.NACK need. Later claims of the queue have larger tokens.
        token: u64,
        /// The number of the attempt, from 1.
        attempt: u64,
        /// When the lease expires, in Unix ms.
        deadline_ms: u64,
        /// The payload.
        payload: Vec<u8>,
    }
}

/// A job as ZQ.PEEK lists it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listed<S = String> {
    /// The ID of the job.
    pub id: S,
    /// Unix ms: when the job is due, when its lease expires, or when it became a dead letter.
    pub due_ms: u64,
    /// The priority; lower is served first.
    pub priority: i64,
    /// How often the job was claimed.
    pub attempts: u64,
    /// The payload; None with NOPAYLOAD.
    pub payload: Option<Vec<u8>>,
    /// The lease of a claimed job, with WITHLEASE.
    pub lease: Option<Lease<S>>,
}

super::reply! { array
    /// A worker's right to run a job until a deadline.
    Lease<S> {
        /// The name of the worker.
        worker: Option<S>,
        /// The token of the claim.
        token: u64,
        /// When the lease expires, in Unix ms.
        deadline_ms: u64,
    }
}

impl<S: FromRedisValue> FromRedisValue for Listed<S> {
    fn from_redis_value(reply: Value) -> Result<Self, ParsingError> {
        let items = &mut items(reply)?;
        let (id, due_ms, priority) = (next(items)?, next(items)?, next(items)?);
        let (attempts, payload, rest) = (next(items)?, next(items)?, Value::Array(items.collect()));
        let lease = if rest == Value::Array(Vec::new()) { None } else { Some(from_redis_value(rest)?) };
        Ok(Self { id, due_ms, priority, attempts, payload, lease })
    }
}

super::reply! { map
    /// A job as ZQ.GET shows it.
    Job<S> {
        /// `ready`, `delayed`, `claimed` or `dead`.
        state: String,
        /// The payload.
        payload: Vec<u8>,
        /// The priority; lower is served first.
        priority: i64,
        /// How often the job was claimed.
        attempts: u64,
        /// How often the job may be claimed; None: no limit.
        max_attempts: Option<u64>,
        /// Unix ms: when the job is due, when its lease expires, or when it became a dead letter.
        due_ms: u64,
        /// The token that is valid now.
        token: Option<u64>,
        /// When the job was pushed, in Unix ms.
        created_ms: u64,
        /// The period of a recurring job.
        every_ms: Option<u64>,
        /// When the TTL of the job ends, in Unix ms.
        expires_ms: Option<u64>,
        /// When the job was last claimed, in Unix ms.
        claimed_ms: Option<u64>,
        /// When the job last failed, in Unix ms.
        failed_ms: Option<u64>,
        /// The worker that claimed the job.
        worker: Option<S>,
        /// The text of the last failure.
        error: Option<S>,
        /// The last text of PROGRESS.
        progress: Option<S>,
        /// When the text of PROGRESS was stored, in Unix ms.
        progress_ms: Option<u64>,
        /// The group of the job.
        group: Option<S>,
        /// The payload of a push with AGAIN that waits until this job's claim ends.
        again_payload: Option<Vec<u8>>,
    }
}

super::reply! { array
    /// A group of jobs, as ZQ.GROUPS lists it.
    Group<S> {
        /// The name; empty for the jobs without a group.
        name: S,
        /// How many jobs are ready.
        ready: u64,
        /// How many jobs are delayed.
        delayed: u64,
        /// How many jobs are claimed.
        claimed: u64,
        /// Until when the group is held, in Unix ms.
        held_until_ms: Option<u64>,
    }
}

/// Totals and settings of a queue, by the names of ZQ.STATS and ZQ.CONFIG.
#[derive(Clone, Debug, PartialEq)]
pub struct Fields(pub HashMap<String, Value>);

impl Fields {
    /// Returns a number; None if the field is null or not a number: `stats.get("ready")`.
    pub fn get(&self, name: &str) -> Option<i64> {
        self.0.get(name).and_then(|value| redis::from_redis_value_ref(value).ok())
    }
}

impl FromRedisValue for Fields {
    fn from_redis_value(reply: Value) -> Result<Self, ParsingError> {
        super::fields(reply).map(Self)
    }
}

commands! {
    /// Adds a job. Returns its ID, or None if the queue has a job of this ID.
    > r#"let id: Option<String> = zq::push("letters", "welcome").id("mail:1").delay("5m").query(&mut redis)?;"#
    pub Push push(key: text, payload: text) -> Option<String> = "ZQ.PUSH" {
        > r#"zq::push("letters", "welcome")"#
        /// Your own ID.
        id(id: text = "mail:1") = "ID",
        /// When the job is due, from now.
        delay(wait: period = "5m") = "DELAY",
        /// The moment at which the job is due.
        at(moment: moment = "2030-01-01T00:00:00Z") = "AT",
        /// Jobs of a lower priority are served first; 0 by default.
        priority(priority: i32 = -1) = "PRIORITY",
        /// After this number of attempts, the job becomes a dead letter; 0: no limit.
        max_attempts(attempts: u64 = 3) = "MAXATTEMPTS",
        /// The period of a recurring job.
        every(period: period = "1h") = "EVERY",
        /// The group of the job.
        group(name: text = "acme") = "GROUP",
        /// How long the job can be claimed after its due time.
        ttl(ttl: period = "1d") = "TTL",
        /// Replaces a job of this ID in any state.
        replace() = "REPLACE" > r#"zq::push("letters", "welcome").id("mail:1")"#,
        /// The job of this ID runs at least once after this push, and never twice at a time.
        again() = "AGAIN" > r#"zq::push("letters", "welcome").id("mail:1")"#,
        /// The recurring job of this ID becomes what this push says.
        declare() = "DECLARE" > r#"zq::push("letters", "report").id("daily").every("1d")"#,
    }
    ClaimCommand new_claim(numkeys: u64) -> Vec<Claim> = "ZQ.CLAIM" {
        > r#"zq::claim(["letters"], "30s")"#
        /// At most this number of jobs; 1 by default.
        count(jobs: u64 = 10) = "COUNT",
        /// How long to wait for a job; 0: forever.
        block(timeout: period = "10ms") = "BLOCK",
        /// The name of the worker.
        as_worker(name: text = "worker-1") = "AS",
    } + ["LEASE"]
    /// Acknowledges a job. Returns whether the token is valid.
    > r#"let is_valid: bool = zq::ack("letters", "mail:1", 7).query(&mut redis)?;"#
    pub Ack ack(key: text, id: text, token: u64) -> bool = "ZQ.ACK"
    /// Returns a job to the queue, or makes it a dead letter. Returns whether the token is valid.
    > r#"let is_valid: bool = zq::nack("letters", "mail:1", 7).delay("1m").error("busy").query(&mut redis)?;"#
    pub Nack nack(key: text, id: text, token: u64) -> bool = "ZQ.NACK" {
        > r#"zq::nack("letters", "mail:1", 7)"#
        /// When the job is due again, from now; by default after the BACKOFF of the queue.
        delay(wait: period = "5m") = "DELAY",
        /// The moment at which the job is due again.
        at(moment: moment = "2030-01-01T00:00:00Z") = "AT",
        /// The job becomes a dead letter.
        dead() = "DEAD",
        /// This attempt does not count.
        free() = "FREE",
        /// For this time, no job of the job's group is claimed.
        hold(duration: period = "1m") = "HOLD",
        /// The text of the failure.
        error(text: text = "busy") = "ERROR",
    }
    /// Stores how far a claimed job has come, at most 1,024 bytes. Returns whether the token is valid.
    > r#"let is_valid: bool = zq::progress("letters", "mail:1", 1, "40 %").query(&mut redis)?;"#
    pub Progress progress(key: text, id: text, token: u64, text: text) -> bool = "ZQ.PROGRESS"
    Extend new_extend(key: text, lease: period) -> Vec<Option<u64>> = "ZQ.EXTEND"
    /// Removes jobs in any state. Returns how many.
    > r#"let removed: u64 = zq::cancel("letters", &["mail:1", "mail:2"]).query(&mut redis)?;"#
    pub Cancel cancel(key: text, ids: texts) -> u64 = "ZQ.CANCEL"
    /// Removes jobs of a state (`READY`, `DELAYED` or `DEAD`), oldest first. Returns how many.
    > r#"let removed: u64 = zq::clean("letters", "DEAD").older("30d").query(&mut redis)?;"#
    pub Clean clean(key: text, state: text) -> u64 = "ZQ.CLEAN" {
        > r#"zq::clean("letters", "DEAD")"#
        /// Only jobs that have been in this state for that long.
        older(duration: period = "30d") = "OLDER",
        /// Only jobs of this group.
        group(name: text = "acme") = "GROUP",
        /// At most this number of jobs; 1,000 by default.
        count(jobs: u64 = 10) = "COUNT",
    } + ["READY" "DELAYED" "DEAD"]
    /// Changes the due time or the priority of a waiting job. Returns false if the job is missing, claimed or dead.
    > r#"let is_changed: bool = zq::reschedule("letters", "mail:1").delay("1h").query(&mut redis)?;"#
    pub Reschedule reschedule(key: text, id: text) -> bool = "ZQ.RESCHEDULE" {
        > r#"zq::reschedule("letters", "mail:1")"#
        /// When the job is due, from now.
        delay(wait: period = "5m") = "DELAY",
        /// The moment at which the job is due.
        at(moment: moment = "2030-01-01T00:00:00Z") = "AT",
        /// The new priority.
        priority(priority: i32 = -1) = "PRIORITY",
    }
    /// Returns a job; None if it is not in the queue.
    > r#"let job: Option<zq::Job> = zq::get("letters", "mail:1").query(&mut redis)?;"#
    pub Get get(key: text, id: text) -> Option<Job> = "ZQ.GET"
    /// Returns jobs of a state (`READY`, `DELAYED`, `CLAIMED` or `DEAD`), in the order in which they are served.
    > "let jobs: Vec<zq::Listed> = zq::peek(\"letters\", \"CLAIMED\").no_payload().with_lease().query(&mut redis)?;\nlet leases: Vec<zq::Lease> = jobs.into_iter().filter_map(|job| job.lease).collect();"
    pub Peek peek(key: text, state: text) -> Vec<Listed> = "ZQ.PEEK" {
        > r#"zq::peek("letters", "READY")"#
        /// At most this number of jobs.
        count(jobs: u64 = 10) = "COUNT",
        /// The list begins after this job.
        after(id: text = "mail:1") = "AFTER" > "zq::push(\"backlog\", \"a\").id(\"mail:1\").query(&mut redis)?;\nzq::peek(\"backlog\", \"READY\")",
        /// Only jobs of this group.
        group(name: text = "acme") = "GROUP",
        /// Without the payloads.
        no_payload() = "NOPAYLOAD",
        /// With the leases of claimed jobs.
        with_lease() = "WITHLEASE" > r#"zq::peek("letters", "CLAIMED")"#,
    } + ["READY" "DELAYED" "CLAIMED" "DEAD"]
    /// Makes dead letters ready again. Returns how many.
    > r#"let ready: u64 = zq::redrive("letters").count(100).query(&mut redis)?;"#
    pub Redrive redrive(key: text) -> u64 = "ZQ.REDRIVE" {
        > r#"zq::redrive("letters")"#
        /// Only jobs of this group.
        group(name: text = "acme") = "GROUP",
        /// At most this number of jobs; 1,000 by default.
        count(jobs: u64 = 10) = "COUNT",
        /// Only the jobs of these IDs.
        ids(ids: texts = &["mail:1"]) = "ID",
    }
    /// Holds a group: for this time, no job of the group is claimed. Returns false if no job is in the group.
    > r#"let is_held: bool = zq::hold("letters", "acme", "10m").query(&mut redis)?;"#
    pub Hold hold(key: text, group: text, duration: period) -> bool = "ZQ.HOLD"
    /// Returns the groups of a queue in the order of their names.
    > r#"let groups: Vec<zq::Group> = zq::groups("letters").count(10).query(&mut redis)?;"#
    pub Groups groups(key: text) -> Vec<Group> = "ZQ.GROUPS" {
        > r#"zq::groups("letters")"#
        /// The list begins after this name.
        after(name: text = "mail:1") = "AFTER",
        /// The groups with most ready jobs first.
        largest() = "LARGEST",
        /// At most this number of groups.
        count(groups: u64 = 10) = "COUNT",
    }
    /// Returns the names of the queues of this database.
    > r#"let names: Vec<String> = zq::list().count(100).query(&mut redis)?;"#
    pub List list() -> Vec<String> = "ZQ.LIST" {
        > r#"zq::list()"#
        /// The list begins after this name.
        after(name: text = "mail:1") = "AFTER",
        /// At most this number of queues.
        count(queues: u64 = 10) = "COUNT",
    }
    /// Returns totals and settings; None if the queue does not exist.
    > r#"let stats: Option<zq::Fields> = zq::stats("letters").query(&mut redis)?;"#
    pub Stats stats(key: text) -> Option<Fields> = "ZQ.STATS"
    /// Changes settings. [`settings`] returns them.
    > r#"zq::config("reports").max_attempts(3).backoff("1s", "1h").query(&mut redis)?;"#
    pub Config config(key: text) -> () = "ZQ.CONFIG" {
        > r#"zq::config("reports")"#
        /// The number of attempts after which a job becomes a dead letter; 0: no limit.
        max_attempts(attempts: u64 = 3) = "MAXATTEMPTS",
        /// The wait after a failure, which doubles with each attempt up to `max`.
        backoff(base: period = "1s", max: period = "1h") = "BACKOFF",
        /// The largest random addition to the wait, in percent.
        jitter(percent: u64 = 10) = "JITTER",
        /// How much waiting one step of priority is worth.
        aging(duration: period = "1m") = "AGING",
        /// The largest number of jobs.
        maxlen(jobs: u64 = 100_000) = "MAXLEN",
        /// The largest number of dead letters.
        deadlen(jobs: u64 = 1000) = "DEADLEN",
        /// How long the queue keeps dead letters.
        deadttl(duration: period = "30d") = "DEADTTL",
        /// The largest number of jobs that are claimed at once.
        concurrency(jobs: u64 = 10) = "CONCURRENCY",
        /// The largest number of claims in any window.
        rate(limit: u64 = 100, window: period = "1m") = "RATE",
        /// The largest number of jobs of a group that are claimed at once.
        group_concurrency(jobs: u64 = 1) = "GROUPCONCURRENCY",
        /// The largest number of claims of a group in any window.
        group_rate(limit: u64 = 10, window: period = "1m") = "GROUPRATE",
        /// Whether the jobs of a group are served one at a time, in the order of their pushes.
        ordered(is_ordered: yes_no = true) = "ORDERED",
        /// Whether the queue is paused, so that no job is claimed.
        paused(is_paused: yes_no = true) = "PAUSED",
    } + ["yes" "no"]
}

/// Returns the settings of a queue; None if the queue does not exist. Calls `ZQ.CONFIG`.
///
#[doc = example!(r#"let settings: Option<zq::Fields> = zq::settings("reports").query(&mut redis)?;"#)]
pub fn settings(key: impl ToSingleRedisArg) -> Call<Config, Option<Fields>> {
    config(key).reply_as()
}

/// Claims jobs of the first queue that has any: `claim(["mails"], "30s").count(10).block("5s")`.
///
#[doc = example!(r#"let jobs: Vec<zq::Claim> = zq::claim(["urgent", "letters"], "30s").count(10).query(&mut redis)?;"#)]
pub fn claim<K: ToSingleRedisArg>(
    keys: impl IntoIterator<Item = K>,
    lease: impl Into<Period>,
) -> Call<ClaimCommand, Vec<Claim>> {
    let keys: Vec<K> = keys.into_iter().collect();
    let call = keys.iter().fold(new_claim(keys.len() as u64), |call, key| call.with(key));
    call.with("LEASE").with(lease.into())
}

/// Extends leases. Returns the new deadline of each job in Unix ms; None if its lease is lost.
///
#[doc = example!(r#"let deadlines: Vec<Option<u64>> = zq::extend("letters", "30s", [("mail:1", 7)]).query(&mut redis)?;"#)]
pub fn extend<I: ToSingleRedisArg>(
    key: impl ToSingleRedisArg,
    lease: impl Into<Period>,
    jobs: impl IntoIterator<Item = (I, u64)>,
) -> Call<Extend, Vec<Option<u64>>> {
    jobs.into_iter().fold(new_extend(key, lease), |call, (id, token)| call.with(id).with(token))
}

impl<R> Call<Ack, R> {
    /// Acknowledges another job with the same command. Use [`Call::reply_as`] to read the number of jobs.
    ///
    #[doc = example!(r#"let ended: u64 = zq::ack("letters", "a", 7).and("b", 8).reply_as().query(&mut redis)?;"#)]
    pub fn and(self, id: impl ToSingleRedisArg, token: u64) -> Self {
        self.with(id).with(token)
    }
}
