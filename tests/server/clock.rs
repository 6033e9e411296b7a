//! The tests' clock (testkit) moves the clocks of the server. Without this proof, tests that move the clock could pass
//! although nothing has moved.

use std::time::{Duration, Instant};
use testkit::{Client, Clock, Server, assert_drained, start_with_clock};

const HOUR: Duration = Duration::from_secs(3600);
const DAY: Duration = Duration::from_secs(86_400);

/// Returns how far the server's wall clock is ahead of this process's, in ms. The result is wrong by the duration of a
/// call.
fn ahead(client: &mut Client) -> i64 {
    let ours = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).expect("after 1970");
    client.now() - i64::try_from(ours.as_millis()).expect("of this age")
}

#[track_caller]
fn assert_ahead(client: &mut Client, ms: i64) {
    const SLACK: i64 = 20_000;
    let ahead = ahead(client);
    assert!((ms - SLACK..=ms + SLACK).contains(&ahead), "the clock is {ahead} ms ahead instead of {ms}");
}

#[test]
fn the_wall_clock_steps_forward_and_back() {
    let (clock, _server, mut c) = start_with_clock("");
    assert_ahead(&mut c, 0);
    clock.step_wall(3_600_000);
    assert_ahead(&mut c, 3_600_000);
    clock.step_wall(-7_200_000);
    assert_ahead(&mut c, -3_600_000);
    assert_eq!(clock.wall_ahead(), -3_600_000);
}

#[test]
fn what_expires_does_when_time_passes() {
    let (clock, _server, mut c) = start_with_clock("");
    c.script(&[("SET short x EX 86000", "+OK"), ("SET long x EX 5270400", "+OK")]);
    c.script(&[("ZEXP.ADD set 1d a 60d b", "2")]);
    clock.advance(DAY);
    c.script(&[("GET short", "nil"), ("GET long", "'x'"), ("ZEXP.CARD set", "1")]);
    clock.pass(60 * DAY, DAY, &mut c);
    c.script(&[("GET long", "nil"), ("ZEXP.CARD set", "0")]);
}

/// A waiting client's timeout and a member's expiry depend on the server's timers, which read the monotonic clock.
#[test]
fn timers_run_by_the_monotonic_clock() {
    let (clock, _server, mut c) = start_with_clock("");
    assert!(c.info("server")["monotonic_clock"].contains("clock_gettime"), "the server does not ask libc for the time");
    let start = Instant::now();
    c.run("ZEXP.ADD set 1h a 2h b");
    clock.advance(HOUR);
    assert_drained(&mut c, "set", 1);
    assert!(start.elapsed() < HOUR);
}

#[test]
fn servers_with_one_clock_agree_and_keep_it_when_they_start_again() {
    let clock = Clock::new();
    let mut master = Server::builder().clock(&clock).config("appendonly yes").start();
    let replica = Server::builder().clock(&clock).replica_of(&master);
    clock.advance(DAY);
    assert_ahead(&mut master.client(), 86_400_000);
    assert_ahead(&mut replica.client(), 86_400_000);
    let mut c = master.client();
    c.run("ZEXP.ADD set 1h a");
    // The child process that rewrites the AOF also reads the server's clock. For the child, the set has not expired.
    c.rewrite_aof();
    master.crash_and_restart();
    let mut c = master.client();
    assert_ahead(&mut c, 86_400_000);
    c.script(&[("ZEXP.CARD set", "1")]);
}
