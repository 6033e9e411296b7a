//! A limit whose policy changes: another limit, a longer or a shorter window, a TTL that is off.

use testkit::{Client, Stream, start};

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
    let entries = c.entries("k");
    let at = entries.last().unwrap().2;
    assert!((earliest + 60_000..=latest + 60_000).contains(&at), "{entries:?}");
    assert_eq!(entries.iter().map(|entry| entry.1).sum::<u64>(), 5);
    c.assert_limit("k");
    assert!(!stream.take().is_empty());

    // That was the only write: the next denied call changes nothing.
    let settled = c.trace("k");
    let denied = c.verdict("ZRL.CHECK k 5 1m");
    assert!(denied.allowed == 0 && denied.retry_after <= 60_000);
    assert_eq!(c.trace("k"), settled);
    assert_eq!(stream.take(), [""; 0]);
}

/// Of a limit of very many entries, those that a shorter window does away with are not removed one by one.
#[test]
fn a_shorter_window_replaces_a_large_limit_as_a_whole() {
    let (server, mut c) = start();
    for (key, live, kept) in [("all", 0, 0), ("most", 300, 300)] {
        let now = c.now();
        let mut entries: Vec<String> = (0..live).map(|n| format!("{} {n}", now + 60_000 + n)).collect();
        let far = now + 3_600_000;
        entries.extend((live..20_000).map(|n| format!("{} {n}", far + n)));
        entries.chunks(1000).for_each(|some| {
            c.run(&format!("ZADD {key} {}", some.join(" ")));
        });
        c.run(&format!("PEXPIREAT {key} {}", ((far + 20_000) / 1000 + 1) * 1000 + 1));
        let mut stream = Stream::attach(&server);
        stream.take();
        let verdict = c.verdict(&format!("ZRL.CHECK {key} 20001 10m EXACT"));
        assert_eq!((verdict.allowed, verdict.remaining, verdict.reset_after), (1, 0, 600_000));
        let written = stream.take();
        let bytes: usize = written.iter().map(String::len).sum();
        assert!(bytes < 200 + 50 * live as usize, "{bytes} bytes: {:?}", &written[..written.len().min(6)]);
        assert_eq!(c.int(&format!("ZCARD {key}")), kept + 1);
        assert_eq!(c.entries(key).iter().map(|entry| entry.1).sum::<u64>(), 20_001);
        c.assert_limit(key);
        let denied = c.verdict(&format!("ZRL.CHECK {key} 20001 10m EXACT"));
        assert_eq!(denied.allowed, 0);
        assert_eq!(stream.take(), [""; 0]);
    }
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
    let at = c.entries("k").last().unwrap().2;
    assert!((before + 60_000..=after + 60_000).contains(&at));
}

#[test]
fn a_longer_window_keeps_what_is_held_as_it_was() {
    let (_server, mut c) = start();
    let first = c.verdict("ZRL.CHECK k 5 10m COST 2").charged_until;
    let second = c.verdict("ZRL.CHECK k 5 1h").charged_until;
    let entries = c.entries("k");
    assert_eq!(entries, [(0, 2, first), (2, 1, second)]);
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
    // And finer again: entries of the coarse grid lie beyond `now + window` by less than it, which is no shorter window.
    let verdict = c.verdict("ZRL.CHECK k 10 10m EXACT");
    assert_eq!((verdict.allowed, verdict.remaining), (1, 5));
    assert_eq!(c.entries("k").iter().map(|entry| entry.1).sum::<u64>(), 5);
}

#[test]
fn a_limit_whose_ttl_somebody_changed_is_none_any_more() {
    let (_server, mut c) = start();
    for shift in [-40_000, -1, 1, 1500, 15_000] {
        c.run("DEL k");
        c.verdict("ZRL.CHECK k 5 10m COST 2");
        let marker = c.int("PEXPIRETIME k");
        c.run(&format!("PEXPIREAT k {}", marker + shift));
        let before = c.trace("k");
        c.script(&[("ZRL.CHECK k 5 10m", "!NOTLIMIT ")]);
        assert_eq!(c.trace("k"), before, "{shift}");
    }
    c.run("PERSIST k");
    c.script(&[("ZRL.CHECK k 5 10m", "!NOTLIMIT ")]);
}

/// As MIGRATE does it: the TTL is sent as remaining time, and so shifted on the way.
#[test]
fn a_limit_that_was_restored_is_known_by_its_entries() {
    let (_server, mut c) = start();
    let restore = |c: &mut Client, shift: i64| {
        c.run("DEL k copy");
        c.verdict("ZRL.CHECK k 5 10m COST 2");
        let tick = c.now() + 2;
        c.wait_until(tick);
        c.verdict("ZRL.CHECK k 5 10m");
        let redis::Value::BulkString(dump) = c.run("DUMP k") else { panic!("no dump") };
        let at = c.int("PEXPIRETIME k") + shift;
        c.call(redis::cmd("RESTORE").arg("copy").arg(at).arg(dump).arg("ABSTTL"));
    };
    for shift in [-4_500, -1, 1, 17, 1500, 4_500] {
        restore(&mut c, shift);
        assert_eq!(c.verdict("ZRL.PEEK copy 5 10m").remaining, 2, "{shift}");
        assert_eq!(c.verdict("ZRL.CHECK copy 5 10m").remaining, 1, "{shift}");
        c.assert_limit("copy");
        assert_eq!(c.verdict("ZRL.CHECK copy 5 10m").remaining, 0, "{shift}");
    }
    for shift in [-60_000, 60_000] {
        restore(&mut c, shift);
        c.script(&[("ZRL.CHECK copy 5 10m", "!NOTLIMIT ")]);
    }
    // Only where it was restored: EXPIRE is somebody's word.
    restore(&mut c, 17);
    c.run("COPY copy other");
    c.script(&[("ZRL.CHECK other 5 10m", "!NOTLIMIT ")]);
}

#[test]
fn a_limit_moves_with_its_key() {
    let (_server, mut c) = start();
    c.verdict("ZRL.CHECK k 5 10m COST 2");
    c.script(&[("RENAME k l", "+OK"), ("COPY l m", "1")]);
    assert_eq!(c.verdict("ZRL.CHECK l 5 10m").remaining, 2);
    assert_eq!(c.verdict("ZRL.CHECK m 5 10m").remaining, 2);
}
