//! An operator's work on a queue: listing jobs, repairing jobs, bounding the number of dead letters.

use redis::Value;
use testkit::{Client, start};

fn field(c: &mut Client, line: &str, name: &str) -> String {
    let reply = c.reply(line);
    let (_, rest) = reply.split_once(&format!("'{name}' ")).unwrap_or_else(|| panic!("{name} in {reply}"));
    rest.split([' ', ']']).next().unwrap_or_default().to_owned()
}

/// Pushes jobs with these IDs, and makes each a dead letter.
fn bury(c: &mut Client, ids: &[&str]) {
    for id in ids {
        c.run(&format!("ZQ.PUSH q x ID {id} PRIORITY -9"));
        let token = field_of_claim(c);
        assert_eq!(c.reply(&format!("ZQ.NACK q {id} {token} DEAD ERROR it-was-{id}")), "1");
    }
}

fn field_of_claim(c: &mut Client) -> i64 {
    let Value::Array(jobs) = c.run("ZQ.CLAIM 1 q LEASE 1m AS w1") else { panic!("no array") };
    let [Value::Array(job)] = &jobs[..] else { panic!("one job") };
    let Value::Int(token) = job[2] else { panic!("no token") };
    token
}

fn ids(c: &mut Client, line: &str) -> Vec<String> {
    let Value::Array(jobs) = c.run(line) else { panic!("{line}") };
    let id = |job: &Value| match job {
        Value::Array(job) => match &job[0] {
            Value::BulkString(id) => String::from_utf8_lossy(id).into_owned(),
            other => panic!("{other:?}"),
        },
        other => panic!("{other:?}"),
    };
    jobs.iter().map(id).collect()
}

#[test]
fn a_dead_letter_tells_who_had_it_when_and_why_it_died() {
    let (_server, mut c) = start();
    bury(&mut c, &["a"]);
    assert_eq!(field(&mut c, "ZQ.GET q a", "worker"), "'w1'");
    let reply = c.reply("ZQ.GET q a");
    assert!(reply.ends_with("'worker' 'w1' 'error' 'it-was-a' 'group' nil 'again_payload' nil]"), "{reply}");
    let time = |c: &mut Client, name| field(c, "ZQ.GET q a", name).parse::<i64>().expect("a time");
    let [created, claimed, failed] = ["created_ms", "claimed_ms", "failed_ms"].map(|name| time(&mut c, name));
    assert!(created <= claimed && claimed <= failed && failed == time(&mut c, "due_ms"), "{reply}");
    // After REDRIVE and a claim without AS, the job keeps its error, but has no worker's name.
    c.script(&[("ZQ.REDRIVE q ID a", "1")]);
    c.run("ZQ.CLAIM 1 q LEASE 1m");
    let reply = c.reply("ZQ.GET q a");
    assert!(reply.ends_with("'worker' nil 'error' 'it-was-a' 'group' nil 'again_payload' nil]"), "{reply}");
    c.run("DEBUG RELOAD");
    assert_eq!(c.reply("ZQ.GET q a"), reply, "it is saved and loaded");
}

#[test]
fn free_attempts_do_not_count() {
    let (_server, mut c) = start();
    c.run("ZQ.PUSH q x ID a MAXATTEMPTS 1");
    for _ in 0..3 {
        let token = field_of_claim(&mut c);
        assert_eq!(c.reply(&format!("ZQ.NACK q a {token} FREE")), "1");
        assert_eq!(field(&mut c, "ZQ.GET q a", "state"), "'ready'");
        assert_eq!(field(&mut c, "ZQ.GET q a", "attempts"), "0");
        assert_eq!(field(&mut c, "ZQ.GET q a", "failed_ms"), "nil");
    }
    let token = field_of_claim(&mut c);
    c.run(&format!("ZQ.NACK q a {token}"));
    assert_eq!(field(&mut c, "ZQ.GET q a", "state"), "'dead'");
}

#[test]
fn a_recurring_job_out_of_attempts_waits_for_its_next_occurrence() {
    let (_server, mut c) = start();
    c.run("ZQ.PUSH q x ID a MAXATTEMPTS 1 EVERY 1h");
    let due: i64 = field(&mut c, "ZQ.GET q a", "due_ms").parse().unwrap();
    let token = field_of_claim(&mut c);
    assert_eq!(c.reply(&format!("ZQ.NACK q a {token} DELAY 1s ERROR broken")), "1");
    assert_eq!(field(&mut c, "ZQ.GET q a", "due_ms"), (due + 3_600_000).to_string());
    assert_eq!(field(&mut c, "ZQ.GET q a", "attempts"), "0");
    assert_eq!(field(&mut c, "ZQ.GET q a", "error"), "'broken'");
    assert_eq!(field(&mut c, "ZQ.STATS q", "missed"), "1");
}

#[test]
fn redrive_by_id_takes_the_dead_ones_named_and_no_others() {
    let (_server, mut c) = start();
    bury(&mut c, &["a", "b", "c"]);
    c.script(&[
        ("ZQ.PUSH q x ID waits AT 4102444800", "'waits'"),
        ("ZQ.REDRIVE q ID c waits none c", "1"),
        ("ZQ.REDRIVE q ID", "!ERR syntax error"),
        ("ZQ.REDRIVE q COUNT 1 ID a", "!ERR syntax error"),
    ]);
    assert_eq!(ids(&mut c, "ZQ.PEEK q DEAD"), ["a", "b"]);
    assert_eq!(ids(&mut c, "ZQ.PEEK q"), ["c"]);
}

