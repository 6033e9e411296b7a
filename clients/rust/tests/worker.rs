//! The worker: outcomes, retries, leases, stopping, recurring jobs, shards, clusters.

use super::support::{PASS, Proxy, UPSTREAM, client, connect, until};
use redis::AsyncCommands;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use testkit::{Cluster, PATIENCE, Server, eventually};
use tokio::sync::{mpsc, watch};
use zeitset_client::{Code, Cron, Discard, Error, Event, Job, Period, Place, Queue, Raw, Retry, State, Worker, zq};

type Failure = Box<dyn std::error::Error + Send + Sync>;

/// The names of the events of jobs, with the IDs of the jobs.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<String>>>);

impl Log {
    fn listener(&self) -> impl Fn(Event) + Send + Sync + 'static {
        let log = self.clone();
        move |event| {
            let (name, ended) = match &event {
                Event::Completed(ended) => ("completed", ended),
                Event::Failed(ended) => ("failed", ended),
                Event::Retried(ended) => ("retried", ended),
                Event::Discarded(ended) => ("discarded", ended),
                Event::Dead(ended) => ("dead", ended),
                Event::Lost(ended) => ("lost", ended),
                Event::Released(ended) => ("released", ended),
                Event::Stale(ended) => ("stale", ended),
                _ => return,
            };
            log.0.lock().expect("no panic").push(format!("{name} {}", ended.job.id()));
        }
    }

    fn lines(&self) -> Vec<String> {
        self.0.lock().expect("no panic").clone()
    }

    async fn has(&self, line: &str) {
        until(line, async || self.lines().iter().any(|other| other == line)).await;
    }
}

async fn queue(server: &Server) -> Queue<redis::aio::MultiplexedConnection, String> {
    Queue::new(connect(server).await, "q")
}

#[tokio::test]
async fn each_outcome_has_its_command_and_its_event() {
    let server = Server::start();
    let queue = queue(&server).await;
    for id in ["ok", "fails", "retries", "free", "discards", "panics", "late", "last", "done"] {
        let push = queue.push(&id.to_owned()).id(id).group(id);
        let push = if id == "last" { push.max_attempts(1) } else { push };
        let push = if id == "late" { push.timeout("20ms") } else { push };
        push.await.expect("a push");
    }
    Queue::<_, Raw>::new(connect(&server).await, "q").push(&Raw(b"{".to_vec())).id("broken").await.expect("a push");
    let log = Log::default();
    let worker = Worker::new(client(&server), "q", async |job: Job<String>| -> Result<(), Failure> {
        match job.payload.as_str() {
            "fails" | "last" => Err(std::io::Error::other("no luck"))?,
            "retries" => Err(Retry::after("1h").hold().because("later"))?,
            "free" => Err(Retry::after("1h").free())?,
            "discards" => Err(Discard("never".into()))?,
            "panics" => panic!("oh"),
            "late" => tokio::time::sleep(Duration::from_secs(60)).await,
            "done" => {
                job.done();
                Err("an error after the work")?;
            }
            _ => {}
        }
        Ok(())
    });
    worker.backoff(|_| "2h").on_event(log.listener()).run_burst().await.expect("a run");
    let mut lines = log.lines();
    lines.sort();
    let expected = [
        "completed done",
        "completed ok",
        "dead broken",
        "dead discards",
        "dead last",
        "discarded broken",
        "discarded discards",
        "failed fails",
        "failed last",
        "failed late",
        "failed panics",
        "retried free",
        "retried retries",
    ];
    assert_eq!(lines, expected);
    let job = async |id| queue.get(id, None).await.expect("a reply").expect("a job").job;
    let errors = [
        ("fails", "Error: no luck"),
        ("retries", "Retry: later"),
        ("discards", "Discard: never"),
        ("panics", "Panic: oh"),
        ("late", "TimeoutError: ran longer than 20ms"),
    ];
    for (id, error) in errors {
        assert_eq!(job(id).await.error.as_deref(), Some(error), "{id}");
    }
    assert!(
        job("broken").await.error.is_some_and(|error| error.starts_with("PayloadError: the payload cannot be read"))
    );
    assert_eq!((job("free").await.attempts, job("fails").await.attempts), (0, 1));
    let due = job("fails").await.due_ms - job("retries").await.due_ms;
    assert!((3_000_000..4_000_000).contains(&due), "the backoff of the worker is 2 h: {due}");
    let groups = queue.groups(20).await.expect("groups");
    assert!(groups.iter().all(|group| group.held_until_ms.is_some() == (group.name == "retries")), "{groups:?}");
}

/// An error whose text panics.
#[derive(Debug)]
struct Unspeakable;

impl std::fmt::Display for Unspeakable {
    fn fmt(&self, _: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        panic!("no words")
    }
}

impl std::error::Error for Unspeakable {}

/// A payload that panics while it is read.
struct Fragile;

impl<'de> serde::Deserialize<'de> for Fragile {
    fn deserialize<D: serde::Deserializer<'de>>(_: D) -> Result<Self, D::Error> {
        panic!("broken")
    }
}

