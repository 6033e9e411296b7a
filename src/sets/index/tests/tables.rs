//! Compares the tracked sets of a database with a plain map.

use crate::base::time::{Millis, NEVER};
use crate::sets::index::{Database, DbKey, Outcome, PendingTag, Tracking};
use proptest::prelude::*;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::time::Instant;

#[derive(Clone, Debug)]
enum Step {
    Track(i32, u8, Millis),
    Change(i32, u8, Millis),
    Pend(i32, u8, PendingTag),
    Settle(i32, u8),
    Move(i32, u8, i32, u8),
    Forget(i32, u8),
    Flush(Option<i32>),
    Swap(i32, i32),
    ForgetOdd,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let key = || (0..3_i32, 0..20_u8);
    let step = prop_oneof![
        8 => (key(), 0..100_u64).prop_map(|((db, key), due)| Step::Track(db, key, due)),
        4 => (key(), 0..100_u64).prop_map(|((db, key), due)| Step::Change(db, key, due)),
        2 => key().prop_map(|(db, key)| Step::Pend(db, key, PendingTag::Taken)),
        2 => key().prop_map(|(db, key)| Step::Pend(db, key, PendingTag::Copied)),
        1 => key().prop_map(|(db, key)| Step::Settle(db, key)),
        2 => (key(), key()).prop_map(|((db, key), (other, to))| Step::Move(db, key, other, to)),
        4 => key().prop_map(|(db, key)| Step::Forget(db, key)),
        1 => prop::option::of(0..3_i32).prop_map(Step::Flush),
        1 => (0..3_i32, 0..3_i32).prop_map(|(one, other)| Step::Swap(one, other)),
        1 => Just(Step::ForgetOdd),
    ];
    prop::collection::vec(step, 0..120)
}

proptest! {
    #[test]
    fn it_says_what_a_plain_map_says(steps in steps()) {
        const NOW: Millis = 50;
        let mut tracking = Tracking::default();
        let mut map: BTreeMap<(i32, u8), Millis> = BTreeMap::new();
        let mut pending: BTreeMap<(i32, u8), PendingTag> = BTreeMap::new();
        for step in steps {
            match step {
                Step::Track(db, key, due) => {
                    tracking.database(db).track(&[key], due);
                    map.insert((db, key), due);
                }
                Step::Change(db, key, due) => {
                    tracking.database(db).change(&[key], Some(due), false);
                    let due = map.get(&(db, key)).map_or(0, |&known| known.min(due));
                    map.insert((db, key), due);
                }
                Step::Pend(db, key, tag) => {
                    tracking.note_pending(db, &[key], tag);
                    pending.insert((db, key), tag);
                }
                Step::Settle(db, key) => {
                    tracking.forget_pending(db, &[key]);
                    pending.remove(&(db, key));
                }
                Step::Move(db, key, other, to) => {
                    tracking.begin_move(db, &[key]);
                    let (due, tag) = (map.remove(&(db, key)), pending.remove(&(db, key)));
                    prop_assert_eq!(tracking.is_copied_moving(), tag == Some(PendingTag::Copied));
                    prop_assert_eq!(tracking.end_move(other, &[to]), due.is_some() || tag.is_some());
                    map.remove(&(other, to));
                    pending.remove(&(other, to));
                    map.extend(due.map(|due| ((other, to), due)));
                    pending.extend(tag.map(|tag| ((other, to), tag)));
                }
                Step::Forget(db, key) => {
                    tracking.database(db).forget(&[key]);
                    map.remove(&(db, key));
                }
                Step::Flush(db) => {
                    tracking.flush(db);
                    map.retain(|(at, _), _| db.is_some_and(|db| *at != db));
                    pending.retain(|(at, _), _| db.is_some_and(|db| *at != db));
                }
                Step::Swap(one, other) => {
                    tracking.swap(one, other);
                    let swapped = |db| if db == one { other } else if db == other { one } else { db };
                    map = map.into_iter().map(|((db, key), value)| ((swapped(db), key), value)).collect();
                    pending = pending.into_iter().map(|((db, key), tag)| ((swapped(db), key), tag)).collect();
                }
                Step::ForgetOdd => {
                    let is_odd = |name: &[u8]| name[0] % 2 == 1;
                    tracking.begin_to_forget(is_odd);
                    while tracking.is_forgetting() {
                        tracking.forget_some(is_odd);
                    }
                    map.retain(|(_, key), _| key % 2 == 0);
                    pending.retain(|(_, key), _| key % 2 == 0);
                }
            }
            prop_assert_eq!(tracking.len(), map.len());
            let dues = || map.values().copied();
            prop_assert_eq!(tracking.next_due(), dues().filter(|&due| due != NEVER).min());
            prop_assert_eq!(tracking.overdue(NOW), dues().filter(|&due| due <= NOW).count());
            if dues().all(|due| due > 0) {
                prop_assert_eq!(tracking.lag(NOW), dues().min().map_or(0, |due| NOW.saturating_sub(due)));
            }
            for (&(db, key), &due) in &map {
                prop_assert_eq!(tracking.due(db, &[key]), Some(due));
            }
            let round = std::iter::from_fn(|| tracking.next_pending()).map(|key| (key.database, key.name[0]));
            prop_assert!(round.eq(pending.keys().copied()));
            prop_assert_eq!(tracking.pending_count(), pending.len());
            let of = |(db, key)| tracking.pending(db, &[key]);
            prop_assert!(pending.iter().all(|(&key, &tag)| of(key) == Some(tag)));
            let copied = pending.iter().filter(|(_, tag)| **tag == PendingTag::Copied).map(|(&key, _)| key);
            prop_assert!(tracking.copied(100).into_iter().map(|key| (key.database, key.name[0])).eq(copied));
            prop_assert!(tracking.copied(1).len() <= 1);
        }
    }
}

