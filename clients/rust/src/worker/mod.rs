//! Claims jobs, and runs a handler for each job.

mod calendar;
mod cron;
mod engine;
mod job;
mod link;
mod outcome;
mod pump;

pub use cron::Cron;
pub use job::{Cancelled, Discard, Job, JobInfo, Retry};
pub use link::Place;

use crate::codec::{Decode, read};
use crate::error::Error;
use crate::shards::keys_of;
use crate::time::Period;
use job::{Claim, Origin};
use outcome::{Failure, caught, default_backoff};
use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{mpsc, watch};

/// The state of a worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// `run` was not called yet.
    New,
    /// The worker is connected. In a cluster: to the node of at least one of its slots.
    Running,
    /// The worker has no connection, and tries to connect.
    Reconnecting,
    /// The worker claims no more jobs, and waits for its handlers.
    Stopping,
    /// `run` has returned.
    Stopped,
}

/// What happened to a job, or to a connection.
///
#[doc = example!(worker
    "let worker = Worker::new(client, \"mails\", handler).on_event(|event| match event {\n",
    "    Event::Dead(Ended { job, error, .. }) => println!(\"{}: {error:?}\", job.id()),\n",
    "    Event::Disconnected(error) => println!(\"{error}\"),\n    _ => {}\n});\n# drop(worker);"
)]
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Event {
    /// The worker has claimed the job, and runs its handler.
    Claimed(Arc<JobInfo>),
    /// The server has the ACK.
    Completed(Ended),
    /// The handler failed. The job runs again after the backoff, if it has attempts left.
    Failed(Ended),
    /// The handler returned a [`Retry`].
    Retried(Ended),
    /// The handler returned a [`Discard`], or the payload cannot be decoded.
    Discarded(Ended),
    /// The job became a dead letter. This event follows `Failed`, `Retried` or `Discarded`.
    Dead(Ended),
    /// The lease of the job was lost.
    Lost(Ended),
    /// The worker has returned the job. Its attempt does not count.
    Released(Ended),
    /// The ACK or NACK came after another worker had claimed the job.
    Stale(Ended),
    /// The worker has connected.
    Connected,
    /// The connection was lost, or an attempt to connect has failed. The worker tries again.
    Disconnected(Error),
    /// The server refused a command for now (`OOM` …). The worker sends the command again.
    Refused(Error),
}

/// A job whose run has ended.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Ended {
    /// The job.
    pub job: Arc<JobInfo>,
    /// How long the handler ran.
    pub ran: Duration,
    /// The error as the queue stores it.
    pub error: Option<Arc<str>>,
    /// Whether the worker had to repeat the report, because the reply to the first report got lost. Another worker may
    /// have claimed the job before the second report.
    pub is_repeated: bool,
}

/// Why a handler did not return successfully.
enum Stop {
    /// The type of the error, and the error.
    Failed(&'static str, Failure),
    TimedOut(Duration),
}

type Running = Pin<Box<dyn Future<Output = Result<(), Stop>> + Send>>;
type Handler = Arc<dyn Fn(Claim, &Arc<Origin>) -> Prepared + Send + Sync>;
type TimeoutOf = Arc<dyn Fn(&JobInfo) -> Option<Period> + Send + Sync>;
type BackoffOf = Arc<dyn Fn(u64) -> Period + Send + Sync>;
type Listener = Arc<dyn Fn(Event) + Send + Sync>;

/// A claimed job, with its handler or, if the payload cannot be read, with the reason.
struct Prepared {
    job: Arc<JobInfo>,
    run: Result<Running, Error>,
}

/// The options of a worker.
#[derive(Clone)]
struct Options {
    concurrency: usize,
    lease: Period,
    /// The timeout of all jobs. It replaces `timeout_of`.
    timeout: Option<Period>,
    timeout_of: TimeoutOf,
    grace: Period,
    backoff: BackoffOf,
    name: String,
    shards: Option<u16>,
    crons: Vec<Cron>,
    /// The weight of each queue by its name. Empty: the queues are served in their order.
    weights: Vec<(String, f64)>,
    signals: bool,
    listener: Listener,
}

/// Runs a handler for each job of a queue.
///
/// A handler is an async function. If it returns an error, the job runs again after the backoff. The error [`Retry`]
/// can set another wait, and [`Discard`] makes the job a dead letter. If the handler is cancelled, because the lease is
/// lost or the worker stops, its future is dropped at its next `await`.
///
/// ```
/// # async fn run() -> Result<(), zeitset_client::Error> {
/// # let Some(url) = std::env::var("ZEITSET_URL").ok() else { return Ok(()) };
/// use zeitset_client::{Job, Queue, Worker};
///
/// let client = redis::Client::open(url)?;
/// let mails = Queue::<_, String>::new(client.get_multiplexed_async_connection().await?, "doc:mails");
/// mails.push(&"welcome-ann".into()).await?;
///
/// let worker = Worker::new(client, "doc:mails", async |job: Job<String>| {
///     println!("{}: {}", job.id(), job.payload);
///     Ok::<(), std::io::Error>(())
/// });
/// worker.concurrency(10).run_burst().await?;
/// # Ok(())
/// # }
/// # tokio::runtime::Runtime::new().unwrap().block_on(run()).unwrap();
/// ```
#[must_use = "a worker does nothing until `run` is awaited"]
pub struct Worker {
    place: Place,
    queues: Vec<(String, Handler)>,
    options: Options,
    state: watch::Sender<State>,
    stops: mpsc::UnboundedSender<Option<Period>>,
    stopping: mpsc::UnboundedReceiver<Option<Period>>,
}

impl Worker {
    /// Returns a worker of one queue. `place` is a [`redis::Client`], or a [`Place::cluster`]. The worker takes the
    /// address and the credentials, and opens connections of its own.
    pub fn new<T, E, F, R>(place: impl Into<Place>, queue: impl Into<String>, handler: F) -> Self
    where
        T: Decode + Send + 'static,
        E: Into<Failure> + 'static,
        F: Fn(Job<T>) -> R + Send + Sync + 'static,
        R: Future<Output = Result<(), E>> + Send + 'static,
    {
        let (stops, stopping) = mpsc::unbounded_channel();
        let options = Options {
            concurrency: 10,
            lease: "30s".into(),
            timeout: None,
            timeout_of: Arc::new(|_| None),
            grace: "20s".into(),
            backoff: Arc::new(|attempt| default_backoff(attempt).into()),
            name: format!("{}:{}", host(), std::process::id()),
            shards: None,
            crons: Vec::new(),
            weights: Vec::new(),
            signals: true,
            listener: Arc::new(|_| {}),
        };
        let state = watch::Sender::new(State::New);
        Self { place: place.into(), queues: Vec::new(), options, state, stops, stopping }.and(queue, handler)
    }

