//! Changes of a limit's policy: another limit, a longer or a shorter window, another TTL.

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use std::time::Duration;
use testkit::{Clock, Server, Stream, assert_agree, start, start_pair, start_with_clock};

#[test]
fn a_shorter_window_is_settled_by_the_first_call_even_if_denied() {
    let (server, mut c) = start();
    for _ in 0..5 {
        c.verdict("ZRL.CHECK k 5 10m");
        let tick = c.now() + 2;
        c.wait_until(tick);
    }
    let mut stream = Stream::attach(&server);
    stream.take();
    let before = c.trace("k");

    // PEEK does not apply the new window, so `retry_after` is computed with the old times. After a minute, the call
    // would still be denied.
    let peeked = c.verdict("ZRL.PEEK k 5 1m");
    assert!(peeked.allowed == 0 && peeked.retry_after > 500_000, "{peeked:?}");
    assert_eq!(c.trace("k"), before);

    let (earliest, denied, latest) = c.timed_verdict("ZRL.CHECK k 5 1m");
    assert_eq!((denied.allowed, denied.remaining), (0, 0));
    assert_eq!((denied.retry_after, denied.reset_after), (60_000, 60_000));
    let slots = c.slots("k");
    assert!(matches!(slots[..], [(5, at)] if (earliest + 60_000..=latest + 60_000).contains(&at)), "{slots:?}");
    assert!(!stream.take().is_empty());

    // The denied call has applied the new window. The next denied call changes nothing.
    let settled = c.trace("k");
    let denied = c.verdict("ZRL.CHECK k 5 1m");
    assert!(denied.allowed == 0 && denied.retry_after <= 60_000);
    assert_eq!(c.trace("k"), settled);
    assert_eq!(stream.take(), [""; 0]);
}

/// The value itself identifies a limit, whatever clients do to the key's name and TTL.
#[test]
fn a_limit_is_one_whatever_becomes_of_its_ttl_and_its_name() {
    let (server, replica, mut c) = start_pair();
    for options in ["", "FIXED", "LEAKY"] {
        c.run("FLUSHALL");
        c.verdict(&format!("ZRL.CHECK k 10 30d {options} COST 2"));
        let ttl = c.int("PEXPIRETIME k");
        let dump = c.dump("k");
        // With TTLs that other clients have set: shorter, longer, none.
        for (n, at) in [ttl - 5_000_000, ttl - 5, ttl + 5, ttl + 5_000_000, 0].into_iter().enumerate() {
            let name = format!("restored{n}");
            c.restore(&name, at, &dump);
            assert_eq!(c.verdict(&format!("ZRL.CHECK {name} 10 30d {options}")).remaining, 7, "{options} {n}");
            assert!(at < ttl || c.int(&format!("PEXPIRETIME {name}")) >= ttl, "{options} {n}");
        }
        c.script(&[("RENAME restored0 l", "+OK"), ("COPY k m", "1"), ("PERSIST m", "1"), ("MOVE k 1", "1")]);
        assert_eq!(c.verdict(&format!("ZRL.CHECK l 10 30d {options}")).remaining, 6);
        assert_eq!(c.verdict(&format!("ZRL.CHECK m 10 30d {options}")).remaining, 7);
        assert!(c.int("PTTL m") > 0, "a call that takes units gives it a TTL again");
        c.run("SELECT 1");
        assert_eq!(c.verdict(&format!("ZRL.CHECK k 10 30d {options}")).remaining, 7);
        c.run("SELECT 0");
        assert_agree(&server, &[&replica]);
    }
}

