//! LEAKY (GCRA): one unit comes back every `window / limit`, bursts up to `limit`.

use testkit::start;

#[test]
fn units_come_back_one_after_the_other() {
    let (_server, mut c) = start();
    let (start_of_test, _, _) = c.timed_verdict("ZRL.PEEK k 5 10m LEAKY");
    for n in 1..=5 {
        let verdict = c.verdict("ZRL.CHECK k 5 10m LEAKY");
        let elapsed = c.now() - start_of_test;
        assert_eq!((verdict.allowed, verdict.remaining), (1, 5 - n));
        let due = n * 120_000;
        assert!((due - elapsed..=due).contains(&verdict.reset_after), "{verdict:?}");
        assert!((start_of_test + due..=start_of_test + due + elapsed).contains(&verdict.charged_until));
    }
    let verdict = c.verdict("ZRL.CHECK k 5 10m LEAKY");
    let elapsed = c.now() - start_of_test;
    assert_eq!((verdict.allowed, verdict.remaining), (0, 0));
    assert!((120_000 - elapsed..=120_000).contains(&verdict.retry_after), "{verdict:?}");
    assert!(c.string("GET k").starts_with("leaky:"));
}

#[test]
fn costs_count_and_too_much_is_never() {
    let (_server, mut c) = start();
    assert_eq!(c.verdict("ZRL.CHECK k 5 10m LEAKY COST 4").remaining, 1);
    let before = c.trace("k");
    assert_eq!(c.verdict("ZRL.CHECK k 5 10m LEAKY COST 2").allowed, 0);
    assert_eq!(c.verdict("ZRL.CHECK k 5 10m LEAKY COST 6").retry_after, -1);
    assert_eq!(c.verdict("ZRL.CHECK k 5 10m LEAKY COST 0").allowed, 1);
    assert_eq!(c.verdict("ZRL.PEEK k 5 10m LEAKY").allowed, 1);
    assert_eq!(c.trace("k"), before);
}

#[test]
fn whoever_waits_retry_after_is_admitted() {
    let (_server, mut c) = start();
    for options in ["4 400ms LEAKY", "7 500ms LEAKY COST 3", "3 100ms LEAKY", "1000 300ms LEAKY COST 700"] {
        c.run("DEL k");
        let mut waits = 0;
        while waits < 4 {
            let verdict = c.verdict(&format!("ZRL.CHECK k {options}"));
            let now = c.now();
            if verdict.allowed == 0 {
                waits += 1;
                c.wait_until(now + verdict.retry_after);
                assert_eq!(c.verdict(&format!("ZRL.CHECK k {options}")).allowed, 1, "{options}: {verdict:?}");
            }
        }
    }
}

#[test]
fn the_rate_is_never_exceeded() {
    let (_server, mut c) = start();
    // One unit every 20 ms, 10 at once.
    let begin = c.now();
    let mut admitted = 0;
    while c.now() < begin + 800 {
        admitted += c.verdict("ZRL.CHECK k 10 200ms LEAKY").allowed;
    }
    let elapsed = c.now() - begin;
    assert!(admitted <= 10 + elapsed / 20 + 1, "{admitted} in {elapsed} ms");
}

#[test]
fn rates_finer_than_a_millisecond_are_kept() {
    let (_server, mut c) = start();
    let (before, _, after) = c.timed_verdict("ZRL.CHECK k 10000 1s LEAKY COST 10000");
    c.wait_until(after + 100);
    let free = c.verdict("ZRL.PEEK k 10000 1s LEAKY").remaining;
    let elapsed = c.now() - before;
    assert!((990..=10 * (elapsed + 2)).contains(&free), "{free} after {elapsed} ms");
}

#[test]
fn a_level_and_a_window_are_no_policy_of_one_key() {
    let (_server, mut c) = start();
    c.verdict("ZRL.CHECK leaky 5 10m LEAKY COST 3");
    c.verdict("ZRL.CHECK sliding 5 10m COST 3");
    for (key, algorithm) in [("leaky", "SLIDING"), ("leaky", "FIXED"), ("sliding", "LEAKY")] {
        let before = c.trace(key);
        for call in ["ZRL.CHECK", "ZRL.PEEK"] {
            c.script(&[(format!("{call} {key} 5 10m {algorithm}"), "!NOTLIMIT ")]);
        }
        assert_eq!(c.trace(key), before, "{key} {algorithm}");
    }
}
