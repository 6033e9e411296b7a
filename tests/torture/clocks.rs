//! Clocks that step. Random commands of all families run while time advances by milliseconds to months, and while the
//! wall clock is set forward and back. All work is done soon after it is due. At the end, master, replica and AOF
//! agree.
//!
//! `make torture` runs this for longer, with all other random tests.

use super::fuzz::Run;
use rand::Rng;
use std::time::Duration;
use testkit::{Client, Clock, PATIENCE, Server, Traffic, assert_agree, assert_drained, card, eventually};

const DURATIONS: [&str; 10] = ["1ms", "700ms", "1s", "5s", "1m", "36m", "1h", "25d", "60d", "365d"];

/// How far and how often a run has moved the clocks.
#[derive(Default)]
struct Steps {
    passed: Duration,
    forward: u64,
    back: u64,
}

impl Steps {
    fn step(&mut self, run: &mut Run, clock: &Clock) {
        const MS: [u64; 9] =
            [50, 1000, 2500, 60_000, 2_160_000, 3_600_000, 86_400_000, 25 * 86_400_000, 60 * 86_400_000];
        let most = MS[run.random.random_range(0..MS.len())];
        let ms = run.random.random_range(0..=most);
        match run.random.random_range(0..10) {
            0..6 => {
                clock.advance(Duration::from_millis(ms));
                self.passed += Duration::from_millis(ms);
            }
            6..8 => {
                clock.step_wall(ms.min(3_600_000).cast_signed());
                self.forward += 1;
            }
            _ => {
                clock.step_wall(-ms.min(3_600_000).cast_signed());
                self.back += 1;
            }
        }
    }
}

/// Checks that nothing is overdue: no expiring set has an expired member, and no client waits while a job is due.
fn assert_nothing_is_late(c: &mut Client, worker: &mut Client, clock: &Clock, run: &mut Run) {
    let here = run.here();
    // A job gets one of these as its delay, and a member gets the same as its lifetime.
    const DELAYS: [(&str, u64); 5] =
        [("1ms", 1), ("900ms", 900), ("10s", 10_000), ("1h", 3_600_000), ("30d", 30 * 86_400_000)];
    let (delay, ms) = DELAYS[run.random.random_range(0..DELAYS.len())];
    c.run(&format!("ZQ.PUSH probe x ID probe DELAY {delay}"));
    c.run(&format!("ZEXP.ADD probes {delay} a 400d b"));
    if run.random.random_ratio(1, 2) {
        clock.advance(Duration::from_millis(ms));
    } else {
        // Only the wall clock steps.
        clock.step_wall(ms.cast_signed());
    }
    let got = worker.receive();
    assert!(got.starts_with("[['probe' 'probe' "), "{here}");
    c.run("ZQ.CANCEL probe probe");
    eventually(PATIENCE, &format!("a member due in {delay} is deleted: {here}"), || card(c, "probes") == 1);
    for key in testkit::SETS {
        let is_clean = |c: &mut Client| {
            let live = c.reply(&format!("ZEXP.CARD {key}"));
            live.starts_with('!') || live == card(c, key).to_string()
        };
        eventually(PATIENCE, &format!("no expired member is left in {key}: {here}"), || is_clean(c));
    }
    wait_for_probe(worker);
}

fn wait_for_probe(worker: &mut Client) {
    worker.send("ZQ.CLAIM 1 probe LEASE 500d BLOCK 0");
}

/// The server orders the timers of all modules by the wall clock, but waits for the first one by the monotonic clock.
/// So another module's timer may stay first for a long time.
#[test]
fn a_clock_that_is_set_right_serves_what_is_due_behind_the_timer_of_another_module() {
    let clock = Clock::new();
    let server = Server::builder().clock(&clock).neighbour().start();
    let (mut c, mut worker) = (server.client(), server.client());
    c.run("EVIL.TIMER 1800000");
    for _ in 0..3 {
        wait_for_probe(&mut worker);
        eventually(PATIENCE, "the worker waits", || c.info_number("clients", "blocked_clients") == 1);
        c.run("ZQ.PUSH probe x ID probe DELAY 1d");
        c.run("ZEXP.ADD probes 1d a 400d b");
        clock.step_wall(86_400_000);
        let got = worker.receive();
        assert!(got.starts_with("[['probe' 'probe' "), "{got}");
        assert_drained(&mut c, "probes", 1);
        c.run("ZQ.CANCEL probe probe");
    }
}

/// If the process is stopped or the machine suspended during a slice, this time must not cause a long pause of the
/// sweeper. Neither must the time that another module takes.
#[test]
fn time_that_passes_within_a_slice_without_work_calls_for_no_rest() {
    let clock = Clock::new();
    let server = Server::builder().clock(&clock).neighbour().start();
    let mut c = server.client();
    // During the slice for `first`, the neighbour saves a file and then lets the server sleep. The file shows that the
    // slice has begun.
    c.run("EVIL.ONCE zexp.expired SAVE");
    c.run("EVIL.ONCE zexp.expired DEBUG SLEEP 2");
    c.run("ZEXP.ADD first 1s a 400d b");
    c.run("ZEXP.ADD second 1h a 400d b");
    clock.advance(Duration::from_secs(1));
    let saved = server.folder().join("dump.rdb");
    eventually(PATIENCE, "the slice has begun", || saved.exists());
    clock.advance(Duration::from_secs(86_400));
    assert_drained(&mut c, "second", 1);
}

/// The maximum time that passes in one history. The tests' clock counts nanoseconds in 64 bits, which end in the year
/// 2262.
const CENTURIES: Duration = Duration::from_secs(150 * 365 * 86_400);

#[test]
fn whatever_the_clocks_do_all_is_done_on_time_and_servers_agree() {
    let mut run = Run::new("clocks", 150);
    while run.goes_on() {
        history(&mut run);
    }
}

fn history(run: &mut Run) {
    let clock = Clock::new();
    let master = Server::builder().clock(&clock).keeping_aof().config("repl-timeout 1000000000\nhz 50").start();
    let replica = Server::builder().clock(&clock).config("repl-timeout 1000000000\nhz 50").replica_of(&master);
    let (mut c, mut worker) = (master.client(), master.client());
    c.run("ZEXP.ADD probes 400d b");
    wait_for_probe(&mut worker);
    let mut traffic = Traffic::new(run.random.random(), &DURATIONS);
    let mut steps = Steps::default();
    while steps.passed < CENTURIES && run.goes_on() {
        for _ in 0..run.random.random_range(1..30) {
            let now = c.now();
            let line = if run.random.random_ratio(1, 30) { traffic.native_on_one(now) } else { traffic.line(now) };
            traffic.send(&mut c, &line, &run.here());
        }
        steps.step(run, &clock);
        if run.random.random_ratio(1, 5) {
            assert_nothing_is_late(&mut c, &mut worker, &clock, run);
        }
    }
    let Steps { passed, forward, back } = steps;
    eprintln!(
        "clocks: {} commands, {} hours passed, the wall clock was set forward {forward} times and back {back} times",
        traffic.calls(),
        passed.as_secs() / 3600
    );
    assert_agree(&master, &[&replica]);
    for server in [&master, &replica] {
        let log = server.log();
        assert!(!log.contains("zeitset: rejected"), "{}:\n{log}", run.here());
    }
}
