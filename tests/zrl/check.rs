//! ZRL.CHECK and ZRL.PEEK with the default algorithm, SLIDING: which calls are admitted, and the six fields.

use testkit::{Server, Verdict, Witness, start};

/// A window of ten minutes. No unit becomes available again during these tests.
const WINDOW: i64 = 600_000;

#[test]
fn a_limit_admits_as_many_as_it_says() {
    let (_server, mut c) = start();
    for remaining in (0..5).rev() {
        let (before, verdict, after) = c.timed_verdict("ZRL.CHECK k 5 10m");
        assert!((before + WINDOW..=after + WINDOW).contains(&verdict.charged_until));
        assert_eq!(
            verdict,
            Verdict {
                allowed: 1,
                limit: 5,
                remaining,
                retry_after: 0,
                reset_after: WINDOW,
                charged_until: verdict.charged_until,
            }
        );
    }
    let (first, last) = (c.slots("k")[0].1, c.slots("k").last().unwrap().1);
    let (before, verdict, after) = c.timed_verdict("ZRL.CHECK k 5 10m");
    assert_eq!((verdict.allowed, verdict.remaining), (0, 0));
    assert!((first - after..=first - before).contains(&verdict.retry_after));
    assert!((last - after..=last - before).contains(&verdict.reset_after));
}

#[test]
fn sliding_is_what_a_call_without_algorithm_gets() {
    let (_server, mut c) = start();
    c.verdict("ZRL.CHECK k 3 10m");
    c.verdict("ZRL.CHECK k 3 10m SLIDING");
    c.verdict("zrl.check k 3 600 sliding exact cost 1");
    assert_eq!(c.verdict("ZRL.CHECK k 3 600000MS").allowed, 0);
}

#[test]
fn cost_zero_asks_and_takes_nothing() {
    let (_server, mut c) = start();
    let fresh = "[1 5 5 0 0 0]";
    c.script(&[("ZRL.CHECK k 5 10m COST 0", fresh), ("EXISTS k", "0")]);
    c.verdict("ZRL.CHECK k 5 10m COST 5");
    let before = c.trace("k");
    let full = c.verdict("ZRL.CHECK k 5 10m COST 0");
    assert_eq!((full.allowed, full.remaining, full.charged_until), (1, 0, 0));
    assert_eq!(c.trace("k"), before);
}

#[test]
fn a_cost_above_the_limit_is_never_allowed() {
    let (_server, mut c) = start();
    c.script(&[("ZRL.CHECK k 5 10m COST 6", "[0 5 5 -1 0 0]"), ("EXISTS k", "0")]);
    c.verdict("ZRL.CHECK k 5 10m COST 2");
    let verdict = c.verdict("ZRL.CHECK k 5 10m COST 6");
    assert_eq!((verdict.remaining, verdict.retry_after), (3, -1));
    assert!(verdict.reset_after > 0);
}

#[test]
fn concurrent_clients_are_admitted_exactly_to_the_limit() {
    let server = Server::start();
    for (options, cost, expected) in [("100 10m", 1, 100), ("1000 10m", 1, 1000), ("1000 10m EXACT COST 3", 3, 999)] {
        let call = format!("ZRL.CHECK {} {options}", options.replace(' ', "-"));
        let admitted: i64 = std::thread::scope(|scope| {
            let workers: Vec<_> = (0..50)
                .map(|_| {
                    let (mut c, call) = (server.client(), &call);
                    scope.spawn(move || -> i64 { (0..30).map(|_| c.verdict(call).allowed).sum() })
                })
                .collect();
            workers.into_iter().map(|worker| worker.join().unwrap()).sum()
        });
        assert_eq!(admitted * cost, expected, "{options}");
    }
}

#[test]
fn peek_answers_what_check_would_and_takes_nothing() {
    let (_server, mut c) = start();
    c.script(&[("ZRL.PEEK k 5 10m COST 2", "[1 5 5 0 0 0]"), ("EXISTS k", "0")]);
    for used in 1..=5 {
        c.verdict("ZRL.CHECK k 5 10m");
        let before = c.trace("k");
        let verdict = c.verdict("ZRL.PEEK k 5 10m COST 2");
        assert_eq!((verdict.limit, verdict.remaining), (5, 5 - used));
        assert_eq!(verdict.allowed, i64::from(used <= 3));
        assert_eq!(verdict.charged_until, 0);
        assert_eq!(c.trace("k"), before);
    }
    let before = c.now();
    let (denied, peeked) = (c.verdict("ZRL.CHECK k 5 10m"), c.verdict("ZRL.PEEK k 5 10m"));
    // The peek's wait is shorter by the time that has passed between the two calls.
    assert!((0..=c.now() - before).contains(&(denied.retry_after - peeked.retry_after)));
    assert_eq!(c.verdict("ZRL.PEEK k 5 10m COST 6").retry_after, -1);
}