/// If a worker ended, the next one would get the same job when the lease expires, and end, too.
#[tokio::test]
async fn no_handler_ends_a_worker() {
    let server = Server::start();
    let queue = queue(&server).await;
    for id in ["at once", "soon", "never", "panics", "unspeakable"] {
        queue.push(&id.to_owned()).id(id).group(id).await.expect("a push");
    }
    Queue::<_, Raw>::new(connect(&server).await, "fragile").push(&Raw(b"1".to_vec())).id("x").await.expect("a push");
    let log = Log::default();
    let worker = Worker::new(client(&server), "q", |job: Job<String>| {
        // This part runs before the first `await` of the handler.
        assert_ne!(job.payload, "panics");
        async move {
            let error: Failure = match job.payload.as_str() {
                "at once" if job.attempt() > 1 => return Ok(()),
                "at once" => Retry::after(0).hold().into(),
                "soon" => Retry::after("soon").free().into(),
                "never" => Retry::after(Duration::MAX).hold().into(),
                _ => Unspeakable.into(),
            };
            Err(error)
        }
    });
    let worker = worker.and("fragile", async |_: Job<Fragile>| Ok::<(), Failure>(()));
    let listener = log.listener();
    let worker = worker.on_event(move |event| {
        listener(event);
        panic!("in on_event");
    });
    worker.backoff(|_| "2h").run_burst().await.expect("a run");
    let mut lines = log.lines();
    lines.sort();
    let expected = [
        "completed at once",
        "dead x",
        "discarded x",
        "failed panics",
        "failed soon",
        "failed unspeakable",
        "retried at once",
        "retried never",
    ];
    assert_eq!(lines, expected);
    let job = async |id| queue.get(id, None).await.expect("a reply").expect("a job").job;
    for id in ["panics", "soon", "unspeakable"] {
        let job = job(id).await;
        assert_eq!((job.attempts, job.due_ms - job.failed_ms.expect("a failure")), (1, 7_200_000), "{id}");
    }
    assert!(job("panics").await.error.is_some_and(|error| error.starts_with("Panic: ")));
    assert!(job("soon").await.error.is_some_and(|error| error.starts_with("Error: expected a duration such as ")));
    assert_eq!(job("unspeakable").await.error.as_deref(), Some("Error: its text cannot be read"));
    assert!(job("never").await.due_ms > 1 << 52);
    let groups = queue.groups(20).await.expect("groups");
    assert!(groups.iter().all(|group| group.held_until_ms.is_some() == (group.name == "never")), "{groups:?}");
}

#[tokio::test]
async fn a_wait_that_is_no_duration_is_replaced_or_fails_the_job() {
    let server = Server::start();
    let queue = queue(&server).await;
    let run = async |id: &str, change: fn(Worker) -> Worker| {
        queue.push(&String::new()).id(id).await.expect("a push");
        let worker = Worker::new(client(&server), "q", async |_: Job<String>| Err::<(), Failure>("no luck".into()));
        change(worker).run_burst().await.expect("a run");
        let job = queue.get(id, None).await.expect("a reply").expect("a job").job;
        (job.error.expect("an error"), job.due_ms - job.failed_ms.expect("a failure"))
    };
    let no_luck = |wait| ("Error: no luck".to_owned(), wait);
    assert_eq!(run("panics", |worker| worker.backoff(|_| -> Period { panic!("no wait") })).await, no_luck(1000));
    assert_eq!(run("soon", |worker| worker.backoff(|_| "soon")).await, no_luck(1000));
    assert_eq!(run("never", |worker| worker.backoff(|_| Duration::MAX)).await, no_luck(1 << 52));
    assert_eq!(run("no limit", |worker| worker.timeout(Duration::MAX)).await, no_luck(1000));
    let (error, wait) = run("late", |worker| worker.timeout_of(|_| Some("soon".into()))).await;
    assert!(error.starts_with("Error: expected a duration such as ") && wait == 1000, "{error}");
    let limit = run("lost", |worker| worker.timeout_of(|_| panic!("no limit"))).await;
    assert_eq!(limit, ("Panic: no limit".to_owned(), 1000));
    let worker = Worker::new(client(&server), "q", async |_: Job<String>| Ok::<(), Failure>(()));
    assert!(matches!(worker.timeout("soon").run_burst().await, Err(Error::Argument(_))));
}

