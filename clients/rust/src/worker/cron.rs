//! Jobs that recur by a cron expression, and the chores of a pump. A pump does its chores when it connects, and then
//! every minute: it checks whether its queues have a BACKOFF, and pushes missing recurring jobs.

use super::calendar::Calendar;
use super::link::Link;
use super::outcome::{Ending, Outcome, ack};
use crate::commands::zq;
use crate::error::Error;
use redis::{Cmd, from_redis_value};
use std::collections::{HashMap, HashSet};
use std::time::{SystemTime, UNIX_EPOCH};

/// A job that recurs: `Cron::new("report", "0 3 * * *", "Europe/Berlin")?`. The name is the ID of the job.
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

fn now_ms() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}

/// The recurring jobs of a pump, and what it knows of its queues.
#[derive(Clone, Default)]
pub(super) struct Chores {
    pub keys: Vec<String>,
    pub crons: HashMap<String, Vec<Cron>>,
    with_backoff: HashSet<String>,
    /// How far the server's clock is ahead of the worker's clock.
    ahead_ms: i64,
}

impl Chores {
    pub fn new(keys: Vec<String>, crons: HashMap<String, Vec<Cron>>) -> Self {
        Self { keys, crons, ..Self::default() }
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
        for (key, crons) in &self.crons {
            self.push(&link, key, crons).await?;
        }
        Ok(self)
    }

    /// Pushes the recurring jobs that the queue does not have. If the cron expression of a waiting job has changed,
    /// moves the job to the next time of the new expression.
    async fn push(&self, link: &Link, key: &str, crons: &[Cron]) -> Result<(), Error> {
        let now = now_ms() + self.ahead_ms;
        link.ask(crons.iter().filter_map(|cron| cron.push(key, now)).collect()).await?;
        let replies = link.ask(crons.iter().map(|cron| zq::get(key, &cron.name).into()).collect()).await?;
        let mut moves = Vec::new();
        for (cron, reply) in crons.iter().zip(replies) {
            let (Some(job), Some(next)) = (from_redis_value::<Option<zq::Job<Vec<u8>>>>(reply)?, cron.next(now)) else {
                continue;
            };
            // Not a retry after a failure, and not a run that is due within a second.
            let due = i64::try_from(job.due_ms).unwrap_or(i64::MAX);
            if job.state == "delayed" && job.attempts == 0 && due > now + 1000 && due != next {
                moves.push(zq::reschedule(key, &cron.name).at(next.unsigned_abs()).into());
            }
        }
        link.ask(moves).await.map(drop)
    }

    pub fn has_backoff(&self, key: &str) -> bool {
        self.with_backoff.contains(key)
    }

    /// Returns the outcome to report. If the outcome ends a run of a recurring job, adds a command that pushes the next
    /// run. The worker sends this command in one MULTI with the report.
    pub fn and_next(&self, mut outcome: Outcome, lease_ms: u64) -> Outcome {
        let job = &outcome.job;
        let crons = self.crons.get(job.key());
        let Some(cron) = crons.and_then(|crons| crons.iter().find(|cron| cron.name.as_bytes() == job.id_bytes()))
        else {
            return outcome;
        };
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