/// A client shortens the TTL, removes it, or moves the key to a server whose clock is behind. The next call that takes
/// units corrects the TTL, so that no unit is lost and the key does not stay.
#[test]
fn a_call_that_takes_units_corrects_the_ttl() {
    let (clock, server, mut c) = start_with_clock("appendonly yes");
    let replica = Server::builder().clock(&clock).replica_of(&server);
    for algorithm in ["SLIDING", "FIXED", "LEAKY"] {
        for change in ["EXPIRE k 2", "PERSIST k", "EXPIRE k 1000000"] {
            c.run("DEL k");
            let call = format!("ZRL.CHECK k 10 1d {algorithm} COST 4");
            c.verdict(&call);
            c.run(change);
            let until = c.verdict(&call).charged_until;
            let ttl = c.int("PEXPIRETIME k");
            assert!((until..=until + 25_000).contains(&ttl), "{algorithm}, {change}: {}", ttl - until);
        }
        c.run("EXPIRE k 1000");
        assert_eq!(c.verdict(&format!("ZRL.CHECK k 10 1d {algorithm} COST 2")).remaining, 0);
        clock.advance(Duration::from_secs(1001));
        assert_eq!(c.verdict(&format!("ZRL.PEEK k 10 1d {algorithm}")).allowed, 0, "{algorithm}");
    }
    assert_agree(&server, &[&replica]);
}

/// Clients set other TTLs, copy, restore and rename the keys, and move them between two servers whose clocks differ.
/// The windows are so long that no unit becomes available again during the test.
#[test]
fn no_unit_is_lost_in_the_life_of_a_key() {
    let (here, there) = (Clock::new(), Clock::new());
    let start = |clock| Server::builder().keeping_aof().clock(clock).start();
    let servers = [start(&here), start(&there)];
    let replica = Server::builder().clock(&here).replica_of(&servers[0]);
    let mut clients = [servers[0].client(), servers[1].client()];
    let mut random = StdRng::seed_from_u64(42);
    for algorithm in ["SLIDING", "FIXED", "LEAKY", "THROTTLE"] {
        let (mut at, mut used) = (0, 0);
        for step in 0..120 {
            let c = &mut clients[at];
            match random.random_range(0..12) {
                0 => c.script(&[(format!("EXPIRE k {}", random.random_range(1000..100_000)), used.min(1).to_string())]),
                1 => drop(c.run("PERSIST k")),
                2 => c.run_all(["COPY k l REPLACE", "DEL k", "COPY l k"]),
                3 if used > 0 => {
                    let (dump, ttl) = (c.dump("k"), c.now() + random.random_range(1_000_000..100_000_000));
                    c.run("DEL k");
                    c.restore("k", if random.random() { ttl } else { 0 }, &dump);
                }
                4 if used > 0 => {
                    let port = servers[1 - at].address().1;
                    c.script(&[(format!("MIGRATE 127.0.0.1 {port} k 0 10000 REPLACE"), "+OK")]);
                    at = 1 - at;
                    there.step_wall(random.random_range(-60_000..=60_000) - there.wall_ahead());
                }
                5 if algorithm != "THROTTLE" => {
                    // A call with another policy is denied.
                    let denied = c.verdict(&format!("ZRL.CHECK k 1 9000d {algorithm} COST 2"));
                    assert_eq!(denied.allowed, 0, "{algorithm}");
                }
                _ if algorithm == "THROTTLE" => {
                    let reply = c.ints("ZRL.THROTTLE k 999 1 1000000");
                    used += 1;
                    // If the clock has stepped back, the time that has not passed counts as a part of a unit.
                    let lost = 1000 - used - reply[2];
                    assert!(reply[..2] == [0, 1000] && (0..=1).contains(&lost), "step {step}: {reply:?}, {used} used");
                    let nanos: i64 = c.string("GET k").parse().expect("nanoseconds");
                    assert_eq!(c.int("PEXPIRETIME k"), nanos / 1_000_000);
                }
                _ => {
                    let cost = random.random_range(1..4);
                    let verdict = c.verdict(&format!("ZRL.CHECK k 1000 3000d {algorithm} COST {cost}"));
                    used += cost;
                    assert_eq!((verdict.allowed, verdict.remaining), (1, 1000 - used), "{algorithm}, step {step}");
                    let late = c.int("PEXPIRETIME k") - verdict.charged_until;
                    assert!((0..=25_000).contains(&late), "{algorithm}, step {step}: {late}");
                }
            }
        }
        assert!(used > 0);
        clients.iter_mut().for_each(|c| drop(c.run("DEL k l")));
    }
    assert_agree(&servers[0], &[&replica]);
}
