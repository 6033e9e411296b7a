//! PROGRESS: the text stays with its job, through each way in which an attempt can end.

use super::super::{Fate, MAX_PROGRESS, NackOptions, Queue};
use super::{Pair, encoded};

fn progress(queue: &Queue, id: &str) -> (String, u64) {
    let extras = queue.get(1000, id.as_bytes()).expect("a job").extras;
    (String::from_utf8(extras.progress.to_vec()).unwrap(), extras.progressed)
}

/// Returns a pair whose only job has been claimed at 10 until 50 and has progress of 20, and the token.
fn at_work(more: impl FnOnce(&mut super::Push<'_>)) -> (Pair, u64) {
    let mut pair = Pair::new();
    pair.job_with(10, "j", 10, more);
    let token = pair.take(10, 50, "j");
    assert!(pair.progress(20, "j", token, "40 %"));
    (pair, token)
}

#[test]
fn the_next_attempt_reads_the_progress_of_the_last() {
    let kept = ("40 %".to_owned(), 20);
    for end in ["lease", "nack", "free", "dead", "last"] {
        let (mut pair, token) = at_work(|push| push.max_attempts = Some(if end == "last" { 1 } else { 3 }));
        assert_eq!(progress(&pair.primary, "j"), kept);
        let free = NackOptions { is_free: true, error: b"busy" };
        match end {
            "nack" => drop(pair.nack(30, "j", token, Fate::Default)),
            "free" => drop(pair.nack_with(30, "j", token, Fate::At(60), free)),
            "dead" => drop(pair.nack(30, "j", token, Fate::Dead)),
            _ => {}
        }
        pair.redrive(60, 1);
        assert_eq!(progress(&pair.primary, "j"), kept, "{end}");
        let token = pair.take(60, 90, "j");
        assert_eq!(progress(&pair.primary, "j"), kept, "{end}");
        assert!(pair.progress(70, "j", token, "80 %"));
        assert_eq!(progress(&pair.primary, "j"), ("80 %".to_owned(), 70));
    }
}

#[test]
fn a_token_is_as_good_for_progress_as_for_ack() {
    let (mut pair, token) = at_work(|push| push.max_attempts = Some(1));
    assert!(!pair.progress(30, "j", token + 1, "x") && !pair.progress(30, "none", token, "x"));
    assert!(pair.progress(60, "j", token, "late"), "the job has died of its lease, and the worker still has its token");
    assert_eq!(progress(&pair.primary, "j"), ("late".to_owned(), 60));
    assert!(pair.redrive(70, 1));
    assert!(!pair.progress(70, "j", token, "x"), "REDRIVE ends the token");
}

#[test]
fn progress_does_not_touch_the_lease_and_equal_progress_is_not_replicated() {
    let (mut pair, token) = at_work(|_| {});
    let before = encoded(&pair.primary);
    assert!(pair.progress(20, "j", token, "40 %"));
    assert_eq!(encoded(&pair.primary), before);
    assert!(pair.progress(40, "j", token, "40 %"), "the same text at another time");
    assert_eq!(progress(&pair.primary, "j").1, 40);
    assert_eq!(pair.primary.get(40, b"j").unwrap().time, 50, "the deadline");
    assert!(pair.extend(40, "j", token, 80));
    assert_eq!(progress(&pair.primary, "j").1, 40);
    assert!(pair.progress(41, "j", token, ""));
    assert_eq!(progress(&pair.primary, "j"), (String::new(), 0));
    assert_eq!(pair.primary.memory_usage(), {
        let mut other = Pair::new();
        other.job(10, "j", 10);
        other.take(10, 80, "j");
        other.primary.memory_usage()
    });
}

#[test]
fn progress_ends_with_its_job_and_with_an_occurrence() {
    let (mut pair, token) = at_work(|push| push.every = Some(100));
    assert_eq!(pair.nack(30, "j", token, Fate::Default), Some(Some(30)));
    let token = pair.take(40, 50, "j");
    assert_eq!(progress(&pair.primary, "j").0, "40 %", "the run goes on");
    assert!(pair.ack(45, "j", token));
    assert_eq!(progress(&pair.primary, "j"), (String::new(), 0));

    for same in ["replace", "again"] {
        let (mut pair, token) = at_work(|_| {});
        pair.nack(30, "j", token, Fate::Default);
        pair.job_with(30, "j", 30, |push| (push.replace, push.again) = (same == "replace", same == "again"));
        assert_eq!(progress(&pair.primary, "j").0, "", "{same}: another payload");
    }

    let (mut pair, token) = at_work(|_| {});
    pair.job_with(30, "j", 30, |push| push.again = true);
    assert_eq!(progress(&pair.primary, "j").0, "40 %", "the run goes on");
    assert!(pair.ack(35, "j", token));
    assert_eq!(progress(&pair.primary, "j").0, "", "another job");
}

#[test]
fn progress_ends_with_a_job_whose_ttl_ends_but_not_with_an_occurrence() {
    let expiring = |every| at_work(|push| (push.every, push.ttl) = (every, Some(30)));
    let (mut pair, token) = expiring(None);
    assert!(pair.progress(45, "j", token, "after the TTL"), "the job is being worked on");
    pair.keep_up(45);
    assert_eq!(progress(&pair.primary, "j").0, "after the TTL");
    pair.keep_up(50);
    assert!(pair.primary.is_empty() && !pair.progress(55, "j", token, "too late"));
    pair.job(60, "j", 60);
    assert_eq!(progress(&pair.primary, "j"), (String::new(), 0), "another job");
    // As after the last attempt of an occurrence, only ACK ends the progress of a recurring job.
    let (mut pair, token) = expiring(Some(100));
    pair.nack(30, "j", token, Fate::At(60));
    pair.keep_up(40);
    assert_eq!((pair.primary.get(40, b"j").unwrap().time, progress(&pair.primary, "j").0), (110, "40 %".to_owned()));
    let token = pair.take(110, 130, "j");
    assert!(pair.ack(115, "j", token));
    assert_eq!(progress(&pair.primary, "j"), (String::new(), 0));
}

#[test]
fn an_occurrence_out_of_attempts_keeps_its_error_and_progress() {
    let (mut pair, token) = at_work(|push| (push.every, push.max_attempts) = (Some(100), Some(1)));
    let options = NackOptions { error: b"broken", ..NackOptions::default() };
    assert_eq!(pair.nack_with(30, "j", token, Fate::Default, options), Some(Some(110)));
    let extras = pair.primary.get(110, b"j").unwrap().extras;
    assert_eq!((extras.error, extras.progress), (&b"broken"[..], &b"40 %"[..]));
}

#[test]
fn a_progress_that_is_too_long_changes_nothing() {
    let (mut pair, token) = at_work(|_| {});
    let before = encoded(&pair.primary);
    let long = "x".repeat(MAX_PROGRESS + 1);
    assert!(pair.primary.progress(30, b"j", token, long.as_bytes()).is_none());
    assert_eq!(encoded(&pair.primary), before);
    assert!(pair.progress(30, "j", token, &long[1..]));
}
