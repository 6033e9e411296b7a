//! Pushes jobs, and manages queues. Workers have their own commands.

use crate::codec::{Decode, Encode, headed, read};
use crate::commands::{Call, zq};
use crate::error::Error;
use crate::random::random_id;
use crate::shards::{keys_of, shard_of};
use crate::time::{Moment, Period};
use redis::aio::ConnectionLike;
use redis::{FromRedisValue, Value};
use std::collections::BTreeMap;
use std::marker::PhantomData;
use std::pin::Pin;

/// A payload that cannot be decoded.
#[derive(Clone, Debug)]
pub struct Undecodable {
    /// The bytes of the payload, with its header.
    pub raw: Vec<u8>,
    /// Why the payload cannot be decoded.
    pub error: Error,
}

/// A job of a queue, with its payload.
#[derive(Clone, Debug)]
pub struct WithPayload<T, J> {
    /// The payload.
    pub payload: Result<T, Undecodable>,
    /// The other fields of the job. Its own field `payload` is empty.
    pub job: J,
}

/// How many jobs ZQ.REDRIVE and ZQ.CLEAN handle by default.
const COUNT: u64 = 1000;

/// The fields of ZQ.STATS that are counts. The other fields are settings, except for `oldest_ready_ms`.
const TOTALS: &str = "ready delayed claimed dead groups pushed claimed_total acked nacked \
    cancelled redriven expired_leases replaced recurred missed cleaned dropped revoked late expired";

/// A queue: pushes jobs and shows them. `T` is the type of the payloads.
///
/// ```
/// # async fn run() -> Result<(), zeitset_client::Error> {
/// # let Some(url) = std::env::var("ZEITSET_URL").ok() else { return Ok(()) };
/// use zeitset_client::Queue;
///
/// let redis = redis::Client::open(url)?.get_multiplexed_async_connection().await?;
/// let mails = Queue::<_, String>::new(redis, "mails");
/// let id = mails.push(&"welcome-ann".to_owned()).delay("5m").id("mail:1").await?;
/// assert_eq!(id.as_deref(), Some("mail:1"));
/// # mails.cancel(["mail:1"]).await?;
/// # Ok(())
/// # }
/// # tokio::runtime::Runtime::new().unwrap().block_on(run()).unwrap();
/// ```
pub struct Queue<C, T = serde_json::Value> {
    connection: C,
    name: String,
    /// The key of the queue, or the keys of its shards.
    keys: Vec<String>,
    payload: PhantomData<fn() -> T>,
}

impl<C: Clone, T> Clone for Queue<C, T> {
    fn clone(&self) -> Self {
        let Self { connection, name, keys, payload } = self;
        Self { connection: connection.clone(), name: name.clone(), keys: keys.clone(), payload: *payload }
    }
}

impl<C: ConnectionLike + Clone + Send + Sync, T: Encode + Decode> Queue<C, T> {
    /// Returns the queue of a key.
    pub fn new(connection: C, key: impl Into<String>) -> Self {
        let name: String = key.into();
        Self { connection, keys: vec![name.clone()], name, payload: PhantomData }
    }

    /// Returns a queue whose jobs are in several keys: `{mails:0}`, `{mails:1}` … All clients need the same number.
    /// Fails if the number is not from 1 to 1,024, or if the name contains braces.
    ///
    #[doc = example!(builder r#"let queue = Queue::<_, String>::with_shards(redis, "parcels", 16)?;"#)]
    pub fn with_shards(connection: C, name: impl Into<String>, shards: u16) -> Result<Self, Error> {
        let name: String = name.into();
        Ok(Self { connection, keys: keys_of(&name, Some(shards))?, name, payload: PhantomData })
    }

    /// Returns the name of the queue, which is its key if the queue has no shards.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns one queue for each shard. If the queue has no shards, returns one queue.
    ///
    #[doc = example!(queue "for shard in queue.shards() {\n    println!(\"{}\", shard.name());\n}")]
    pub fn shards(&self) -> Vec<Self> {
        self.keys.iter().map(|key| Self::new(self.connection.clone(), key)).collect()
    }