/// Other clients may push any bytes. Such a job must not keep the worker from its other jobs.
#[tokio::test]
async fn a_job_whose_names_are_no_text_is_a_job_like_any_other() {
    let server = Server::start();
    let mut redis = connect(&server).await;
    for payload in ["ok", "fails", "stops"] {
        let (id, group) = ([b"\xff\0", payload.as_bytes()].concat(), &b"\xfe"[..]);
        let push = zq::push("q", format!("\"{payload}\"")).id(id).group(group).max_attempts(1);
        push.reply_as::<Vec<u8>>().query_async(&mut redis).await.expect("a push");
    }
    // The worker reads its recurring job when it connects.
    let push = zq::push("q", "\"old\"").id("report").group(&b"\xfe"[..]).delay("1d");
    push.query_async(&mut redis).await.expect("a push");
    let log = Log::default();
    let worker = Worker::new(client(&server), "q", async |job: Job<String>| -> Result<(), Failure> {
        assert_eq!(job.id_bytes(), [b"\xff\0", job.payload.as_bytes()].concat());
        assert!(job.progress("half").await?, "the worker holds the job");
        match job.payload.as_str() {
            "fails" => Err("no luck")?,
            "stops" => Err(Discard("never".into()))?,
            _ => Ok(()),
        }
    });
    let cron = Cron::new("report", "0 3 * * *", "UTC").expect("a time");
    let run = worker.cron(cron).on_event(log.listener()).run_burst();
    tokio::time::timeout(PATIENCE, run).await.expect("the worker has done all jobs").expect("a run");
    let mut lines = log.lines();
    lines.sort();
    let id = |event: &str, name: &str| format!("{event} \\xff\\x00{name}");
    let expected =
        [("completed", "ok"), ("dead", "fails"), ("dead", "stops"), ("discarded", "stops"), ("failed", "fails")];
    assert_eq!(lines, expected.map(|(event, name)| id(event, name)));
    let job = zq::get("q", &b"\xff\0fails"[..]).reply_as::<Option<zq::Job<Vec<u8>>>>();
    let job = job.query_async(&mut redis).await.expect("a reply").expect("a job");
    assert_eq!((&*job.state, job.group.as_deref()), ("dead", Some(&b"\xfe"[..])));
    assert_eq!(job.error.as_deref(), Some(&b"Error: no luck"[..]));
}

#[tokio::test]
async fn the_next_attempt_reads_the_progress_of_the_last_one() {
    let server = Server::start();
    let queue = queue(&server).await;
    queue.push(&"x".into()).id("long").await.expect("a push");
    let (told, mut tells) = mpsc::unbounded_channel();
    let worker = Worker::new(client(&server), "q", move |job: Job<String>| {
        let told = told.clone();
        async move {
            told.send(job.last_progress().await?).expect("the test waits");
            if job.attempt() > 1 {
                return Ok(());
            }
            let error = job.progress(&"x".repeat(1025)).await.expect_err("too long");
            assert_eq!(error.code(), Some(&Code::Err));
            assert!(job.progress("page 7").await?, "the worker holds the job");
            Err::<(), Failure>(Retry::after(0).into())
        }
    });
    tokio::time::timeout(PATIENCE, worker.run_burst()).await.expect("two runs").expect("a run");
    assert_eq!((tells.recv().await, tells.recv().await), (Some(None), Some(Some("page 7".into()))));
}

#[tokio::test]
async fn weights_share_the_worker_and_starve_no_queue() {
    let server = Server::start();
    let weights = [("high", 6_u8), ("middle", 3), ("low", 1)];
    for (name, _) in weights {
        let queue = Queue::<_, String>::new(connect(&server).await, name);
        queue.push_many((0..100).map(|_| queue.push(&String::new()))).await.expect("pushes");
    }
    let order = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&order);
    let handler = move |job: Job<String>| {
        seen.lock().expect("no panic").push(job.queue().to_owned());
        async { Ok::<(), Failure>(()) }
    };
    let worker = Worker::new(client(&server), "high", handler.clone()).and("middle", handler.clone());
    let worker = worker.and("low", handler.clone()).concurrency(1);
    worker.weights(weights.map(|(name, weight)| (name, f64::from(weight)))).run_burst().await.expect("a run");
    let order = order.lock().expect("no panic").clone();
    assert_eq!(order.len(), 300);
    for (name, weight) in weights {
        let count = order.iter().take(100).filter(|queue| *queue == name).count();
        assert!(count.abs_diff(10 * usize::from(weight)) <= 2, "{count} of the first 100 jobs are of {name}");
    }
    for wrong in [vec![("high", 1.0)], vec![("q", 0.0)], vec![("q", f64::NAN)], vec![("q", 1.0), ("r", 1.0)]] {
        let worker = Worker::new(client(&server), "q", handler.clone()).weights(wrong);
        assert!(matches!(worker.run_burst().await, Err(Error::Argument(_))));
    }
}