#[test]
fn redrive_stops_at_maxlen() {
    let (_server, mut c) = start();
    bury(&mut c, &["a", "b", "c"]);
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
    for n in 0..1003 {
        c.run(&format!("ZQ.PUSH q x ID {n}"));
    }
    let Value::Array(jobs) = c.run("ZQ.CLAIM 1 q LEASE 1m COUNT 2000") else { panic!("jobs") };
    assert_eq!(jobs.len(), 1003);
    let mut effects = String::new();
    (0..1003).for_each(|n| effects += &format!(" BURY {n}"));
    let now = c.now();
    assert_eq!(c.reply(&format!("ZQ.APPLY q {now}{effects}")), "1003");
    c.script(&[("ZQ.REDRIVE q", "1000"), ("ZQ.REDRIVE q", "3"), ("ZQ.REDRIVE q", "0")]);
}

#[test]
fn clean_takes_the_oldest_of_a_state_and_leaves_the_others() {
    let (_server, mut c) = start();
    bury(&mut c, &["dead1", "dead2", "dead3"]);
    for n in 1..4 {
        c.run(&format!("ZQ.PUSH q x ID ready{n} AT {n}"));
        c.run(&format!("ZQ.PUSH q x ID later{n} AT 410244480{n}"));
    }
    c.run("ZQ.PUSH q x ID held PRIORITY -1");
    field_of_claim(&mut c);
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
    assert_eq!(ids(&mut c, "ZQ.PEEK q DEAD"), ["dead3"]);
    assert_eq!(ids(&mut c, "ZQ.PEEK q READY"), ["ready2", "ready3"]);
    assert_eq!(ids(&mut c, "ZQ.PEEK q DELAYED"), ["later2", "later3"]);
    assert_eq!(ids(&mut c, "ZQ.PEEK q CLAIMED"), ["held"]);
    assert_eq!(field(&mut c, "ZQ.STATS q", "cleaned"), "4");
}

#[test]
fn deadlen_and_deadttl_let_the_oldest_dead_letters_go() {
    let (_server, mut c) = start();
    c.run("ZQ.CONFIG q DEADLEN 2");
    bury(&mut c, &["a", "b", "c", "d"]);
    assert_eq!(ids(&mut c, "ZQ.PEEK q DEAD"), ["c", "d"]);
    assert_eq!(field(&mut c, "ZQ.STATS q", "dropped"), "2");
    let died: i64 = field(&mut c, "ZQ.GET q d", "due_ms").parse().unwrap();
    c.run("ZQ.CONFIG q DEADLEN 0 DEADTTL 1ms");
    c.wait_until(died + 1);
    c.run("ZQ.PUSH q x ID e");
    assert_eq!(ids(&mut c, "ZQ.PEEK q DEAD"), [""; 0]);
    assert_eq!(field(&mut c, "ZQ.STATS q", "dropped"), "4");
}

#[test]
fn a_queue_is_read_page_by_page() {
    let (_server, mut c) = start();
    for n in 0..7 {
        c.run(&format!("ZQ.PUSH q x{n} ID r{n} PRIORITY {}", n % 3));
        c.run(&format!("ZQ.PUSH q x ID d{n} AT 410244480{n}"));
    }
    for state in ["READY", "DELAYED"] {
        let all = ids(&mut c, &format!("ZQ.PEEK q {state} COUNT 100"));
        assert_eq!(all.len(), 7);
        let mut paged = ids(&mut c, &format!("ZQ.PEEK q {state} COUNT 3"));
        loop {
            let last = paged.last().expect("there are jobs").clone();
            let page = ids(&mut c, &format!("ZQ.PEEK q {state} AFTER {last} COUNT 3 NOPAYLOAD"));
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
    assert_eq!(ids(&mut c, "ZQ.PEEK same AFTER 2998"), ["2999", "3000"]);
    assert_eq!(ids(&mut c, "ZQ.PEEK mixed AFTER 100 COUNT 2"), ["102", "104"]);
    assert_eq!(ids(&mut c, "ZQ.PEEK mixed COUNT 3000").last().expect("jobs"), "2999");
    for id in (1..=2999).step_by(2) {
        c.run(&format!("ZQ.CANCEL mixed {id}"));
    }
    assert_eq!(ids(&mut c, "ZQ.PEEK mixed AFTER 2998"), ["3000"], "one priority is left");
}

#[test]
fn jitter_spreads_a_backoff_and_never_shortens_it() {
    let (_server, mut c) = start();
    c.run("ZQ.CONFIG q BACKOFF 1000s 2000s JITTER 50");
    let mut waits = Vec::new();
    for n in 0..20 {
        c.run(&format!("ZQ.PUSH q x ID {n}"));
        let token = field_of_claim(&mut c);
        c.run(&format!("ZQ.NACK q {n} {token}"));
        let [due, failed] =
            ["due_ms", "failed_ms"].map(|name| field(&mut c, &format!("ZQ.GET q {n}"), name).parse::<i64>().unwrap());
        waits.push(due - failed);
    }
    assert!(waits.iter().all(|wait| (1_000_000..=1_500_000).contains(wait)), "{waits:?}");
    let (least, most) = (waits.iter().min().unwrap(), waits.iter().max().unwrap());
    assert!(most - least > 100_000, "twenty of them lie apart: {waits:?}");
}
