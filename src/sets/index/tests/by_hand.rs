//! Tests of timer requests and visits, case by case.

use crate::base::alarm::{Alarm, HORIZON};
use crate::base::db_key::DbKey;
use crate::base::time::{Millis, NEVER};
use crate::sets::index::{Need, Outcome, PendingTag, Tracking, visit_at};

const NOW: Millis = 1_000_000_000_000;
const IDLE: Need = Need { sweeps: true, at_once: false };
const HURRY: Need = Need { sweeps: true, at_once: true };
const REPLICA: Need = Need { sweeps: false, at_once: false };

fn with(due: Millis) -> Tracking {
    let mut tracking = Tracking::default();
    tracking.at_cron(NOW, IDLE);
    tracking.database(0).track(b"k", due);
    tracking
}

/// Ends a slice. The next slice follows after at least `pause` ms. Returns the timer request.
fn after_slice(tracking: &mut Tracking, now: Millis, pause: Millis, need: Need) -> Alarm {
    tracking.pause(now, pause);
    tracking.at_cron(now, need)
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
    tracking.database(0).track(b"later", NOW + 101);
    assert_eq!(tracking.after_change(NOW, || IDLE), Alarm::AsItIs);
    tracking.database(0).track(b"at once", NOW + 100);
    assert_eq!(tracking.after_change(NOW, || IDLE), Alarm::AsItIs);
    tracking.database(0).track(b"sooner", NOW + 99);
    assert_eq!(tracking.after_change(NOW, || IDLE), Alarm::In(99));
    assert_eq!(tracking.after_change(NOW, || IDLE), Alarm::AsItIs, "it is no news any more");
}

#[test]
fn a_timer_goes_with_what_it_was_armed_for() {
    let mut tracking = with(NOW + 100);
    assert_eq!(tracking.after_change(NOW, || IDLE), Alarm::In(100));
    tracking.database(0).track(b"k", NOW + 50_000);
    assert_eq!(tracking.at_cron(NOW + 10, IDLE), Alarm::Off);
    assert_eq!((tracking.at_cron(NOW + 20, IDLE), tracking.is_armed()), (Alarm::AsItIs, false));
}

#[test]
fn a_replica_arms_nothing_but_for_a_first_scan() {
    let mut tracking = with(NOW);
    assert_eq!(tracking.after_change(NOW, || REPLICA), Alarm::AsItIs);
    assert_eq!(tracking.at_cron(NOW, REPLICA), Alarm::AsItIs);
    assert_eq!(tracking.at_cron(NOW, Need { sweeps: false, at_once: true }), Alarm::In(1));
    assert_eq!(Tracking::default().at_cron(NOW, HURRY), Alarm::In(1));
    // The server is a master again.
    assert_eq!(tracking.at_cron(NOW + 1, REPLICA), Alarm::Off);
    assert_eq!(tracking.at_cron(NOW + 2, IDLE), Alarm::In(1));
}

#[test]
fn a_slice_is_followed_by_a_rest_even_after_a_change() {
    let mut tracking = with(NOW);
    assert_eq!(tracking.after_change(NOW, || IDLE), Alarm::In(1));
    tracking.disarmed();
    assert_eq!(after_slice(&mut tracking, NOW + 1, 300, IDLE), Alarm::In(300));
    tracking.database(0).track(b"more", NOW);
    assert_eq!(tracking.after_change(NOW + 2, || IDLE), Alarm::AsItIs);
    assert_eq!(tracking.at_cron(NOW + 101, HURRY), Alarm::AsItIs);
    // If the clock steps back, the sweeper's pause does not get longer.
    assert_eq!(tracking.at_cron(NOW - 3_600_000, HURRY), Alarm::In(200));
    tracking.disarmed();
    // The pause exceeds the horizon of the timer.
    assert_eq!(after_slice(&mut tracking, NOW - 3_600_000, 5000, HURRY), Alarm::AsItIs);
    assert!(!tracking.is_armed());
    assert_eq!(tracking.at_cron(NOW - 3_598_500, HURRY), Alarm::AsItIs);
    assert_eq!(tracking.at_cron(NOW - 3_596_500, HURRY), Alarm::In(1500));
}

#[test]
fn a_step_of_the_clock_forward_is_noticed_by_the_housekeeping() {
    let mut tracking = with(NOW + 1000);
    assert_eq!(tracking.after_change(NOW, || IDLE), Alarm::In(1000));
    // The clock steps an hour forward, but the timer's delay stays.
    assert_eq!(tracking.at_cron(NOW + 3_600_000, IDLE), Alarm::In(1));
    assert_eq!(tracking.next_visit(NOW + 3_600_000), Some(DbKey::new(0, b"k")));
}

