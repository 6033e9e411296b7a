//! Dead letters by the kind of their error ([`crate::kinds`]), and by task if they are tasks of Celery.
//!
//! The server returns a letter's error only with the whole job, so the program reads each letter once, and keeps a hash
//! of its ID, its time and its kind. [`Index::advance`] reads the letters in slices. If letters have left the queue, it
//! lists the IDs of all letters again, but reads only the new ones. [`begin`] retries or deletes the letters of a kind,
//! also in slices.

use super::{App, Problem, actions, celery};
use crate::kinds;
use crate::server::{Job, Key, Queue, Reader, Server, State, reply};
use crate::watch::micros;
use redis::RedisResult;
use std::collections::{BTreeMap, HashMap};
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};
use tokio::sync::Mutex;

/// The number of letters that one call of ZQ.PEEK lists.
pub const SLICE: usize = 100;
/// A page stops reading jobs after this time or this number of bytes. The next refresh of the page continues.
pub const PATIENCE: Duration = Duration::from_millis(150);
pub const BYTES_PER_PAGE: usize = 2 * 1024 * 1024;

/// The maximum number of letters of a queue, of kinds of a queue, and of queues whose letters the program keeps. A
/// letter takes some 30 bytes.
const LETTERS: usize = 1_000_000;
const KINDS: usize = 1_000;
const QUEUES: usize = 4;

/// If retrying or deleting takes longer than this, the page shows its progress.
const AT_ONCE: Duration = Duration::from_secs(1);

/// How often a task starts again with the oldest letter, because another client has removed the letter after which the
/// task wanted to continue.
const RESTARTS: usize = 100;

/// The kind of letters that are of none of the first [`KINDS`] kinds.
const OTHER: u32 = u32::MAX;

#[derive(Default)]
pub struct Letters(Mutex<BTreeMap<Key, Arc<OfQueue>>>);

#[derive(Default)]
pub struct OfQueue {
    index: Mutex<Index>,
    task: std::sync::Mutex<Option<Arc<Task>>>,
    /// When a page or a task last used the letters: a counter.
    used: AtomicU64,
}

impl OfQueue {
    pub fn task(&self) -> Option<Arc<Task>> {
        self.task.lock().unwrap_or_else(std::sync::PoisonError::into_inner).clone()
    }

    /// Begins a task, unless the queue has one that is running.
    fn take(&self, task: &Arc<Task>) -> bool {
        let mut place = self.task.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let is_free = place.as_ref().is_none_or(|task| task.end().is_some());
        if is_free {
            *place = Some(task.clone());
        }
        is_free
    }
}

impl Letters {
    async fn of(&self, key: &[u8]) -> Arc<OfQueue> {
        let mut queues = self.0.lock().await;
        let newest = queues.values().map(|queue| queue.used.load(Ordering::Relaxed)).max().unwrap_or_default();
        let found = queues.entry(key.to_vec()).or_default().clone();
        found.used.store(newest + 1, Ordering::Relaxed);
        while queues.len() > QUEUES {
            let is_idle = |queue: &OfQueue| queue.task().is_none_or(|task| task.end().is_some());
            let idle = queues.iter().filter(|(_, queue)| is_idle(queue));
            let oldest = idle.min_by_key(|(_, queue)| queue.used.load(Ordering::Relaxed)).map(|(name, _)| name.clone());
            // Tasks keep more queues for as long as they run.
            let Some(oldest) = oldest.filter(|name| name != key) else { break };
            queues.remove(&oldest);
        }
        found
    }

    /// Reads more letters of a queue. Returns what is known of them, and the task that retries or deletes letters.
    pub async fn look(&self, server: &Server, key: &[u8], queue: &Queue) -> RedisResult<(View, Option<Arc<Task>>)> {
        let letters = self.of(key).await;
        let mut index = letters.index.lock().await;
        index.advance(server, key, queue).await?;
        Ok((index.view(), letters.task()))
    }

    /// Returns the number of letters of a kind that have been counted.
    pub async fn counted(&self, key: &[u8], kind: &Kind) -> u64 {
        let letters = self.of(key).await;
        let view = letters.index.lock().await.view();
        view.kinds.iter().find(|(name, _)| name == kind).map_or(0, |(_, of_kind)| of_kind.count)
    }

    pub async fn stop(&self, key: &[u8]) {
        if let Some(task) = self.of(key).await.task() {
            task.is_stopped.store(true, Ordering::Relaxed);
        }
    }
}

