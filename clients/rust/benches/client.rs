//! What the crate costs: checks against bare commands of the crate redis, empty jobs, and the layer's own time.
//!
//! `cargo bench -p zeitset-client --all-features` measures all three on a server of its own. With the argument `checks`,
//! `jobs` or `layer` and a URL, it measures one of them on this server. Each line of the output has a name and a figure:
//! calls or jobs per second, a ratio, or nanoseconds. The parts of a ratio take turns, so that the load of the machine
//! changes both. `clients/bench/rust.sh` repeats the measurements, also with the worker in Python.

use axum::body::Body;
use axum::http::{Request, Response};
use serde_json::{Value, json};
use std::convert::Infallible;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};
use testkit::Server;
use tower::{Layer, ServiceExt, service_fn};
use zeitset_client::tower::{LimitLayer, by_path};
use zeitset_client::{Event, Job, Limiter, Queue, Worker};

const TASKS: usize = 64;
const CHECKS: usize = 200;
const ROUNDS: usize = 20;
const JOBS: usize = 10_000;
const REQUESTS: u32 = 20_000;

type Done = Result<(), Box<dyn std::error::Error + Send + Sync>>;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Done {
    // Cargo adds an argument that begins with a hyphen.
    let arguments: Vec<String> = std::env::args().skip(1).filter(|argument| !argument.starts_with('-')).collect();
    if let [part, url] = arguments.as_slice() {
        return measure(part, &redis::Client::open(url.as_str())?).await;
    }
    let server = Server::start();
    let client = redis::Client::open(server.url())?;
    for part in ["checks", "jobs", "layer"] {
        measure(part, &client).await?;
    }
    Ok(())
}

async fn measure(part: &str, client: &redis::Client) -> Done {
    match part {
        "checks" => checks(client).await,
        "jobs" => jobs(client).await,
        "layer" => layer(client).await,
        _ => Err(format!("expected checks, jobs or layer, not {part}").into()),
    }
}

/// Compares `Limiter::check` with the same command of the crate redis: many tasks on one connection. On a busy machine,
/// the ratio of the times that this thread has computed is the better one.
async fn checks(client: &redis::Client) -> Done {
    // On a busy machine, a reply may take longer than the time limits.
    let config = redis::AsyncConnectionConfig::new().set_response_timeout(None);
    let redis = client.get_multiplexed_async_connection_with_config(&config).await?;
    let limiter = Limiter::builder(redis.clone(), "checks", "1000000000/1h").timeout("1m").build()?;
    let mut times = [(Duration::ZERO, Duration::ZERO); 2];
    for round in 0..ROUNDS {
        // The parts take turns to be the first.
        let is_ours = (round + round / 2) % 2 == 0;
        let (start, begun) = (Instant::now(), computed());
        let tasks: Vec<_> = (0..TASKS)
            .map(|task| {
                let (limiter, mut redis) = (limiter.clone(), redis.clone());
                tokio::spawn(async move {
                    for _ in 0..CHECKS {
                        if is_ours {
                            assert!(limiter.check(&task.to_string(), 1).await.expect("a decision").allowed);
                        } else {
                            let mut check = redis::cmd("ZRL.CHECK");
                            check.arg(format!("bare:{task}")).arg(1_000_000_000).arg("3600000ms");
                            let reply: Vec<i64> = check.query_async(&mut redis).await.expect("a reply");
                            assert_eq!(reply[0], 1);
                        }
                    }
                })
            })
            .collect();
        for task in tasks {
            task.await?;
        }
        let (wall, thread) = &mut times[usize::from(is_ours)];
        *wall += start.elapsed();
        *thread += computed() - begun;
    }
    let rate = |time: Duration| (TASKS * CHECKS * ROUNDS / 2) as f64 / time.as_secs_f64();
    let [bare, ours] = times;
    println!("bare {:.0}\nlimiter {:.0}", rate(bare.0), rate(ours.0));
    println!("ratio {:.3}\nratio_of_thread {:.3}", rate(ours.0) / rate(bare.0), rate(ours.1) / rate(bare.1));
    Ok(())
}

/// Measures from the start of the first job to the end of the last one, as clients/bench/workers_python.py does.
async fn jobs(client: &redis::Client) -> Done {
    let queue = Queue::<_, Value>::new(client.get_connection_manager().await?, "jobs");
    let payloads: Vec<Value> = (0..JOBS).map(|number| json!({ "number": number })).collect();
    for part in payloads.chunks(500) {
        queue.push_many(part.iter().map(|payload| queue.push(payload))).await?;
    }
    let (begun, ended) = (Arc::new(OnceLock::new()), Arc::new(OnceLock::new()));
    let (first, last, completed) = (Arc::clone(&begun), Arc::clone(&ended), AtomicUsize::new(0));
    let worker = Worker::new(client.clone(), "jobs", move |_: Job<Value>| {
        first.get_or_init(Instant::now);
        async { Ok::<(), Infallible>(()) }
    });
    let worker = worker.concurrency(10).on_event(move |event| {
        if matches!(event, Event::Completed(_)) && completed.fetch_add(1, Ordering::Relaxed) == JOBS - 1 {
            last.get_or_init(Instant::now);
        }
    });
    worker.run_burst().await?;
    let (Some(begun), Some(ended)) = (begun.get(), ended.get()) else { return Err("the jobs have not run".into()) };
    println!("jobs {:.0}", JOBS as f64 / ended.duration_since(*begun).as_secs_f64());
    Ok(())
}

/// Measures the time that this thread computes for a request, with and without the layer. The limiter has units in
/// stock, so the layer calls no server.
async fn layer(client: &redis::Client) -> Done {
    let redis = client.get_multiplexed_async_connection().await?;
    let limiter = Limiter::builder(redis, "layer", "1000000000/1h").ahead(1_000_000_000).build()?;
    for _ in 0..40 {
        limiter.check("/", 1).await?;
    }
    let inner = service_fn(async |_: Request<Body>| Ok::<_, Infallible>(Response::new(Body::empty())));
    let outer = LimitLayer::new([limiter], by_path()).layer(inner);
    let request = || Request::new(Body::empty());
    let (mut without, mut with) = (Duration::ZERO, Duration::ZERO);
    for _ in 0..10 {
        let start = computed();
        for _ in 0..REQUESTS / 10 {
            inner.oneshot(request()).await?;
        }
        let between = computed();
        for _ in 0..REQUESTS / 10 {
            outer.clone().oneshot(request()).await?;
        }
        without += between - start;
        with += computed() - between;
    }
    println!("layer_ns {}", with.saturating_sub(without).as_nanos() / u128::from(REQUESTS));
    Ok(())
}

/// Returns how long this thread has run, without the time in which other threads had its processor.
fn computed() -> Duration {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").expect("Linux");
    Duration::from_nanos(text.split_whitespace().next().and_then(|ns| ns.parse().ok()).expect("a number"))
}
