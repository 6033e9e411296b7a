//! The loop of a worker: one task that owns all state. Requests and handlers are tasks that send it messages.
//!
//! While the queues have jobs, each turn is one round trip: outcomes of jobs, and a claim for as many jobs as the
//! worker can still start. If a claim returns fewer jobs than it asked for, the queues are empty. The next claim then
//! waits for jobs, on a connection of its own.
//!
//! In a cluster, a worker has a pump for each slot of its queues, because all keys of a command must be in one slot.
//! All pumps together start at most `concurrency` jobs at a time.

use super::cron::Chores;
use super::job::{Cancelled, Claim, JobInfo, Origin};
use super::link::{Link, Place};
use super::outcome::{self, Ending, Failure, Outcome, caught, default_backoff};
use super::pump::{Claiming, Pump};
use super::{Ended, Event, Handler, Options, Prepared, State, Stop, Worker};
use crate::commands::zq;
use crate::error::Error;
use crate::shards::{shard_of, slot_of};
use crate::time::Period;
use redis::{Cmd, Value, from_redis_value};
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::{AbortHandle, JoinError, JoinSet};
use tokio::time::Instant;

/// How often the worker checks for expired leases between two heartbeats.
const LOOKS: u32 = 4;

const CHORES: Duration = Duration::from_secs(60);

/// The minimum time between two claims of a pump whose queues are empty, while other pumps have jobs.
const ASK_AGAIN: Duration = Duration::from_millis(100);

/// A claim without BLOCK reserves room for its jobs until the reply, but at most for this time. Then other pumps may
/// use the room: a node that hangs must not keep slots from them.
const PROMPT: Duration = Duration::from_millis(200);

/// How long a worker tries to report the outcomes of its jobs after it was told to stop.
const LAST_WORDS: Duration = Duration::from_secs(5);

/// A message from the task of a request to the loop: the function that handles the reply.
pub(super) type Message = Box<dyn FnOnce(&mut Engine) + Send>;

/// The replies of each unit of a request. A unit is a command, or several commands in one MULTI.
type Replies = Result<Vec<Result<Vec<Value>, Error>>, Error>;

struct Claimed {
    jobs: Result<Vec<Claim>, Error>,
    count: usize,
    /// When the claim was sent: the leases began then, or later.
    sent: Instant,
    epoch: u64,
}

