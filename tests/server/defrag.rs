//! Active defragmentation on servers with jemalloc moves the memory of queues and boards. Their content stays the same.

use std::time::Duration;
use testkit::{Client, eventually, start};

/// Makes the server move memory as soon as `activedefrag` is on.
fn set_low_limits(c: &mut Client) {
    c.run_all([
        "CONFIG SET active-defrag-ignore-bytes 1",
        "CONFIG SET active-defrag-threshold-lower 0",
        "CONFIG SET active-defrag-cycle-min 50",
        "CONFIG SET active-defrag-cycle-max 75",
        // With this setting, the queue counts as large, so that it is moved in steps.
        "CONFIG SET active-defrag-max-scan-fields 100",
    ]);
}

#[test]
fn active_defragmentation_leaves_queues_and_boards_as_they_are() {
    let (_server, mut c) = start();
    set_low_limits(&mut c);
    c.run("ZLB.CREATE board DIM points");
    let payload = "x".repeat(120);
    for i in 0..6000 {
        c.string(&format!("ZQ.PUSH queue {payload} ID {i} GROUP {}", i % 50));
        c.int(&format!("ZLB.SET board member-{i} {i}"));
    }
    // Removes two thirds of the entries, so that the remaining memory is fragmented.
    for i in (0..6000).filter(|i| i % 3 > 0) {
        c.int(&format!("ZQ.CANCEL queue {i}"));
        c.int(&format!("ZLB.REM board member-{i}"));
    }
    let digests = |c: &mut Client| ["queue", "board"].map(|key| c.reply(&format!("DEBUG DIGEST-VALUE {key}")));
    let before = digests(&mut c);
    if let Err(why) = c.try_run("CONFIG SET activedefrag yes") {
        eprintln!("not on this server: {why}");
        return;
    }
    eventually(Duration::from_secs(60), "blocks are moved", || c.info_number("stats", "active_defrag_hits") > 1000);
    assert_eq!(digests(&mut c), before);
    // The keys can still be changed.
    c.string("ZQ.PUSH queue x ID new");
    c.int("ZLB.SET board new 7");
    assert_eq!(c.int("ZQ.CANCEL queue 0 3 new"), 3);
    assert_eq!(c.int("ZLB.REM board member-0 new"), 2);
}

/// Between a change of a queue and the update of INFO's totals, the server can move the queue.
#[test]
fn queues_that_change_while_they_are_moved_are_counted() {
    let (_server, mut c) = start();
    set_low_limits(&mut c);
    for i in 0..3000 {
        c.string(&format!("ZQ.PUSH q{i} x"));
    }
    let kept: Vec<i32> = (0..3000).filter(|i| i % 3 == 0).collect();
    for i in (0..3000).filter(|i| i % 3 > 0) {
        c.int(&format!("DEL q{i}"));
    }
    if let Err(why) = c.try_run("CONFIG SET activedefrag yes") {
        eprintln!("not on this server: {why}");
        return;
    }
    let mut pushed = 0;
    eventually(Duration::from_secs(60), "blocks are moved", || {
        for i in &kept {
            c.string(&format!("ZQ.PUSH q{i} x"));
        }
        pushed += kept.len() as i64;
        c.info_number("stats", "active_defrag_key_hits") > 1000
    });
    assert_eq!(c.info_number("zeitset", "zeitset_jobs_ready"), pushed + kept.len() as i64);
}
