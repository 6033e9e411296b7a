//! An operator's work on a queue: listing jobs, repairing jobs, bounding the number of dead letters.

use testkit::{Client, start};

const CLAIM: &str = "ZQ.CLAIM 1 q LEASE 1m AS w1";

/// Pushes jobs with these IDs, and makes each a dead letter.
fn push_dead(c: &mut Client, ids: &[&str]) {
    for id in ids {
        c.run(&format!("ZQ.PUSH q x ID {id} PRIORITY -9"));
        let token = c.claim(CLAIM);
        assert_eq!(c.reply(&format!("ZQ.NACK q {id} {token} DEAD ERROR it-was-{id}")), "1");
    }
}

#[test]
fn a_dead_letter_tells_who_had_it_when_and_why_it_died() {
    let (_server, mut c) = start();
    push_dead(&mut c, &["a"]);
    assert_eq!(c.text_field("ZQ.GET q a", "worker"), "w1");
    let reply = c.reply("ZQ.GET q a");
    assert!(
        reply.ends_with("'worker' 'w1' 'error' 'it-was-a' 'progress' nil 'group' nil 'again_payload' nil]"),
        "{reply}"
    );
    let times = ["created_ms", "claimed_ms", "failed_ms", "due_ms"];
    let [created, claimed, failed, due] = times.map(|name| c.field("ZQ.GET q a", name));
    assert!(created <= claimed && claimed <= failed && failed == due, "{reply}");
    // After REDRIVE and a claim without AS, the job keeps its error, but has no worker's name.
    c.script(&[("ZQ.REDRIVE q ID a", "1")]);
    c.run("ZQ.CLAIM 1 q LEASE 1m");
    let reply = c.reply("ZQ.GET q a");
    assert!(
        reply.ends_with("'worker' nil 'error' 'it-was-a' 'progress' nil 'group' nil 'again_payload' nil]"),
        "{reply}"
    );
    c.run("DEBUG RELOAD");
    assert_eq!(c.reply("ZQ.GET q a"), reply, "it is saved and loaded");
}

#[test]
fn redrive_by_id_takes_the_dead_ones_named_and_no_others() {
    let (_server, mut c) = start();
    push_dead(&mut c, &["a", "b", "c"]);
    c.script(&[
        ("ZQ.PUSH q x ID waits AT 4102444800", "'waits'"),
        ("ZQ.REDRIVE q ID c waits none c", "1"),
        ("ZQ.REDRIVE q ID", "!ERR syntax error"),
        ("ZQ.REDRIVE q COUNT 1 ID a", "!ERR syntax error"),
    ]);
    assert_eq!(c.ids("ZQ.PEEK q DEAD"), ["a", "b"]);
    assert_eq!(c.ids("ZQ.PEEK q"), ["c"]);
}

#[test]
fn redrive_stops_at_maxlen() {
    let (_server, mut c) = start();
    push_dead(&mut c, &["a", "b", "c"]);
    c.script(&[
        ("ZQ.CONFIG q MAXLEN 2", "+OK"),
        ("ZQ.REDRIVE q", "2"),
        ("ZQ.REDRIVE q", "0"),
        ("ZQ.REDRIVE q ID c", "0"),
        ("ZQ.CANCEL q a", "1"),
        ("ZQ.REDRIVE q ID c", "1"),
    ]);
}

#[test]
fn redrive_without_count_takes_a_thousand() {
    let (_server, mut c) = start();
    c.run_all((0..1003).map(|n| format!("ZQ.PUSH q x ID {n}")));
    assert_eq!(c.jobs("ZQ.CLAIM 1 q LEASE 1m COUNT 2000").len(), 1003);
    let mut effects = String::new();
    (0..1003).for_each(|n| effects += &format!(" DEAD {n}"));
    let now = c.now();
    assert_eq!(c.reply(&format!("ZQ.APPLY q {now}{effects}")), "1003");
    c.script(&[("ZQ.REDRIVE q", "1000"), ("ZQ.REDRIVE q", "3"), ("ZQ.REDRIVE q", "0")]);
}