/// What letters that are counted together have in common.
#[derive(Clone, Default, PartialEq, Eq, Hash)]
pub struct Kind {
    /// The name of the Celery task; empty for other jobs.
    pub task: Key,
    pub error: Key,
}

impl Kind {
    fn of(letter: &Job) -> Kind {
        let task = celery::name(letter.payload.as_deref().unwrap_or_default()).unwrap_or_default();
        Kind { task: task.into_bytes(), error: kinds::kind(letter.error.as_deref().unwrap_or_default()) }
    }
}

/// The letters of one kind.
#[derive(Clone, Default)]
pub struct OfKind {
    pub count: u64,
    pub first_ms: u64,
    pub last_ms: u64,
    /// The letter that died last.
    pub example: Key,
}

/// What a page shows of an index.
pub struct View {
    /// The most frequent kind comes first.
    pub kinds: Vec<(Kind, OfKind)>,
    /// The number of letters of other kinds, if there are more than [`KINDS`].
    pub others: u64,
    /// The number of letters that the present pass has counted, as long as it is not complete.
    pub reading: Option<u64>,
    /// Whether the queue has more than [`LETTERS`] letters, of which the oldest are counted.
    pub is_part: bool,
}

#[derive(Clone, Copy)]
struct Letter {
    due_ms: u64,
    kind: u32,
    /// The pass that last listed the letter.
    pass: u32,
}

#[derive(Clone, Default)]
struct Counted {
    by_kind: Vec<OfKind>,
    others: u64,
    total: u64,
}

#[derive(Default)]
struct Index {
    random: RandomState,
    letters: HashMap<u64, Letter>,
    names: Vec<Kind>,
    places: HashMap<Kind, u32>,
    pass: u32,
    /// The counts of the present pass, and of the last complete pass.
    now: Counted,
    before: Option<Counted>,
    /// The letters that the pass listed last. The pass continues after the last one that is still there.
    last: Vec<Key>,
    is_complete: bool,
    is_part: bool,
    /// The queue's counter of letters that left, when the pass began, and its number of letters, when it was complete.
    left: u64,
    dead: u64,
    reader: Reader,
}

/// Returns the number of letters, or of other jobs, that have left a queue without an ACK. If this number has not
/// changed, no letter has left.
fn left(queue: &Queue) -> u64 {
    ["redriven", "cancelled", "cleaned", "dropped", "replaced"].iter().map(|name| queue.counter(name)).sum()
}

impl Index {
    /// Reads letters until all are counted, or the page's patience ends.
    async fn advance(&mut self, server: &Server, key: &[u8], queue: &Queue) -> RedisResult<()> {
        if self.is_complete {
            if left(queue) == self.left && (queue.dead == self.dead || self.is_part) {
                return Ok(());
            }
            // New letters come after all others.
            self.is_complete = false;
            if left(queue) != self.left || queue.dead < self.dead {
                self.restart(queue);
            }
        } else if self.pass == 0 {
            self.restart(queue);
        }
        let (start, mut bytes) = (Instant::now(), 0);
        while start.elapsed() < PATIENCE && bytes < BYTES_PER_PAGE {
            let after = self.last.last().cloned().unwrap_or_default();
            let listed = match server.peek(key, State::Dead, None, SLICE, &after).await {
                Err(error) if !after.is_empty() && error.code() == Some("ERR") => {
                    self.last.pop();
                    if self.last.is_empty() {
                        self.restart(queue);
                    }
                    continue;
                }
                listed => listed?,
            };
            let (kinds, fetched) = self.kinds(server, key, &listed).await?;
            bytes += fetched;
            for (job, kind) in listed.iter().zip(&kinds) {
                self.count(job, *kind);
            }
            self.last.extend(listed[..kinds.len()].iter().map(|job| job.id.clone()));
            self.last.drain(..self.last.len().saturating_sub(SLICE));
            self.is_part = self.now.total >= LETTERS as u64;
            if kinds.len() == listed.len() && listed.len() < SLICE || self.is_part {
                self.letters.retain(|_, letter| letter.pass == self.pass);
                (self.is_complete, self.before, self.dead) = (true, None, queue.dead);
                break;
            }
        }
        Ok(())
    }

    /// Begins a pass through all letters.
    fn restart(&mut self, queue: &Queue) {
        let counted = std::mem::take(&mut self.now);
        if self.before.is_none() && self.pass > 0 {
            self.before = Some(counted);
        }
        self.pass += 1;
        self.last.clear();
        self.left = left(queue);
    }

