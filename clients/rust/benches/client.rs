//! What the crate costs: checks against bare commands of the crate redis, empty jobs, and the layer's own time.
//!
//! `cargo bench -p zeitset-client --all-features`. Each figure is a ratio or a time of one run; the parts of a ratio take
//! turns, so that the load of the machine changes both. To compare workers, `python clients/bench/workers_python.py`
//! runs the same jobs.

use axum::body::Body;
use axum::http::{Request, Response};
use std::convert::Infallible;
use std::time::{Duration, Instant};
use testkit::Server;
use tower::{Layer, ServiceExt, service_fn};
use zeitset_client::tower::{LimitLayer, by_path};
use zeitset_client::{Job, Limiter, Queue, Worker};

const TASKS: usize = 64;
const CHECKS: usize = 200;
const JOBS: usize = 10_000;
const REQUESTS: u32 = 20_000;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    let server = Server::start();
    let client = redis::Client::open(server.url())?;
    checks(&client).await?;
    jobs(&client).await?;
    layer(&client).await
}

/// Compares `Limiter::check` with the same command of the crate redis: many tasks on one connection. On a busy machine,
/// the ratio of the times that this thread has computed is the better one.
async fn checks(client: &redis::Client) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    // On a busy machine, a reply may take longer than the time limits.
    let config = redis::AsyncConnectionConfig::new().set_response_timeout(None);
    let redis = client.get_multiplexed_async_connection_with_config(&config).await?;
    let limiter = Limiter::builder(redis.clone(), "checks", "1000000000/1h").timeout("1m").build()?;
    let mut times = [(Duration::ZERO, Duration::ZERO); 2];
    for round in 0..20 {
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
    let rate = |time: Duration| (TASKS * CHECKS * 10) as f64 / time.as_secs_f64();
    let [bare, ours] = times;
    println!("checks a second, {TASKS} tasks, one connection: bare {:.0}, limiter {:.0}", rate(bare.0), rate(ours.0));
    println!("ratio {:.2}, of the thread's time {:.2}", rate(ours.0) / rate(bare.0), rate(ours.1) / rate(bare.1));
    Ok(())
}

async fn jobs(client: &redis::Client) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    let queue = Queue::<_, u32>::new(client.get_connection_manager().await?, "jobs");
    let payloads: Vec<u32> = (0..u32::try_from(JOBS)?).collect();
    for part in payloads.chunks(500) {
        queue.push_many(part.iter().map(|n| queue.push(n))).await?;
    }
    let worker = Worker::new(client.clone(), "jobs", async |_: Job<u32>| Ok::<(), Infallible>(()));
    let start = Instant::now();
    worker.concurrency(10).run_burst().await?;
    let seconds = start.elapsed().as_secs_f64();
    println!("{JOBS} empty jobs, a worker of ten: {seconds:.2} s, {:.0} a second", JOBS as f64 / seconds);
    Ok(())
}

/// Measures the time that this thread computes for a request, with and without the layer. The limiter has units in
/// stock, so the layer calls no server.
async fn layer(client: &redis::Client) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
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
    println!("a request with the layer: {:?} more of the thread's time", (with - without) / REQUESTS);
    Ok(())
}

/// Returns how long this thread has run, without the time in which other threads had its processor.
fn computed() -> Duration {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").expect("Linux");
    Duration::from_nanos(text.split_whitespace().next().and_then(|ns| ns.parse().ok()).expect("a number"))
}