/// A job that the worker holds: its handler runs, or its outcome is not confirmed yet.
struct Held {
    job: Arc<JobInfo>,
    pump: usize,
    started: Instant,
    /// When the lease expires, by the clock of this process.
    lease_until: Instant,
    is_running: bool,
    /// Why the handler was cancelled. The worker ignores the result of a cancelled handler. But if the lease was lost
    /// and the handler has called `job.done()`, the worker sends an ACK.
    given_up: Option<Cancelled>,
    task: AbortHandle,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Phase {
    Working,
    Stopping,
    Stopped,
}

pub(super) struct Engine {
    place: Place,
    options: Options,
    lease: Duration,
    lease_ms: u64,
    /// The handlers, by the keys of their queues.
    handlers: HashMap<Vec<u8>, (Arc<Origin>, Handler)>,
    pumps: Vec<Pump>,
    /// The numbers of the pumps. When a pump claims without BLOCK, it moves to the end of this list.
    order: Vec<usize>,
    /// The jobs that the worker holds, by their addresses.
    held: HashMap<usize, Held>,
    running: usize,
    handlers_running: JoinSet<Result<(), Stop>>,
    jobs_of_tasks: HashMap<tokio::task::Id, usize>,
    requests: JoinSet<()>,
    messages: mpsc::UnboundedSender<Message>,
    phase: Phase,
    is_burst: bool,
    is_released: bool,
    /// When the grace ends or, after the grace, the time for the last reports (`LAST_WORDS`).
    deadline: Option<Instant>,
    fatal: Option<Error>,
    state: watch::Sender<State>,
}

pub(super) async fn run(worker: Worker, is_burst: bool) -> Result<(), Error> {
    let keys = worker.keys()?;
    let Worker { place, queues, mut options, state, stops, mut stopping } = worker;
    let (messages, mut received) = mpsc::unbounded_channel();
    let lease_ms = options.lease.millis()?;
    options.grace.millis()?;
    if let Some(timeout) = options.timeout.take() {
        timeout.capped()?;
        options.timeout_of = Arc::new(move |_| Some(timeout.clone()));
    }
    if lease_ms < 1 {
        return Err(Error::Argument("lease must be at least 1 ms".into()));
    }
    let pumps = pumps(&place, &options, &queues.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>(), &keys)?;
    let mut handlers = HashMap::new();
    for ((name, handler), keys) in queues.into_iter().zip(keys) {
        for key in keys {
            let pump = pumps.iter().position(|pump| pump.queues.iter().any(|own| own.contains(&key)));
            let (pump, is_cluster, messages) = (pump.unwrap_or_default(), place.is_cluster, messages.clone());
            let origin = Arc::new(Origin { queue: name.clone(), key, pump, is_cluster, messages });
            handlers.insert(origin.key.clone().into_bytes(), (origin, Arc::clone(&handler)));
        }
    }
    let lease = Duration::from_millis(lease_ms);
    let mut engine = Engine {
        order: (0..pumps.len()).collect(),
        place: place.patient((lease / 3).clamp(Duration::from_secs(1), Duration::from_secs(10))),
        lease,
        lease_ms,
        handlers,
        pumps,
        held: HashMap::new(),
        running: 0,
        handlers_running: JoinSet::new(),
        jobs_of_tasks: HashMap::new(),
        requests: JoinSet::new(),
        messages,
        phase: Phase::Working,
        is_burst,
        is_released: false,
        deadline: None,
        fatal: None,
        options,
        state,
    };
    if engine.options.signals {
        engine.requests.spawn(forward_signals(stops.clone()));
    }
    // The channel stays open, because this function has a sender.
    let _stops = stops;
    let mut heart = tokio::time::interval((lease / (3 * LOOKS)).max(Duration::from_millis(10)));
    heart.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    let mut chores_at = Instant::now() + CHORES;
    if let Ok(grace) = stopping.try_recv() {
        engine.stop(grace);
    } else {
        (0..engine.pumps.len()).for_each(|pump| engine.connect(pump));
    }
    loop {
        engine.share();
        if engine.is_over() {
            break;
        }
        engine.show_state();
        let deadline = engine.deadline.unwrap_or_else(|| Instant::now() + CHORES);
        tokio::select! {
            biased;
            Some(grace) = stopping.recv() => engine.stop(grace),
            Some(message) = received.recv() => message(&mut engine),
            Some(ended) = engine.handlers_running.join_next_with_id() => engine.ended(ended),
            _ = heart.tick() => engine.look(&mut chores_at),
            () = tokio::time::sleep_until(deadline) => {}
        }
        // Handles all that has happened, before the worker sends again.
        tokio::task::yield_now().await;
        while let Ok(message) = received.try_recv() {
            message(&mut engine);
        }
        while let Some(ended) = engine.handlers_running.try_join_next_with_id() {
            engine.ended(ended);
        }
        while engine.requests.try_join_next().is_some() {}
    }
    engine.phase = Phase::Stopped;
    engine.show_state();
    engine.fatal.map_or(Ok(()), Err)
}

/// The weight of a queue, and its keys in one slot.
type Weighted = (Option<f64>, Vec<String>);

/// Returns a pump for each slot of a cluster; one pump outside of a cluster.
fn pumps(place: &Place, options: &Options, names: &[&str], keys: &[Vec<String>]) -> Result<Vec<Pump>, Error> {
    let mut crons: HashMap<String, Vec<super::Cron>> = HashMap::new();
    for cron in &options.crons {
        let queue = cron.of_queue().map_or(Some(0), |queue| names.iter().position(|name| *name == queue));
        let Some(keys) = queue.and_then(|at| keys.get(at)) else {
            return Err(Error::Argument("the queue of a recurring job is none of this worker's".into()));
        };
        crons.entry(keys[shard_of(cron.shard_name(), keys.len())].clone()).or_default().push(cron.clone());
    }
    let weight_of = |name: &&str| options.weights.iter().find(|(queue, weight)| queue == name && *weight > 0.0);
    let weights: Vec<f64> = names.iter().filter_map(weight_of).map(|(_, weight)| *weight).collect();
    let has_all = weights.len() == names.len() && weights.iter().all(|weight| weight.is_finite());
    if !options.weights.is_empty() && (weights.len() != options.weights.len() || !has_all) {
        return Err(Error::Argument("weights need a number above 0 for each queue of the worker".into()));
    }
    let mut slots: BTreeMap<u16, Vec<Weighted>> = BTreeMap::new();
    for (at, keys) in keys.iter().enumerate() {
        let mut own: BTreeMap<u16, Vec<String>> = BTreeMap::new();
        for key in keys {
            own.entry(if place.is_cluster { slot_of(key) } else { 0 }).or_default().push(key.clone());
        }
        for (slot, keys) in own {
            slots.entry(slot).or_default().push((weights.get(at).copied(), keys));
        }
    }
    let pump = |queues: Vec<Weighted>| {
        let (weights, queues): (Vec<_>, Vec<_>) = queues.into_iter().unzip();
        let keys = queues.concat();
        let chores = Chores::new(keys.clone(), &crons);
        Pump::new(queues, weights.into_iter().collect(), chores)
    };
    Ok(slots.into_values().map(pump).collect())
}

#[cfg(unix)]
async fn forward_signals(stops: mpsc::UnboundedSender<Option<Period>>) {
    use tokio::signal::unix::{SignalKind, signal};
    let (Ok(mut terminate), Ok(mut interrupt)) = (signal(SignalKind::terminate()), signal(SignalKind::interrupt()))
    else {
        return;
    };
    loop {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
        let _ = stops.send(None);
    }
}

#[cfg(not(unix))]
async fn forward_signals(stops: mpsc::UnboundedSender<Option<Period>>) {
    while tokio::signal::ctrl_c().await.is_ok() {
        let _ = stops.send(None);
    }
}

impl Engine {
    /// Runs a request. The loop then calls the function that the request returns.
    fn spawn<F: FnOnce(&mut Self) + Send + 'static>(&mut self, request: impl Future<Output = F> + Send + 'static) {
        let messages = self.messages.clone();
        self.requests.spawn(async move { drop(messages.send(Box::new(request.await))) });
    }

