//! A tour of Zeitset: tour [redis://localhost:6379]

use redis::AsyncCommands;
use redis::aio::MultiplexedConnection;
use std::time::Duration;
use zeitset_client::zlb::Ranking;
use zeitset_client::{Job, Limiter, Queue, Worker, zexp, zlb};

type Result<T> = std::result::Result<T, Box<dyn std::error::Error + Send + Sync>>;

#[tokio::main]
async fn main() -> Result<()> {
    let url = std::env::args().nth(1).unwrap_or("redis://localhost:6379".into());
    let client = redis::Client::open(url)?;
    let mut r = client.get_multiplexed_async_connection().await?;
    let () =
        r.del(&["tour:otp", "tour:seen", "tour:search:ann", "tour:knock:ann", "tour:mails", "tour:medals"]).await?;
    one_time_codes(&mut r).await?;
    seen_before(&mut r).await?;
    rate_limit(&r).await?;
    queue(client, &r).await?;
    leaderboard(&mut r).await
}

async fn one_time_codes(r: &mut MultiplexedConnection) -> Result<()> {
    println!("One-time codes: three at most, five minutes each");
    for code in ["493811", "882015", "120374", "700126"] {
        let stored = zexp::add("tour:otp", "5m", [code]).cap(3).query_async(r).await?;
        println!("  {code}: {}", if stored.is_some() { "stored" } else { "refused" });
    }
    for code in ["882015", "882015"] {
        // ZEXP.REM is the test. If two clients send the same code, only one of them removes it.
        let removed = zexp::rem("tour:otp", code).query_async(r).await?;
        println!("  {code}: {}", if removed == 1 { "right" } else { "wrong" });
    }
    Ok(())
}

async fn seen_before(r: &mut MultiplexedConnection) -> Result<()> {
    println!("Seen before? Remembered for 60 days");
    for message in ["message-4711", "message-4711"] {
        let is_new = zexp::add("tour:seen", "60d", [message]).nx().query_async(r).await? == Some(1);
        println!("  {message}: {}", if is_new { "new" } else { "seen" });
    }
    Ok(())
}

async fn rate_limit(r: &MultiplexedConnection) -> Result<()> {
    println!("Rate limit: five searches a minute");
    let search = Limiter::builder(r.clone(), "search", "5/1m").prefix("tour:").build()?;
    let mut decision = search.check("ann", 1).await?;
    while decision.allowed {
        println!("  allowed, {} remaining", decision.remaining());
        decision = search.check("ann", 1).await?;
    }
    println!("  denied");
    for (name, value) in decision.headers() {
        println!("    {name}: {value}");
    }
    let knock = Limiter::builder(r.clone(), "knock", "1/250ms").prefix("tour:").build()?;
    knock.check("ann", 1).await?;
    knock.wait("ann", 1, None).await?;
    println!("  allowed after the wait");
    Ok(())
}

async fn queue(client: redis::Client, r: &MultiplexedConnection) -> Result<()> {
    println!("Queue: by priority, delayed, one failure");
    let mails = Queue::<_, String>::new(r.clone(), "tour:mails");
    mails.push(&"welcome-ann".into()).id("mail:1").await?;
    mails.push(&"reminder-bob".into()).id("mail:2").delay("500ms").priority(10).await?;
    mails.push(&"password-eve".into()).id("mail:3").priority(-10).await?;
    let worker = Worker::new(client, "tour:mails", async |job: Job<String>| {
        if job.payload == "welcome-ann" && job.attempt() == 1 {
            println!("  {}: failed, returned", job.payload);
            return Err("the first attempt fails");
        }
        let again = if job.attempt() > 1 { format!(" at attempt {}", job.attempt()) } else { String::new() };
        println!("  {}: done{again}", job.payload);
        Ok(())
    });
    let worker = worker.concurrency(1).backoff(|_| Duration::ZERO);
    let handle = worker.handle();
    let running = tokio::spawn(worker.run());
    let stats = loop {
        let stats = mails.stats().await?.ok_or("the queue is gone")?;
        if stats.get("acked") == Some(3) {
            break stats;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    };
    handle.stop();
    running.await??;
    let total = |name| stats.get(name).unwrap_or_default();
    println!("  {} pushed, {} done, {} returned", total("pushed"), total("acked"), total("nacked"));
    Ok(())
}

async fn leaderboard(r: &mut MultiplexedConnection) -> Result<()> {
    println!("Leaderboard: gold, then silver, then bronze");
    zlb::create("tour:medals", ["gold", "silver", "bronze"]).query_async(r).await?;
    let medals = [("Japan", &[20, 12, 13]), ("USA", &[40, 44, 42]), ("China", &[40, 27, 24])];
    zlb::set("tour:medals", medals).query_async(r).await?;
    for entry in zlb::range("tour:medals", 0, -1).entries(Ranking::Position).query_async(r).await? {
        let numbers: Vec<_> = entry.values.iter().map(i64::to_string).collect();
        println!("  {} {} {}", entry.rank, entry.member, numbers.join(" "));
    }
    zlb::incr("tour:medals", "China", [("gold", 1)]).query_async(r).await?;
    let rank = zlb::rank("tour:medals", "China", Ranking::Position).query_async(r).await?;
    println!("  one more gold for China: rank {}", rank.unwrap_or_default());
    Ok(())
}