/// In every algorithm, a denied call writes, replicates and announces nothing. An admitted call is replicated as one
/// command and sends one event. If the TTL of a SLIDING limit changes, a second command replicates the TTL.
#[test]
fn all_observers_learn_of_admitted_calls_and_of_no_denied_one() {
    let (server, mut c) = start();
    let mut witness = Witness::of(&server, "k", "GET k");
    for (take, denied, taken, events) in [
        (
            "ZRL.CHECK k 5 10m COST 4",
            &[
                "ZRL.CHECK k 5 10m COST 2",
                "ZRL.CHECK k 5 10m COST 6",
                "ZRL.CHECK k 5 10m COST 0",
                "ZRL.CHECK k 5 20m COST 2",
                "ZRL.CHECK k 3 10m",
                "ZRL.PEEK k 5 10m",
                "ZRL.PEEK k 5 1s",
            ][..],
            "ZRL.CHECK k 5 10m",
            &["set k", "setrange k"][..],
        ),
        (
            "ZRL.CHECK k 5 30d FIXED COST 4",
            &["ZRL.CHECK k 5 30d FIXED COST 2", "ZRL.CHECK k 5 30d FIXED COST 6", "ZRL.PEEK k 5 30d FIXED"],
            "ZRL.CHECK k 5 30d FIXED",
            // Within a window, a call changes only some digits of the count. The TTL stays.
            &["setrange k"],
        ),
        (
            "ZRL.CHECK k 5 30d LEAKY COST 4",
            &[
                "ZRL.CHECK k 5 30d LEAKY COST 2",
                "ZRL.CHECK k 5 30d LEAKY COST 9",
                "ZRL.CHECK k 5 30d LEAKY COST 0",
                "ZRL.PEEK k 5 30d LEAKY",
            ],
            "ZRL.CHECK k 5 30d LEAKY",
            &["set k"],
        ),
        (
            "ZRL.THROTTLE k 4 1 3600 4",
            &["ZRL.THROTTLE k 4 1 3600 2", "ZRL.THROTTLE k 4 1 3600 0"],
            "ZRL.THROTTLE k 4 1 3600",
            &["set k"],
        ),
    ] {
        c.run("DEL k");
        let first = witness.call(&mut c, take);
        assert!(first.commands[0].starts_with("SET k ") && first.commands[0].contains(" PXAT "), "{take}: {first:?}");
        assert_eq!((first.commands.len(), first.events), (1, vec!["set k".to_owned()]), "{take}");
        for line in denied {
            assert!(witness.call(&mut c, line).commands.is_empty(), "{line}");
        }
        // SLIDING gives a call in another millisecond a slot of its own.
        let tick = c.now() + 2;
        c.wait_until(tick);
        let next = witness.call(&mut c, taken);
        let event = &next.events[0];
        assert!(events.contains(&event.as_str()), "{taken}: {next:?}");
        assert!(next.commands[0].starts_with(&event.to_uppercase().replace(" K", " k ")), "{taken}: {next:?}");
        assert!(events.len() > 1 || (next.commands.len(), next.events.len()) == (1, 1), "{taken}: {next:?}");
    }
    // A key whose units were all refunded is removed.
    c.run("DEL k");
    let until = c.verdict("ZRL.CHECK k 5 30d FIXED COST 2").charged_until;
    let refund = witness.call(&mut c, &format!("ZRL.REFUND k 9 AT {until}"));
    assert_eq!((refund.commands, refund.events), (vec!["UNLINK k".to_owned()], vec!["del k".to_owned()]));
}

#[test]
fn the_largest_numbers_are_exact() {
    let (_server, mut c) = start();
    let max = 9_007_199_254_740_991_i64;
    let verdict = c.verdict(&format!("ZRL.CHECK k {max} 10m"));
    assert_eq!((verdict.allowed, verdict.remaining), (1, max - 1));
    let verdict = c.verdict(&format!("ZRL.CHECK k {max} 10m COST {}", max - 1));
    assert_eq!((verdict.allowed, verdict.remaining), (1, 0));
}

#[test]
fn replies_are_six_integers_in_either_protocol_and_in_scripts() {
    let (server, mut c) = start();
    c.script(&[("ZRL.CHECK k 5 10m COST 6", "[0 5 5 -1 0 0]")]);
    server.resp3().script(&[("ZRL.CHECK k 5 10m COST 6", "[0 5 5 -1 0 0]")]);
    let script = "return redis.call('ZRL.CHECK', KEYS[1], '5', '10m')[3]";
    let reply = c.call(redis::cmd("EVAL").arg(script).arg(1).arg("k"));
    assert_eq!(reply, redis::Value::Int(4));
    c.script(&[("MULTI", "+OK"), ("ZRL.CHECK k 5 10m COST 4", "+QUEUED"), ("ZRL.PEEK k 5 10m COST 6", "+QUEUED")]);
    let reply = c.reply("EXEC");
    assert!(reply.starts_with("[[1 5 0 0 600000 "), "{reply}");
}