#[tokio::test]
async fn no_more_jobs_run_than_the_concurrency_and_all_of_them_do() {
    let server = Server::start();
    let queue = queue(&server).await;
    let payloads = vec![String::new(); 200];
    queue.push_many(payloads.iter().map(|payload| queue.push(payload))).await.expect("pushes");
    let (now, most, all) =
        (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let counts = (Arc::clone(&now), Arc::clone(&most), Arc::clone(&all));
    let worker = Worker::new(client(&server), "q", move |_: Job<String>| {
        let (now, most, all) = counts.clone();
        async move {
            most.fetch_max(now.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
            tokio::task::yield_now().await;
            now.fetch_sub(1, Ordering::SeqCst);
            all.fetch_add(1, Ordering::SeqCst);
            Ok::<(), Failure>(())
        }
    });
    worker.concurrency(7).run_burst().await.expect("a run");
    assert_eq!((all.load(Ordering::SeqCst), most.load(Ordering::SeqCst)), (200, 7));
    let stats = queue.stats().await.expect("a reply").expect("a queue");
    assert_eq!((stats.get("acked"), stats.get("claimed_total")), (Some(200), Some(200)));
}

#[tokio::test]
async fn a_waiting_worker_gets_a_job_at_once_and_stops_gracefully() {
    let server = Server::start();
    let queue = queue(&server).await;
    let (seen, mut seeing) = mpsc::unbounded_channel();
    let (release, released) = watch::channel(false);
    let worker = Worker::new(client(&server), "q", move |job: Job<String>| {
        let (seen, mut released) = (seen.clone(), released.clone());
        async move {
            seen.send(job.id().to_owned()).expect("the test waits");
            if job.payload == "slow" {
                released.wait_for(|released| *released).await.expect("the test lives");
            }
            Ok::<(), Failure>(())
        }
    });
    let log = Log::default();
    let worker = worker.on_event(log.listener());
    let mut handle = worker.handle();
    assert_eq!(handle.state(), State::New);
    let running = tokio::spawn(worker.run());
    handle.wait_for(State::Running).await;
    let waiting = async |clients| {
        until("claims wait", async || server.client().info_number("clients", "blocked_clients") == clients).await;
    };
    waiting(1).await;
    queue.push(&"slow".into()).id("a").await.expect("a push");
    assert_eq!(seeing.recv().await.as_deref(), Some("a"));
    // The next claim waits already. The worker ends its wait when it stops.
    waiting(1).await;
    handle.stop();
    handle.wait_for(State::Stopping).await;
    waiting(0).await;
    queue.push(&"quick".into()).id("b").await.expect("a push");
    release.send(true).expect("the handler waits");
    running.await.expect("no panic").expect("a run");
    assert_eq!(handle.state(), State::Stopped);
    assert_eq!(log.lines(), ["completed a"], "a worker that stops claims no more jobs");
    assert_eq!(queue.stats().await.expect("a reply").expect("a queue").get("ready"), Some(1));
}

#[tokio::test]
async fn unfinished_jobs_are_released_when_the_grace_is_over() {
    let server = Server::start();
    let queue = queue(&server).await;
    for id in ["hangs", "done"] {
        queue.push(&id.into()).id(id).await.expect("a push");
    }
    let (seen, mut seeing) = mpsc::unbounded_channel();
    let worker = Worker::new(client(&server), "q", move |job: Job<String>| {
        let seen = seen.clone();
        async move {
            if job.id() == "done" {
                job.done();
            }
            seen.send(()).expect("the test waits");
            std::future::pending::<Result<(), Failure>>().await
        }
    });
    let log = Log::default();
    let worker = worker.on_event(log.listener());
    let handle = worker.handle();
    let running = tokio::spawn(worker.run());
    for _ in 0..2 {
        seeing.recv().await.expect("both jobs run");
    }
    handle.stop();
    handle.stop();
    running.await.expect("no panic").expect("a run");
    let mut lines = log.lines();
    lines.sort();
    assert_eq!(lines, ["completed done", "released hangs"], "a second stop ends the grace");
    let job = queue.get("hangs", None).await.expect("a reply").expect("a job").job;
    assert_eq!((job.state.as_str(), job.attempts), ("ready", 0), "the attempt does not count");
}

#[tokio::test]
async fn heartbeats_keep_a_lease_and_a_lost_lease_cancels_the_handler() {
    let server = Server::start();
    let queue = queue(&server).await;
    queue.push(&"x".into()).id("a").await.expect("a push");
    let (seen, mut seeing) = mpsc::unbounded_channel();
    let worker = Worker::new(client(&server), "q", move |job: Job<String>| {
        let seen = seen.clone();
        async move {
            seen.send(job.info()).expect("the test waits");
            std::future::pending::<Result<(), Failure>>().await
        }
    });
    let log = Log::default();
    let worker = worker.lease("600ms").on_event(log.listener()).concurrency(1);
    let handle = worker.handle();
    let running = tokio::spawn(worker.run());
    let job = seeing.recv().await.expect("the job runs");
    let first = job.deadline_ms();
    until("heartbeats extend the lease", async || job.deadline_ms() > first + 600).await;
    assert_eq!(job.check(), Ok(()));
    // Another client ends the claim.
    assert_eq!(queue.cancel(["a"]).await.expect("a reply"), 1);
    log.has("lost a").await;
    assert!(job.check().is_err());
    queue.push(&"y".into()).id("b").await.expect("a push");
    assert_eq!(seeing.recv().await.expect("the slot of the lost job is free").id(), "b");
    handle.stop_within(0);
    running.await.expect("no panic").expect("a run");
    assert_eq!(log.lines(), ["lost a", "released b"]);
}

#[tokio::test]
async fn a_handler_that_was_done_is_acknowledged_although_its_lease_was_lost() {
    let mut server = Server::builder().keeping_aof().start();
    queue(&server).await.push(&"x".into()).id("a").await.expect("a push");
    let proxy = Proxy::start(&server).await;
    let (seen, mut seeing) = mpsc::unbounded_channel();
    let (release, released) = watch::channel(false);
    let worker = Worker::new(proxy.client(), "q", move |job: Job<String>| {
        let (seen, mut released) = (seen.clone(), released.clone());
        async move {
            job.done();
            seen.send(job.info()).expect("the test waits");
            released.wait_for(|released| *released).await.expect("the test lives");
            Ok::<(), Failure>(())
        }
    });
    let log = Log::default();
    let worker = worker.lease("600ms").on_event(log.listener());
    let handle = worker.handle();
    let running = tokio::spawn(worker.run());
    seeing.recv().await.expect("the job runs");
    server.kill();
    log.has("lost a").await;
    release.send(true).expect("the handler waits");
    server.crash_and_restart();
    proxy.follow(&server);
    log.has("completed a").await;
    handle.stop();
    running.await.expect("no panic").expect("a run");
}

#[tokio::test]
async fn a_worker_reconnects_and_repeats_what_was_not_confirmed() {
    let mut server = Server::builder().keeping_aof().start();
    let queue = queue(&server).await;
    queue.push(&"x".into()).id("a").await.expect("a push");
    let proxy = Proxy::start(&server).await;
    let (seen, mut seeing) = mpsc::unbounded_channel();
    let (release, released) = watch::channel(false);
    let worker = Worker::new(proxy.client(), "q", move |job: Job<String>| {
        let (seen, mut released) = (seen.clone(), released.clone());
        async move {
            seen.send(job.attempt()).expect("the test waits");
            released.wait_for(|released| *released).await.expect("the test lives");
            Ok::<(), Failure>(())
        }
    });
    let log = Log::default();
    let worker = worker.on_event(log.listener());
    let mut handle = worker.handle();
    let running = tokio::spawn(worker.run());
    seeing.recv().await.expect("the job runs");
    server.kill();
    handle.wait_for(State::Reconnecting).await;
    release.send(true).expect("the handler waits");
    server.crash_and_restart();
    proxy.follow(&server);
    log.has("completed a").await;
    handle.stop();
    running.await.expect("no panic").expect("a run");
    assert_eq!(log.lines(), ["completed a"]);
    assert!(seeing.recv().await.is_none(), "the job ran once");
}

#[tokio::test]
async fn a_permanent_error_stops_the_worker() {
    let server = Server::start();
    server.client().run("SET q x");
    let worker = Worker::new(client(&server), "q", async |_: Job<String>| Ok::<(), Failure>(()));
    let error = worker.run().await.expect_err("the key holds a string");
    assert_eq!(error.code(), Some(&zeitset_client::Code::WrongType));
    let worker = Worker::new(client(&server), "jobs", async |_: Job<String>| Ok::<(), Failure>(()));
    let run = worker.name("x".repeat(256)).run();
    let error = tokio::time::timeout(PATIENCE, run).await.expect("it does not reconnect").expect_err("a long name");
    assert_eq!(error.code(), Some(&Code::Err));
    let plain = Server::builder().plain().start();
    let worker = Worker::new(client(&plain), "q", async |_: Job<String>| Ok::<(), Failure>(()));
    let stopped = worker.handle();
    stopped.stop();
    worker.run().await.expect("a worker that was stopped before returns at once");
}

#[tokio::test]
async fn a_worker_reconnects_after_an_unknown_error_code() {
    let server = Server::start();
    let queue = queue(&server).await;
    let proxy = Proxy::start(&server).await;
    let worker = Worker::new(proxy.client(), "q", async |_: Job<String>| Ok::<(), Failure>(()));
    let (told, mut tells) = mpsc::unbounded_channel();
    let log = Log::default();
    let listener = log.listener();
    let worker = worker.lease("3s").on_event(move |event| match event {
        Event::Disconnected(error) => drop(told.send(error)),
        event => listener(event),
    });
    let mut handle = worker.handle();
    let running = tokio::spawn(worker.run());
    handle.wait_for(State::Running).await;
    proxy.set(UPSTREAM);
    let error = tells.recv().await.expect("the worker lives");
    assert_eq!(error.code().map(Code::as_str), Some("upstream"));
    proxy.set(PASS);
    queue.push(&"x".into()).id("a").await.expect("a push");
    log.has("completed a").await;
    handle.stop();
    running.await.expect("no panic").expect("a run");
}

#[tokio::test]
async fn a_refused_command_is_repeated() {
    let server = Server::start();
    let queue = queue(&server).await;
    queue.push(&"x".into()).id("a").await.expect("a push");
    let mut redis = server.client();
    redis.run("CONFIG SET min-replicas-to-write 1");
    let refused = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&refused);
    let worker = Worker::new(client(&server), "q", async |_: Job<String>| Ok::<(), Failure>(()));
    let worker = worker.on_event(move |event| {
        if let Event::Refused(error) = event {
            assert_eq!(error.code().map(zeitset_client::Code::as_str), Some("NOREPLICAS"));
            count.fetch_add(1, Ordering::SeqCst);
        }
    });
    let handle = worker.handle();
    let running = tokio::spawn(worker.run());
    until("the claim is refused twice", async || refused.load(Ordering::SeqCst) > 1).await;
    redis.run("CONFIG SET min-replicas-to-write 0");
    until("the job is done", async || queue.stats().await.expect("a reply").expect("a queue").get("acked") == Some(1))
        .await;
    handle.stop();
    running.await.expect("no panic").expect("a run");
}

#[tokio::test]
async fn a_chained_push_and_the_ack_are_one_transaction() {
    let server = Server::start();
    let queue = queue(&server).await;
    queue.push(&"x".into()).id("a").await.expect("a push");
    queue.push(&"y".into()).id("b").max_attempts(1).await.expect("a push");
    server.client().run("SET text x");
    let next = Queue::<_, String>::new(connect(&server).await, "next");
    let log = Log::default();
    let worker = Worker::new(client(&server), "q", move |job: Job<String>| {
        let next = next.clone();
        async move {
            if job.id() == "a" {
                job.chain(next.push(&job.payload).id(format!("{}:next", job.id())).into_cmd()?)?;
            } else {
                job.chain(redis::cmd("NO.SUCH.COMMAND").arg("text").take())?;
            }
            Ok::<(), Failure>(())
        }
    });
    worker.on_event(log.listener()).run_burst().await.expect("a run");
    let mut lines = log.lines();
    lines.sort();
    assert_eq!(lines, ["completed a", "dead b", "failed b"], "the server refused a chained command");
    assert_eq!(server.client().ids("ZQ.PEEK next"), ["a:next"]);
}

#[tokio::test]
async fn a_recurring_job_has_one_next_run() {
    let server = Server::start();
    let queue = queue(&server).await;
    let mut redis = connect(&server).await;
    let runs = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&runs);
    let cron = || {
        let cron = Cron::new("report", "0 3 * * *", "Europe/Berlin").expect("a job").max_attempts(1);
        cron.payload(&"nightly").expect("a payload")
    };
    let worker = Worker::new(client(&server), "q", move |job: Job<String>| {
        assert_eq!(job.payload, "nightly");
        // The second run fails. As it was the last attempt, the worker drops it.
        let has_failed = count.fetch_add(1, Ordering::SeqCst) == 1;
        async move { if has_failed { Err("no luck") } else { Ok(()) } }
    });
    let worker = worker.cron(cron());
    let handle = worker.handle();
    let running = tokio::spawn(worker.run());
    let due =
        async || queue.get("report", None).await.expect("a reply").map(|found| (found.job.state, found.job.due_ms));
    until("the worker has pushed the job", async || due().await.is_some()).await;
    let now = i64::try_from(due().await.expect("a job").1).expect("a time") - 1;
    let expected = cron().next(now - 86_400_000).map(i64::unsigned_abs);
    for run in 1..=2 {
        assert!(zq::reschedule("q", "report").delay(0).query_async(&mut redis).await.expect("a reply"));
        until("the next run waits", async || {
            runs.load(Ordering::SeqCst) == run && due().await.is_some_and(|(state, _)| state == "delayed")
        })
        .await;
        let (_, at) = due().await.expect("a job");
        assert!(expected.is_some_and(|expected| at >= expected), "{at} {expected:?}");
    }
    handle.stop();
    running.await.expect("no panic").expect("a run");
    assert!(Cron::new("never", "0 0 30 2 *", "UTC").is_err());
}