#[test]
fn clean_takes_the_oldest_of_a_state_and_leaves_the_others() {
    let (_server, mut c) = start();
    push_dead(&mut c, &["dead1", "dead2", "dead3"]);
    for n in 1..4 {
        c.run(&format!("ZQ.PUSH q x ID ready{n} AT {n}"));
        c.run(&format!("ZQ.PUSH q x ID later{n} AT 410244480{n}"));
    }
    c.run("ZQ.PUSH q x ID held PRIORITY -1");
    c.claim(CLAIM);
    c.script(&[
        ("ZQ.CLEAN q DEAD COUNT 2", "2"),
        ("ZQ.CLEAN q DEAD OLDER 1h", "0"),
        ("ZQ.CLEAN q READY OLDER 1h", "0"),
        ("ZQ.CLEAN q READY COUNT 1", "1"),
        ("ZQ.CLEAN q DELAYED OLDER 1h", "0"),
        ("ZQ.CLEAN q DELAYED COUNT 1", "1"),
        ("ZQ.CLEAN q CLAIMED", "!ERR syntax error"),
        ("ZQ.CLEAN none DEAD", "0"),
        ("EXISTS none", "0"),
    ]);
    assert_eq!(c.ids("ZQ.PEEK q DEAD"), ["dead3"]);
    assert_eq!(c.ids("ZQ.PEEK q READY"), ["ready2", "ready3"]);
    assert_eq!(c.ids("ZQ.PEEK q DELAYED"), ["later2", "later3"]);
    assert_eq!(c.ids("ZQ.PEEK q CLAIMED"), ["held"]);
    assert_eq!(c.field("ZQ.STATS q", "cleaned"), 4);
}

#[test]
fn a_queue_is_read_page_by_page() {
    let (_server, mut c) = start();
    for n in 0..7 {
        c.run(&format!("ZQ.PUSH q x{n} ID r{n} PRIORITY {}", n % 3));
        c.run(&format!("ZQ.PUSH q x ID d{n} AT 410244480{n}"));
    }
    for state in ["READY", "DELAYED"] {
        let all = c.ids(&format!("ZQ.PEEK q {state} COUNT 100"));
        assert_eq!(all.len(), 7);
        let mut paged = c.ids(&format!("ZQ.PEEK q {state} COUNT 3"));
        loop {
            let last = paged.last().expect("there are jobs").clone();
            let page = c.ids(&format!("ZQ.PEEK q {state} AFTER {last} COUNT 3 NOPAYLOAD"));
            if page.is_empty() {
                break;
            }
            paged.extend(page);
        }
        assert_eq!(paged, all, "{state}");
    }
    let gone = "!ERR no such job in this state and group; continue after another ID or omit AFTER";
    c.script(&[("ZQ.PEEK q DEAD AFTER r1", gone), ("ZQ.PEEK q AFTER none", gone)]);
    let page = c.reply("ZQ.PEEK q COUNT 1 NOPAYLOAD");
    assert!(page.starts_with("[['r0' ") && page.ends_with(" 0 0 nil]]"), "{page}");
}

/// A call for one page must not make other clients wait for a scan of the whole queue.
#[test]
fn a_page_that_lies_far_behind_is_an_error_that_says_what_to_do() {
    let (_server, mut c) = start();
    let push = "for i = 1, 3000 do redis.call('ZQ.PUSH', KEYS[1], 'x', 'ID', i, 'PRIORITY', i % ARGV[1]) end";
    for (key, priorities) in [("same", 1), ("mixed", 2)] {
        c.call(redis::cmd("EVAL").arg(push).arg(1).arg(key).arg(priorities));
    }
    let far = "!ERR job is not among the first 500 ready jobs; use GROUP, or COUNT without AFTER";
    c.script(&[("ZQ.PEEK mixed AFTER 2999", far)]);
    assert_eq!(c.ids("ZQ.PEEK same AFTER 2998"), ["2999", "3000"]);
    assert_eq!(c.ids("ZQ.PEEK mixed AFTER 100 COUNT 2"), ["102", "104"]);
    assert_eq!(c.ids("ZQ.PEEK mixed COUNT 3000").last().expect("jobs"), "2999");
    for id in (1..=2999).step_by(2) {
        c.run(&format!("ZQ.CANCEL mixed {id}"));
    }
    assert_eq!(c.ids("ZQ.PEEK mixed AFTER 2998"), ["3000"], "one priority is left");
}

#[test]
fn memory_is_told() {
    let (_server, mut c) = start();
    c.run("ZQ.CONFIG q PAUSED yes");
    let empty = c.int("MEMORY USAGE q");
    let payload = "x".repeat(1000);
    c.run_all((0..200).map(|_| format!("ZQ.PUSH q {payload}")));
    let full = c.int("MEMORY USAGE q");
    assert!((200_000..300_000).contains(&(full - empty)), "{empty} {full}");
    c.script(&[("UNLINK q", "1"), ("EXISTS q", "0")]);
}
