//! What the histories do not tell apart: a timer more than is needed, a question too many, a bound that is off by one.

use super::super::{BATCH, Client, HORIZON, Turn, UNANSWERED, Waiting};
use crate::model::alarm::Alarm;
use crate::model::time::Millis;

const NOW: Millis = 1_000_000;
const CLIENT: Client = 7;

/// Clients that wait for these keys, which are looked at next at these moments.
fn waiting(keys: &[(u32, Millis)]) -> Waiting<u32> {
    let mut waiting = Waiting::default();
    for &(key, next) in keys {
        waiting.enter(&key, CLIENT, NOW);
        waiting.looked(&key, NOW, Some(next), true);
    }
    waiting
}

fn never() -> bool {
    panic!("nothing depends on whether clients may be served")
}

#[test]
fn a_change_asks_the_clients_only_for_what_they_can_have() {
    let mut waiting = waiting(&[(1, NOW + 100)]);
    assert_eq!(waiting.looked(&1, NOW, Some(NOW + 1), true), None);
    assert_eq!(waiting.looked(&1, NOW, None, true), None);
    assert_eq!(waiting.looked(&1, NOW, Some(NOW), true), Some(CLIENT));
}

#[test]
fn only_keys_whose_moment_has_come_are_looked_at() {
    let mut waiting = waiting(&[(1, NOW + 10), (2, NOW + 11)]);
    assert_eq!(waiting.fired(NOW + 9, never), []);
    assert_eq!(waiting.fired(NOW + 10, || true), [1]);
    assert_eq!(waiting.fired(NOW + 11, || true), [2]);
}

#[test]
fn keys_are_looked_at_in_batches() {
    let keys: Vec<_> = (0..BATCH as u32 + 1).map(|key| (key, NOW + 10)).collect();
    let mut waiting = waiting(&keys);
    assert_eq!(waiting.fired(NOW + 10, || true).len(), BATCH);
    assert_eq!(waiting.alarm(NOW + 10), Alarm::In(0));
    assert_eq!(waiting.fired(NOW + 10, || true), [BATCH as u32]);
}

#[test]
fn look_at_all_finds_every_key_due() {
    let mut waiting = waiting(&[(1, NOW + 86_400_000), (2, NOW + 86_400_000)]);
    waiting.enter(&3, CLIENT, NOW);
    waiting.look_at_all(NOW);
    assert_eq!(waiting.fired(NOW, || true), [1, 2, 3]);
}

#[test]
fn a_tick_asks_whether_clients_may_be_served_once_a_key_is_due() {
    let mut waiting = waiting(&[(1, NOW + 10)]);
    assert_eq!(waiting.tick(NOW + 9, never), Alarm::In(1));
    // Not now: no timer fires for nothing. The timer that is armed goes off, or is not needed.
    assert_eq!(waiting.tick(NOW + 11, || false), Alarm::Off);
    assert_eq!(waiting.tick(NOW + 12, || false), Alarm::AsItIs);
    assert_eq!(waiting.tick(NOW + 13, || true), Alarm::In(0));
}

#[test]
fn clients_that_may_be_served_again_are_not_held_when_nothing_is_due_any_more() {
    let mut waiting = waiting(&[(1, NOW)]);
    assert_eq!(waiting.fired(NOW, || false), []);
    waiting.looked(&1, NOW, Some(NOW + 100), true);
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
    waiting.looked(&1, NOW, Some(NOW + 86_400_000), true);
    assert_eq!(waiting.tick(NOW + 11, never), Alarm::Off);
    assert_eq!(waiting.tick(NOW + 12, never), Alarm::AsItIs);
}

#[test]
fn a_timer_that_fires_for_nothing_once_is_cheaper_than_one_that_is_stopped() {
    let mut waiting = waiting(&[(1, NOW + 10)]);
    assert_eq!(waiting.alarm(NOW), Alarm::In(10));
    waiting.looked(&1, NOW, Some(NOW + 500), true);
    assert_eq!(waiting.alarm(NOW), Alarm::AsItIs);
    waiting.looked(&1, NOW, None, true);
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
    waiting.looked(&1, NOW, Some(NOW + 600), true);
    assert_eq!(waiting.alarm(NOW), Alarm::AsItIs);
    waiting.looked(&1, NOW, Some(NOW + 499), true);
    assert_eq!(waiting.alarm(NOW), Alarm::In(499));
}

/// Two clients: one waits for the key 1, and a later one for the keys 1 and 2, of which it has been asked for the sake of the second.
fn earlier_and_later() -> Waiting<u32> {
    let mut waiting = waiting(&[(1, NOW + 10)]);
    waiting.enter(&1, CLIENT + 1, NOW);
    waiting.enter(&2, CLIENT + 1, NOW);
    assert_eq!(waiting.looked(&2, NOW, Some(NOW), true), Some(CLIENT + 1));
    waiting
}

#[test]
fn a_client_goes_on_to_its_next_key_unless_there_may_be_a_job_for_it() {
    let mut waiting = earlier_and_later();
    assert_eq!(waiting.turn(&1, CLIENT + 1, NOW + 9), Turn::GoOn);
    assert_eq!(waiting.turn(&1, CLIENT + 1, NOW + 10), Turn::Look, "its moment has come, and no timer has told");
    assert_eq!(waiting.turn(&2, CLIENT + 1, NOW), Turn::Look, "it was asked");
    assert_eq!(waiting.turn(&3, CLIENT + 1, NOW), Turn::GoOn, "nobody waits");
    waiting.looked(&1, NOW, Some(NOW), false);
    assert_eq!(waiting.turn(&1, CLIENT + 1, NOW), Turn::GoOn, "nobody may be served");
}

#[test]
fn a_client_that_does_not_answer_keeps_others_from_their_jobs_for_a_while_at_most() {
    let mut waiting = earlier_and_later();
    for at in [NOW, NOW + UNANSWERED - 1] {
        assert_eq!(waiting.looked(&1, at, Some(at), true), Some(CLIENT));
        assert_eq!(waiting.turn(&1, CLIENT + 1, at), Turn::Wait);
    }
    assert_eq!(waiting.turn(&1, CLIENT + 1, NOW + UNANSWERED), Turn::GoOn);
    // It answers, and is asked once more later.
    assert_eq!(waiting.looked(&1, NOW + UNANSWERED, None, true), None);
    assert_eq!(waiting.looked(&1, NOW + UNANSWERED, Some(NOW), true), Some(CLIENT));
    assert_eq!(waiting.turn(&1, CLIENT + 1, NOW + UNANSWERED), Turn::Wait);
}

#[test]
fn a_client_that_waits_behind_another_is_asked_again_when_nothing_is_left_for_it() {
    for (next, allowed) in [(None, true), (Some(NOW + 5), true), (Some(NOW), false)] {
        let mut waiting = earlier_and_later();
        waiting.looked(&1, NOW, Some(NOW), true);
        waiting.wait_behind(&1, &[2, 3], CLIENT + 1);
        assert_eq!(waiting.fired(NOW, || true), []);
        assert_eq!(waiting.looked(&1, NOW, next, allowed), None);
        assert_eq!(waiting.fired(NOW, || true), [2]);
    }
}
