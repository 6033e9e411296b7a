//! The argument of a handler, and the errors that a handler may return.

use super::link::SharedLink;
use crate::commands::zq::{self, Claim};
use crate::error::Error;
use crate::shards::slot_of;
use crate::time::Period;
use redis::{FromRedisValue, from_redis_value};
use std::fmt;
use std::ops::Deref;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::watch;

/// An error of a handler that runs the job again.
///
/// ```
/// use zeitset_client::Retry;
///
/// let retry = Retry::after("5m").free().hold().because("the API said 429");
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

    setters! { self;
        /// This attempt does not count, for example because a service responded 429.
        free() { self.free = true }
        /// No other job of the same group is claimed during the wait. Without a wait, this has no effect.
        hold() { self.hold = true }
        /// The text that the queue keeps with the job.
        because(reason: impl Into<String>) { self.reason = reason.into() }
    }
}

impl fmt::Display for Retry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.reason)
    }
}

impl std::error::Error for Retry {}

/// An error of a handler that makes the job a dead letter, without further attempts.
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

/// The connection of a job's worker.
#[derive(Debug)]
pub(super) struct Home {
    pub is_cluster: bool,
    pub link: SharedLink,
}

/// The maximum length of a text of ZQ.PROGRESS, in bytes.
const MAX_PROGRESS: usize = 1024;

/// A claimed job without its payload.
#[derive(Debug)]
pub struct JobInfo {
    queue: String,
    pub(super) claim: Claim,
    traceparent: Option<String>,
    timeout_ms: Option<u64>,
    deadline_ms: AtomicU64,
    is_done: AtomicBool,
    chained: Mutex<Vec<redis::Cmd>>,
    cancelled: watch::Sender<Option<Cancelled>>,
    home: Home,
}

impl JobInfo {
    pub(super) fn new(queue: &str, claim: Claim, header: crate::codec::Header, home: Home) -> Arc<Self> {
        Arc::new(Self {
            queue: queue.to_owned(),
            traceparent: header.traceparent,
            timeout_ms: header.timeout_ms,
            deadline_ms: AtomicU64::new(claim.deadline_ms),
            claim: Claim { payload: Vec::new(), ..claim },
            is_done: AtomicBool::new(false),
            chained: Mutex::default(),
            cancelled: watch::Sender::new(None),
            home,
        })
    }

    /// Returns the name of the queue.
    pub fn queue(&self) -> &str {
        &self.queue
    }

    /// Returns the ID of the job.
    pub fn id(&self) -> &str {
        &self.claim.id
    }

    /// Returns a fencing token. Later claims of the queue have larger tokens. Let the handler store the token with its
    /// data, and refuse writes with a smaller token.
    pub fn token(&self) -> u64 {
        self.claim.token
    }

    /// Returns the number of the attempt, from 1.
    pub fn attempt(&self) -> u64 {
        self.claim.attempt
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

    /// Stores how far the job has come: `job.progress("40 %").await?`. The queue shows the text (`Queue::get`), and keeps
    /// it for the next attempt ([`last_progress`](Self::last_progress)). At most 1,024 bytes. Returns false if this worker
    /// no longer holds the job. Fails while the worker has no connection.
    pub async fn progress(&self, text: &str) -> Result<bool, Error> {
        if text.len() > MAX_PROGRESS {
            let text = format!("a text of progress has at most {MAX_PROGRESS} bytes, not {}", text.len());
            return Err(Error::Argument(text));
        }
        self.ask(zq::progress(&self.claim.key, self.id(), self.token(), text).into()).await
    }

    /// Returns the last text of [`progress`](Self::progress), of this attempt or an earlier one. Fails while the worker
    /// has no connection.
    pub async fn last_progress(&self) -> Result<Option<String>, Error> {
        let found: Option<zq::Job> = self.ask(zq::get(&self.claim.key, self.id()).into()).await?;
        Ok(found.and_then(|job| job.progress))
    }

    async fn ask<R: FromRedisValue>(&self, command: redis::Cmd) -> Result<R, Error> {
        let link = self.home.link.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let link = link.ok_or_else(|| Error::Timeout("the worker has no connection".into()))?;
        let reply = link.ask(vec![command]).await?.pop();
        Ok(from_redis_value(reply.unwrap_or(redis::Value::Nil))?)
    }

    /// Sends another command in the same MULTI as the ACK of this job:
    /// `job.chain(mails.push(&mail).id(format!("{}:mail", job.id())).into_cmd()?)`. The server carries out the command
    /// even if the ACK is too late. So give a chained push an ID, which prevents a second job.
    ///
    /// Fails in a cluster if the key of the command, its first argument, is in another slot than the job.
    pub fn chain(&self, command: redis::Cmd) -> Result<(), Error> {
        if self.home.is_cluster {
            let key = command.args_iter().nth(1);
            let key =
                key.map(|key| if let redis::Arg::Simple(key) = key { String::from_utf8_lossy(key) } else { "".into() });
            let key = key.unwrap_or_default();
            if slot_of(&key) != slot_of(&self.claim.key) {
                let text =
                    format!("in a cluster a chained command needs a key in the slot of {}, not {key}", self.claim.key);
                return Err(Error::Argument(text));
            }
        }
        self.chained.lock().unwrap_or_else(PoisonError::into_inner).push(command);
        Ok(())
    }

    pub(super) fn chained(&self) -> Vec<redis::Cmd> {
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