    fn announce(&self, event: Event) {
        let _ = caught(|| (self.options.listener)(event));
    }

    fn show_state(&self) {
        let state = match self.phase {
            Phase::Working if self.pumps.iter().any(|pump| pump.link.is_some()) => State::Running,
            Phase::Working => State::Reconnecting,
            Phase::Stopping => State::Stopping,
            Phase::Stopped => State::Stopped,
        };
        self.state.send_if_modified(|now| std::mem::replace(now, state) != state);
    }

    // --- who claims next ---------------------------------------------------------------------------------------------

    /// Divides the free slots among the pumps, and lets the pumps claim jobs. A free slot is room for one more job
    /// within `concurrency`.
    ///
    /// A pump is drained if its last claim has emptied its queues. There are two rounds. In the first, each pump that is
    /// not drained gets a share of the free slots. If there is such a pump, a drained pump gets a share, too, once
    /// `ASK_AGAIN` has passed since its last claim.
    ///
    /// In the second round, all drained pumps share the slots that are left, and claim with BLOCK. With `is_burst`, no
    /// pump claims with BLOCK. A claim with BLOCK is for at least one job, so these claims together may return more
    /// jobs than there are free slots.
    fn share(&mut self) {
        let is_working = self.phase == Phase::Working;
        let room = self.options.concurrency.saturating_sub(self.running);
        let reserved: usize = self.pumps.iter().map(|pump| pump.reserved).sum();
        let mut free = if is_working { room.saturating_sub(reserved) } else { 0 };
        let is_busy = self.pumps.iter().any(|pump| pump.link.is_some() && !pump.is_drained);
        let expects =
            |pump: &Pump| !pump.is_drained || is_busy && pump.claimed_at.is_none_or(|at| at.elapsed() >= ASK_AGAIN);
        let is_eager = |at: &usize| {
            let pump = &self.pumps[*at];
            pump.may_claim() && !pump.is_turning && expects(pump)
        };
        let eager: Vec<usize> = self.order.iter().copied().filter(is_eager).collect();
        let mut served = Vec::new();
        for (place, at) in eager.iter().enumerate() {
            let count = free.div_ceil(eager.len() - place).min(room.saturating_sub(self.pumps[*at].repeated()));
            if count > 0 {
                free -= count;
                served.push(*at);
                self.turn(*at, count);
            }
        }
        (0..self.pumps.len()).for_each(|at| self.turn(at, 0));
        if self.is_burst {
            let is_over = self.pumps.iter().all(|pump| pump.may_claim() && pump.is_drained && pump.is_idle());
            if is_working && is_over && self.running == 0 {
                self.stop(None);
            }
        } else if free > 0 {
            for at in self.order.clone() {
                let pump = &self.pumps[at];
                let count = (free / self.pumps.len()).max(1).min(room.saturating_sub(pump.repeated()));
                if pump.may_claim() && pump.is_drained && count > 0 {
                    self.wait(at, count);
                }
            }
        }
        if is_working && self.running >= self.options.concurrency {
            (0..self.pumps.len()).for_each(|at| self.end_wait(at));
        }
        self.order.retain(|at| !served.contains(at));
        self.order.extend(served);
    }