#[tokio::test]
async fn a_recurring_run_that_ends_its_process_each_time_is_given_up() {
    let server = Server::start();
    let queue = queue(&server).await;
    let mut redis = connect(&server).await;
    queue.push(&"x".into()).id("killer").max_attempts(0).await.expect("a push");
    let job = async || queue.get("killer", None).await.expect("a reply").expect("a job").job;
    for attempt in 1..=2 {
        // A worker claims the run, and its process ends. Its lease expires.
        let claims = zq::claim(["q"], "1ms").query_async(&mut redis).await.expect("a claim");
        assert_eq!((claims.len(), claims[0].attempt), (1, attempt));
        until("the lease has expired", async || job().await.state == "ready").await;
    }
    let log = Log::default();
    let ran = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&ran);
    let worker = Worker::new(client(&server), "q", move |_: Job<String>| {
        count.fetch_add(1, Ordering::SeqCst);
        async { Ok::<(), Failure>(()) }
    });
    let cron = Cron::new("killer", "0 0 1 1 *", "UTC").expect("a time").max_attempts(2);
    worker.cron(cron).on_event(log.listener()).run_burst().await.expect("a run");
    assert_eq!((log.lines(), ran.load(Ordering::SeqCst)), (vec!["discarded killer".to_owned()], 0));
    let next = job().await;
    assert_eq!((next.state.as_str(), next.attempts), ("delayed", 0), "the next run waits");
}