#[test]
fn a_step_of_the_clock_back_leaves_no_timer_for_what_is_far_again() {
    let mut tracking = with(NOW + 1000);
    assert_eq!(tracking.after_change(NOW, || IDLE), Alarm::In(1000));
    assert_eq!(tracking.at_cron(NOW - 60_000, IDLE), Alarm::Off);
    tracking.database(0).track(b"near", NOW - 59_000);
    assert_eq!(tracking.after_change(NOW - 60_000, || IDLE), Alarm::In(1000));
    // The cron job has not run since the clock stepped back, so the timer is still armed, for a time that is now far
    // away.
    let mut tracking = with(NOW + 1000);
    assert_eq!(tracking.after_change(NOW, || IDLE), Alarm::In(1000));
    tracking.database(0).track(b"near", NOW - 59_000);
    assert_eq!(tracking.after_change(NOW - 60_000, || IDLE), Alarm::In(1000));
}

#[test]
fn the_longest_due_is_visited_first_in_whichever_database() {
    let mut tracking = Tracking::default();
    for (database, key, due) in [(2, b"c", 30), (0, b"a", 20), (1, b"b", 10), (3, b"d", 99)] {
        tracking.database(database).track(key, due);
    }
    for (database, key) in [(1, b"b"), (0, b"a"), (2, b"c")] {
        let visit = tracking.next_visit(50).unwrap();
        assert_eq!(visit, DbKey::new(database, key));
        tracking.visited(&visit, Outcome::Gone, 50);
    }
    assert_eq!((tracking.next_visit(50), tracking.len()), (None, 1));
    tracking.visited(&DbKey::new(3, b"d"), Outcome::Next { due: 200, left: 0 }, 50);
    assert_eq!((tracking.next_visit(199), tracking.next_visit(200)), (None, Some(DbKey::new(3, b"d"))));
}

#[test]
fn what_is_unknown_is_looked_at_again_after_a_while_and_stays_tracked() {
    let mut tracking = with(NOW);
    let key = tracking.next_visit(NOW).unwrap();
    tracking.visited(&key, Outcome::Unknown, NOW);
    assert_eq!((tracking.len(), tracking.overdue(NOW + 10), tracking.lag(NOW + 10)), (1, 1, 10));
    assert_eq!(after_slice(&mut tracking, NOW, 1, IDLE), Alarm::In(1000), "no sooner, so that nothing spins");
    for later in (0..1000).step_by(100) {
        assert_eq!(tracking.next_visit(NOW + later), None, "{later}");
    }
    assert_eq!(tracking.next_visit(NOW + 1000), Some(key.clone()));
    tracking.disarmed();
    // If the clock steps back, the postponement does not get longer.
    tracking.visited(&key, Outcome::Unknown, NOW + 1000);
    assert_eq!(tracking.next_visit(NOW - 3_600_000), None);
    assert_eq!(tracking.at_cron(NOW - 3_599_000, IDLE), Alarm::AsItIs);
    assert_eq!(tracking.overdue(NOW), 1);
}

#[test]
fn a_postponed_set_is_found_in_whatever_database_it_is_by_then() {
    let mut tracking = with(NOW);
    let key = tracking.next_visit(NOW).unwrap();
    tracking.visited(&key, Outcome::Unknown, NOW);
    tracking.swap(0, 7);
    tracking.at_cron(NOW + 500, IDLE);
    assert_eq!(tracking.next_visit(NOW + 1000), Some(DbKey::new(7, b"k")));
    // The set may also be gone, or tracked again, when its postponement ends.
    for (again, next) in [(None, None), (Some(NOW + 9000), Some(NOW))] {
        let mut tracking = with(NOW);
        tracking.visited(&key, Outcome::Unknown, NOW);
        tracking.flush(None);
        again.into_iter().for_each(|due| tracking.database(0).track(b"k", due));
        tracking.at_cron(NOW + 1000, IDLE);
        assert_eq!(tracking.next_visit(NOW + 1500), None);
        let mut tracking = with(NOW);
        tracking.visited(&key, Outcome::Unknown, NOW);
        tracking.database(0).forget(b"k");
        again.into_iter().for_each(|due| tracking.database(0).track(b"k", due));
        tracking.at_cron(NOW + 1000, IDLE);
        assert_eq!(tracking.next_due(), next);
    }
}

#[test]
fn a_postponed_set_that_is_renamed_is_due_at_once_even_if_a_command_has_given_it_a_due_time_since() {
    for change in [None, Some(NOW + 9000)] {
        let mut tracking = with(NOW);
        let key = tracking.next_visit(NOW).unwrap();
        tracking.visited(&key, Outcome::Unknown, NOW);
        // The set still has its expired members, and the command adds one that expires later.
        if change.is_some() {
            assert!(tracking.database(0).change(b"k", change, false));
        }
        tracking.begin_move(0, b"k");
        assert!(tracking.end_move(1, b"new"));
        assert_eq!(tracking.next_visit(NOW + 1), Some(DbKey::new(1, b"new")), "{change:?}");
    }
}

