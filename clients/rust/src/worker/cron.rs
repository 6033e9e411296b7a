//! Jobs that recur by a cron expression, and the chores of a pump (the part of a worker that serves the queues of one
//! slot). A pump does its chores when it connects, and then every minute: it checks whether its queues have a BACKOFF,
//! and pushes missing recurring jobs.
//!
//! If the definition of a recurring job has changed, the chores also replace the run that waits, in any queue or shard
//! of the worker. A run that a worker has claimed meanwhile must not be replaced, or it would run twice. So the
//! chores first put off the run by an hour. The server refuses this for a claimed job.

use super::calendar::Calendar;
use super::job::Claim;
use super::link::Link;
use super::outcome::{Ending, Outcome, ack};
use crate::commands::zq;
use crate::error::Error;
use redis::{Cmd, from_redis_value};
use std::collections::{HashMap, HashSet};
use std::time::{SystemTime, UNIX_EPOCH};

/// A job that recurs. The name is the ID of the job.
///
/// ```
/// use zeitset_client::Cron;
///
/// let report = Cron::new("report", "0 3 * * *", "UTC")?.payload(&"daily")?;
/// // The first 3 o'clock after 2030-01-01 00:00
/// assert_eq!(report.next(1_893_456_000_000), Some(1_893_466_800_000));
/// # Ok::<(), zeitset_client::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Cron {
    name: String,
    calendar: Calendar,
    payload: Vec<u8>,
    queue: Option<String>,
    max_attempts: u64,
    priority: i32,
    group: Option<String>,
}

impl Cron {
    /// Returns a recurring job with the payload `null`. `tz` is an IANA time zone. Fails if the expression is invalid,
    /// or never comes.
    pub fn new(name: impl Into<String>, expression: &str, tz: &str) -> Result<Self, Error> {
        let calendar = Calendar::new(expression, tz)?;
        if calendar.next(now_ms()).is_none() {
            return Err(Error::Argument(format!("{expression} never comes")));
        }
        let (name, payload) = (name.into(), b"null".to_vec());
        Ok(Self { name, calendar, payload, queue: None, max_attempts: 5, priority: 0, group: None })
    }

    /// The payload of each run.
    pub fn payload(mut self, payload: &impl crate::Encode) -> Result<Self, Error> {
        self.payload = payload.encode()?;
        Ok(self)
    }

    setters! { self [builder "let report = Cron::new(\"report\", \"0 3 * * *\", \"Europe/Berlin\")?" ";"]
        /// One of the worker's queues; by default the first.
        queue(queue: impl Into<String> = "reports") { self.queue = Some(queue.into()) }
        /// If a run has failed this number of times, the worker drops the run and pushes the next one; 5 by default.
        max_attempts(attempts: u64 = 3) { self.max_attempts = attempts.max(1) }
        /// Jobs of a lower priority are served first; 0 by default.
        priority(priority: i32 = -1) { self.priority = priority }
        /// The group of the job.
        group(group: impl Into<String> = "acme") { self.group = Some(group.into()) }
    }

    /// Returns the first run after `after_ms`, in Unix ms; None if there is none.
    pub fn next(&self, after_ms: i64) -> Option<i64> {
        self.calendar.next(after_ms)
    }

    pub(super) fn of_queue(&self) -> Option<&str> {
        self.queue.as_deref()
    }

    /// Returns the group or, if the job has none, the ID: it determines the shard.
    pub(super) fn shard_name(&self) -> &str {
        self.group.as_deref().filter(|group| !group.is_empty()).unwrap_or(&self.name)
    }

    /// Whether a waiting run has the payload, priority and group of this recurring job.
    fn is_as_pushed(&self, run: &Run) -> bool {
        let group = self.group.as_deref().unwrap_or_default().as_bytes();
        run.payload == self.payload
            && run.priority == i64::from(self.priority)
            && run.group.as_deref().unwrap_or_default() == group
    }

    /// Returns the command that pushes the next run. If the job is in the queue, the command does nothing. MAXATTEMPTS
    /// is 0 (no limit), because the worker counts the attempts.
    fn push(&self, key: &str, after_ms: i64) -> Option<Cmd> {
        let at = u64::try_from(self.next(after_ms)?).ok()?;
        let call = zq::push(key, self.payload.as_slice()).id(&self.name).at(at).max_attempts(0);
        let call = if self.priority == 0 { call } else { call.priority(self.priority) };
        Some(
            match &self.group {
                Some(group) => call.group(group),
                None => call,
            }
            .into(),
        )
    }
}