    /// Reports outcomes, and claims up to `count` jobs, in one round trip.
    fn turn(&mut self, at: usize, count: usize) {
        let pump = &mut self.pumps[at];
        let Some(link) = pump.link.clone().filter(|_| !pump.is_turning) else { return };
        let outcomes = pump.sending();
        if outcomes.is_empty() && count == 0 {
            return;
        }
        pump.is_turning = true;
        let mut units: Vec<Vec<Cmd>> = Vec::new();
        for outcome in &outcomes {
            units.push(outcome.commands.clone());
            units.extend(outcome.look.clone().map(|look| vec![look]));
        }
        if count > 0 {
            pump.claiming = Some(Claiming::Turn);
            pump.reserved = count;
            units.push(vec![pump.claim(self.lease, count, &self.options.name, None)]);
        }
        let (epoch, messages) = (pump.epoch, self.messages.clone());
        self.spawn(async move {
            let sent = Instant::now();
            let mut request = std::pin::pin!(link.request(units));
            let mut replies = match tokio::time::timeout(PROMPT, &mut request).await {
                Ok(replies) => replies,
                Err(_) => {
                    let _ = messages.send(Box::new(move |engine| engine.pumps[at].reserved = 0));
                    request.await
                }
            };
            let claimed = (count > 0).then(|| {
                let jobs = match &mut replies {
                    Ok(replies) => read_one(replies.pop().unwrap_or_else(|| Err(unexpected()))),
                    Err(error) => Err(error.clone()),
                };
                Claimed { jobs, count, sent, epoch }
            });
            move |engine: &mut Self| engine.turned(at, outcomes, replies, claimed, epoch)
        });
    }

    fn turned(&mut self, at: usize, outcomes: Vec<Outcome>, replies: Replies, claimed: Option<Claimed>, epoch: u64) {
        self.pumps[at].is_turning = false;
        let mut replies = replies.map(Vec::into_iter);
        for outcome in outcomes {
            let (reply, look) = match &mut replies {
                Ok(replies) => {
                    let reply = replies.next().unwrap_or_else(|| Err(unexpected()));
                    let look = outcome.look.as_ref().and_then(|_| replies.next()?.ok());
                    (reply, look)
                }
                Err(error) => (Err(error.clone()), None),
            };
            self.reported(at, outcome, reply, look, epoch);
        }
        if let Some(claimed) = claimed {
            self.pumps[at].reserved = 0;
            self.pumps[at].claiming = None;
            self.take(at, claimed);
        }
    }

    fn wait(&mut self, at: usize, count: usize) {
        let pump = &mut self.pumps[at];
        let Some(link) = pump.link.clone() else { return };
        pump.claiming = Some(Claiming::Wait);
        pump.is_ending_wait = false;
        let block = link.longest_wait(self.lease);
        let claim = pump.claim(self.lease, count, &self.options.name, Some(block));
        let epoch = pump.epoch;
        self.spawn(async move {
            let sent = Instant::now();
            let jobs = link.wait(claim, block).await.and_then(|reply| Ok(from_redis_value(reply)?));
            move |engine: &mut Self| {
                engine.pumps[at].claiming = None;
                engine.take(at, Claimed { jobs, count, sent, epoch });
            }
        });
    }

    fn end_wait(&mut self, at: usize) {
        let pump = &mut self.pumps[at];
        if pump.claiming != Some(Claiming::Wait) || std::mem::replace(&mut pump.is_ending_wait, true) {
            return;
        }
        let (Some(link), epoch) = (pump.link.clone(), pump.epoch) else { return };
        self.spawn(async move {
            let ended = link.end_wait().await;
            move |engine: &mut Self| ended.unwrap_or_else(|error| engine.trouble(at, error, epoch))
        });
    }

    fn take(&mut self, at: usize, Claimed { jobs, count, sent, epoch }: Claimed) {
        let jobs = match jobs {
            Ok(jobs) if jobs.iter().all(|job| self.handlers.contains_key(&job.key)) => jobs,
            Ok(_) => return self.trouble(at, unexpected(), epoch),
            Err(error) => return self.trouble(at, error, epoch),
        };
        let pump = &mut self.pumps[at];
        pump.troubles = 0;
        pump.claimed_at = Some(Instant::now());
        pump.is_drained = jobs.len() < count;
        pump.served(&jobs);
        for claim in jobs {
            if self.phase == Phase::Working
                && self.running < self.options.concurrency
                && sent.elapsed() <= self.lease / 2
            {
                self.start(at, claim, sent);
            } else {
                // Other pumps have used the slots, the worker stops, or more than half of the lease may be over.
                self.pumps[at].is_drained = false;
                let (origin, _) = &self.handlers[&claim.key];
                let job = JobInfo::new(claim, Default::default(), origin);
                self.report(at, outcome::released(job, Duration::ZERO));
            }
        }
    }

