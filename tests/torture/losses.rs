//! Servers that return to an earlier state (`testkit::Loss`): `kill -9` with an older snapshot, a failover that loses
//! writes, RESTORE of an older value. Clients still have claims, members and units that the server has forgotten.

use rand::Rng;
use std::time::Duration;
use testkit::{Client, Dataset, FAR, Job, LOSSES, Loss, Lossy, Traffic, Verdict, assert_agree};

fn each_loss(test: impl Fn(Lossy) + Sync) {
    std::thread::scope(|scope| {
        for loss in LOSSES {
            let test = &test;
            scope.spawn(move || test(Lossy::start(loss, "")));
        }
    });
}

#[test]
fn a_token_from_before_the_loss_matches_no_claim() {
    each_loss(|mut lossy| {
        let mut c = lossy.client();
        for id in ["first", "a", "b", "c"] {
            c.run(&format!("ZQ.PUSH q x ID {id}"));
        }
        c.job("ZQ.CLAIM 1 q LEASE 1m");
        lossy.keep();
        let former: Vec<_> = (0..3).map(|_| c.job("ZQ.CLAIM 1 q LEASE 1m")).collect();
        lossy.lose();
        let mut c = lossy.client();
        // Other workers claim the same jobs again. The former workers do not notice.
        let later: Vec<_> = (0..3).map(|_| c.job("ZQ.CLAIM 1 q LEASE 1m")).collect();
        let newest_of_before = former.iter().map(|job| job.token).max().expect("three");
        for (Job { id, token: old, .. }, Job { id: same, token: new, .. }) in former.iter().zip(&later) {
            assert_eq!(id, same);
            assert!(*new > newest_of_before, "{:?}: the token {new} is not above {newest_of_before}", lossy.loss);
            for line in
                [format!("ZQ.EXTEND q 1h {id} {old}"), format!("ZQ.NACK q {id} {old}"), format!("ZQ.ACK q {id} {old}")]
            {
                let reply = c.reply(&line);
                assert!(["0", "[nil]"].contains(&reply.as_str()), "{:?}: {line}: {reply}", lossy.loss);
            }
            assert_eq!(c.int(&format!("ZQ.ACK q {id} {new}")), 1);
        }
    });
}

#[test]
fn jobs_finished_since_are_served_again_and_none_hangs() {
    each_loss(|mut lossy| {
        let mut c = lossy.client();
        c.run("ZQ.CONFIG q CONCURRENCY 2");
        for id in ["done", "claimed", "waiting"] {
            c.run(&format!("ZQ.PUSH q x ID {id}"));
        }
        let Job { id, token, .. } = c.job("ZQ.CLAIM 1 q LEASE 1m");
        assert_eq!(id, "done");
        c.job("ZQ.CLAIM 1 q LEASE 1m");
        lossy.keep();
        assert_eq!(c.int(&format!("ZQ.ACK q done {token}")), 1);
        c.run("ZQ.PUSH q x ID later");
        c.job("ZQ.CLAIM 1 q LEASE 1m");
        lossy.lose();
        let mut c = lossy.client();
        // In the kept state, two jobs are claimed.
        c.script(&[("ZQ.CLAIM 1 q LEASE 1m", "[]"), ("ZQ.GET q later", "nil"), ("ZQ.PUSH q x ID later", "'later'")]);
        lossy.clock.advance(Duration::from_secs(61));
        let mut served = Vec::new();
        while let Some(Job { id, token, .. }) = c.jobs("ZQ.CLAIM 1 q LEASE 1m").pop() {
            assert_eq!(c.int(&format!("ZQ.ACK q {id} {token}")), 1);
            served.push(id);
        }
        served.sort();
        assert_eq!(served, ["claimed", "done", "later", "waiting"], "{:?}", lossy.loss);
    });
}

#[test]
fn a_limit_goes_on_from_what_it_had_and_takes_back_no_more_than_that() {
    each_loss(|mut lossy| {
        let mut c = lossy.client();
        let checks = ["slide 10 1h", "fixed 10 1d FIXED", "leaky 10 1h LEAKY"];
        // Advances to the start of a day, because FIXED has aligned windows.
        let into_day = c.now() % 86_400_000;
        lossy.clock.advance(Duration::from_millis((86_400_000 - into_day).unsigned_abs()));
        c.run_all(checks.map(|check| format!("ZRL.CHECK {check} COST 4")));
        lossy.keep();
        let lost: Vec<Verdict> = checks.map(|check| c.verdict(&format!("ZRL.CHECK {check} COST 5"))).to_vec();
        lossy.lose();
        let mut c = lossy.client();
        for (check, lost) in checks.iter().zip(lost) {
            let key = check.split(' ').next().expect("a key");
            let refunded = c.int(&format!("ZRL.REFUND {key} 5 AT {}ms", lost.charged_until));
            assert!((0..=4).contains(&refunded), "{key}: {refunded} units were given back of 4");
            let peek = c.verdict(&format!("ZRL.PEEK {check}"));
            assert_eq!(peek.remaining, 6 + refunded, "{:?}: {check}", lossy.loss);
            let verdict = c.verdict(&format!("ZRL.CHECK {check} COST {}", peek.remaining));
            assert_eq!((verdict.allowed, verdict.remaining), (1, 0), "{:?}: {check}", lossy.loss);
            assert_eq!(c.verdict(&format!("ZRL.CHECK {check}")).allowed, 0);
        }
    });
}

/// Random commands. After the loss, the server has the kept state and continues from there. Replica and AOF agree with
/// it.
#[test]
fn after_any_commands_the_state_is_the_one_that_was_kept() {
    const DURATIONS: [&str; 3] = ["1h", "1d", "60d"];
    let mut run = super::fuzz::Run::new("losses", 6);
    while run.goes_on() {
        let loss = LOSSES[run.random.random_range(0..LOSSES.len())];
        // With the sweeper off, the sets stay as they were.
        let mut lossy = Lossy::start(loss, "appendfsync no\nzeitset.sweep no");
        let mut traffic = Traffic::new(run.random.random(), &DURATIONS);
        let here = run.here();
        let mut send = |c: &mut Client, calls: usize| {
            (0..calls).for_each(|_| {
                let line = traffic.line(FAR);
                traffic.send(c, &line, &here);
            });
        };
        let mut c = lossy.client();
        send(&mut c, 300);
        let mut kept = Dataset::of(&mut c);
        lossy.keep();
        send(&mut c, 300);
        lossy.lose();
        let mut c = lossy.client();
        let mut found = Dataset::of(&mut c);
        // The limits with FIXED windows of an hour expire at the end of the hour.
        let now = c.now();
        kept.forget_expired(now);
        found.forget_expired(now);
        assert!(found == kept, "{}, {loss:?}: {}", run.here(), kept.differences(&found));
        c.run("CONFIG SET appendonly yes");
        send(&mut c, 300);
        assert_agree(lossy.server(), &[]);
        let log = lossy.server().log();
        assert!(loss == Loss::Restore || !log.contains("zeitset: rejected"), "{}", run.here());
    }
}