/// A job of which all texts may be any bytes.
type Run = zq::Job<Vec<u8>>;

/// Whether a job is a run that waits for a time of a cron expression, for another second at least. Such a run has no
/// limit of attempts, is due at a whole minute, and has never been claimed.
fn is_run(job: &Run, now: i64) -> bool {
    let due = i64::try_from(job.due_ms).unwrap_or(i64::MAX);
    let is_waiting = job.state == "delayed" && job.attempts == 0 && due > now + 1000;
    is_waiting && due % 60_000 == 0 && job.max_attempts.unwrap_or(0) == 0 && job.every_ms.is_none()
}

const HOUR_MS: i64 = 3_600_000;

fn now_ms() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}

/// Returns the existing jobs among these keys and names.
async fn look<'a>(link: &Link, places: &[(&'a str, &'a str)]) -> Result<Vec<((&'a str, &'a str), Run)>, Error> {
    let replies = link.ask(places.iter().map(|&(key, name)| zq::get(key, name).into()).collect()).await?;
    let mut found = Vec::new();
    for (&place, reply) in places.iter().zip(replies) {
        found.extend(from_redis_value::<Option<Run>>(reply)?.map(|job| (place, job)));
    }
    Ok(found)
}

/// Postpones runs so far that no worker claims them. Returns those that were still waiting.
async fn put_off<'a>(link: &Link, places: Vec<(&'a str, &'a str)>, now: i64) -> Result<Vec<(&'a str, &'a str)>, Error> {
    let at = (now + HOUR_MS).unsigned_abs();
    let commands = places.iter().map(|&(key, name)| zq::reschedule(key, name).at(at).into());
    let mut taken = Vec::new();
    for (&place, reply) in places.iter().zip(link.ask(commands.collect()).await?) {
        if from_redis_value(reply)? {
            taken.push(place);
        }
    }
    Ok(taken)
}

/// The recurring jobs of a pump, and what it knows of its queues.
#[derive(Clone, Default)]
pub(super) struct Chores {
    pub keys: Vec<String>,
    crons: HashMap<String, Vec<Cron>>,
    /// Keys, each with the name of a recurring job that now has another key. An earlier version of the program may have
    /// pushed the job to this key.
    strays: Vec<(String, String)>,
    with_backoff: HashSet<String>,
    /// How far the server's clock is ahead of the worker's clock.
    ahead_ms: i64,
}

impl Chores {
    /// `crons`: all recurring jobs of the worker, by key.
    pub fn new(keys: Vec<String>, crons: &HashMap<String, Vec<Cron>>) -> Self {
        let names: HashSet<&str> = crons.values().flatten().map(|cron| cron.name.as_str()).collect();
        let has = |key: &str, name: &str| crons.get(key).is_some_and(|all| all.iter().any(|cron| cron.name == name));
        let pairs = keys.iter().flat_map(|key| names.iter().map(move |&name| (key, name)));
        let strays =
            pairs.filter(|(key, name)| !has(key, name)).map(|(key, name)| (key.clone(), name.into())).collect();
        let crons = keys.iter().filter_map(|key| Some((key.clone(), crons.get(key)?.clone()))).collect();
        Self { keys, crons, strays, ..Self::default() }
    }

    /// Does the chores. Returns what the pump knows now.
    pub async fn run(mut self, link: Link) -> Result<Self, Error> {
        let mut commands = vec![redis::cmd("TIME")];
        commands.extend(self.keys.iter().map(|key| Cmd::from(zq::stats(key))));
        let mut replies = link.ask(commands).await?.into_iter();
        let (seconds, micros): (i64, i64) = from_redis_value(replies.next().unwrap_or(redis::Value::Nil))?;
        self.ahead_ms = seconds * 1000 + micros / 1000 - now_ms();
        self.with_backoff.clear();
        for (key, reply) in self.keys.iter().zip(replies) {
            let stats: Option<zq::Fields> = from_redis_value(reply)?;
            if stats.is_some_and(|stats| stats.get("backoff_base_ms").is_some_and(|ms| ms > 0)) {
                self.with_backoff.insert(key.clone());
            }
        }
        let now = now_ms() + self.ahead_ms;
        let is_left = self.remove_strays(&link, now).await?;
        // A run of the old place that is due now stays there. The new place gets the run after it.
        let now = if is_left { now + 1000 } else { now };
        for (key, crons) in &self.crons {
            self.push(&link, key, crons, now).await?;
        }
        Ok(self)
    }