    /// Adds a queue with a handler of its own. The first queue is served first.
    pub fn and<T, E, F, R>(mut self, queue: impl Into<String>, handler: F) -> Self
    where
        T: Decode + Send + 'static,
        E: Into<Failure> + 'static,
        F: Fn(Job<T>) -> R + Send + Sync + 'static,
        R: Future<Output = Result<(), E>> + Send + 'static,
    {
        let handler = Arc::new(handler);
        let prepare = move |mut claim: Claim, origin: &Arc<Origin>| {
            let raw = std::mem::take(&mut claim.payload);
            let panicked = || Err(Error::Payload("the payload cannot be read: its type panicked".into()));
            match caught(|| read::<T>(&raw)).unwrap_or_else(panicked) {
                Err(error) => Prepared { job: JobInfo::new(claim, Default::default(), origin), run: Err(error) },
                Ok((payload, header)) => {
                    let info = JobInfo::new(claim, header, origin);
                    let job = Job { payload, info: Arc::clone(&info) };
                    let handler = Arc::clone(&handler);
                    let kind = std::any::type_name::<E>();
                    // Calls the handler in its task, which catches its panics.
                    let run = async move { handler(job).await.map_err(|error| Stop::Failed(kind, error.into())) };
                    Prepared { job: info, run: Ok(Box::pin(run)) }
                }
            }
        };
        self.queues.push((queue.into(), Arc::new(prepare)));
        self
    }

