//! `make top` shows what is there, and does not burden the server with finding it out.

use crate::support::{Client, PATIENCE, Program, Server, eventually, example, start};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};

/// One picture as text.
fn top(server: &Server) -> String {
    let (host, port) = server.address();
    let url = format!("redis://{host}:{port}");
    Program::output(Command::new(example("top")).args([&url, "--once", "--interval", "0.2"]))
}

/// The words of the line that begins with `first`.
#[track_caller]
fn words<'a>(picture: &'a str, first: &str) -> Vec<&'a str> {
    let line = picture.lines().find(|line| line.split_whitespace().next() == Some(first));
    line.unwrap_or_else(|| panic!("{first} is missing:\n{picture}")).split_whitespace().collect()
}

/// The number before `unit` in the line that begins with `first`.
#[track_caller]
fn figure(picture: &str, first: &str, unit: &str) -> f64 {
    let words = words(picture, first);
    let pair = words.windows(2).find(|pair| pair[1].trim_end_matches(',') == unit);
    pair.and_then(|pair| pair[0].parse().ok()).unwrap_or_else(|| panic!("no {unit} in {words:?}"))
}

#[test]
fn the_numbers_are_those_of_the_server() {
    let (server, mut c) = start();
    c.run("ZEXP.ADD otp 1h a 2h b");
    c.run("ZRL.CHECK limit 3 1h COST 3");
    c.run("ZRL.CHECK limit 3 1h");
    c.run("ZRL.CHECK limit 3 1h");
    for n in 0..4 {
        c.run(&format!("ZQ.PUSH mails payload ID {n}"));
    }
    c.run("ZQ.PUSH mails later DELAY 5h");
    c.run("ZQ.PUSH mails dead ID dead PRIORITY -1");
    let token = token_of_claim(&mut c, "ZQ.CLAIM 1 mails LEASE 1h");
    assert_eq!(c.reply(&format!("ZQ.NACK mails dead {token} DEAD")), "1");
    c.run("ZQ.CLAIM 1 mails LEASE 10h");
    c.run("ZQ.PUSH reports yearly DELAY 365d");
    c.run("CONFIG SET slowlog-log-slower-than 0");
    c.run("ZQ.CONFIG mails AGING 5s");
    c.run("CONFIG SET slowlog-log-slower-than -1");
    let mut waiting = server.client();
    let waiter = std::thread::spawn(move || waiting.run("ZQ.CLAIM 1 empty LEASE 1s BLOCK 10m"));
    eventually(PATIENCE, "a client waits", || c.info_number("zeitset", "zeitset_clients_waiting") == 1);

    let picture = top(&server);
    let totals = words(&picture, "limits").join(" ");
    assert!(totals.ends_with("1 allowed, 2 denied in all"), "{totals}");
    assert_eq!(figure(&picture, "limits", "allowed/s"), 0.0);
    assert_eq!(figure(&picture, "sets", "tracked"), 1.0);
    assert_eq!(figure(&picture, "sets", "overdue"), 0.0);
    assert_eq!(figure(&picture, "queues", "clients"), 1.0, "one waits");
    assert_eq!(figure(&picture, "server", "blocked"), 1.0);
    assert!(words(&picture, "queues").join(" ").ends_with("2 claims in all"));
    // READY DELAYED CLAIMED DEAD PUSH/S ACK/S
    assert_eq!(words(&picture, "mails")[1..7], ["3", "1", "1", "1", "0", "0"]);
    let next = words(&picture, "mails")[9..].join(" ");
    assert!(next.starts_with("due in 4h 5"), "the delayed job comes before the lease's end: {next}");
    assert_eq!(words(&picture, "reports")[1..5], ["0", "1", "0", "0"]);
    assert_eq!(words(&picture, "ZRL.CHECK")[1..3], ["0", "3"], "calls a second, calls");
    assert!(picture.contains("ZQ.CONFIG mails AGING 5s"), "the slow command:\n{picture}");

    c.run("ZQ.PUSH empty payload");
    waiter.join().expect("the waiting client gets its job");
}

fn token_of_claim(c: &mut Client, claim: &str) -> i64 {
    let jobs: Vec<(String, String, i64, i64, i64, String)> = redis::from_redis_value(c.run(claim)).expect("jobs");
    jobs[0].2
}

#[test]
fn rates_are_what_happens_meanwhile() {
    let (server, _) = start();
    // Built before the load begins.
    example("top");
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut c = server.client();
            while !done.load(Ordering::Relaxed) {
                c.run("ZRL.CHECK limit 1000000000 1h");
                c.run("ZRL.CHECK small 1 1h");
                c.run("ZQ.PUSH mails payload");
            }
        });
        let mut c = server.client();
        // The load ends also when the view fails.
        let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            eventually(PATIENCE, "the load has begun", || c.int("EXISTS mails") == 1);
            // On a busy machine, nothing may have happened between two samples; not so always.
            eventually(PATIENCE, "rates above zero", || rates(&top(&server)).iter().all(|&rate| rate > 0.0));
        }));
        done.store(true, Ordering::Relaxed);
        outcome.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
    });
}

fn rates(picture: &str) -> Vec<f64> {
    let units = [("limits", "allowed/s"), ("limits", "denied/s"), ("limits", "units/s"), ("server", "commands/s")];
    let mut rates: Vec<_> = units.iter().map(|(first, unit)| figure(picture, first, unit)).collect();
    // Pushes a second of the queue, calls a second of the command.
    rates.extend(
        [words(picture, "mails")[5], words(picture, "ZQ.PUSH")[1]].map(|word| word.parse::<f64>().expect("a rate")),
    );
    rates
}

#[test]
fn a_large_keyspace_is_searched_little_by_little() {
    let (server, mut c) = start();
    c.run("DEBUG POPULATE 100000");
    let picture = top(&server);
    assert!(picture.contains("% of keys seen)"), "{picture}");
    let calls = c.info("commandstats")["cmdstat_scan"].clone();
    let calls: u64 = calls.split(['=', ',']).nth(1).expect("calls=").parse().expect("a number");
    assert!((1..=20).contains(&calls), "two samples, at most ten SCANs each: {calls}");
}

#[test]
fn keys_of_any_bytes_do_not_reach_the_terminal_as_they_are() {
    let (server, mut c) = start();
    c.call(redis::cmd("ZQ.PUSH").arg(b"evil\x1b[2J\nkey\xff").arg("payload"));
    let picture = top(&server);
    assert!(picture.contains("evil.[2J.key\u{fffd}"), "{picture}");
    assert!(!picture.contains('\x1b'));
}
