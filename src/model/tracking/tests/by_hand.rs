//! When to look, moment by moment.

use crate::model::alarm::Alarm;
use crate::model::place::Place;
use crate::model::time::Millis;
use crate::model::tracking::{Arrival, Finds, HORIZON, NEVER, Need, Outcome, Tracking, visit_at};

const NOW: Millis = 1_000_000_000_000;
const IDLE: Need = Need { sweeps: true, hurries: false };
const HURRY: Need = Need { sweeps: true, hurries: true };
const REPLICA: Need = Need { sweeps: false, hurries: false };

fn with(due: Millis) -> Tracking {
    let mut tracking = Tracking::default();
    tracking.at_cron(NOW, IDLE);
    tracking.track(0, b"k", due);
    tracking
}

#[test]
fn what_is_near_is_armed_for_and_what_is_far_is_not() {
    for (ahead, alarm) in [
        (0, Alarm::In(1)),
        (1, Alarm::In(1)),
        (2, Alarm::In(2)),
        (HORIZON, Alarm::In(HORIZON)),
        (HORIZON + 1, Alarm::AsItIs),
        (60 * 86_400_000, Alarm::AsItIs),
    ] {
        assert_eq!(with(NOW + ahead).after_change(NOW, || IDLE), alarm, "{ahead}");
        assert_eq!(with(NOW + ahead).at_cron(NOW, IDLE), alarm, "{ahead}");
    }
    assert_eq!(with(NOW - 5).after_change(NOW, || IDLE), Alarm::In(1));
    assert_eq!(with(NEVER).after_change(NOW, || IDLE), Alarm::AsItIs);
}

#[test]
fn the_housekeeping_takes_up_what_has_come_near() {
    let mut tracking = with(NOW + 3_600_000);
    assert_eq!(tracking.after_change(NOW, || IDLE), Alarm::AsItIs);
    assert!(!tracking.is_armed());
    assert_eq!(tracking.at_cron(NOW + 3_598_000, IDLE), Alarm::AsItIs);
    assert_eq!(tracking.at_cron(NOW + 3_599_000, IDLE), Alarm::In(1000));
    assert!(tracking.is_armed());
    assert_eq!(tracking.at_cron(NOW + 3_599_100, IDLE), Alarm::AsItIs);
}

#[test]
fn a_timer_is_moved_only_for_what_is_sooner() {
    let mut tracking = with(NOW + 100);
    assert_eq!(tracking.after_change(NOW, || IDLE), Alarm::In(100));
    tracking.track(0, b"later", NOW + 101);
    assert_eq!(tracking.after_change(NOW, || IDLE), Alarm::AsItIs);
    tracking.track(0, b"at once", NOW + 100);
    assert_eq!(tracking.after_change(NOW, || IDLE), Alarm::AsItIs);
    tracking.track(0, b"sooner", NOW + 99);
    assert_eq!(tracking.after_change(NOW, || IDLE), Alarm::In(99));
    assert_eq!(tracking.after_change(NOW, || IDLE), Alarm::AsItIs, "it is no news any more");
}

#[test]
fn a_timer_goes_with_what_it_was_armed_for() {
    let mut tracking = with(NOW + 100);
    assert_eq!(tracking.after_change(NOW, || IDLE), Alarm::In(100));
    tracking.track(0, b"k", NOW + 50_000);
    assert_eq!(tracking.at_cron(NOW + 10, IDLE), Alarm::Off);
    assert_eq!((tracking.at_cron(NOW + 20, IDLE), tracking.is_armed()), (Alarm::AsItIs, false));
}

#[test]
fn a_replica_arms_nothing_but_for_a_patrol_in_a_hurry() {
    let mut tracking = with(NOW);
    assert_eq!(tracking.after_change(NOW, || REPLICA), Alarm::AsItIs);
    assert_eq!(tracking.at_cron(NOW, REPLICA), Alarm::AsItIs);
    assert_eq!(tracking.at_cron(NOW, Need { sweeps: false, hurries: true }), Alarm::In(1));
    assert_eq!(Tracking::default().at_cron(NOW, HURRY), Alarm::In(1));
    // A master again.
    assert_eq!(tracking.at_cron(NOW + 1, REPLICA), Alarm::Off);
    assert_eq!(tracking.at_cron(NOW + 2, IDLE), Alarm::In(1));
}

#[test]
fn a_slice_is_followed_by_a_rest_whoever_comes() {
    let mut tracking = with(NOW);
    assert_eq!(tracking.after_change(NOW, || IDLE), Alarm::In(1));
    tracking.fired();
    assert_eq!(tracking.after_slice(NOW + 1, 300, IDLE), Alarm::In(300));
    tracking.track(0, b"more", NOW);
    assert_eq!(tracking.after_change(NOW + 2, || IDLE), Alarm::AsItIs);
    assert_eq!(tracking.at_cron(NOW + 101, HURRY), Alarm::AsItIs);
    // A step back of the clock does not make the rest any longer, nor does one forward end it early by more than a second or two.
    assert_eq!(tracking.at_cron(NOW - 3_600_000, HURRY), Alarm::In(200));
    tracking.fired();
    // Longer than anything is armed for.
    assert_eq!(tracking.after_slice(NOW - 3_600_000, 5000, HURRY), Alarm::AsItIs);
    assert!(!tracking.is_armed());
    assert_eq!(tracking.at_cron(NOW - 3_598_500, HURRY), Alarm::AsItIs);
    assert_eq!(tracking.at_cron(NOW - 3_596_500, HURRY), Alarm::In(1500));
}

