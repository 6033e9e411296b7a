//! Samples of a server. Each sample reads INFO once and the stats of a bounded number of queues. The next sample
//! continues with the next names. A queue's rates are computed between two reads of this queue.

use crate::server::{Counts, Info, Key, Queue, Server, State, reply};
use redis::{RedisError, RedisResult, Value, pipe};
use std::collections::BTreeMap;

/// The maximum number of queues that one sample reads. A pipeline reads [`PAGE`] queues.
const QUEUES_PER_LOOK: usize = 2_000;
const PAGE: usize = 500;

/// The maximum number of queues whose stats the program keeps. If there are more queues, it keeps the first ones by
/// name.
pub const MOST_QUEUES: usize = 20_000;

/// If a ready job has waited longer than this, the views highlight the wait.
pub const WORRYING_WAIT_MS: u64 = 60_000;

/// If the sweeper's lag is longer than this, the views highlight the lag (docs/operations.md).
pub const WORRYING_LAG_MS: u64 = 5_000;

#[derive(Clone, Default)]
pub struct Sample {
    /// The server's time, µs.
    pub at_us: u64,
    pub info: Info,
}

/// The stats of a queue, as last read.
#[derive(Clone, Default)]
pub struct Watched {
    pub at_us: u64,
    pub queue: Queue,
    /// The time and counters of the previous read.
    pub before: Option<(u64, Counts)>,
}

impl Watched {
    /// Returns a counter's growth per second between the last two reads. `None` after the first read.
    pub fn rate(&self, counter: &str) -> Option<f64> {
        let (at_us, before) = self.before.as_ref()?;
        let grown = self.queue.counters.get(counter)?.checked_sub(before.get(counter)?)?;
        let span = self.at_us.checked_sub(*at_us).filter(|span| *span > 0)?;
        Some(grown as f64 * 1e6 / span as f64)
    }
}

#[derive(Clone, Default)]
pub struct Watch {
    pub before: Option<Sample>,
    pub now: Sample,
    pub queues: BTreeMap<Key, Watched>,
    /// The name of the queue that was read last. The next sample continues after this name.
    cursor: Key,
    /// The number of queues read in the present pass through all queues.
    passed: usize,
    /// Whether all queues have been read once.
    pub is_complete: bool,
    /// Whether the server has more than [`MOST_QUEUES`] queues.
    pub has_more: bool,
    /// Why queues cannot be listed: the module is missing, was loaded with `plain`, or the user has no permission.
    pub refusal: Option<String>,
}

impl Watch {
    pub async fn look(&mut self, server: &Server) -> RedisResult<()> {
        let mut pipe = pipe();
        pipe.cmd("TIME");
        Info::ask(&mut pipe);
        let replies = server.ask(pipe).await?;
        let [time, info] = <[RedisResult<Value>; 2]>::try_from(replies).map_err(|_| odd("INFO"))?;
        let now = Sample { at_us: micros(&time?), info: Info::read(&reply_text(&info?)) };
        let before = std::mem::replace(&mut self.now, now);
        self.before = (before.at_us > 0).then_some(before);
        self.look_at_queues(server).await
    }

    async fn look_at_queues(&mut self, server: &Server) -> RedisResult<()> {
        for _ in 0..QUEUES_PER_LOOK / PAGE {
            let names = match server.queues_after(&self.cursor, PAGE).await {
                Ok(names) => names,
                Err(error) if error.is_io_error() || error.is_timeout() => return Err(error),
                Err(error) => {
                    self.refusal = Some(crate::server::unlisted(&error));
                    self.queues.clear();
                    return Ok(());
                }
            };
            self.refusal = None;
            self.forget_between(&names);
            refresh(server, &mut self.queues, &names).await?;
            let is_last = names.len() < PAGE;
            self.passed += names.len();
            if is_last || self.passed >= MOST_QUEUES {
                self.has_more = !is_last;
                // Removes the queues that are no longer among the first [`MOST_QUEUES`].
                self.queues.retain(|name, _| Some(name) <= names.last() || is_last);
                self.cursor.clear();
                self.passed = 0;
                self.is_complete = true;
                return Ok(());
            }
            self.cursor.clone_from(names.last().expect("a full page"));
        }
        Ok(())
    }

    /// Removes the queues that no longer exist. `names` is the page of existing queues after the cursor. A queue in the
    /// range of this page that is not in `names` no longer exists.
    fn forget_between(&mut self, names: &[Key]) {
        let until = if names.len() < PAGE { None } else { names.last() };
        let cursor = &self.cursor;
        self.queues.retain(|name, _| {
            let is_elsewhere = !cursor.is_empty() && name <= cursor || until.is_some_and(|until| name > until);
            is_elsewhere || names.binary_search(name).is_ok()
        });
    }

    /// Returns how much a field of INFO grew per second since the previous sample. Returns `None` if there is no
    /// previous sample, or if the server has restarted since then.
    pub fn rate(&self, field: &str) -> Option<f64> {
        let before = self.before.as_ref()?;
        let grown = self.now.info.number(field)?.checked_sub(before.info.number(field)?)?;
        let span = self.now.at_us.checked_sub(before.at_us).filter(|span| *span > 0)?;
        Some(grown as f64 * 1e6 / span as f64)
    }

    pub fn now_ms(&self) -> u64 {
        self.now.at_us / 1000
    }

    /// Returns the longest wait of a ready job. If INFO lacks it, considers only the queues that the program reads.
    pub fn longest_wait_ms(&self) -> u64 {
        let seen = || self.queues.values().filter_map(|watched| watched.queue.wait_ms(watched.at_us / 1000)).max();
        self.now.info.number("zeitset_jobs_longest_wait_ms").or_else(seen).unwrap_or_default()
    }

    /// Returns the number of jobs in one state. Counts the jobs of all queues that the program reads.
    pub fn total(&self, state: State) -> u64 {
        self.queues.values().map(|watched| watched.queue.count(state)).sum()
    }
}

pub async fn refresh(server: &Server, queues: &mut BTreeMap<Key, Watched>, names: &[Key]) -> RedisResult<()> {
    let mut pipe = pipe();
    pipe.cmd("TIME");
    for name in names {
        pipe.cmd("ZQ.STATS").arg(name);
    }
    let mut replies = server.ask(pipe).await?.into_iter();
    let at_us = micros(&replies.next().ok_or_else(|| odd("TIME"))??);
    for (name, stats) in names.iter().zip(replies) {
        // If the key now holds another type, the reply is an error.
        let Ok(stats) = stats else {
            queues.remove(name);
            continue;
        };
        let mut queue = Queue::read(&stats);
        // The settings would take much memory for twenty thousand queues.
        queue.others = Vec::new();
        let before = queues.get(name).map(|earlier| (earlier.at_us, earlier.queue.counters));
        queues.insert(name.clone(), Watched { at_us, queue, before });
    }
    Ok(())
}

/// Parses the reply of TIME. Returns Unix µs.
pub fn micros(time: &Value) -> u64 {
    let parts: Vec<u64> = reply::array(time).iter().filter_map(reply::count).collect();
    parts.first().copied().unwrap_or_default() * 1_000_000 + parts.get(1).copied().unwrap_or_default()
}

pub fn reply_text(value: &Value) -> String {
    match value {
        Value::VerbatimString { text, .. } => text.clone(),
        value => String::from_utf8_lossy(reply::bytes(value).unwrap_or_default()).into_owned(),
    }
}

fn odd(command: &str) -> RedisError {
    (redis::ErrorKind::UnexpectedReturnType, "the server does not answer as expected", command.to_owned()).into()
}
