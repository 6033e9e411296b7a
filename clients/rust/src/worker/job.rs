//! The argument of a handler, and the errors that a handler may return.

use super::engine::Message;
use crate::codec::Header;
use crate::commands::zq;
use crate::error::Error;
use crate::shards::slot_of;
use crate::time::Period;
use redis::{Cmd, FromRedisValue, Value, from_redis_value};
use std::fmt;
use std::ops::Deref;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::{mpsc, oneshot, watch};

/// An error of a handler that runs the job again.
///
/// ```
/// use zeitset_client::Retry;
///
/// let retry = Retry::after("5m").free().hold().because("the API said 429");
/// let soon = Retry::now_or_later();
/// # let _: Box<dyn std::error::Error + Send + Sync> = retry.into();
/// ```
#[derive(Clone, Debug)]
pub struct Retry {
    pub(super) after: Option<Period>,
    pub(super) free: bool,
    pub(super) hold: bool,
    reason: String,
}

impl Retry {
    /// Runs the job again after the backoff.
    pub fn now_or_later() -> Self {
        Self { after: None, free: false, hold: false, reason: "retry".into() }
    }

    /// Runs the job again after this time.
    pub fn after(wait: impl Into<Period>) -> Self {
        Self { after: Some(wait.into()), ..Self::now_or_later() }
    }

    setters! { self [builder "let retry = Retry::after(\"5m\")" ";"]
        /// This attempt does not count, for example because a service responded 429.
        free() { self.free = true }
        /// No other job of the same group is claimed during the wait. Without a wait, this has no effect.
        hold() { self.hold = true }
        /// The text that the queue keeps with the job.
        because(reason: impl Into<String> = "the API said 429") { self.reason = reason.into() }
    }
}

impl fmt::Display for Retry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.reason)
    }
}

impl std::error::Error for Retry {}

/// An error of a handler that makes the job a dead letter, without further attempts.
///
/// ```
/// use zeitset_client::{Discard, Job};
///
/// async fn send(job: Job<String>) -> Result<(), Discard> {
///     if job.payload.contains('@') { Ok(()) } else { Err(Discard("no address".into())) }
/// }
/// ```
#[derive(Clone, Debug)]
pub struct Discard(pub String);

impl fmt::Display for Discard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Discard {}

/// Why a handler is cancelled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cancelled {
    /// The lease is lost: another worker may have the job.
    LeaseLost,
    /// The worker stops, and returns the job to the queue.
    Stopped,
    /// The handler runs longer than its `timeout`.
    TimedOut,
}

impl fmt::Display for Cancelled {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::LeaseLost => "the lease is lost",
            Self::Stopped => "the worker stops",
            Self::TimedOut => "the job ran longer than its timeout",
        })
    }
}

impl std::error::Error for Cancelled {}

/// A claimed job, whose ID may be any bytes.
pub(super) type Claim = zq::Claim<Vec<u8>>;

/// Where a worker claims jobs: the key of a queue or shard.
#[derive(Debug)]
pub(super) struct Origin {
    pub queue: String,
    pub key: String,
    /// The number of the pump.
    pub pump: usize,
    pub is_cluster: bool,
    /// Leads to the loop of the worker.
    pub messages: mpsc::UnboundedSender<Message>,
}

/// A claimed job without its payload.
///
#[doc = example!(worker
    "async fn show(job: Job<String>) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {\n",
    "    println!(\"{} {:?} of {}\", job.id(), job.id_bytes(), job.queue());\n",
    "    println!(\"attempt {}, token {}, until {}\", job.attempt(), job.token(), job.deadline_ms());\n",
    "    println!(\"{:?} {:?} {:?}\", job.traceparent(), job.timeout_ms(), job.last_progress().await?);\n",
    "    let info: std::sync::Arc<JobInfo> = job.info();\n",
    "    let checked: Result<(), Cancelled> = tokio::task::spawn_blocking(move || info.check()).await?;\n",
    "    checked?;\n    job.chain(zexp::add(\"shown\", \"1d\", [job.id()]).into())?;\n    job.done();\n    Ok(())\n}\n",
    "Queue::new(redis, \"examples:shown\").push(&\"hello\".to_owned()).await?;\n",
    "Worker::new(client, \"examples:shown\", show).run_burst().await?;"
)]
#[derive(Debug)]
pub struct JobInfo {
    pub(super) origin: Arc<Origin>,
    id: String,
    /// The ID, if it is not text.
    raw_id: Option<Vec<u8>>,
    token: u64,
    attempt: u64,
    traceparent: Option<String>,
    timeout_ms: Option<u64>,
    deadline_ms: AtomicU64,
    is_done: AtomicBool,
    chained: Mutex<Vec<Cmd>>,
    cancelled: watch::Sender<Option<Cancelled>>,
}

impl JobInfo {
    pub(super) fn new(claim: Claim, header: Header, origin: &Arc<Origin>) -> Arc<Self> {
        let (id, raw_id) = match String::from_utf8(claim.id) {
            Ok(id) => (id, None),
            Err(error) => (error.as_bytes().escape_ascii().to_string(), Some(error.into_bytes())),
        };
        Arc::new(Self {
            origin: Arc::clone(origin),
            id,
            raw_id,
            token: claim.token,
            attempt: claim.attempt,
            traceparent: header.traceparent,
            timeout_ms: header.timeout_ms,
            deadline_ms: AtomicU64::new(claim.deadline_ms),
            is_done: AtomicBool::new(false),
            chained: Mutex::default(),
            cancelled: watch::Sender::new(None),
        })
    }