fn name(number: u32) -> Vec<u8> {
    // The names have different lengths, including 0.
    let mut name = number.to_le_bytes().to_vec();
    name.extend((0..number % 40).map(|n| n as u8));
    name.truncate(if number == 0 { 0 } else { 44 });
    name
}

/// The number of blocks grows, shrinks and grows again, because thousands of sets are added and removed.
#[test]
fn a_table_that_grows_and_shrinks_says_what_a_plain_map_says() {
    let mut random = StdRng::seed_from_u64(1);
    let (mut table, mut map) = (Database::default(), HashMap::new());
    for (steps, share_added) in [(60_000, 0.9), (90_000, 0.1), (30_000, 0.6)] {
        for _ in 0..steps {
            let number = random.random_range(0..60_000);
            let name = name(number);
            if random.random_bool(share_added) {
                let due = if random.random_bool(0.1) { NEVER } else { random.random_range(0..1000) };
                table.track(&name, due);
                map.insert(number, due);
            } else {
                let gone = table.due(&name);
                table.forget(&name);
                assert_eq!(gone, map.remove(&number));
            }
        }
        assert_eq!(table.len(), map.len());
        for number in 0..60_000 {
            assert_eq!(table.due(&name(number)), map.get(&number).copied());
        }
        let mut names: Vec<_> = table.names().map(<[u8]>::to_vec).collect();
        let mut expected: Vec<_> = map.keys().map(|&number| name(number)).collect();
        names.sort_unstable();
        expected.sort_unstable();
        assert!(names == expected);
        assert_eq!(table.next_due(), map.values().copied().min());
        let due = map.values().filter(|&&due| due <= 500).count();
        assert!(table.overdue(500).abs_diff(due) <= due / 10, "{} for {due}", table.overdue(500));
    }
    // The sets must come in the order of their due times.
    let mut before = 0;
    while let Some((name, due)) = table.first() {
        let name = name.to_vec();
        assert!(due >= before && due != NEVER);
        before = due;
        table.forget(&name);
    }
    assert_eq!(table.len(), map.values().filter(|&&due| due == NEVER).count());
}

/// Returns a table with `sets` sets, and the number of sets that are due at 100. About `share` of the sets are due.
fn partly_due(sets: u32, share: f64) -> (Database, usize) {
    let mut random = StdRng::seed_from_u64(3);
    let (mut table, mut due) = (Database::default(), 0);
    for number in 0..sets {
        let is_due = random.random_bool(share);
        due += usize::from(is_due);
        table.track(&name(number), if is_due { 100 } else { 200 });
    }
    (table, due)
}