    // --- jobs --------------------------------------------------------------------------------------------------------

    /// Runs the handler. The lease began at `sent` or later.
    fn start(&mut self, at: usize, claim: Claim, sent: Instant) {
        let (origin, handler) = &self.handlers[&claim.key];
        if self.pumps[at].chores.is_used_up(&origin.key, &claim) {
            let text = "Error: given up: earlier attempts left no result".into();
            let job = JobInfo::new(claim, Default::default(), origin);
            return self.report(at, outcome::discarded(job, Duration::ZERO, text));
        }
        let Prepared { job, run } = handler(claim, origin);
        let run = match run {
            Ok(run) => run,
            Err(error) => {
                let text = outcome::kept("PayloadError", &error);
                return self.report(at, outcome::discarded(job, Duration::ZERO, text));
            }
        };
        let (info, timeout_of) = (Arc::clone(&job), Arc::clone(&self.options.timeout_of));
        let run = async move {
            let timeout = match info.timeout_ms() {
                Some(ms) => Some(Duration::from_millis(ms)),
                None => {
                    let own = timeout_of(&info).map(|timeout| timeout.capped()).transpose();
                    own.map_err(|error| Stop::Failed("Error", error.into()))?
                }
            };
            let Some(timeout) = timeout else { return run.await };
            tokio::time::timeout(timeout, run).await.unwrap_or_else(|_| {
                info.cancel(Cancelled::TimedOut);
                Err(Stop::TimedOut(timeout))
            })
        };
        #[cfg(feature = "tracing")]
        let run = {
            let span = crate::spans::process(&job);
            let marked = async move {
                let result = run.await;
                match &result {
                    Err(Stop::Failed(kind, error)) if !error.is::<super::Retry>() => crate::spans::failed(kind),
                    Err(Stop::TimedOut(_)) => crate::spans::failed("TimeoutError"),
                    _ => {}
                }
                result
            };
            tracing::Instrument::instrument(marked, span)
        };
        let task = self.handlers_running.spawn(run);
        self.jobs_of_tasks.insert(task.id(), address(&job));
        let (started, lease_until, is_running, given_up) = (Instant::now(), sent + self.lease, true, None);
        let held = Held { job: Arc::clone(&job), pump: at, started, lease_until, is_running, given_up, task };
        self.held.insert(address(&job), held);
        self.running += 1;
        self.announce(Event::Claimed(job));
    }

    /// Handles the end of a handler.
    fn ended(&mut self, result: Result<(tokio::task::Id, Result<(), Stop>), JoinError>) {
        let id = result.as_ref().map_or_else(JoinError::id, |(id, _)| *id);
        let Some(job) = self.jobs_of_tasks.remove(&id) else { return };
        self.running -= 1;
        let Some(held) = self.held.get_mut(&job) else { return };
        held.is_running = false;
        let (job, at, ran) = (Arc::clone(&held.job), held.pump, held.started.elapsed());
        let is_done = job.is_done();
        let counts = held.given_up.is_none() || held.given_up == Some(Cancelled::LeaseLost) && is_done;
        if !counts {
            return self.settled(&job);
        }
        let stop = match result {
            _ if is_done => None,
            Ok((_, result)) => result.err(),
            Err(error) if error.is_cancelled() => return self.report(at, outcome::released(job, ran)),
            Err(error) => Some(Stop::Failed("Panic", panic_of(error).into())),
        };
        let outcome = match stop {
            None => outcome::completed(job, ran),
            Some(Stop::Failed(kind, error)) => self.failed(at, job, ran, kind, &error),
            Some(Stop::TimedOut(timeout)) => {
                let text = format!("ran longer than {}ms", timeout.as_millis());
                self.failed(at, job, ran, "TimeoutError", &text.into())
            }
        };
        self.report(at, outcome);
        if self.is_burst {
            // The handler may have pushed jobs. So the worker claims again.
            self.pumps.iter_mut().for_each(|pump| pump.is_drained = false);
        }
    }

    fn failed(&self, at: usize, job: Arc<JobInfo>, ran: Duration, kind: &str, error: &Failure) -> Outcome {
        let has_backoff = self.pumps[at].chores.has_backoff(job.key());
        let own = || caught(|| (self.options.backoff)(job.attempt()).capped())?.ok();
        let backoff = (!has_backoff).then(|| own().unwrap_or_else(|| default_backoff(job.attempt())));
        outcome::failed(job, ran, kind, error, backoff)
    }