    /// Returns the name of the queue.
    pub fn queue(&self) -> &str {
        &self.origin.queue
    }

    pub(super) fn key(&self) -> &str {
        &self.origin.key
    }

    /// Returns the ID of the job. If the ID is not UTF-8, returns its bytes in the form `\\xff`.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Returns the bytes of the ID, for commands.
    pub fn id_bytes(&self) -> &[u8] {
        self.raw_id.as_deref().unwrap_or(self.id.as_bytes())
    }

    /// Returns a fencing token. Later claims of the queue have larger tokens. Let the handler store the token with its
    /// data, and refuse writes with a smaller token.
    pub fn token(&self) -> u64 {
        self.token
    }

    /// Returns the number of the attempt, from 1.
    pub fn attempt(&self) -> u64 {
        self.attempt
    }

    /// Returns the `traceparent` of the push, if the job has one.
    pub fn traceparent(&self) -> Option<&str> {
        self.traceparent.as_deref()
    }

    /// Returns how long the handler may run, if the push gave a timeout.
    pub fn timeout_ms(&self) -> Option<u64> {
        self.timeout_ms
    }

    /// Returns when the lease expires, in Unix ms. Heartbeats extend the lease.
    pub fn deadline_ms(&self) -> u64 {
        self.deadline_ms.load(Ordering::Relaxed)
    }

    pub(super) fn extend_to(&self, deadline_ms: u64) {
        self.deadline_ms.store(deadline_ms, Ordering::Relaxed);
    }

    /// Declares that the work is done. The worker then sends an ACK, even if the handler fails later or the lease is
    /// lost. An ACK after the loss of the lease has no effect if another worker has the job.
    pub fn done(&self) {
        self.is_done.store(true, Ordering::SeqCst);
    }

    pub(super) fn is_done(&self) -> bool {
        self.is_done.load(Ordering::SeqCst)
    }

    /// Fails if this worker no longer holds the job. For handlers that block, or run in threads of their own: the
    /// worker drops the future of a cancelled handler at its next `await`, but cannot stop a thread.
    pub fn check(&self) -> Result<(), Cancelled> {
        self.cancelled.borrow().map_or(Ok(()), Err)
    }

    pub(super) fn cancel(&self, reason: Cancelled) {
        self.cancelled.send_replace(Some(reason));
    }

    /// Stores how far the job has come, at most 1,024 bytes: `job.progress("40 %").await?`. `Queue::get` shows the text,
    /// and the next attempt reads it with [`last_progress`](Self::last_progress). Returns false if this worker no longer
    /// holds the job.
    pub async fn progress(&self, text: &str) -> Result<bool, Error> {
        self.ask(zq::progress(self.key(), self.id_bytes(), self.token, text).into()).await
    }

    /// Returns the last text of [`progress`](Self::progress), of this attempt or an earlier one.
    pub async fn last_progress(&self) -> Result<Option<String>, Error> {
        let job: Option<zq::Job<Vec<u8>>> = self.ask(zq::get(self.key(), self.id_bytes()).into()).await?;
        Ok(job.and_then(|job| job.progress).map(|text| String::from_utf8_lossy(&text).into_owned()))
    }

    /// Sends a command on a connection of the worker.
    async fn ask<T: FromRedisValue>(&self, command: Cmd) -> Result<T, Error> {
        let (reply, replied) = oneshot::channel();
        let pump = self.origin.pump;
        let _ = self.origin.messages.send(Box::new(move |engine| engine.ask(pump, command, reply)));
        let reply: Result<Value, Error> =
            replied.await.unwrap_or_else(|_| Err(Error::Timeout("the worker has stopped".into())));
        Ok(from_redis_value(reply?)?)
    }

    /// Sends another command in the same MULTI as the ACK of this job:
    /// `job.chain(mails.push(&mail).id(format!("{}:mail", job.id())).into_cmd()?)`. The server carries out the command
    /// even if the ACK is too late. So give a chained push an ID, which prevents a second job.
    ///
    /// Fails in a cluster if the key of the command, its first argument, is in another slot than the job.
    pub fn chain(&self, command: Cmd) -> Result<(), Error> {
        if self.origin.is_cluster {
            let key = command.args_iter().nth(1);
            let key =
                key.map(|key| if let redis::Arg::Simple(key) = key { String::from_utf8_lossy(key) } else { "".into() });
            let key = key.unwrap_or_default();
            if slot_of(&key) != slot_of(self.key()) {
                let text =
                    format!("in a cluster a chained command needs a key in the slot of {}, not {key}", self.key());
                return Err(Error::Argument(text));
            }
        }
        self.chained.lock().unwrap_or_else(PoisonError::into_inner).push(command);
        Ok(())
    }

    pub(super) fn chained(&self) -> Vec<Cmd> {
        self.chained.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// A claimed job, the argument of a handler.
#[derive(Debug)]
pub struct Job<T> {
    /// The payload.
    pub payload: T,
    pub(super) info: Arc<JobInfo>,
}

impl<T> Job<T> {
    /// Returns the fields without the payload, for a thread or task of the handler.
    pub fn info(&self) -> Arc<JobInfo> {
        Arc::clone(&self.info)
    }
}

impl<T> Deref for Job<T> {
    type Target = JobInfo;

    fn deref(&self) -> &JobInfo {
        &self.info
    }
}