#[test]
fn however_many_are_unknown_they_are_asked_a_thousand_times_a_second() {
    const MANY: u32 = 5000;
    let mut tracking = Tracking::default();
    for number in 0..MANY {
        tracking.database(0).track(&number.to_le_bytes(), NOW);
    }
    let mut visits = 0;
    for now in (NOW..NOW + 20_000).step_by(100) {
        while let Some(key) = tracking.next_visit(now) {
            visits += 1;
            tracking.visited(&key, Outcome::Unknown, now);
        }
    }
    assert_eq!(tracking.len(), MANY as usize);
    assert!((3 * MANY..6 * MANY).contains(&visits), "{visits}");
}

#[test]
fn pending_tags_are_returned_in_rounds_until_they_are_settled() {
    let mut tracking = Tracking::default();
    for (database, key) in [(1, b"b"), (0, b"z"), (1, b"a")] {
        tracking.note_pending(database, key, PendingTag::Taken);
    }
    let order = [(0, b"z"), (1, b"a"), (1, b"b")].map(|(database, key)| Some(DbKey::new(database, key)));
    for _ in 0..2 {
        assert_eq!([(); 3].map(|()| tracking.next_pending()), order);
        assert_eq!(tracking.next_pending(), None);
        assert!(tracking.has_pending() && !tracking.has_new_pending());
    }
    // What is noted during a round may come before the key that was returned last.
    assert_eq!(tracking.next_pending(), order[0]);
    tracking.note_pending(0, b"a", PendingTag::Copied);
    assert_eq!([(); 3].map(|()| tracking.next_pending()), [order[1].clone(), order[2].clone(), None]);
    assert!(tracking.has_new_pending());
    assert_eq!(tracking.next_pending(), Some(DbKey::new(0, b"a")));
    for (database, key) in [(1, b"b"), (0, b"z"), (1, b"a"), (0, b"a")] {
        tracking.forget_pending(database, key);
    }
    assert_eq!((tracking.next_pending(), tracking.has_new_pending(), tracking.pending_count()), (None, false, 0));
}

/// A listener of another module may move the key again between the two events of its move. Then the copied tag is at a
/// key that the tracker does not know, and the caller has to look for it.
#[test]
fn a_copied_tag_counts_while_its_key_is_moving() {
    let mut tracking = Tracking::default();
    tracking.note_pending(0, b"a", PendingTag::Copied);
    tracking.begin_move(0, b"a");
    assert!(tracking.is_copied_moving() && !tracking.has_pending());
    tracking.begin_move(0, b"b");
    assert!(tracking.is_copied_moving() && !tracking.end_move(0, b"c"));
    assert!(tracking.end_move(3, b"b"));
    assert_eq!((tracking.pending(3, b"b"), tracking.pending(0, b"c")), (Some(PendingTag::Copied), None));
    // The second event of a move never came.
    tracking.begin_move(3, b"b");
    tracking.end_all_moves();
    assert!(!tracking.is_copied_moving() && !tracking.end_move(0, b"d"));
}

#[test]
fn a_command_of_the_module_says_when_its_set_is_due() {
    for (known, soonest, is_new, due) in [
        (None, Some(NOW + 9), true, NOW + 9),
        (None, Some(NOW + 9), false, 0),
        (Some(NOW + 5), Some(NOW + 9), false, NOW + 5),
        (Some(NOW + 50), Some(NOW + 9), false, NOW + 9),
        (None, None, true, NEVER),
        (None, Some(crate::base::time::MAX), true, NEVER),
        (Some(NOW + 5), None, false, NOW + 5),
    ] {
        let mut tracking = Tracking::default();
        if let Some(due) = known {
            tracking.database(0).track(b"k", due);
        }
        tracking.database(0).change(b"k", soonest, is_new);
        assert_eq!(tracking.databases[&0].first().map_or(NEVER, |(_, due)| due), due);
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

/// A scan may find a set that is already tracked. The scan does not know whether the set's check is postponed. So the
/// scan must not change the due time.
#[test]
fn a_walk_finds_what_is_new_and_leaves_the_rest_as_it_is() {
    let mut tracking = with(NOW + HORIZON + 1);
    for (key, due) in [("k", NOW), ("", NOW + 30), ("new", NOW + 20), ("new", NOW + 10)] {
        tracking.database(0).track_new(key.as_bytes(), due);
    }
    assert_eq!((tracking.len(), tracking.due(0, b"k")), (3, Some(NOW + HORIZON + 1)));
    assert_eq!(tracking.after_change(NOW, || IDLE), Alarm::In(20), "as it was found first");
    assert_eq!((tracking.overdue(NOW + 20), tracking.overdue(NOW + 30)), (1, 2));
    let number = |n: usize| format!("set:{n}");
    for first in (0..100_000).step_by(10) {
        (first..first + 16).for_each(|n| tracking.database(1).track_new(number(n).as_bytes(), NOW));
    }
    assert_eq!(tracking.len(), 3 + 100_006);
    assert!((0..100_006).all(|n| tracking.due(1, number(n).as_bytes()).is_some()));
}