    /// Stores the outcome of a job until the pump reports it.
    fn report(&mut self, at: usize, outcome: Outcome) {
        let outcome = self.pumps[at].chores.and_next(outcome, self.lease_ms);
        self.pumps[at].unreported.push(outcome);
    }

    /// Handles the server's replies to a reported outcome. The first reply is that of ZQ.ACK or ZQ.NACK.
    fn reported(
        &mut self,
        at: usize,
        outcome: Outcome,
        reply: Result<Vec<Value>, Error>,
        look: Option<Vec<Value>>,
        epoch: u64,
    ) {
        let ended = reply.and_then(|mut replies| {
            let others = replies.split_off(replies.len().min(1));
            let first = replies.pop().unwrap_or(Value::Nil).extract_error()?;
            match from_redis_value::<i64>(first)? {
                count @ (0 | 1) => Ok((count == 1, others)),
                _ => Err(unexpected()),
            }
        });
        let (has_ended, others) = match ended {
            Ok(ended) => ended,
            Err(error) => return self.not_reported(at, outcome, error, epoch),
        };
        let Outcome { job, ran, ending, is_dead, is_repeated, error, .. } = outcome;
        self.settled(&job);
        // The claim has ended even if a chained command has failed.
        let chained = others.into_iter().find_map(|reply| reply.extract_error().err());
        let error = error.or_else(|| chained.map(|error| Error::from(error).to_string().into()));
        let ended = Ended { job, ran, error, is_repeated };
        if !has_ended && !is_repeated {
            return self.announce(Event::Stale(ended));
        }
        let is_dead = is_dead || look.is_some_and(is_dead_letter);
        let dead = is_dead.then(|| Event::Dead(ended.clone()));
        self.announce(match ending {
            Ending::Completed => Event::Completed(ended),
            Ending::Failed => Event::Failed(ended),
            Ending::Retried => Event::Retried(ended),
            Ending::Discarded => Event::Discarded(ended),
            Ending::Released => Event::Released(ended),
        });
        if let Some(dead) = dead {
            self.announce(dead);
        }
    }

    fn not_reported(&mut self, at: usize, outcome: Outcome, error: Error, epoch: u64) {
        if error.is_temporary() {
            self.pumps[at].unreported.push(Outcome { is_repeated: true, ..outcome });
        } else if outcome.commands.len() > 1 {
            // The server refused a chained command, and therefore all commands of the MULTI.
            let failed = self.failed(at, outcome.job, outcome.ran, "Error", &error.into());
            self.pumps[at].unreported.push(failed);
            return;
        }
        self.trouble(at, error, epoch);
    }

    /// Forgets a job whose outcome the server has confirmed, or whose outcome the worker does not report.
    fn settled(&mut self, job: &Arc<JobInfo>) {
        if self.held.get(&address(job)).is_some_and(|held| !held.is_running) {
            self.held.remove(&address(job));
        }
    }

    fn lose(&mut self, job: usize) {
        let Some(held) = self.held.get_mut(&job).filter(|held| held.is_running && held.given_up.is_none()) else {
            return;
        };
        held.given_up = Some(Cancelled::LeaseLost);
        held.job.cancel(Cancelled::LeaseLost);
        if !held.job.is_done() {
            held.task.abort();
        }
        let (job, ran) = (Arc::clone(&held.job), held.started.elapsed());
        let error = Some("LeaseLost: the lease is lost".into());
        self.announce(Event::Lost(Ended { job, ran, error, is_repeated: false }));
    }

    /// Sends a command of a handler.
    pub fn ask(&mut self, at: usize, command: Cmd, reply: oneshot::Sender<Result<Value, Error>>) {
        let link = self.pumps[at].link.clone();
        self.requests.spawn(async move {
            let replied = match link {
                Some(link) => link.ask(vec![command]).await.map(|mut replies| replies.pop().unwrap_or(Value::Nil)),
                None => Err(Error::Timeout("the worker is not connected".into())),
            };
            let _ = reply.send(replied);
        });
    }

    // --- heartbeats and chores ---------------------------------------------------------------------------------------