    /// Adds a job: `queue.push(&payload).id("mail:1").delay("5m").await`. The result is the ID of the job; None if
    /// the queue has a job of this ID, and the push has none of `replace`, `again` and `declare`.
    ///
    #[doc = example!(queue r#"let id = queue.push(&"hello".to_owned()).id("greeting").delay("5m").await?;"#)]
    pub fn push(&self, payload: &T) -> Push<'_, C, T> {
        let (traceparent, timeout, id, group) = (None, None, None, None);
        Push { queue: self, payload: payload.encode(), traceparent, timeout, id, group, options: Call::options() }
    }

    /// Adds several jobs together. Returns for each job what `push` returns.
    ///
    #[doc = example!(queue "let texts = [\"a\".to_owned(), \"b\".to_owned()];\nlet ids: Vec<Option<String>> = queue.push_many(texts.iter().map(|text| queue.push(text))).await?;")]
    pub async fn push_many<'a>(
        &self,
        jobs: impl IntoIterator<Item = Push<'a, C, T>>,
    ) -> Result<Vec<Option<String>>, Error>
    where
        C: 'a,
        T: 'a,
    {
        let mut parts = BTreeMap::<String, Part>::new();
        let mut count = 0;
        for push in jobs {
            let (key, call, id) = push.call()?;
            let part = parts.entry(key).or_default();
            part.pipe.add_command(call.into());
            part.places.push((count, id));
            count += 1;
        }
        let mut ids = vec![None; count];
        // One pipeline for each key: in a cluster, a pipeline goes to one node.
        for Part { pipe, places } in parts.into_values() {
            let replies: Vec<Option<String>> = pipe.query_async(&mut self.connection.clone()).await?;
            for (reply, (at, own)) in replies.into_iter().zip(places) {
                ids[at] = own.or(reply);
            }
        }
        Ok(ids)
    }

    /// Removes jobs in any state. Returns how many.
    ///
    #[doc = example!(queue r#"let removed: u64 = queue.cancel(["a", "b"]).await?;"#)]
    pub async fn cancel(&self, ids: impl IntoIterator<Item = &str>) -> Result<u64, Error> {
        let ids: Vec<_> = ids.into_iter().collect();
        if let [key] = self.keys.as_slice() {
            return self.send(zq::cancel(key, ids)).await;
        }
        let mut removed = 0;
        for id in ids {
            removed += self.find(id, None, |key| zq::cancel(key, id), |count| *count > 0).await?;
        }
        Ok(removed)
    }

    /// Changes the due time or the priority of a waiting job: `queue.reschedule("mail:1", None, |call|
    /// call.delay("5m"))`. Returns false if the job is claimed, dead or missing.
    ///
    #[doc = example!(queue r#"let is_changed = queue.reschedule("greeting", None, |call| call.delay("1h")).await?;"#)]
    pub async fn reschedule<F>(&self, id: &str, group: Option<&str>, change: F) -> Result<bool, Error>
    where
        F: Fn(Call<zq::Reschedule, bool>) -> Call<zq::Reschedule, bool>,
    {
        self.find(id, group, |key| change(zq::reschedule(key, id)), |done| *done).await
    }

    /// Returns a job; None if it is not in the queue. `group` helps to find the job if the queue has shards.
    ///
    #[doc = example!(queue
        "let found: Option<WithPayload<String, zq::Job>> = queue.get(\"greeting\", None).await?;\n",
        "match found.map(|found| found.payload) {\n    Some(Ok(text)) => println!(\"{text}\"),\n",
        "    Some(Err(Undecodable { error, .. })) => println!(\"{error}\"),\n    None => println!(\"no such job\"),\n}"
    )]
    pub async fn get(&self, id: &str, group: Option<&str>) -> Result<Option<WithPayload<T, zq::Job>>, Error> {
        let found = self.find(id, group, |key| zq::get(key, id), Option::is_some).await?;
        Ok(found.map(|mut job| WithPayload { payload: payload(std::mem::take(&mut job.payload)), job }))
    }

    /// Returns the first jobs in a state: `READY`, `DELAYED`, `CLAIMED` or `DEAD`.
    ///
    #[doc = example!(queue "for listed in queue.peek(\"DELAYED\", 10).await? {\n    println!(\"{} {:?}\", listed.job.id, listed.payload);\n}")]
    pub async fn peek(&self, state: &str, count: u64) -> Result<Vec<WithPayload<T, zq::Listed>>, Error> {
        let mut jobs = Vec::new();
        for key in &self.keys {
            jobs.extend(self.send(zq::peek(key, state).count(count)).await?);
        }
        if self.keys.len() > 1 {
            let is_ready = state.eq_ignore_ascii_case("READY");
            jobs.sort_by_key(|job| (if is_ready { job.priority } else { 0 }, job.due_ms));
            jobs.truncate(usize::try_from(count).unwrap_or(usize::MAX));
        }
        let read = |mut job: zq::Listed| WithPayload { payload: payload(job.payload.take().unwrap_or_default()), job };
        Ok(jobs.into_iter().map(read).collect())
    }

    /// Makes at most `count` dead letters ready again. Returns how many.
    ///
    #[doc = example!(queue r#"let ready: u64 = queue.redrive(Some(100)).await?;"#)]
    pub async fn redrive(&self, count: Option<u64>) -> Result<u64, Error> {
        self.each_until(count, |key, count| zq::redrive(key).count(count)).await
    }

    /// Makes the dead letter of this ID ready again. Returns whether there was one.
    ///
    #[doc = example!(queue r#"let was_dead: bool = queue.redrive_one("greeting", None).await?;"#)]
    pub async fn redrive_one(&self, id: &str, group: Option<&str>) -> Result<bool, Error> {
        Ok(self.find(id, group, |key| zq::redrive(key).ids(id), |count| *count > 0).await? > 0)
    }

    /// Removes up to `count` (default 1,000) jobs of a state (`READY`, `DELAYED` or `DEAD`), oldest first. Returns how
    /// many; 0 if none are left.
    ///
    #[doc = example!(queue r#"let removed: u64 = queue.clean("DEAD", None).await?;"#)]
    pub async fn clean(&self, state: &str, count: Option<u64>) -> Result<u64, Error> {
        self.each_until(count, |key, count| zq::clean(key, state).count(count)).await
    }

    /// Returns totals and settings; None if the queue does not exist. If the queue has shards, returns the sums of the
    /// totals, and the settings of the first shard.
    ///
    #[doc = example!(queue "if let Some(stats) = queue.stats().await? {\n    println!(\"{:?} jobs are ready\", stats.get(\"ready\"));\n}")]
    pub async fn stats(&self) -> Result<Option<zq::Fields>, Error> {
        let mut sum: Option<zq::Fields> = None;
        for key in &self.keys {
            let Some(stats) = self.send(zq::stats(key)).await? else { continue };
            let Some(sum) = &mut sum else {
                sum = Some(stats);
                continue;
            };
            let both = |name: &str, sum: &zq::Fields| (sum.get(name), stats.get(name));
            let oldest = match both("oldest_ready_ms", sum) {
                (Some(a), Some(b)) => Some(a.min(b)),
                (a, b) => a.or(b),
            };
            sum.0.insert("oldest_ready_ms".into(), oldest.map_or(Value::Nil, Value::Int));
            for name in TOTALS.split(' ') {
                let (a, b) = both(name, sum);
                sum.0.insert(name.into(), Value::Int(a.unwrap_or_default() + b.unwrap_or_default()));
            }
        }
        Ok(sum)
    }

    /// Changes settings in all shards: `queue.configure(|config| config.max_attempts(5).concurrency(10))`.
    ///
    #[doc = example!(queue r#"queue.configure(|config| config.max_attempts(5).concurrency(10)).await?;"#)]
    pub async fn configure<F>(&self, settings: F) -> Result<(), Error>
    where
        F: Fn(Call<zq::Config, ()>) -> Call<zq::Config, ()>,
    {
        for key in &self.keys {
            self.send(settings(zq::config(key))).await?;
        }
        Ok(())
    }

    /// Stops claims until `resume`.
    ///
    #[doc = example!(queue "queue.pause().await?;\nqueue.resume().await?;")]
    pub async fn pause(&self) -> Result<(), Error> {
        self.configure(|config| config.paused(true)).await
    }

    /// Allows claims again after `pause`.
    ///
    #[doc = example!(queue "queue.resume().await?;")]
    pub async fn resume(&self) -> Result<(), Error> {
        self.configure(|config| config.paused(false)).await
    }

    /// Returns the groups in the order of their names. The jobs without a group form one group, even if they are in
    /// several shards.
    ///
    #[doc = example!(queue "for group in queue.groups(100).await? {\n    println!(\"{}: {} ready\", group.name, group.ready);\n}")]
    pub async fn groups(&self, count: u64) -> Result<Vec<zq::Group>, Error> {
        let groups = self.groups_of(|key| zq::groups(key).count(count)).await?;
        Ok(groups.into_values().take(usize::try_from(count).unwrap_or(usize::MAX)).collect())
    }

    /// Returns the groups with most ready jobs first.
    ///
    #[doc = example!(queue "let first = queue.largest_groups(1).await?;")]
    pub async fn largest_groups(&self, count: u64) -> Result<Vec<zq::Group>, Error> {
        let groups = self.groups_of(|key| zq::groups(key).largest().count(count)).await?;
        let mut groups: Vec<_> = groups.into_values().collect();
        groups.sort_by_key(|group| std::cmp::Reverse(group.ready));
        groups.truncate(usize::try_from(count).unwrap_or(usize::MAX));
        Ok(groups)
    }

    /// Lists the groups of all shards by name.
    async fn groups_of(
        &self,
        call: impl Fn(&str) -> Call<zq::Groups, Vec<zq::Group>>,
    ) -> Result<BTreeMap<String, zq::Group>, Error> {
        let mut groups: BTreeMap<String, zq::Group> = BTreeMap::new();
        for key in &self.keys {
            for group in self.send(call(key)).await? {
                match groups.get_mut(&group.name) {
                    None => drop(groups.insert(group.name.clone(), group)),
                    Some(sum) => {
                        sum.ready += group.ready;
                        sum.delayed += group.delayed;
                        sum.claimed += group.claimed;
                        sum.held_until_ms = sum.held_until_ms.max(group.held_until_ms);
                    }
                }
            }
        }
        Ok(groups)
    }

    /// Holds a group: during `wait`, none of its jobs is claimed. A `wait` of 0 ends the hold. The group `""` has the
    /// jobs without a group. Returns false if no job is in the group.
    ///
    #[doc = example!(queue r#"let is_held: bool = queue.hold("acme", "10m").await?;"#)]
    pub async fn hold(&self, group: &str, wait: impl Into<Period>) -> Result<bool, Error> {
        let wait = wait.into();
        if !group.is_empty() {
            return self.send(zq::hold(self.key(group), group, wait)).await;
        }
        let mut any = false;
        for key in &self.keys {
            any |= self.send(zq::hold(key, group, wait.clone())).await?;
        }
        Ok(any)
    }

    /// Returns the key of the shard of a job. `name` is the job's group, or its ID if it has no group.
    ///
    /// With this key, the functions of [`zq`] list, redrive or remove the jobs of one group.
    ///
    #[doc = example!(queue r#"assert_eq!(queue.key("acme"), "examples");"#)]
    pub fn key(&self, name: &str) -> &str {
        &self.keys[shard_of(name, self.keys.len())]
    }

    async fn send<K, R: FromRedisValue>(&self, call: Call<K, R>) -> Result<R, Error> {
        call.query_async(&mut self.connection.clone()).await
    }

    /// Sends a command for one job to the shard of the group or of the ID. If that shard does not have the job, sends
    /// the command to the other shards, until one has it.
    async fn find<K, R: FromRedisValue>(
        &self,
        id: &str,
        group: Option<&str>,
        call: impl Fn(&str) -> Call<K, R>,
        is_found: impl Fn(&R) -> bool,
    ) -> Result<R, Error> {
        let group = group.filter(|group| !group.is_empty());
        let home = self.key(group.unwrap_or(id));
        let mut reply = self.send(call(home)).await?;
        if group.is_none() {
            for key in self.keys.iter().filter(|key| *key != home) {
                if is_found(&reply) {
                    break;
                }
                reply = self.send(call(key)).await?;
            }
        }
        Ok(reply)
    }

    /// Sends a command for up to `count` jobs to one shard after the other, until it has changed `count` jobs.
    async fn each_until<K>(&self, count: Option<u64>, call: impl Fn(&str, u64) -> Call<K, u64>) -> Result<u64, Error> {
        let count = count.unwrap_or(COUNT);
        let mut left = count;
        for key in &self.keys {
            if left > 0 {
                left -= self.send(call(key, left)).await?.min(left);
            }
        }
        Ok(count - left)
    }
}

