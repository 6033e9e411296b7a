//! Workers behind a proxy that breaks connections, delays replies and sends garbage, on a server that stops, crashes
//! and has no memory. No job may get lost, be acknowledged before it was done, or run after an accepted ACK.
//!
//! CHAOS_SECONDS sets the duration, CHAOS_SEED the faults.

use super::support::{BREAK, DELAY, GARBAGE, PASS, Proxy, connect, until};
use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use testkit::{PATIENCE, Server, Signal, signal_pid};
use zeitset_client::{Event, Job, Queue, Retry, Worker};

type Failure = Box<dyn std::error::Error + Send + Sync>;

/// What has happened to each job, by its ID.
#[derive(Default)]
struct Ledger {
    /// The jobs whose handler has done its work.
    done: HashSet<String>,
    /// The jobs whose ACK was accepted, and was not repeated.
    acked: HashSet<String>,
    runs: HashMap<String, u64>,
    faults: Vec<String>,
    /// What happened to the connections.
    troubles: Vec<String>,
}

impl Ledger {
    fn begins(&mut self, id: &str) {
        *self.runs.entry(id.to_owned()).or_default() += 1;
        if self.acked.contains(id) {
            self.faults.push(format!("{id} runs after an accepted ACK"));
        }
    }

    fn is_acked(&mut self, id: &str) {
        if !self.done.contains(id) {
            self.faults.push(format!("{id} was acknowledged before it was done"));
        }
        self.acked.insert(id.to_owned());
    }

    fn lost(&self, pushed: &[String]) -> Vec<String> {
        pushed.iter().filter(|id| !self.done.contains(*id)).cloned().collect()
    }
}

#[test]
fn the_ledger_notices_each_fault() {
    let mut ledger = Ledger::default();
    ledger.begins("a");
    ledger.is_acked("a");
    assert_eq!(ledger.faults, ["a was acknowledged before it was done"]);
    ledger.begins("a");
    assert_eq!(ledger.faults.len(), 2);
    assert_eq!(ledger.lost(&["a".into()]), ["a"]);
    ledger.done.insert("a".into());
    assert!(ledger.lost(&["a".into()]).is_empty());
}

fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

/// A small generator, so that a seed repeats the faults.
struct Random(u64);

impl Random {
    fn below(&mut self, end: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % end
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_fault_loses_a_job_or_acknowledges_undone_work() {
    let seed = number("CHAOS_SEED", u64::from(std::process::id()) + 1);
    let mut random = Random(seed);
    let mut server = Server::builder().keeping_aof().config("appendfsync always").start();
    let proxy = Proxy::start(&server).await;
    let ledger = Arc::new(Mutex::new(Ledger::default()));
    let stop = Arc::new(Mutex::new(Vec::new()));
    let mut workers = Vec::new();
    for name in ["w1", "w2", "w3"] {
        let (runs, acks) = (Arc::clone(&ledger), Arc::clone(&ledger));
        let worker = Worker::new(proxy.client(), "q", move |job: Job<u64>| {
            let ledger = Arc::clone(&runs);
            async move {
                ledger.lock().expect("no panic").begins(job.id());
                tokio::time::sleep(Duration::from_millis(job.payload)).await;
                if job.payload.is_multiple_of(7) && job.attempt() == 1 {
                    return Err::<(), Failure>(Retry::after(Duration::from_millis(50)).into());
                }
                ledger.lock().expect("no panic").done.insert(job.id().to_owned());
                Ok(())
            }
        });
        let worker = worker.name(name).concurrency(4).lease("2s").signals(false).backoff(|_| Duration::from_millis(50));
        let worker = worker.on_event(move |event| match event {
            Event::Completed(ended) if !ended.is_repeated => acks.lock().expect("no panic").is_acked(ended.job.id()),
            Event::Disconnected(_) | Event::Refused(_) | Event::Connected => {
                acks.lock().expect("no panic").troubles.push(format!("{name}: {event:?}"));
            }
            _ => {}
        });
        stop.lock().expect("no panic").push(worker.handle());
        workers.push(tokio::spawn(worker.run()));
    }
    let end = Instant::now() + Duration::from_secs(number("CHAOS_SECONDS", 6));
    let mut pushed: Vec<String> = Vec::new();
    while Instant::now() < end {
        let queue = Queue::<_, u64>::new(connect(&server).await, "q");
        for _ in 0..30 {
            let id = format!("j{}", pushed.len());
            queue.push(&random.below(40)).id(&id).max_attempts(0).await.expect("a push");
            pushed.push(id);
        }
        let fault = random.below(7);
        match fault {
            0 => {
                server.crash_and_restart();
                proxy.follow(&server);
            }
            1 => {
                let pid = server.client().info("server")["process_id"].parse().expect("a number");
                signal_pid(pid, Signal::STOP);
                tokio::time::sleep(Duration::from_millis(random.below(2500))).await;
                signal_pid(pid, Signal::CONT);
            }
            2 => {
                let mut redis = server.client();
                redis.run("CONFIG SET min-replicas-to-write 1");
                tokio::time::sleep(Duration::from_millis(200)).await;
                redis.run("CONFIG SET min-replicas-to-write 0");
            }
            fault => {
                proxy.set([BREAK, BREAK, DELAY, GARBAGE][usize::try_from(fault - 3).expect("a mode")]);
                tokio::time::sleep(Duration::from_millis(100 + random.below(200))).await;
                proxy.set(PASS);
            }
        }
        tokio::time::sleep(Duration::from_millis(random.below(200))).await;
    }
    let queue = Queue::<_, u64>::new(connect(&server).await, "q");
    let begun = Instant::now();
    until("the queue is empty", async || {
        let stats = queue.stats().await.expect("a reply").expect("a queue");
        let is_stuck = begun.elapsed() > PATIENCE / 2 || workers.iter().any(tokio::task::JoinHandle::is_finished);
        if is_stuck {
            let ledger = ledger.lock().expect("no panic");
            let last = &ledger.troubles[ledger.troubles.len().saturating_sub(20)..];
            panic!("seed {seed}: {stats:?}\n{last:#?}\n{:?}", workers);
        }
        ["ready", "delayed", "claimed", "dead"].iter().all(|state| stats.get(state) == Some(0))
    })
    .await;
    stop.lock().expect("no panic").iter().for_each(zeitset_client::WorkerHandle::stop);
    for worker in workers {
        worker
            .await
            .expect("no panic")
            .unwrap_or_else(|error| panic!("seed {seed}: a worker stopped by itself: {error}"));
    }
    let ledger = ledger.lock().expect("no panic");
    assert!(ledger.faults.is_empty(), "seed {seed}: {:?}", ledger.faults);
    assert!(ledger.lost(&pushed).is_empty(), "seed {seed}: lost {:?}", ledger.lost(&pushed));
    let runs: u64 = ledger.runs.values().sum();
    eprintln!("chaos: {} jobs, {runs} runs, {} acknowledged, 0 lost, 0 undone", pushed.len(), ledger.acked.len());
}