    /// Cancels the handlers of jobs whose leases have expired, sends heartbeats, and does chores.
    fn look(&mut self, chores_at: &mut Instant) {
        let now = Instant::now();
        let expired = self.held.iter().filter(|(_, held)| held.is_running && now >= held.lease_until);
        for job in expired.map(|(job, _)| *job).collect::<Vec<_>>() {
            self.lose(job);
        }
        for at in 0..self.pumps.len() {
            let is_due = |at: Instant| at.elapsed() + Duration::from_millis(1) >= self.lease / 3;
            if self.pumps[at].beat_at.is_none_or(is_due) {
                self.beat(at);
            }
        }
        if now >= *chores_at {
            *chores_at = now + CHORES;
            for at in 0..self.pumps.len() {
                let pump = &self.pumps[at];
                let (Some(link), chores, epoch) = (pump.link.clone(), pump.chores.clone(), pump.epoch) else {
                    continue;
                };
                self.spawn(async move {
                    let done = chores.run(link).await;
                    move |engine: &mut Self| match done {
                        Ok(chores) => engine.pumps[at].chores = chores,
                        Err(error) => engine.trouble(at, error, epoch),
                    }
                });
            }
        }
    }

    fn beat(&mut self, at: usize) {
        let mut jobs: BTreeMap<&str, Vec<Arc<JobInfo>>> = BTreeMap::new();
        for held in self.held.values().filter(|held| held.pump == at && held.given_up.is_none()) {
            jobs.entry(held.job.key()).or_default().push(Arc::clone(&held.job));
        }
        let beat = |(key, jobs): (&&str, &Vec<Arc<JobInfo>>)| {
            vec![zq::extend(*key, self.lease, jobs.iter().map(|job| (job.id_bytes(), job.token()))).into()]
        };
        let units: Vec<Vec<Cmd>> = jobs.iter().map(beat).collect();
        let jobs: Vec<_> = jobs.into_values().collect();
        let pump = &mut self.pumps[at];
        let Some(link) = pump.link.clone().filter(|_| !pump.is_beating) else { return };
        pump.beat_at = Some(Instant::now());
        if jobs.is_empty() {
            return;
        }
        pump.is_beating = true;
        let epoch = pump.epoch;
        self.spawn(async move {
            let sent = Instant::now();
            let replies = link.request(units).await;
            move |engine: &mut Self| engine.beaten(at, jobs, replies, sent, epoch)
        });
    }

    /// Handles the replies to heartbeats. `jobs` are the jobs of each command.
    fn beaten(&mut self, at: usize, jobs: Vec<Vec<Arc<JobInfo>>>, replies: Replies, sent: Instant, epoch: u64) {
        self.pumps[at].is_beating = false;
        let replies = match replies {
            Ok(replies) => replies,
            Err(error) => return self.trouble(at, error, epoch),
        };
        for (jobs, reply) in jobs.into_iter().zip(replies) {
            let deadlines = match read_one::<Vec<Option<u64>>>(reply) {
                Ok(deadlines) => deadlines,
                Err(error) => {
                    self.trouble(at, error, epoch);
                    continue;
                }
            };
            let is_good = |deadline: &Option<u64>| deadline.is_none_or(|ms| ms >= 1_000_000_000_000);
            if deadlines.len() != jobs.len() || !deadlines.iter().all(is_good) {
                self.trouble(at, unexpected(), epoch);
                continue;
            }
            for (job, deadline) in jobs.iter().zip(deadlines) {
                // A job that has ended since the heartbeat is not lost: its outcome is reported.
                let Some(held) = self.held.get_mut(&address(job)).filter(|held| held.is_running) else { continue };
                match deadline {
                    None => self.lose(address(job)),
                    Some(ms) => {
                        held.job.extend_to(ms);
                        held.lease_until = sent + self.lease;
                    }
                }
            }
        }
    }

    // --- connections -------------------------------------------------------------------------------------------------

    fn connect(&mut self, at: usize) {
        let pump = &mut self.pumps[at];
        let rest = if pump.troubles > 0 { pump.rest() } else { Duration::ZERO };
        let (asked, key, chores) = (pump.asked.take(), pump.key().to_owned(), pump.chores.clone());
        let place = self.place.clone();
        self.spawn(async move {
            tokio::time::sleep(rest).await;
            let opened = match place.open(key, asked).await {
                Ok(link) => Ok((link.clone(), chores.run(link).await)),
                Err(error) => Err(error),
            };
            move |engine: &mut Self| engine.opened(at, opened)
        });
    }

    fn opened(&mut self, at: usize, opened: Result<(Link, Result<Chores, Error>), Error>) {
        if self.phase == Phase::Stopped {
            return;
        }
        let link = match opened {
            Ok((link, Ok(chores))) => {
                self.pumps[at].chores = chores;
                link
            }
            Ok((link, Err(error))) if error.is_refusal() => {
                self.refused(at, error);
                link
            }
            Ok((_, Err(error))) | Err(error) => {
                self.pumps[at].drop_link(&error);
                if !error.is_temporary() {
                    return self.fail(error);
                }
                self.announce(Event::Disconnected(error));
                return self.connect(at);
            }
        };
        let pump = &mut self.pumps[at];
        pump.link = Some(link);
        pump.is_drained = false;
        self.announce(Event::Connected);
        self.beat(at);
    }