/// The pushes of a call of `push_many` to one key.
#[derive(Default)]
struct Part {
    pipe: redis::Pipeline,
    /// For each push: its place in the result, and the ID if the library has made it.
    places: Vec<(usize, Option<String>)>,
}

fn payload<T: Decode>(raw: Vec<u8>) -> Result<T, Undecodable> {
    read(&raw).map(|(payload, _)| payload).map_err(|error| Undecodable { raw, error })
}

/// A push that has not been sent. `.await` sends it.
#[must_use = "a push does nothing until it is awaited"]
pub struct Push<'a, C, T> {
    queue: &'a Queue<C, T>,
    payload: Result<Vec<u8>, Error>,
    traceparent: Option<String>,
    timeout: Option<Period>,
    id: Option<String>,
    group: Option<String>,
    /// The other options.
    options: PushCall,
}

type PushCall = Call<zq::Push, Option<String>>;

impl<C, T> Push<'_, C, T> {
    setters! { self [queue "let id = queue.push(&\"hello\".to_owned())" ".await?;"]
        /// Your own ID. While a job of this ID is in the queue, in any state, another push does nothing.
        id(id: impl Into<String> = "greeting") { self.id = Some(id.into()) }
        /// The group of the job.
        group(group: impl Into<String> = "acme") { self.group = Some(group.into()) }
        /// A `traceparent`, which the library stores before the JSON payload. The handler gets it from the job.
        traceparent(traceparent: impl Into<String> = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01") { self.traceparent = Some(traceparent.into()) }
        /// How long the handler may run. This value replaces the worker's `timeout`, and requires JSON payloads.
        timeout(timeout: impl Into<Period> = "1m") { self.timeout = Some(timeout.into()) }
        /// When the job is due, from now.
        delay(delay: impl Into<Period> = "5m") { self.options = self.options.delay(delay) }
        /// The moment at which the job is due.
        at(at: impl Into<Moment> = "2030-01-01T00:00:00Z") { self.options = self.options.at(at) }
        /// Jobs of a lower priority are served first; 0 by default.
        priority(priority: i32 = -1) { self.options = self.options.priority(priority) }
        /// The number of attempts after which the job becomes a dead letter; 0: no limit.
        max_attempts(attempts: u64 = 3) { self.options = self.options.max_attempts(attempts) }
        /// The period of a recurring job.
        every(period: impl Into<Period> = "1h") { self.options = self.options.every(period) }
        /// How long the job can be claimed after its due time.
        ttl(ttl: impl Into<Period> = "1d") { self.options = self.options.ttl(ttl) }
        /// Replaces a job of this ID in any state.
        replace() > r#"let id = queue.push(&"hello".to_owned()).id("greeting")"# { self.options = self.options.replace() }
        /// The job of this ID runs at least once after this push, and never twice at a time.
        again() > r#"let id = queue.push(&"hello".to_owned()).id("greeting")"# { self.options = self.options.again() }
        /// With `id` and `every`: the recurring job of this ID becomes what this push says, and keeps its due time. If a
        /// worker holds the job, the change takes effect when the current run ends.
        declare() > r#"let id = queue.push(&"hello".to_owned()).id("daily").every("1d")"# { self.options = self.options.declare() }
    }
}