    /// Removes the runs that wait in keys in which an earlier version of the program has pushed the recurring jobs.
    /// Returns whether such a key still has a job of the same name.
    async fn remove_strays(&self, link: &Link, now: i64) -> Result<bool, Error> {
        let places: Vec<_> = self.strays.iter().map(|(key, name)| (key.as_str(), name.as_str())).collect();
        let found = look(link, &places).await?;
        let waiting = found.iter().filter(|(_, job)| is_run(job, now)).map(|(place, _)| *place).collect();
        let taken = put_off(link, waiting, now).await?;
        link.ask(taken.iter().map(|&(key, name)| zq::cancel(key, name).into()).collect()).await?;
        Ok(taken.len() < found.len())
    }

    /// Pushes the recurring jobs that the queue does not have. Changes those that wait and have another definition.
    async fn push(&self, link: &Link, key: &str, crons: &[Cron], now: i64) -> Result<(), Error> {
        link.ask(crons.iter().filter_map(|cron| cron.push(key, now)).collect()).await?;
        let places: Vec<_> = crons.iter().map(|cron| (key, cron.name.as_str())).collect();
        let (mut moves, mut outdated) = (Vec::new(), Vec::new());
        for ((_, name), job) in look(link, &places).await? {
            let cron = crons.iter().find(|cron| cron.name == name);
            let Some((cron, next)) = cron.and_then(|cron| Some((cron, cron.next(now)?))) else { continue };
            // A job that is due now, or that waits for another attempt after a failure, stays as it is.
            if !is_run(&job, now) {
                continue;
            }
            if !cron.is_as_pushed(&job) {
                outdated.push((key, name));
            } else if job.due_ms != next.unsigned_abs() {
                moves.push(zq::reschedule(key, name).at(next.unsigned_abs()).into());
            }
        }
        link.ask(moves).await?;
        let taken = put_off(link, outdated, now).await?;
        let replaced = crons.iter().filter(|cron| taken.iter().any(|(_, name)| *name == cron.name));
        let pushes = replaced.filter_map(|cron| cron.push(key, now)).map(|mut push| push.arg("REPLACE").take());
        link.ask(pushes.collect()).await.map(drop)
    }

    pub fn has_backoff(&self, key: &str) -> bool {
        self.with_backoff.contains(key)
    }

    fn cron(&self, key: &str, id: &[u8]) -> Option<&Cron> {
        self.crons.get(key)?.iter().find(|cron| cron.name.as_bytes() == id)
    }

    /// Whether a claimed run of a recurring job has used up its attempts: each earlier attempt ended its process, or its
    /// report got lost.
    pub fn is_used_up(&self, key: &str, claim: &Claim) -> bool {
        self.cron(key, &claim.id).is_some_and(|cron| claim.attempt > cron.max_attempts)
    }

    /// Returns the outcome to report. If the outcome ends a run of a recurring job, adds a command that pushes the next
    /// run. The worker sends this command in one MULTI with the report.
    pub fn and_next(&self, mut outcome: Outcome, lease_ms: u64) -> Outcome {
        let job = &outcome.job;
        let Some(cron) = self.cron(job.key(), job.id_bytes()) else { return outcome };
        let is_over = matches!(outcome.ending, Ending::Completed | Ending::Discarded);
        let has_failed = matches!(outcome.ending, Ending::Failed | Ending::Retried) && !outcome.is_free;
        let is_given_up = has_failed && job.attempt() >= cron.max_attempts;
        if !is_over && !is_given_up {
            return outcome;
        }
        // The next run must be later than the claim, or the last heartbeat. If this clock is behind the server's, the
        // same run would otherwise start again.
        let claimed = i64::try_from(job.deadline_ms().saturating_sub(lease_ms)).unwrap_or(i64::MAX);
        let next = cron.push(job.key(), (now_ms() + self.ahead_ms).max(claimed));
        if outcome.ending != Ending::Completed {
            outcome.commands = vec![ack(job)];
            outcome.ending = Ending::Discarded;
        }
        outcome.commands.extend(next);
        (outcome.look, outcome.is_dead) = (None, false);
        outcome
    }
}
