//! Tests of errors that the simulated histories do not detect: a needless timer, a needless check, a bound that is off
//! by one.

use super::super::{BATCH, Client, HORIZON, Turn, WAKE_TIMEOUT, Waiting};
use crate::base::alarm::Alarm;
use crate::base::time::Millis;

const NOW: Millis = 1_000_000;
const CLIENT: Client = 7;

/// Returns a model with one client that waits for these keys. Each key is given with the time of its next check.
fn waiting(keys: &[(u32, Millis)]) -> Waiting<u32> {
    let mut waiting = Waiting::default();
    for &(key, next) in keys {
        waiting.join(&key, CLIENT, NOW);
        waiting.checked(&key, NOW, Some(next), true);
    }
    waiting
}

fn never() -> bool {
    panic!("nothing depends on whether clients may be served")
}

#[test]
fn a_change_wakes_a_client_only_if_a_job_is_claimable() {
    let mut waiting = waiting(&[(1, NOW + 100)]);
    assert_eq!(waiting.checked(&1, NOW, Some(NOW + 1), true), None);
    assert_eq!(waiting.checked(&1, NOW, None, true), None);
    assert_eq!(waiting.checked(&1, NOW, Some(NOW), true), Some(CLIENT));
}

#[test]
fn only_due_keys_are_checked() {
    let mut waiting = waiting(&[(1, NOW + 10), (2, NOW + 11)]);
    assert_eq!(waiting.fired(NOW + 9, never), []);
    assert_eq!(waiting.fired(NOW + 10, || true), [1]);
    assert_eq!(waiting.fired(NOW + 11, || true), [2]);
}

#[test]
fn keys_are_checked_in_batches() {
    let keys: Vec<_> = (0..BATCH as u32 + 1).map(|key| (key, NOW + 10)).collect();
    let mut waiting = waiting(&keys);
    assert_eq!(waiting.fired(NOW + 10, || true).len(), BATCH);
    assert_eq!(waiting.alarm(NOW + 10), Alarm::In(0));
    assert_eq!(waiting.fired(NOW + 10, || true), [BATCH as u32]);
}

#[test]
fn check_all_makes_every_key_due() {
    let mut waiting = waiting(&[(1, NOW + 86_400_000), (2, NOW + 86_400_000)]);
    waiting.join(&3, CLIENT, NOW);
    waiting.check_all(NOW);
    assert_eq!(waiting.fired(NOW, || true), [1, 2, 3]);
}

#[test]
fn a_tick_asks_whether_clients_may_be_served_once_a_key_is_due() {
    let mut waiting = waiting(&[(1, NOW + 10)]);
    assert_eq!(waiting.tick(NOW + 9, never), Alarm::In(1));
    // While clients may not be served, an armed timer is disarmed, and then stays off.
    assert_eq!(waiting.tick(NOW + 11, || false), Alarm::Off);
    assert_eq!(waiting.tick(NOW + 12, || false), Alarm::AsItIs);
    assert_eq!(waiting.tick(NOW + 13, || true), Alarm::In(0));
}

#[test]
fn a_tick_arms_the_timer_again_once_clients_may_be_served() {
    let mut waiting = waiting(&[(1, NOW)]);
    assert_eq!(waiting.fired(NOW, || false), []);
    waiting.checked(&1, NOW, Some(NOW + 100), true);
    assert_eq!(waiting.tick(NOW + 1, || true), Alarm::In(99));
}

#[test]
fn a_tick_leaves_a_timer_alone_until_its_moment_has_passed() {
    let mut waiting = waiting(&[(1, NOW + 10)]);
    assert_eq!(waiting.alarm(NOW), Alarm::In(10));
    assert_eq!(waiting.tick(NOW + 5, never), Alarm::AsItIs);
    assert_eq!(waiting.tick(NOW + 10, || true), Alarm::AsItIs);
    assert_eq!(waiting.tick(NOW + 11, || true), Alarm::In(0));
}

#[test]
fn a_timer_whose_moment_has_passed_is_stopped_if_nothing_needs_it() {
    let mut waiting = waiting(&[(1, NOW + 10)]);
    assert_eq!(waiting.alarm(NOW), Alarm::In(10));
    waiting.checked(&1, NOW, Some(NOW + 86_400_000), true);
    assert_eq!(waiting.tick(NOW + 11, never), Alarm::Off);
    assert_eq!(waiting.tick(NOW + 12, never), Alarm::AsItIs);
}