    /// Handles the error of a command.
    fn trouble(&mut self, at: usize, error: Error, epoch: u64) {
        if epoch != self.pumps[at].epoch || self.pumps[at].link.is_none() {
            return;
        }
        if error.is_refusal() {
            return self.refused(at, error);
        }
        if !error.is_temporary() {
            return self.fail(error);
        }
        self.pumps[at].drop_link(&error);
        self.announce(Event::Disconnected(error));
        self.connect(at);
    }

    /// Handles the error with which the server refused a command. The connection still works, so heartbeats continue.
    /// For a short time, the pump sends no claims, and repeats no outcomes.
    fn refused(&mut self, at: usize, error: Error) {
        self.announce(Event::Refused(error));
        let pump = &mut self.pumps[at];
        if std::mem::replace(&mut pump.is_resting, true) {
            return;
        }
        pump.troubles += 1;
        let rest = pump.rest();
        self.spawn(async move {
            tokio::time::sleep(rest).await;
            move |engine: &mut Self| engine.pumps[at].is_resting = false
        });
    }

    // --- the end -----------------------------------------------------------------------------------------------------

    fn fail(&mut self, error: Error) {
        self.fatal.get_or_insert(error);
        if self.phase == Phase::Working {
            self.stop(None);
        }
    }

    /// Claims no more jobs, and waits for the handlers until the grace is over. A second call ends the grace. None: the
    /// grace of the worker's options.
    fn stop(&mut self, grace: Option<Period>) {
        let now = Instant::now();
        if self.phase == Phase::Working {
            self.phase = Phase::Stopping;
            let grace = grace.as_ref().unwrap_or(&self.options.grace);
            self.deadline = Some(now + Duration::from_millis(grace.millis().unwrap_or_default()));
            (0..self.pumps.len()).for_each(|at| self.end_wait(at));
        } else if !self.is_released {
            self.deadline = Some(now);
        }
    }

    /// Returns whether the worker has stopped. Returns the unfinished jobs to the queue when the grace is over.
    fn is_over(&mut self) -> bool {
        if self.phase != Phase::Stopping {
            return false;
        }
        let is_late = self.deadline.is_some_and(|deadline| Instant::now() >= deadline);
        if !self.is_released && (is_late || self.running == 0) {
            self.is_released = true;
            self.deadline = Some(Instant::now() + LAST_WORDS);
            self.release();
            (0..self.pumps.len()).for_each(|at| self.turn(at, 0));
        } else if self.is_released && is_late {
            return true;
        }
        self.is_released && self.pumps.iter().all(Pump::is_idle)
    }

    /// Returns to the queue all jobs whose handlers still run, and cancels the handlers.
    fn release(&mut self) {
        let mut outcomes = Vec::new();
        for held in self.held.values_mut().filter(|held| held.is_running && held.given_up.is_none()) {
            held.given_up = Some(Cancelled::Stopped);
            let (job, ran) = (Arc::clone(&held.job), held.started.elapsed());
            let outcome = if job.is_done() { outcome::completed(job, ran) } else { outcome::released(job, ran) };
            outcomes.push((held.pump, outcome));
            held.job.cancel(Cancelled::Stopped);
            held.task.abort();
        }
        for (at, outcome) in outcomes {
            self.report(at, outcome);
        }
    }
}

/// Returns the address of a job, which is unique while the worker holds the job.
fn address(job: &Arc<JobInfo>) -> usize {
    Arc::as_ptr(job).addr()
}

fn unexpected() -> Error {
    Error::Connection((redis::ErrorKind::Parse, "an unexpected reply").into())
}

/// Reads the only reply of a unit.
fn read_one<T: redis::FromRedisValue>(replies: Result<Vec<Value>, Error>) -> Result<T, Error> {
    Ok(from_redis_value(replies?.pop().unwrap_or(Value::Nil))?)
}

/// Returns whether the reply of ZQ.GET shows a dead letter.
fn is_dead_letter(replies: Vec<Value>) -> bool {
    read_one::<Option<zq::Job<Vec<u8>>>>(Ok(replies)).ok().flatten().is_some_and(|job| job.state == "dead")
}

/// Returns the message of a panic.
fn panic_of(error: JoinError) -> String {
    let panic = error.into_panic();
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_else(|| "the handler panicked".into())
}