    setters! { self [worker "let worker = Worker::new(client, \"mails\", handler)" ";\n# drop(worker);"]
        /// How many jobs run at once; 10 by default.
        concurrency(jobs: usize = 20) { self.options.concurrency = jobs.max(1) }
        /// The lease of a job; 30 s by default. If the worker crashes, its jobs are due again after this time.
        lease(lease: impl Into<Period> = "1m") { self.options.lease = lease.into() }
        /// How long the handler of a job may run; None: without limit. If this function panics, or returns no duration,
        /// the job fails.
        timeout_of(timeout: impl Fn(&JobInfo) -> Option<Period> + Send + Sync + 'static
            = |job| (job.attempt() > 1).then(|| "1h".into())) {
            self.options.timeout = None;
            self.options.timeout_of = Arc::new(timeout)
        }
        /// How long handlers may still run after the worker was told to stop; 20 s by default.
        grace(grace: impl Into<Period> = "1m") { self.options.grace = grace.into() }
        /// The name of the worker in ZQ.GET; by default the host and the process.
        name(name: impl Into<String> = "mailer-1") { self.options.name = name.into() }
        /// The number of shards of each queue, as in `Queue::with_shards`; none by default.
        shards(shards: u16 = 16) { self.options.shards = Some(shards) }
        /// Shares the worker among its queues, while they have jobs: three jobs of `high` for each job of `low`. Without
        /// weights, the queues are served in their order. In a cluster, order and weights count among the queues of one
        /// slot.
        weights(weights: impl IntoIterator<Item = (impl Into<String>, f64)> = [("high", 3.0), ("low", 1.0)]) {
            self.options.weights = weights.into_iter().map(|(queue, weight)| (queue.into(), weight)).collect();
        }
        /// Adds a recurring job. All workers of a queue should have the same recurring jobs.
        cron(cron: Cron = Cron::new("report", "0 3 * * *", "Europe/Berlin")?) { self.options.crons.push(cron) }
        /// Whether SIGTERM and SIGINT stop the worker; true by default.
        signals(signals: bool = false) { self.options.signals = signals }
        /// Calls a function for each event, for metrics and logs. The function must not block. The worker ignores its
        /// panics.
        on_event(listener: impl Fn(Event) + Send + Sync + 'static = |event| println!("{event:?}")) { self.options.listener = Arc::new(listener) }
    }

    /// How long a handler may run before its job fails; by default without limit. A handler that blocks its thread is
    /// not interrupted.
    ///
    #[doc = example!(worker "let worker = Worker::new(client, \"mails\", handler).timeout(\"1m\");\n# drop(worker);")]
    pub fn timeout(mut self, timeout: impl Into<Period>) -> Self {
        self.options.timeout = Some(timeout.into());
        self
    }

    /// The wait after a failed attempt, by the number of the attempt; 1 s, 2 s, 4 s … at most 1 h by default. The
    /// BACKOFF of a queue replaces this wait. If this function panics, or returns no duration, the default wait applies.
    ///
    #[doc = example!(worker "let worker = Worker::new(client, \"mails\", handler).backoff(|attempt| if attempt < 3 { \"10s\" } else { \"1h\" });\n# drop(worker);")]
    pub fn backoff<P: Into<Period>>(mut self, backoff: impl Fn(u64) -> P + Send + Sync + 'static) -> Self {
        self.options.backoff = Arc::new(move |attempt| backoff(attempt).into());
        self
    }

    /// Returns a value that stops the worker, and shows its state.
    ///
    #[doc = example!(worker
        "let worker = Worker::new(client, \"mails\", handler);\nlet mut handle: WorkerHandle = worker.handle();\n",
        "let running = tokio::spawn(worker.run());\nhandle.wait_for(State::Running).await;\nhandle.stop();\n",
        "running.await.expect(\"no panic\")?;\nassert_eq!(handle.state(), State::Stopped);"
    )]
    pub fn handle(&self) -> WorkerHandle {
        WorkerHandle { stops: self.stops.clone(), state: self.state.subscribe() }
    }

    /// Works until [`WorkerHandle::stop`], SIGTERM, SIGINT, or a permanent error, with which it fails.
    pub async fn run(self) -> Result<(), Error> {
        engine::run(self, false).await
    }

    /// Works until no job is due and none runs.
    pub async fn run_burst(self) -> Result<(), Error> {
        engine::run(self, true).await
    }

    /// Returns the keys of each queue.
    fn keys(&self) -> Result<Vec<Vec<String>>, Error> {
        self.queues.iter().map(|(name, _)| keys_of(name, self.options.shards)).collect()
    }
}

/// Stops a worker, and shows its state.
#[derive(Clone, Debug)]
pub struct WorkerHandle {
    stops: mpsc::UnboundedSender<Option<Period>>,
    state: watch::Receiver<State>,
}

impl WorkerHandle {
    /// Tells the worker to stop. The worker claims no more jobs, and waits for the handlers until the grace is over.
    /// Then the worker returns the unfinished jobs to the queue. A second call ends the grace at once.
    pub fn stop(&self) {
        let _ = self.stops.send(None);
    }

    /// Like [`stop`](Self::stop), with another grace.
    ///
    #[doc = example!(worker
        "let worker = Worker::new(client, \"mails\", handler);\nlet handle = worker.handle();\n",
        "handle.stop_within(\"5s\");\nworker.run().await?;"
    )]
    pub fn stop_within(&self, grace: impl Into<Period>) {
        let _ = self.stops.send(Some(grace.into()));
    }

    /// Returns the state of the worker.
    pub fn state(&self) -> State {
        *self.state.borrow()
    }

    /// Waits until the worker has this state, or has stopped.
    pub async fn wait_for(&mut self, state: State) {
        let _ = self.state.wait_for(|now| *now == state || *now == State::Stopped).await;
    }
}

impl fmt::Debug for Worker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let queues: Vec<_> = self.queues.iter().map(|(name, _)| name).collect();
        f.debug_struct("Worker").field("queues", &queues).finish_non_exhaustive()
    }
}

/// Returns the name of the machine, as far as the system tells it without unsafe code.
fn host() -> String {
    let file =
        std::fs::read_to_string("/proc/sys/kernel/hostname").or_else(|_| std::fs::read_to_string("/etc/hostname"));
    let name = file.ok().or_else(|| std::env::var("HOSTNAME").ok());
    name.map(|name| name.trim().to_owned()).filter(|name| !name.is_empty()).unwrap_or_else(|| "worker".into())
}