/// What a version of a program says about its recurring job.
#[derive(Clone, Copy)]
struct Definition {
    expression: &'static str,
    payload: &'static str,
    priority: i32,
    group: Option<&'static str>,
    queue: &'static str,
}

impl Definition {
    const FIRST: Self = Self { expression: "0 3 1 1 *", payload: "old", priority: 1, group: None, queue: "first" };

    fn cron(self) -> Cron {
        let cron =
            Cron::new("report", self.expression, "UTC").expect("a job").payload(&self.payload).expect("a payload");
        let cron = cron.priority(self.priority).queue(self.queue);
        self.group.map_or(cron.clone(), |group| cron.group(group))
    }
}

type Jobs = Queue<redis::aio::MultiplexedConnection, String>;

async fn waiting_runs(shards: &[Jobs]) -> Vec<(String, i64, Option<String>, u64)> {
    let mut runs = Vec::new();
    for shard in shards {
        let found = shard.get("report", None).await.expect("a reply");
        runs.extend(found.map(|it| (it.payload.expect("text"), it.job.priority, it.job.group, it.job.due_ms)));
    }
    runs
}

#[tokio::test]
async fn a_deploy_takes_effect_at_the_next_run_next_to_the_old_process() {
    const OLD: Definition = Definition::FIRST;
    let cases = [
        (OLD, Definition { payload: "new", ..OLD }, 1),
        (OLD, Definition { priority: 0, ..OLD }, 1),
        (OLD, Definition { group: Some("bloom"), ..OLD }, 1),
        (OLD, Definition { expression: "0 4 2 1 *", payload: "new", ..OLD }, 1),
        // With shards, another group means another shard.
        (Definition { group: Some("acme"), ..OLD }, Definition { group: Some("bloom"), ..OLD }, 8),
        (OLD, Definition { queue: "second", payload: "new", ..OLD }, 1),
        (OLD, Definition { queue: "second", payload: "new", ..OLD }, 3),
    ];
    for (nth, (old, new, shards)) in cases.into_iter().enumerate() {
        let server = Server::start();
        let mut queues = Vec::new();
        for name in ["first", "second"] {
            queues.extend(Jobs::with_shards(connect(&server).await, name, shards).expect("a queue").shards());
        }
        let runs = Arc::new(Mutex::new(Vec::new()));
        let start = |definition: Definition| {
            let [mine, theirs] = [Arc::clone(&runs), Arc::clone(&runs)];
            let note = |runs: Arc<Mutex<Vec<String>>>| {
                move |job: Job<String>| {
                    runs.lock().expect("no panic").push(job.payload.clone());
                    async { Ok::<(), Error>(()) }
                }
            };
            let worker = Worker::new(client(&server), "first", note(mine)).and("second", note(theirs));
            let worker = worker.shards(shards).cron(definition.cron());
            (worker.handle(), tokio::spawn(worker.run()))
        };
        let cron = new.cron();
        let is_new = async || {
            let now = server.client().now();
            let due = cron.next(now).expect("a time").unsigned_abs();
            let expected = (new.payload.into(), new.priority.into(), new.group.map(String::from), due);
            waiting_runs(&queues).await == [expected]
        };
        let first = start(old);
        until("the old process has pushed it", async || !waiting_runs(&queues).await.is_empty()).await;
        let second = start(new);
        until("the new process has replaced it", is_new).await;
        for queue in &queues {
            queue.reschedule("report", None, |call| call.delay(0)).await.expect("a reply");
        }
        until("it has run", async || !runs.lock().expect("no panic").is_empty()).await;
        for (handle, running) in [first, second] {
            handle.stop();
            running.await.expect("no panic").expect("a run");
        }
        let (handle, running) = start(new);
        until("the next run waits", is_new).await;
        handle.stop();
        running.await.expect("no panic").expect("a run");
        assert_eq!(*runs.lock().expect("no panic"), [new.payload], "case {nth}");
    }
}