#[test]
fn a_timer_that_fires_for_nothing_once_is_cheaper_than_one_that_is_stopped() {
    let mut waiting = waiting(&[(1, NOW + 10)]);
    assert_eq!(waiting.alarm(NOW), Alarm::In(10));
    waiting.checked(&1, NOW, Some(NOW + 500), true);
    assert_eq!(waiting.alarm(NOW), Alarm::AsItIs);
    waiting.checked(&1, NOW, None, true);
    assert_eq!(waiting.alarm(NOW), Alarm::AsItIs);
    waiting.leave(&1, CLIENT, NOW);
    assert_eq!(waiting.alarm(NOW), Alarm::Off);
}

#[test]
fn a_timer_beyond_the_horizon_is_stopped_after_a_step_back() {
    let mut waiting = waiting(&[(1, NOW + HORIZON)]);
    assert_eq!(waiting.alarm(NOW), Alarm::In(HORIZON));
    assert_eq!(waiting.alarm(NOW - 1), Alarm::Off);
}

#[test]
fn a_timer_is_set_again_only_for_a_sooner_moment() {
    let mut waiting = waiting(&[(1, NOW + 500)]);
    assert_eq!(waiting.alarm(NOW), Alarm::In(500));
    waiting.checked(&1, NOW, Some(NOW + 600), true);
    assert_eq!(waiting.alarm(NOW), Alarm::AsItIs);
    waiting.checked(&1, NOW, Some(NOW + 499), true);
    assert_eq!(waiting.alarm(NOW), Alarm::In(499));
}

/// Returns a model with two clients. The earlier one waits for key 1. The later one waits for the keys 1 and 2, and was
/// woken for key 2.
fn earlier_and_later() -> Waiting<u32> {
    let mut waiting = waiting(&[(1, NOW + 10)]);
    waiting.join(&1, CLIENT + 1, NOW);
    waiting.join(&2, CLIENT + 1, NOW);
    assert_eq!(waiting.checked(&2, NOW, Some(NOW), true), Some(CLIENT + 1));
    waiting
}

#[test]
fn a_client_goes_on_to_its_next_key_unless_there_may_be_a_job_for_it() {
    let mut waiting = earlier_and_later();
    assert_eq!(waiting.turn(&1, CLIENT + 1, NOW + 9), Turn::GoOn);
    assert_eq!(waiting.turn(&1, CLIENT + 1, NOW + 10), Turn::Check, "it is due, and no timer has fired");
    assert_eq!(waiting.turn(&2, CLIENT + 1, NOW), Turn::Check, "it was woken");
    assert_eq!(waiting.turn(&3, CLIENT + 1, NOW), Turn::GoOn, "no client waits");
    waiting.checked(&1, NOW, Some(NOW), false);
    assert_eq!(waiting.turn(&1, CLIENT + 1, NOW), Turn::GoOn, "no client may be served");
}

#[test]
fn a_client_that_does_not_answer_keeps_others_from_their_jobs_for_a_while_at_most() {
    let mut waiting = earlier_and_later();
    for at in [NOW, NOW + WAKE_TIMEOUT - 1] {
        assert_eq!(waiting.checked(&1, at, Some(at), true), Some(CLIENT));
        assert_eq!(waiting.turn(&1, CLIENT + 1, at), Turn::Wait);
    }
    assert_eq!(waiting.turn(&1, CLIENT + 1, NOW + WAKE_TIMEOUT), Turn::GoOn);
    // A check finds no job. A later check finds one and wakes the client again.
    assert_eq!(waiting.checked(&1, NOW + WAKE_TIMEOUT, None, true), None);
    assert_eq!(waiting.checked(&1, NOW + WAKE_TIMEOUT, Some(NOW), true), Some(CLIENT));
    assert_eq!(waiting.turn(&1, CLIENT + 1, NOW + WAKE_TIMEOUT), Turn::Wait);
}

#[test]
fn a_client_that_waits_behind_another_is_woken_again_when_no_job_is_left() {
    for (next, allowed) in [(None, true), (Some(NOW + 5), true), (Some(NOW), false)] {
        let mut waiting = earlier_and_later();
        waiting.checked(&1, NOW, Some(NOW), true);
        waiting.wait_behind(&1, &[2, 3], CLIENT + 1);
        assert_eq!(waiting.fired(NOW, || true), []);
        assert_eq!(waiting.checked(&1, NOW, next, allowed), None);
        assert_eq!(waiting.fired(NOW, || true), [2]);
    }
}