#[test]
fn how_many_are_due_is_exact_for_few_and_near_the_truth_for_many_and_never_zero_for_some() {
    for (sets, share, tolerance) in [
        // The tolerances are about five standard errors of a sample of 256 blocks.
        (300_000, 1.0, 0.06),
        (300_000, 0.3, 0.1),
        (300_000, 0.01, 0.5),
        (300_000, 0.0005, 0.0),
        (60_000, 0.5, 0.1),
        (5_000, 0.5, 0.0),
    ] {
        let (table, due) = partly_due(sets, share);
        let said = table.overdue(100);
        let most = (due as f64 * tolerance) as usize;
        assert!(said > 0 && said.abs_diff(due) <= most, "{said} for {due} of {sets}");
        assert_eq!(table.overdue(99), 0);
    }
}

/// INFO calls `overdue`, so the duration of `overdue` must not depend on the number of sets.
#[test]
fn to_say_how_many_are_due_takes_no_longer_for_many_sets_than_for_some() {
    let fastest = |table: &Database| {
        let once = || {
            let started = Instant::now();
            assert!(table.overdue(100) > 0);
            started.elapsed()
        };
        (0..100).map(|_| once()).min().expect("a hundred times")
    };
    let [some, many] = [10_000, 1_000_000].map(|sets| fastest(&partly_due(sets, 1.0).0));
    assert!(many < some * 20, "{some:?} for 10,000, {many:?} for 1,000,000");
}

/// When a set is removed, the table's last set takes its place. A walk through all sets must not miss the moved set.
#[test]
fn a_walk_meets_every_set_that_stays_though_most_others_go_meanwhile() {
    let mut random = StdRng::seed_from_u64(2);
    for _ in 0..20 {
        let mut table = Database::default();
        let mut there: Vec<u32> = (0..20_000).collect();
        for &number in &there {
            table.track(&name(number), NEVER);
        }
        table.begin_walk();
        let mut met = HashSet::new();
        while table.is_walking() {
            let seen = RefCell::new(&mut met);
            table.forget_some(|name| {
                seen.borrow_mut().insert(name.to_vec());
                false
            });
            for _ in 0..there.len().min(420).saturating_sub(20) {
                let gone = there.swap_remove(random.random_range(0..there.len()));
                table.forget(&name(gone));
            }
        }
        assert!(there.len() < 5_000 && there.iter().all(|&number| met.contains(&name(number))));
    }
}

/// While sets are added and removed, the blocks must stay dense: only the last block may have vacant places.
#[test]
fn a_table_grows_and_shrinks_in_small_steps() {
    let mut table = Database::default();
    let mut random = StdRng::seed_from_u64(4);
    let assert_dense = |table: &Database, len: usize| {
        let sizes: Vec<_> = table.block_sizes().collect();
        assert_eq!((table.len(), sizes.iter().sum::<usize>(), sizes.len()), (len, len, len.div_ceil(32)));
        assert!(sizes.iter().rev().skip(1).all(|&size| size == 32), "{sizes:?}");
    };
    for number in 0..200_000_u32 {
        table.track(&number.to_le_bytes(), NEVER);
        if number % 1000 == 0 {
            assert_dense(&table, number as usize + 1);
        }
    }
    let mut there: Vec<u32> = (0..200_000).collect();
    while !there.is_empty() {
        let gone = there.swap_remove(random.random_range(0..there.len()));
        table.forget(&gone.to_le_bytes());
        if there.len().is_multiple_of(1000) {
            assert_dense(&table, there.len());
        }
    }
    assert_eq!((table.len(), table.bytes()), (0, 0));
}

/// Most events are about untracked keys. The lookup of an untracked key usually compares no names.
#[test]
fn a_name_that_is_not_there_is_mostly_known_by_one_look() {
    let mut table = Database::default();
    for number in 0..100_000_u32 {
        table.track(&number.to_le_bytes(), NEVER);
    }
    let closer =
        |table: &Database, from: u32| (from..from + 10_000).filter(|n| table.looks_closer(&n.to_le_bytes())).count();
    assert_eq!(closer(&table, 0), 10_000, "those that are there");
    assert!(closer(&table, 500_000) < 2000, "{}", closer(&table, 500_000));
    for number in 0..95_000_u32 {
        table.forget(&number.to_le_bytes());
    }
    assert!(closer(&table, 0) < 2000, "{}", closer(&table, 0));
    assert_eq!(
        closer(&table, 90_000),
        5000 + (90_000..95_000_u32).filter(|n| table.looks_closer(&n.to_le_bytes())).count()
    );
}

