//! A tour of Zeitset with redis-rs: `cargo run --example rust [redis://localhost:6379]`

mod zeitset;

use redis::{Client, Commands, Connection, FromRedisValue, RedisResult, Value, cmd};
use std::collections::HashMap;
use std::thread;
use zeitset::{Job, Retry, check, claim};

fn main() -> RedisResult<()> {
    let url = std::env::args().nth(1).unwrap_or("redis://localhost:6379".into());
    let client = Client::open(url)?;
    let mut r = client.get_connection()?;
    let () = r.del(&["tour:otp", "tour:seen", "tour:search", "tour:knock", "tour:mails", "tour:medals"])?;
    one_time_codes(&mut r)?;
    seen_before(&mut r)?;
    rate_limit(&mut r)?;
    queue(&client, &mut r)?;
    leaderboard(&mut r)
}

fn one_time_codes(r: &mut Connection) -> RedisResult<()> {
    println!("One-time codes: three at most, five minutes each");
    for code in ["493811", "882015", "120374", "700126"] {
        let stored: Option<u64> = cmd("ZEXP.ADD").arg("tour:otp").arg("CAP").arg(3).arg("5m").arg(code).query(r)?;
        println!("  {code}: {}", if stored.is_some() { "stored" } else { "refused" });
    }
    for code in ["882015", "882015"] {
        // ZEXP.REM is the test. If two clients send the same code, only one of them removes it.
        let removed: bool = cmd("ZEXP.REM").arg("tour:otp").arg(code).query(r)?;
        println!("  {code}: {}", if removed { "right" } else { "wrong" });
    }
    Ok(())
}

fn seen_before(r: &mut Connection) -> RedisResult<()> {
    println!("Seen before? Remembered for 60 days");
    for message in ["message-4711", "message-4711"] {
        let is_new: bool = cmd("ZEXP.ADD").arg("tour:seen").arg("NX").arg("60d").arg(message).query(r)?;
        println!("  {message}: {}", if is_new { "new" } else { "seen" });
    }
    Ok(())
}

fn rate_limit(r: &mut Connection) -> RedisResult<()> {
    println!("Rate limit: five searches a minute");
    let mut limit = check(r, "tour:search", 5, "1m")?;
    while limit.allowed {
        println!("  allowed, {} remaining", limit.remaining);
        limit = check(r, "tour:search", 5, "1m")?;
    }
    println!("  denied");
    for (name, value) in limit.headers("search", 60) {
        println!("    {name}: {value}");
    }
    check(r, "tour:knock", 1, "250ms")?;
    while let Retry::After(wait) = check(r, "tour:knock", 1, "250ms")?.retry_after {
        thread::sleep(wait);
    }
    println!("  allowed after the wait");
    Ok(())
}

fn worker(r: &mut Connection) -> RedisResult<()> {
    let mut done = 0;
    while done < 3 {
        let Some(job) = claim(r, "tour:mails", "30s", "10s")? else { continue };
        let Job { queue, id, token, attempt, payload, .. } = job;
        if payload == "welcome-ann" && attempt == 1 {
            let () = cmd("ZQ.NACK").arg(queue).arg(id).arg(token).query(r)?;
            println!("  {payload}: failed, returned");
        } else if cmd("ZQ.ACK").arg(queue).arg(id).arg(token).query(r)? {
            done += 1;
            let again = if attempt > 1 { format!(" at attempt {attempt}") } else { String::new() };
            println!("  {payload}: done{again}");
        }
    }
    Ok(())
}

fn queue(client: &Client, r: &mut Connection) -> RedisResult<()> {
    println!("Queue: by priority, delayed, one failure");
    let push = |payload: &str, id: &str| cmd("ZQ.PUSH").arg("tour:mails").arg(payload).arg("ID").arg(id).take();
    push("welcome-ann", "mail:1").exec(r)?;
    push("reminder-bob", "mail:2").arg("DELAY").arg("500ms").arg("PRIORITY").arg(10).exec(r)?;
    push("password-eve", "mail:3").arg("PRIORITY").arg(-10).exec(r)?;
    let mut connection = client.get_connection()?;
    thread::spawn(move || worker(&mut connection)).join().expect("the worker does not panic")?;
    let mut stats: HashMap<String, Value> = cmd("ZQ.STATS").arg("tour:mails").query(r)?;
    let mut total = |name: &str| u64::from_redis_value(stats.remove(name).unwrap_or_default());
    println!("  {} pushed, {} done, {} returned", total("pushed")?, total("acked")?, total("nacked")?);
    Ok(())
}

fn leaderboard(r: &mut Connection) -> RedisResult<()> {
    println!("Leaderboard: gold, then silver, then bronze");
    cmd("ZLB.CREATE").arg("tour:medals").arg(&["DIM", "gold", "DIM", "silver", "DIM", "bronze"]).exec(r)?;
    let medals = [("Japan", [20, 12, 13]), ("USA", [40, 44, 42]), ("China", [40, 27, 24])];
    let mut set = cmd("ZLB.SET");
    set.arg("tour:medals");
    for (country, numbers) in medals {
        set.arg(country).arg(&numbers);
    }
    set.exec(r)?;
    let rows: Vec<(String, u64, u64, u64)> =
        cmd("ZLB.RANGE").arg("tour:medals").arg(0).arg(-1).arg("WITHVALUES").query(r)?;
    for (rank, (country, gold, silver, bronze)) in rows.iter().enumerate() {
        println!("  {rank} {country} {gold} {silver} {bronze}");
    }
    cmd("ZLB.INCR").arg("tour:medals").arg("China").arg("gold").arg(1).exec(r)?;
    let rank: u64 = cmd("ZLB.RANK").arg("tour:medals").arg("China").query(r)?;
    println!("  one more gold for China: rank {rank}");
    Ok(())
}