#[test]
fn a_step_of_the_clock_forward_is_noticed_by_the_housekeeping() {
    let mut tracking = with(NOW + 1000);
    assert_eq!(tracking.after_change(NOW, || IDLE), Alarm::In(1000));
    // An hour later by the clock, but the timer counts on.
    assert_eq!(tracking.at_cron(NOW + 3_600_000, IDLE), Alarm::In(1));
    assert_eq!(tracking.next_visit(NOW + 3_600_000), Some(Place::new(0, b"k")));
}

#[test]
fn a_step_of_the_clock_back_leaves_no_timer_for_what_is_far_again() {
    let mut tracking = with(NOW + 1000);
    assert_eq!(tracking.after_change(NOW, || IDLE), Alarm::In(1000));
    assert_eq!(tracking.at_cron(NOW - 60_000, IDLE), Alarm::Off);
    tracking.track(0, b"near", NOW - 59_000);
    assert_eq!(tracking.after_change(NOW - 60_000, || IDLE), Alarm::In(1000));
    // And with the timer armed for what is now far.
    let mut tracking = with(NOW + 1000);
    assert_eq!(tracking.after_change(NOW, || IDLE), Alarm::In(1000));
    tracking.track(0, b"near", NOW - 59_000);
    assert_eq!(tracking.after_change(NOW - 60_000, || IDLE), Alarm::In(1000));
}

#[test]
fn the_longest_due_is_visited_first_in_whichever_database() {
    let mut tracking = Tracking::default();
    for (database, key, due) in [(2, b"c", 30), (0, b"a", 20), (1, b"b", 10), (3, b"d", 99)] {
        tracking.track(database, key, due);
    }
    for (database, key) in [(1, b"b"), (0, b"a"), (2, b"c")] {
        let place = tracking.next_visit(50).unwrap();
        assert_eq!(place, Place::new(database, key));
        tracking.visited(&place, Outcome::Gone, 50);
    }
    assert_eq!((tracking.next_visit(50), tracking.len()), (None, 1));
    tracking.visited(&Place::new(3, b"d"), Outcome::Done(200), 50);
    assert_eq!((tracking.next_visit(199), tracking.next_visit(200)), (None, Some(Place::new(3, b"d"))));
}

#[test]
fn what_is_unknown_is_looked_at_again_after_a_while_and_stays_tracked() {
    let mut tracking = with(NOW);
    let place = tracking.next_visit(NOW).unwrap();
    tracking.visited(&place, Outcome::Unknown, NOW);
    assert_eq!((tracking.len(), tracking.overdue(NOW + 10), tracking.lag(NOW + 10)), (1, 1, 10));
    assert_eq!(tracking.after_slice(NOW, 1, IDLE), Alarm::In(1000), "no sooner, so that nothing spins");
    for later in (0..1000).step_by(100) {
        assert_eq!(tracking.next_visit(NOW + later), None, "{later}");
    }
    assert_eq!(tracking.next_visit(NOW + 1000), Some(place.clone()));
    tracking.fired();
    // A step back does not make the wait any longer: time goes on from there.
    tracking.visited(&place, Outcome::Unknown, NOW + 1000);
    assert_eq!(tracking.next_visit(NOW - 3_600_000), None);
    assert_eq!(tracking.at_cron(NOW - 3_599_000, IDLE), Alarm::AsItIs);
    assert_eq!(tracking.overdue(NOW), 1);
}

#[test]
fn a_set_left_alone_is_found_in_whatever_database_it_is_by_then() {
    let mut tracking = with(NOW);
    let place = tracking.next_visit(NOW).unwrap();
    tracking.visited(&place, Outcome::Unknown, NOW);
    tracking.swap(0, 7);
    tracking.at_cron(NOW + 500, IDLE);
    assert_eq!(tracking.next_visit(NOW + 1000), Some(Place::new(7, b"k")));
    // Nor does one that is gone, or noted again meanwhile, confuse anything.
    for (again, next) in [(None, None), (Some(NOW + 9000), Some(NOW))] {
        let mut tracking = with(NOW);
        tracking.visited(&place, Outcome::Unknown, NOW);
        tracking.flush(None);
        again.into_iter().for_each(|due| tracking.track(0, b"k", due));
        tracking.at_cron(NOW + 1000, IDLE);
        assert_eq!(tracking.next_visit(NOW + 1500), None);
        let mut tracking = with(NOW);
        tracking.visited(&place, Outcome::Unknown, NOW);
        tracking.forget(0, b"k");
        again.into_iter().for_each(|due| tracking.track(0, b"k", due));
        tracking.at_cron(NOW + 1000, IDLE);
        assert_eq!(tracking.next_due(), next);
    }
}

