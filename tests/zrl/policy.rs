//! A limit whose policy changes: another limit, a longer or a shorter window, a TTL that is off.

use testkit::{Stream, start};

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

    // PEEK, which settles nothing, names the wait of what is held as it is: after a minute it would still be denied.
    let peeked = c.verdict("ZRL.PEEK k 5 1m");
    assert!(peeked.allowed == 0 && peeked.retry_after > 500_000, "{peeked:?}");
    assert_eq!(c.trace("k"), before);

    let (earliest, denied, latest) = c.timed_verdict("ZRL.CHECK k 5 1m");
    assert_eq!((denied.allowed, denied.remaining), (0, 0));
    assert_eq!((denied.retry_after, denied.reset_after), (60_000, 60_000));
    let slots = c.slots("k");
    assert!(matches!(slots[..], [(5, at)] if (earliest + 60_000..=latest + 60_000).contains(&at)), "{slots:?}");
    assert!(!stream.take().is_empty());

    // That was the only write: the next denied call changes nothing.
    let settled = c.trace("k");
    let denied = c.verdict("ZRL.CHECK k 5 1m");
    assert!(denied.allowed == 0 && denied.retry_after <= 60_000);
    assert_eq!(c.trace("k"), settled);
    assert_eq!(stream.take(), [""; 0]);
}

#[test]
fn retry_after_holds_across_a_change_of_window() {
    let (_server, mut c) = start();
    c.verdict("ZRL.CHECK k 5 10m COST 5");
    let denied = c.verdict("ZRL.CHECK k 5 200ms");
    let now = c.now();
    assert_eq!((denied.allowed, denied.retry_after), (0, 200));
    c.wait_until(now + 200);
    let allowed = c.verdict("ZRL.CHECK k 5 200ms");
    assert_eq!((allowed.allowed, allowed.remaining), (1, 4));
}

#[test]
fn an_admitted_call_settles_a_shorter_window_too() {
    let (_server, mut c) = start();
    c.verdict("ZRL.CHECK k 10 10m COST 5");
    let (before, verdict, after) = c.timed_verdict("ZRL.CHECK k 10 1m");
    assert_eq!((verdict.allowed, verdict.remaining), (1, 4));
    assert_eq!(verdict.reset_after, 60_000);
    let at = c.slots("k").last().unwrap().1;
    assert!((before + 60_000..=after + 60_000).contains(&at));
}

#[test]
fn a_longer_window_keeps_what_is_held_as_it_was() {
    let (_server, mut c) = start();
    let first = c.verdict("ZRL.CHECK k 5 10m COST 2").charged_until;
    let second = c.verdict("ZRL.CHECK k 5 1h").charged_until;
    assert_eq!(c.slots("k"), [(2, first), (1, second)]);
    assert!(second > first + 2_000_000);
}

#[test]
fn another_limit_counts_the_units_that_are_held() {
    let (_server, mut c) = start();
    c.verdict("ZRL.CHECK k 10 10m COST 8");
    let lowered = c.verdict("ZRL.CHECK k 5 10m");
    assert_eq!((lowered.allowed, lowered.limit, lowered.remaining), (0, 5, 0));
    let raised = c.verdict("ZRL.CHECK k 20 10m");
    assert_eq!((raised.allowed, raised.limit, raised.remaining), (1, 20, 11));
}

#[test]
fn a_lowered_limit_asks_to_wait_until_enough_has_come_back() {
    let (_server, mut c) = start();
    let mut returns = Vec::new();
    for _ in 0..6 {
        returns.push(c.verdict("ZRL.CHECK k 10 10m EXACT").charged_until);
        let tick = c.now() + 30;
        c.wait_until(tick);
    }
    // Of 6 units held, 4 must be back before one more makes 3.
    let (before, denied, after) = c.timed_verdict("ZRL.CHECK k 3 10m EXACT");
    let due = returns[3];
    assert!((due - after..=due - before).contains(&denied.retry_after), "{denied:?}");
}

#[test]
fn a_coarser_precision_may_come_later() {
    let (_server, mut c) = start();
    for _ in 0..3 {
        c.verdict("ZRL.CHECK k 10 10m EXACT");
    }
    let verdict = c.verdict("ZRL.CHECK k 10 10m PRECISION 1m");
    assert_eq!((verdict.allowed, verdict.remaining), (1, 6));
    // And finer again: slots of the coarse grid lie beyond `now + window` by less than it, which is no shorter window.
    let verdict = c.verdict("ZRL.CHECK k 10 10m EXACT");
    assert_eq!((verdict.allowed, verdict.remaining), (1, 5));
    assert_eq!(c.units("k"), 5);
}

/// In every algorithm: 10 of 10 units used are 10 of 1000 used after an upgrade.
#[test]
fn units_stay_units_when_the_limit_changes() {
    let (_server, mut c) = start();
    for algorithm in ["SLIDING", "FIXED", "LEAKY"] {
        c.run("DEL k");
        c.verdict(&format!("ZRL.CHECK k 10 30d {algorithm} COST 10"));
        assert_eq!(c.verdict(&format!("ZRL.PEEK k 1000 30d {algorithm}")).remaining, 990, "{algorithm}");
        assert_eq!(c.verdict(&format!("ZRL.CHECK k 1000 30d {algorithm} COST 0")).remaining, 990, "{algorithm}");
    }
    c.run("DEL k");
    c.verdict("ZRL.CHECK k 10 1m LEAKY COST 10");
    assert_eq!(c.verdict("ZRL.CHECK k 10 1h LEAKY").remaining, 0);
}

/// A limit says itself what it is, whatever anybody does to its key.
#[test]
fn a_limit_is_one_whatever_becomes_of_its_ttl_and_its_name() {
    let (_server, mut c) = start();
    for options in ["", "FIXED", "LEAKY"] {
        c.run("FLUSHALL");
        c.verdict(&format!("ZRL.CHECK k 10 30d {options} COST 2"));
        let ttl = c.int("PEXPIRETIME k");
        let redis::Value::BulkString(dump) = c.run("DUMP k") else { panic!("no dump") };
        for (n, at) in [ttl - 5_000_000, ttl - 5, ttl + 5, ttl + 5_000_000, 0].into_iter().enumerate() {
            let name = format!("restored{n}");
            let mut restore = redis::cmd("RESTORE");
            restore.arg(&name).arg(at).arg(&dump).arg(if at == 0 { "REPLACE" } else { "ABSTTL" });
            c.call(&restore);
            assert_eq!(c.verdict(&format!("ZRL.CHECK {name} 10 30d {options}")).remaining, 7, "{options} {n}");
        }
        c.script(&[("RENAME restored0 l", "+OK"), ("COPY k m", "1"), ("PERSIST m", "1"), ("MOVE k 1", "1")]);
        assert_eq!(c.verdict(&format!("ZRL.CHECK l 10 30d {options}")).remaining, 6);
        assert_eq!(c.verdict(&format!("ZRL.CHECK m 10 30d {options}")).remaining, 7);
        // A count gets it with its next window.
        assert!(c.int("PTTL m") > 0 || options == "FIXED", "a charge gives it a TTL again");
        c.run("SELECT 1");
        assert_eq!(c.verdict(&format!("ZRL.CHECK k 10 30d {options}")).remaining, 7);
        c.run("SELECT 0");
    }
}