    fn hash(&self, id: &[u8]) -> u64 {
        self.random.hash_one(id)
    }

    fn known(&self, job: &Job) -> Option<&Letter> {
        self.letters.get(&self.hash(&job.id)).filter(|letter| letter.due_ms == job.due_ms)
    }

    /// Returns the kinds of letters, `None` for a job that is no letter any more, and the number of bytes that were
    /// read. If letters are large, returns only the kinds of the first ones.
    async fn kinds(&mut self, server: &Server, key: &[u8], listed: &[Job]) -> RedisResult<(Vec<Option<u32>>, usize)> {
        let unknown = listed.iter().enumerate().filter(|(_, job)| self.known(job).is_none());
        let mut unknown: Vec<(usize, &[u8])> = unknown.map(|(place, job)| (place, job.id.as_slice())).collect();
        let most = self.reader.most();
        let shown = unknown.get(most).map_or(listed.len(), |(place, _)| *place);
        unknown.truncate(most);
        let ids: Vec<&[u8]> = unknown.into_iter().map(|(_, id)| id).collect();
        let (read, bytes) = self.reader.read(server, key, &ids).await?;
        let (mut read, mut kinds) = (read.into_iter(), Vec::new());
        for job in &listed[..shown] {
            if let Some(letter) = self.known(job) {
                kinds.push(Some(letter.kind));
                continue;
            }
            let letter = read
                .next()
                .expect("a reply for each command")
                .filter(|read| read.state == State::Dead.name() && read.due_ms == job.due_ms);
            kinds.push(letter.map(|letter| {
                let kind = self.place(Kind::of(&letter));
                self.letters.insert(self.hash(&job.id), Letter { due_ms: job.due_ms, kind, pass: 0 });
                kind
            }));
        }
        Ok((kinds, bytes))
    }

    fn place(&mut self, name: Kind) -> u32 {
        let next = self.names.len() as u32;
        if self.names.len() >= KINDS {
            return self.places.get(&name).copied().unwrap_or(OTHER);
        }
        *self.places.entry(name).or_insert_with_key(|name| {
            self.names.push(name.clone());
            next
        })
    }

    fn count(&mut self, job: &Job, kind: Option<u32>) {
        let (hash, pass) = (self.hash(&job.id), self.pass);
        let Some(letter) = self.letters.get_mut(&hash).filter(|letter| kind.is_some() && letter.pass != pass) else {
            return;
        };
        letter.pass = pass;
        self.now.total += 1;
        let Some(place) = kind.filter(|kind| *kind != OTHER) else {
            self.now.others += 1;
            return;
        };
        let place = place as usize;
        if self.now.by_kind.len() <= place {
            self.now.by_kind.resize_with(place + 1, OfKind::default);
        }
        let of_kind = &mut self.now.by_kind[place];
        if of_kind.count == 0 {
            of_kind.first_ms = job.due_ms;
        }
        of_kind.count += 1;
        of_kind.last_ms = job.due_ms;
        of_kind.example.clone_from(&job.id);
    }

    /// Removes letters from the counts that a page shows until the next pass is complete.
    fn took(&mut self, kind: u32, count: u64) {
        let counted = if self.is_complete { Some(&mut self.now) } else { self.before.as_mut() };
        if let Some(of_kind) = counted.and_then(|counted| counted.by_kind.get_mut(kind as usize)) {
            of_kind.count = of_kind.count.saturating_sub(count);
        }
    }

    fn view(&self) -> View {
        let counted = self.before.as_ref().unwrap_or(&self.now);
        let kinds = self.names.iter().cloned().zip(counted.by_kind.iter().cloned());
        let mut kinds: Vec<(Kind, OfKind)> = kinds.filter(|(_, of_kind)| of_kind.count > 0).collect();
        kinds.sort_by_key(|(_, of_kind)| std::cmp::Reverse(of_kind.count));
        let reading = (!self.is_complete).then_some(self.now.total);
        View { kinds, others: counted.others, reading, is_part: self.is_part }
    }
}

#[derive(Clone, Copy, PartialEq)]
pub enum Act {
    Retry,
    Delete,
}

/// Retries or deletes the letters of one kind that were dead when the task began.
pub struct Task {
    pub act: Act,
    pub kind: Kind,
    /// The number of letters of the kind that were counted when the task began.
    pub total: u64,
    done: AtomicU64,
    is_stopped: AtomicBool,
    end: std::sync::Mutex<Option<End>>,
}