#[tokio::test]
async fn shards_and_several_queues_share_one_worker() {
    let server = Server::start();
    let sharded = Queue::<_, u32>::with_shards(connect(&server).await, "s", 5).expect("a queue");
    let jobs: Vec<u32> = (0..50).collect();
    sharded.push_many(jobs.iter().map(|n| sharded.push(n))).await.expect("pushes");
    let other = Queue::<_, u32>::with_shards(connect(&server).await, "t", 5).expect("a queue");
    other.push(&7).await.expect("a push");
    let sum = Arc::new(AtomicUsize::new(0));
    let add = |sum: &Arc<AtomicUsize>, times: usize| {
        let sum = Arc::clone(sum);
        move |job: Job<u32>| {
            let sum = Arc::clone(&sum);
            async move {
                assert!(["s", "t"].contains(&job.queue()), "a job has the name of the queue");
                sum.fetch_add(times * usize::try_from(job.payload)?, Ordering::SeqCst);
                Ok::<(), Failure>(())
            }
        }
    };
    let worker = Worker::new(client(&server), "s", add(&sum, 1)).and("t", add(&sum, 1000));
    worker.shards(5).run_burst().await.expect("a run");
    assert_eq!(sum.load(Ordering::SeqCst), 1225 + 7000);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn in_a_cluster_a_worker_serves_all_slots_and_follows_a_moved_slot() {
    let cluster = Cluster::start();
    let url = format!("redis://127.0.0.1:{}", cluster.port(0));
    let redis = redis::cluster::ClusterClient::new([url.clone()]).expect("a client");
    let redis = redis.get_async_connection().await.expect("a connection");
    let queue = Queue::<_, u32>::with_shards(redis, "s", 6).expect("a queue");
    let sum = Arc::new(AtomicUsize::new(0));
    let seen = Arc::clone(&sum);
    let worker = Worker::new(Place::cluster([url]).expect("a cluster"), "s", move |job: Job<u32>| {
        let seen = Arc::clone(&seen);
        async move {
            seen.fetch_add(usize::try_from(job.payload)?, Ordering::SeqCst);
            Ok::<(), Failure>(())
        }
    });
    let worker = worker.shards(6).concurrency(3);
    let mut handle = worker.handle();
    let running = tokio::spawn(worker.run());
    handle.wait_for(State::Running).await;
    let push = async |n: u32| {
        let jobs = [n; 30];
        queue.push_many(jobs.iter().map(|job| queue.push(job))).await.expect("pushes");
    };
    push(1).await;
    until("all shards are served", async || sum.load(Ordering::SeqCst) == 30).await;
    let key = queue.key("x").to_owned();
    let (slot, from) = (cluster.slot(&key), cluster.home(&key));
    tokio::task::block_in_place(|| cluster.move_slot(slot, from, (from + 1) % 3));
    push(10).await;
    until("the moved shard is served, too", async || sum.load(Ordering::SeqCst) == 330).await;
    handle.stop();
    running.await.expect("no panic").expect("a run");
}

/// A claim in flight keeps room for its jobs. The timer of an earlier claim must not give this room to another slot, or
/// the worker gets more jobs than it may run.
#[tokio::test(start_paused = true)]
async fn the_room_of_a_claim_is_not_given_away_by_an_earlier_one() {
    // While this task blocks its thread, the clock of tokio stands still.
    let (done, ends) = std::sync::mpsc::channel::<()>();
    let frozen = tokio::task::spawn_blocking(move || ends.recv_timeout(PATIENCE));
    let server = Server::builder().cluster().start();
    let proxy = Proxy::start(&server).await;
    let mut admin = server.client();
    admin.run("CLUSTER ADDSLOTSRANGE 0 16383");
    admin.run(&format!("CONFIG SET cluster-announce-port {}", proxy.port()));
    eventually(PATIENCE, "the cluster is up", || admin.info_of("CLUSTER INFO")["cluster_state"] == "ok");
    let push = |client: &mut testkit::Client, key: &str, id: &str| {
        client.run(&format!("ZQ.PUSH {key} \"{id}\" ID {id}"));
    };
    for id in ["a1", "a2", "a3"] {
        push(&mut admin, "{s:0}", id);
    }
    let (seen, mut seeing) = mpsc::unbounded_channel();
    let (release, released) = watch::channel(0);
    let place = Place::cluster([format!("redis://127.0.0.1:{}", proxy.port())]).expect("a cluster");
    let worker = Worker::new(place, "s", move |job: Job<Raw>| {
        let (seen, mut released) = (seen.clone(), released.clone());
        async move {
            seen.send(job.id().to_owned()).expect("the test waits");
            let stage = if job.id() == "a1" { 1 } else { 2 };
            released.wait_for(|released| *released >= stage).await.expect("the test lives");
            Ok::<(), Failure>(())
        }
    });
    let log = Log::default();
    let worker = worker.shards(2).concurrency(2).on_event(log.listener());
    let scenario = async {
        let running = tokio::spawn(worker.run_burst());
        let mut first = [seeing.recv().await, seeing.recv().await];
        first.sort();
        assert_eq!(first.map(Option::unwrap_or_default), ["a1", "a2"]);
        tokio::time::advance(Duration::from_millis(150)).await;
        proxy.hold("ZQ.CLAIM\r\n$1\r\n1\r\n$5\r\n{s:0}");
        release.send_replace(1);
        proxy.holds().await;
        push(&mut admin, "{s:1}", "b1");
        // The room was reserved 110 ms ago. A claim that has ended was sent 260 ms ago.
        tokio::time::advance(Duration::from_millis(110)).await;
        let mut redis = connect(&server).await;
        for _ in 0..100 {
            let _: String = redis::cmd("PING").query_async(&mut redis).await.expect("a reply");
        }
        proxy.release();
        assert_eq!(seeing.recv().await.as_deref(), Some("a3"), "the claim in flight has the room");
        release.send_replace(2);
        running.await.expect("no panic").expect("a run");
    };
    tokio::select! {
        () = scenario => drop(done),
        _ = frozen => panic!("not within {PATIENCE:?}"),
    }
    let mut lines = log.lines();
    lines.sort();
    assert_eq!(lines, ["completed a1", "completed a2", "completed a3", "completed b1"], "no job was surplus");
}

#[tokio::test]
async fn a_queue_with_a_backoff_decides_the_wait_itself() {
    let server = Server::start();
    let queue = queue(&server).await;
    queue.configure(|config| config.backoff("3h", "3h")).await.expect("settings");
    queue.push(&"x".into()).id("a").await.expect("a push");
    let worker =
        Worker::new(client(&server), "q", async |_: Job<String>| Err::<(), Error>(Error::Payload("no".into())));
    worker.run_burst().await.expect("a run");
    let job = queue.get("a", None).await.expect("a reply").expect("a job").job;
    assert_eq!(job.error.as_deref(), Some("Error: no"));
    let wait = job.due_ms - job.failed_ms.expect("a failure");
    assert_eq!(wait, 3 * 3_600_000);
    let _: () = connect(&server).await.del("q").await.expect("a reply");
}