#[test]
fn however_many_are_unknown_they_are_asked_a_thousand_times_a_second() {
    const MANY: u32 = 5000;
    let mut tracking = Tracking::default();
    for number in 0..MANY {
        tracking.track(0, &number.to_le_bytes(), NOW);
    }
    let mut visits = 0;
    for now in (NOW..NOW + 20_000).step_by(100) {
        while let Some(place) = tracking.next_visit(now) {
            visits += 1;
            tracking.visited(&place, Outcome::Unknown, now);
        }
    }
    assert_eq!(tracking.len(), MANY as usize);
    assert!((3 * MANY..6 * MANY).contains(&visits), "{visits}");
}

#[test]
fn a_touched_set_that_cannot_be_mended_is_mended_later() {
    let mut tracking = with(NEVER);
    assert!(tracking.touch(0, b"k", Some(5)));
    let place = tracking.next_touched(None).unwrap();
    tracking.mend_later(&place, NOW);
    assert_eq!((tracking.next_touched(None), tracking.is_touched(0, b"k")), (None, true));
    tracking.at_cron(NOW + 999, REPLICA);
    assert_eq!(tracking.next_touched(None), None);
    tracking.at_cron(NOW + 1000, REPLICA);
    assert_eq!(tracking.next_touched(None), Some(place));
    tracking.mended(0, b"k", NOW + 5000);
    assert_eq!((tracking.next_touched(None), tracking.is_touched(0, b"k")), (None, false));
}

#[test]
fn a_command_of_the_module_says_when_its_set_is_due() {
    for (known, soonest, is_new, due) in [
        (None, Some(NOW + 9), true, NOW + 9),
        (None, Some(NOW + 9), false, 0),
        (Some(NOW + 5), Some(NOW + 9), false, NOW + 5),
        (Some(NOW + 50), Some(NOW + 9), false, NOW + 9),
        (None, None, true, NEVER),
        (None, Some(crate::model::time::MAX), true, NEVER),
        (Some(NOW + 5), None, false, NOW + 5),
    ] {
        let mut tracking = Tracking::default();
        if let Some(due) = known {
            tracking.track(0, b"k", due);
        }
        tracking.change(0, b"k", soonest, is_new);
        assert_eq!(tracking.databases[&0].table.first().map_or(NEVER, |(_, known)| known.due), due);
    }
}

#[test]
fn visits_are_due_when_the_first_member_is() {
    for (score, due) in [
        (5.0, 5),
        (5.25, 6),
        (-7.0, 0),
        (f64::NEG_INFINITY, 0),
        (9_007_199_254_740_990.0, 9_007_199_254_740_990),
        (9_007_199_254_740_991.0, NEVER),
        (9_007_199_254_740_992.0, NEVER),
        (f64::INFINITY, NEVER),
    ] {
        assert_eq!(visit_at(score), due, "{score}");
    }
}

/// Dead members of the set would stay for as long as the new one lives. (ZEITSET_SEED=733644211 of the simulation.)
#[test]
fn a_set_that_was_set_aside_and_changed_is_looked_at_when_it_is_renamed() {
    let mut tracking = with(NOW - 5);
    let place = tracking.next_visit(NOW).expect("it is due");
    tracking.visited(&place, Outcome::Unknown, NOW);
    tracking.change(0, b"k", Some(NOW + 3_600_000), false);
    tracking.leave(0, b"k");
    let left = tracking.arrive();
    assert_eq!(tracking.take_along(0, b"new", left), Arrival::Unclear);
}

/// What is known of a set is more than a walk can see: it may have been touched, or be set aside.
#[test]
fn a_walk_finds_what_is_new_and_leaves_the_rest_as_it_is() {
    let mut tracking = with(NOW + HORIZON + 1);
    tracking.touch(0, b"k", Some(7));
    let mut finds = Finds::default();
    for (key, due) in [("k", NOW), ("", NOW + 30), ("new", NOW + 20), ("new", NOW + 10)] {
        finds.push(key.as_bytes(), due);
    }
    tracking.find(0, &mut finds);
    assert!(finds.is_empty() && tracking.len() == 3 && tracking.is_touched(0, b"k"));
    assert_eq!(tracking.after_change(NOW, || IDLE), Alarm::In(20), "as it was found first");
    tracking.find(0, &mut finds);
    tracking.find(1, &mut finds);
    assert_eq!((tracking.len(), tracking.overdue(NOW + 20), tracking.overdue(NOW + 30)), (3, 1, 2));
    let number = |n: usize| format!("set:{n}");
    for first in (0..100_000).step_by(10) {
        (first..first + 16).for_each(|n| finds.push(number(n).as_bytes(), NOW));
        tracking.find(1, &mut finds);
    }
    assert_eq!(tracking.len(), 3 + 100_006);
    assert!((0..100_006).all(|n| tracking.is_tracked(1, number(n).as_bytes())));
}