#[derive(Clone)]
pub enum End {
    Finished,
    Stopped,
    Failed(redis::RedisError),
}

impl Task {
    pub fn done(&self) -> u64 {
        self.done.load(Ordering::Relaxed)
    }

    /// Returns how the task ended. `None` while it is running.
    pub fn end(&self) -> Option<End> {
        self.end.lock().unwrap_or_else(std::sync::PoisonError::into_inner).clone()
    }
}

/// Retries or deletes letters of a kind, at most `most`. Returns the name of the result and the number of letters, or
/// that the task has begun, if it takes longer than [`AT_ONCE`].
pub async fn begin(
    app: &Arc<App>,
    key: &[u8],
    kind: Kind,
    act: Act,
    most: u64,
) -> Result<(&'static str, u64), Problem> {
    let letters = app.letters.of(key).await;
    let total = app.letters.counted(key, &kind).await;
    let task = Arc::new(Task {
        act,
        kind,
        total,
        done: AtomicU64::new(0),
        is_stopped: AtomicBool::new(false),
        end: std::sync::Mutex::new(None),
    });
    if !letters.take(&task) {
        return Ok(("busy", 0));
    }
    let run = {
        let (app, key, task) = (app.clone(), key.to_vec(), task.clone());
        tokio::spawn(async move {
            let end = run(&app.server, &key, &letters, &task, most).await.unwrap_or_else(End::Failed);
            *task.end.lock().unwrap_or_else(std::sync::PoisonError::into_inner) = Some(end);
        })
    };
    let _ = tokio::time::timeout(AT_ONCE, run).await;
    match task.end() {
        Some(End::Failed(error)) => Err(actions::refused(error)),
        Some(_) if act == Act::Retry => Ok(("retried", task.done())),
        Some(_) => Ok(("deleted", task.done())),
        None => Ok(("begun", 0)),
    }
}

async fn run(server: &Server, key: &[u8], letters: &OfQueue, task: &Task, most: u64) -> RedisResult<End> {
    // A retried job that fails again comes back as a later letter, which is none of this task's.
    let begun_ms = micros(&server.one(&[b"TIME"]).await?) / 1000;
    let (mut after, mut restarts) = (Key::new(), 0);
    while task.done() < most {
        if task.is_stopped.load(Ordering::Relaxed) {
            return Ok(End::Stopped);
        }
        let start = Instant::now();
        let mut listed = match server.peek(key, State::Dead, None, SLICE, &after).await {
            Err(error) if !after.is_empty() && error.code() == Some("ERR") && restarts < RESTARTS => {
                after.clear();
                restarts += 1;
                continue;
            }
            listed => listed?,
        };
        let is_last = listed.len() < SLICE || listed.last().is_some_and(|job| job.due_ms > begun_ms);
        let (kinds, place) = {
            let mut index = letters.index.lock().await;
            let (kinds, _) = index.kinds(server, key, &listed).await?;
            (kinds, index.places.get(&task.kind).copied())
        };
        let is_end = is_last && kinds.len() == listed.len();
        listed.truncate(kinds.len());
        let is_wanted =
            |(job, kind): &(&Job, &Option<u32>)| kind.is_some() && **kind == place && job.due_ms <= begun_ms;
        let wanted = listed.iter().zip(&kinds).filter(is_wanted).map(|(job, _)| job.id.as_slice());
        let ids: Vec<&[u8]> = wanted.take(usize::try_from(most - task.done()).unwrap_or(usize::MAX)).collect();
        let mut taken = 0;
        if let (false, Some(place)) = (ids.is_empty(), place) {
            let words: &[&[u8]] = match task.act {
                Act::Retry => &[b"ZQ.REDRIVE", key, b"ID"],
                Act::Delete => &[b"ZQ.CANCEL", key],
            };
            taken = reply::count(&server.one(&[words, &ids].concat()).await?).unwrap_or_default();
            task.done.fetch_add(taken, Ordering::Relaxed);
            letters.index.lock().await.took(place, taken);
        }
        if is_end {
            break;
        }
        // The next page begins after the last letter that is still there. If the server took none (the queue has MAXLEN
        // jobs), this is the last letter of the page.
        let stays = listed.iter().rfind(|job| taken == 0 || !ids.contains(&job.id.as_slice()));
        if let Some(stays) = stays {
            after.clone_from(&stays.id);
        }
        // Waits as long as the slice took, so that the server has half of its time for other clients.
        tokio::time::sleep(start.elapsed()).await;
    }
    Ok(End::Finished)
}