/// A set costs at most 40 bytes in addition to its name, and at most 80 bytes after most sets have been removed.
#[test]
fn a_set_costs_little_beyond_its_name_and_the_memory_comes_back() {
    let mut table = Database::default();
    let names = |number: u32| format!("session:{number:012}");
    const SETS: usize = 100_000;
    let mut most = 0;
    for number in 0..SETS as u32 {
        table.track(names(number).as_bytes(), u64::from(number));
        if number > 5000 {
            most = most.max(table.bytes() / table.len());
        }
    }
    let name = names(0).len();
    assert!(most - name <= 40, "{most} bytes for a name of {name}");
    for number in 1000..SETS as u32 {
        table.forget(names(number).as_bytes());
    }
    let left = table.bytes() / table.len();
    assert!(left - name <= 80, "{left} bytes for each of those that are left");
}

/// Adds and removes sets between calls of `forget_some`. Together, these calls must forget each set that `is_meant`
/// selects and that was present at the beginning.
#[test]
fn sets_at_some_places_are_forgotten_in_small_steps() {
    let mut random = StdRng::seed_from_u64(2);
    for (sets, share_added) in [(40_000, 0.9), (40_000, 0.0), (1, 0.5)] {
        let mut tracking = Tracking::default();
        for number in 0..sets {
            tracking.database(0).track(&name(number), 5);
            if number % 10 == 0 {
                tracking.note_pending(0, &name(number), PendingTag::Taken);
            }
        }
        assert!(!tracking.is_forgetting());
        let is_meant = |name: &[u8]| name.first().is_some_and(|first| first % 4 == 1);
        tracking.begin_to_forget(is_meant);
        let (mut steps, mut added) = (0, 0);
        while tracking.is_forgetting() {
            let looks = std::cell::Cell::new(0);
            tracking.forget_some(|name| {
                looks.set(looks.get() + 1);
                is_meant(name)
            });
            assert!(looks.get() < 1500, "{} looks in one step", looks.get());
            steps += 1;
            for _ in 0..100 {
                if random.random_bool(share_added) {
                    added += 1;
                    tracking.database(0).track(&name(sets + added), 5);
                } else {
                    tracking.database(0).forget(&name(random.random_range(sets / 10..=sets)));
                }
            }
        }
        assert!(steps <= sets as usize / 100 + 200, "{steps}");
        for number in 0..sets {
            let name = name(number);
            assert!(!(is_meant(&name) && tracking.database(0).due(&name).is_some()), "{number}");
            if number < sets / 10 && !is_meant(&name) {
                assert!(tracking.database(0).due(&name).is_some(), "{number}");
            }
        }
        assert!(std::iter::from_fn(|| tracking.next_pending()).all(|key| !is_meant(&key.name)));
    }
}

#[test]
fn a_dropped_database_is_freed_in_small_steps() {
    let mut tracking = Tracking::default();
    for number in 0..50_000_u32 {
        tracking.database(number as i32 % 2).track(&number.to_le_bytes(), 5);
        if number % 100 == 0 {
            tracking.note_pending(number as i32 % 2, &number.to_le_bytes(), PendingTag::Taken);
        }
    }
    assert!(!tracking.free_some());
    tracking.flush(Some(0));
    tracking.flush(None);
    assert_eq!((tracking.len(), tracking.next_pending(), tracking.next_visit(9)), (0, None, None));
    let mut steps = 0;
    while tracking.free_some() {
        steps += 1;
    }
    assert!((8..1000).contains(&steps), "{steps}");
    assert!(tracking.dropped.is_empty());
}

#[test]
fn what_waits_is_known_until_its_set_is_gone_or_elsewhere() {
    let unfinished = Outcome::Next { due: 5, left: 17 };
    let mut tracking = Tracking::default();
    tracking.database(0).track(b"k", 5);
    let key = tracking.next_visit(10).unwrap();
    tracking.visited(&key, unfinished, 10);
    assert_eq!(tracking.backlog(10), 17);
    tracking.swap(0, 3);
    assert_eq!(tracking.backlog(10), 17);
    tracking.swap(1, 0);
    assert_eq!(tracking.backlog(10), 17);
    tracking.swap(4, 3);
    assert_eq!((tracking.backlog(10), tracking.next_visit(10)), (17, Some(DbKey::new(4, b"k"))));
    tracking.flush(Some(4));
    assert_eq!(tracking.backlog(10), 0);
}