impl<C, T: Encode> Push<'_, C, T> {
    /// Returns the key of the queue or its shard, the call, and the ID if the library has made it.
    fn call(self) -> Result<(String, PushCall, Option<String>), Error> {
        let body = headed::<T>(self.payload?, self.traceparent.as_deref(), self.timeout.as_ref())?;
        // If a push is repeated after a lost reply, the random ID prevents a second job.
        let own = if self.id.is_some() { None } else { Some(random_id()) };
        let id = self.id.or(own.clone()).unwrap_or_default();
        let name = self.group.as_ref().filter(|group| !group.is_empty()).unwrap_or(&id);
        let key = self.queue.keys[shard_of(name, self.queue.keys.len())].clone();
        let mut call = zq::push(&key, body).id(id);
        if let Some(group) = self.group {
            call = call.group(group);
        }
        Ok((key, call.with_options(self.options), own))
    }

    /// Returns the command, for a pipeline, a transaction, or `job.chain`.
    ///
    #[doc = example!(queue "let mut pipe = redis::pipe();\npipe.atomic().add_command(queue.push(&\"hello\".to_owned()).into_cmd()?);")]
    pub fn into_cmd(self) -> Result<redis::Cmd, Error> {
        Ok(self.call()?.1.into())
    }
}

impl<'a, C, T> IntoFuture for Push<'a, C, T>
where
    C: ConnectionLike + Clone + Send + Sync,
    T: Encode,
{
    type Output = Result<Option<String>, Error>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send + 'a>>;

    fn into_future(self) -> Self::IntoFuture {
        let mut connection = self.queue.connection.clone();
        #[cfg(feature = "tracing")]
        let span = crate::spans::push(&self.queue.name);
        let called = self.call();
        let sent = async move {
            let (_, call, own) = called?;
            let id = call.query_async(&mut connection).await?;
            let id = own.or(id);
            #[cfg(feature = "tracing")]
            crate::spans::pushed(id.as_deref());
            Ok(id)
        };
        #[cfg(feature = "tracing")]
        let sent = tracing::Instrument::instrument(sent, span);
        Box::pin(sent)
    }
}
