//! What is tracked, against a plain map.

use crate::model::time::Millis;
use crate::model::tracking::table::{Known, Mark, NEVER, Table};
use crate::model::tracking::{Arrival, Left, Outcome, Place, Tracking};
use proptest::prelude::*;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::time::Instant;

#[derive(Clone, Debug)]
enum Step {
    Track(i32, u8, Millis),
    Change(i32, u8, Millis),
    Touch(i32, u8),
    Mend(i32, u8),
    GiveUp(i32, u8, Millis),
    Forget(i32, u8),
    Flush(Option<i32>),
    Swap(i32, i32),
    ForgetOdd,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let place = || (0..3_i32, 0..20_u8);
    let step = prop_oneof![
        8 => (place(), 0..100_u64).prop_map(|((db, key), due)| Step::Track(db, key, due)),
        4 => (place(), 0..100_u64).prop_map(|((db, key), due)| Step::Change(db, key, due)),
        3 => place().prop_map(|(db, key)| Step::Touch(db, key)),
        1 => place().prop_map(|(db, key)| Step::Mend(db, key)),
        1 => (place(), 0..100_u64).prop_map(|((db, key), due)| Step::GiveUp(db, key, due)),
        4 => place().prop_map(|(db, key)| Step::Forget(db, key)),
        1 => prop::option::of(0..3_i32).prop_map(Step::Flush),
        1 => (0..3_i32, 0..3_i32).prop_map(|(one, other)| Step::Swap(one, other)),
        1 => Just(Step::ForgetOdd),
    ];
    prop::collection::vec(step, 0..120)
}

/// The TTL that a set of this name is touched with; none for some.
fn ttl(key: u8) -> Option<Millis> {
    (!key.is_multiple_of(5)).then_some(u64::from(key / 2))
}

proptest! {
    #[test]
    fn it_says_what_a_plain_map_says(steps in steps()) {
        const NOW: Millis = 50;
        let mut tracking = Tracking::default();
        let mut map: BTreeMap<(i32, u8), Known> = BTreeMap::new();
        let known = |due, mark| Known { due, mark };
        for step in steps {
            match step {
                Step::Track(db, key, due) => {
                    tracking.track(db, &[key], due);
                    map.insert((db, key), known(due, Mark::Holds));
                }
                Step::Change(db, key, due) => {
                    tracking.change(db, &[key], Some(due), false);
                    let due = match map.get(&(db, key)) {
                        Some(known) if known.mark == Mark::Holds => known.due.min(due),
                        _ => 0,
                    };
                    map.insert((db, key), known(due, Mark::Holds));
                }
                Step::Touch(db, key) => {
                    let touched = map.get_mut(&(db, key)).map(|known| known.mark = Mark::Touched);
                    prop_assert_eq!(tracking.touch(db, &[key], ttl(key)), touched.is_some());
                }
                Step::Mend(db, key) => {
                    tracking.forget(db, &[key]);
                    tracking.mend(db, &[key], None);
                    map.insert((db, key), known(NEVER, Mark::Touched));
                    prop_assert!(tracking.touch(db, &[key], ttl(key)));
                }
                Step::GiveUp(db, key, due) => {
                    tracking.give_up(db, &[key], due);
                    map.insert((db, key), known(due, Mark::GivenUp));
                }
                Step::Forget(db, key) => {
                    tracking.forget(db, &[key]);
                    map.remove(&(db, key));
                }
                Step::Flush(db) => {
                    tracking.flush(db);
                    map.retain(|(at, _), _| db.is_some_and(|db| *at != db));
                }
                Step::Swap(one, other) => {
                    tracking.swap(one, other);
                    let swapped = |db| if db == one { other } else if db == other { one } else { db };
                    map = map.into_iter().map(|((db, key), value)| ((swapped(db), key), value)).collect();
                }
                Step::ForgetOdd => {
                    tracking.begin_to_forget();
                    while tracking.is_forgetting() {
                        tracking.forget_some(|name| name[0] % 2 == 1);
                    }
                    map.retain(|(_, key), _| key % 2 == 0);
                }
            }
            prop_assert_eq!(tracking.len(), map.len());
            prop_assert_eq!(tracking.next_due(), map.values().map(|known| known.due).filter(|&due| due != NEVER).min());
            prop_assert_eq!(tracking.overdue(NOW), map.values().filter(|known| known.due <= NOW).count());
            if map.values().all(|known| known.due > 0) {
                let lag = map.values().map(|known| known.due).min().map_or(0, |due| NOW.saturating_sub(due));
                prop_assert_eq!(tracking.lag(NOW), lag);
            }
            for (&(db, key), known) in &map {
                prop_assert!(tracking.is_tracked(db, &[key]));
                prop_assert_eq!(tracking.known(db, &[key]), Some(*known));
                prop_assert_eq!(tracking.is_touched(db, &[key]), known.mark != Mark::Holds);
                prop_assert_eq!(tracking.is_untouched(db, &[key]), known.mark != Mark::Touched);
            }
            let touched: Vec<_> = map.iter().filter(|(_, known)| known.mark == Mark::Touched).map(|(place, _)| *place).collect();
            let mut found = Vec::new();
            let mut last = None;
            while let Some(place) = tracking.next_touched(last.as_ref()) {
                found.push((place.database, place.key[0]));
                last = Some(place);
            }
            prop_assert_eq!(&found, &touched);
            for wanted in 0..10 {
                let of_ttl: Vec<_> = touched.iter().copied().filter(|&(_, key)| ttl(key) == Some(wanted)).take(8).collect();
                let said: Vec<_> = tracking.touched_with(wanted).into_iter().map(|place| (place.database, place.key[0])).collect();
                prop_assert_eq!(said, of_ttl);
            }
        }
    }
}

fn name(number: u32) -> Vec<u8> {
    // Of different lengths, the empty name among them.
    let mut name = number.to_le_bytes().to_vec();
    name.extend((0..number % 40).map(|n| n as u8));
    name.truncate(if number == 0 { 0 } else { 44 });
    name
}

/// Far more sets than a bucket takes: the table grows, shrinks and grows again.
#[test]
fn a_table_that_grows_and_shrinks_says_what_a_plain_map_says() {
    let mut random = StdRng::seed_from_u64(1);
    let (mut table, mut map) = (Table::default(), HashMap::new());
    for (steps, share_added) in [(60_000, 0.9), (90_000, 0.1), (30_000, 0.6)] {
        for _ in 0..steps {
            let number = random.random_range(0..60_000);
            let name = name(number);
            if random.random_bool(share_added) {
                let due = if random.random_bool(0.1) { NEVER } else { random.random_range(0..1000) };
                table.put(&name, Known { due, mark: Mark::GivenUp });
                map.insert(number, due);
            } else {
                let gone = table.remove(&name);
                assert_eq!(gone.map(|known| known.due), map.remove(&number));
            }
        }
        assert_eq!(table.len(), map.len());
        for number in 0..60_000 {
            let expected = map.get(&number).map(|&due| Known { due, mark: Mark::GivenUp });
            assert_eq!(table.get(&name(number)), expected);
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
    // In the order of their visits, to the last one.
    let mut before = 0;
    while let Some((name, known)) = table.first() {
        let name = name.to_vec();
        assert!(known.due >= before && known.due != NEVER);
        before = known.due;
        table.remove(&name);
    }
    assert_eq!(table.len(), map.values().filter(|&&due| due == NEVER).count());
}

/// A table of that many sets, a share of which is due at 100; and how many these are.
fn partly_due(sets: u32, share: f64) -> (Table, usize) {
    let mut random = StdRng::seed_from_u64(3);
    let (mut table, mut due) = (Table::default(), 0);
    for number in 0..sets {
        let is_due = random.random_bool(share);
        due += usize::from(is_due);
        table.put(&name(number), Known { due: if is_due { 100 } else { 200 }, mark: Mark::Holds });
    }
    (table, due)
}

#[test]
fn how_many_are_due_is_exact_for_few_and_near_the_truth_for_many_and_never_zero_for_some() {
    for (sets, share, tolerance) in [
        (300_000, 1.0, 0.02),
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

/// INFO asks for it.
#[test]
fn to_say_how_many_are_due_takes_no_longer_for_many_sets_than_for_some() {
    let fastest = |table: &Table| {
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

/// A table that shrank meanwhile would move sets from where the walk has not been to where it has.
#[test]
fn a_walk_meets_every_set_that_stays_though_most_others_go_meanwhile() {
    let mut random = StdRng::seed_from_u64(2);
    for _ in 0..20 {
        let mut table = Table::default();
        let mut there: Vec<u32> = (0..5_000).collect();
        for &number in &there {
            table.put(&name(number), Known { due: NEVER, mark: Mark::Holds });
        }
        table.begin_walk();
        let mut met = HashSet::new();
        while table.is_walked() {
            met.extend(table.walk_on(4).map(<[u8]>::to_vec));
            for _ in 0..there.len().min(200).saturating_sub(20) {
                let gone = there.swap_remove(random.random_range(0..there.len()));
                table.remove(&name(gone));
            }
        }
        assert!(there.iter().all(|&number| met.contains(&name(number))));
        assert!(table.shrink_some(usize::MAX), "afterwards it shrinks");
    }
}

/// No call moves more than the sets of a bucket or two.
#[test]
fn a_table_grows_and_shrinks_in_small_steps() {
    let mut table = Table::default();
    let longest = |table: &Table| table.longest_bucket();
    let mut longest_ever = 0;
    for number in 0..200_000_u32 {
        table.put(&number.to_le_bytes(), Known { due: NEVER, mark: Mark::Holds });
        let before = table.bucket_count();
        longest_ever = longest_ever.max(if number % 1000 == 0 { longest(&table) } else { 0 });
        assert!(table.bucket_count().abs_diff(before) <= 1);
    }
    assert!(longest_ever < 300, "{longest_ever}");
    assert!((200_000 / 32..=200_000 / 25).contains(&table.bucket_count()), "{}", table.bucket_count());
    for number in 0..200_000_u32 {
        assert!(table.remove(&number.to_le_bytes()).is_some());
        assert!(number % 1000 != 0 || longest(&table) < 300);
    }
    assert_eq!((table.len(), table.bucket_count()), (0, 1));
}

/// Most events are about keys that are not tracked.
#[test]
fn a_name_that_is_not_there_is_mostly_known_by_one_look() {
    let mut table = Table::default();
    for number in 0..100_000_u32 {
        table.put(&number.to_le_bytes(), Known { due: NEVER, mark: Mark::Holds });
    }
    let closer =
        |table: &Table, from: u32| (from..from + 10_000).filter(|n| table.looks_closer(&n.to_le_bytes())).count();
    assert_eq!(closer(&table, 0), 10_000, "those that are there");
    assert!(closer(&table, 500_000) < 2000, "{}", closer(&table, 500_000));
    for number in 0..95_000_u32 {
        table.remove(&number.to_le_bytes());
    }
    assert!(closer(&table, 0) < 2000, "{}", closer(&table, 0));
    assert_eq!(
        closer(&table, 90_000),
        5000 + (90_000..95_000_u32).filter(|n| table.looks_closer(&n.to_le_bytes())).count()
    );
}

/// Beyond its name, a set costs at most 80 bytes.
#[test]
fn a_set_costs_little_beyond_its_name_and_the_memory_comes_back() {
    let mut table = Table::default();
    let names = |number: u32| format!("session:{number:012}");
    const SETS: usize = 100_000;
    let mut most = 0;
    for number in 0..SETS as u32 {
        table.put(names(number).as_bytes(), Known { due: u64::from(number), mark: Mark::Holds });
        if number > 5000 {
            most = most.max(table.bytes() / table.len());
        }
    }
    let name = names(0).len();
    assert!(most - name <= 40, "{most} bytes for a name of {name}");
    for number in 1000..SETS as u32 {
        table.remove(names(number).as_bytes());
    }
    let left = table.bytes() / table.len();
    assert!(left - name <= 80, "{left} bytes for each of those that are left");
}

/// Those that were there when the walk began, whatever comes and goes meanwhile, and however many they are.
#[test]
fn sets_at_some_places_are_forgotten_in_small_steps() {
    let mut random = StdRng::seed_from_u64(2);
    for (sets, share_added) in [(40_000, 0.9), (40_000, 0.0), (1, 0.5)] {
        let mut tracking = Tracking::default();
        for number in 0..sets {
            tracking.track(0, &name(number), 5);
            if number % 10 == 0 {
                tracking.touch(0, &name(number), Some(7));
            }
        }
        assert!(!tracking.is_forgetting());
        tracking.begin_to_forget();
        let is_meant = |name: &[u8]| name.first().is_some_and(|first| first % 4 == 1);
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
                    tracking.track(0, &name(sets + added), 5);
                } else {
                    tracking.forget(0, &name(random.random_range(sets / 10..=sets)));
                }
            }
        }
        assert!(steps <= sets as usize / 100 + 200, "{steps}");
        for number in 0..sets {
            let name = name(number);
            assert!(!(is_meant(&name) && tracking.is_tracked(0, &name)), "{number}");
            if number < sets / 10 && !is_meant(&name) {
                assert!(tracking.is_tracked(0, &name), "{number}");
            }
        }
        let mut touched = None;
        while let Some(place) = tracking.next_touched(touched.as_ref()) {
            assert!(tracking.is_tracked(0, &place.key) && !is_meant(&place.key));
            touched = Some(place);
        }
        while tracking.free_some() {}
        let table = &tracking.databases[&0].table;
        assert!(
            table.bucket_count() <= table.len() / 12 + 2,
            "{} sets in {} buckets",
            table.len(),
            table.bucket_count()
        );
    }
}

#[test]
fn a_dropped_database_is_freed_in_small_steps() {
    let mut tracking = Tracking::default();
    for number in 0..50_000_u32 {
        tracking.track(number as i32 % 2, &number.to_le_bytes(), 5);
        if number % 100 == 0 {
            assert!(tracking.touch(number as i32 % 2, &number.to_le_bytes(), Some(7)));
        }
    }
    assert!(!tracking.free_some());
    tracking.flush(Some(0));
    tracking.flush(None);
    assert_eq!((tracking.len(), tracking.next_touched(None), tracking.next_visit(9)), (0, None, None));
    let mut steps = 0;
    while tracking.free_some() {
        steps += 1;
    }
    assert!((8..1000).contains(&steps), "{steps}");
    assert!(tracking.dropped.is_empty());
}

/// What RENAME makes of what is known.
fn rename(tracking: &mut Tracking, from: &[u8], to: &[u8]) -> (Arrival, Left) {
    tracking.leave(0, from);
    let left = tracking.arrive();
    (tracking.take_along(0, to, left), left)
}

#[test]
fn a_touched_set_that_moves_is_known_by_its_ttl_at_its_new_place() {
    let mut tracking = Tracking::default();
    for (ttl, asked, is_it) in
        [(Some(7), Some(7), true), (Some(7), Some(8), false), (Some(7), None, false), (None, None, false)]
    {
        tracking.track(0, b"k", 100);
        assert!(tracking.touch(0, b"k", ttl));
        tracking.leave(0, b"k");
        assert!(!tracking.is_tracked(0, b"k"));
        let left = tracking.arrive();
        assert_eq!(tracking.left_touched(left, asked), is_it, "{ttl:?} {asked:?}");
        let left = tracking.arrive();
        assert!(!tracking.left_touched(left, asked), "it is there");
    }
    tracking.track(0, b"untouched", 100);
    tracking.leave(0, b"untouched");
    let left = tracking.arrive();
    assert!(!tracking.left_touched(left, None));
}

#[test]
fn what_is_known_of_a_set_goes_along_with_it() {
    let mut tracking = Tracking::default();
    tracking.track(0, b"k", 100);
    tracking.track(0, b"there", 50);
    assert_eq!(rename(&mut tracking, b"k", b"there").0, Arrival::Noted);
    assert!(tracking.is_tracked(0, b"there") && !tracking.is_tracked(0, b"k"));
    assert_eq!(tracking.next_visit(60), None, "of the set that was there before nothing is left");
    assert_eq!(tracking.next_visit(100), Some(Place::new(0, b"there")));
    // An ordinary key takes its place.
    assert_eq!(rename(&mut tracking, b"ordinary", b"there").0, Arrival::Nothing);
    assert!(!tracking.is_tracked(0, b"there"));
    // Only the set itself can tell: it was changed by plain commands, or set aside, or never expires.
    tracking.track(0, b"k", 100);
    assert!(tracking.touch(0, b"k", Some(7)));
    let (arrival, left) = rename(&mut tracking, b"k", b"there");
    assert!(arrival == Arrival::Unclear && tracking.left_touched(left, Some(7)));
    tracking.track(0, b"k", 100);
    tracking.visited(&Place::new(0, b"k"), Outcome::Unknown, 200);
    assert_eq!(rename(&mut tracking, b"k", b"there").0, Arrival::Unclear);
}

/// Other modules may move keys whenever the server says that something moves.
#[test]
fn moves_within_a_move_are_told_apart() {
    let mut tracking = Tracking::default();
    tracking.track(0, b"k", 100);
    tracking.leave(0, b"k");
    assert_eq!(rename(&mut tracking, b"plain", b"elsewhere").0, Arrival::Unclear, "perhaps it is what is on its way");
    let left = tracking.arrive();
    assert_eq!((left.database, tracking.take_along(0, b"new", left)), (Some(0), Arrival::Noted));
    assert_eq!(tracking.next_visit(100), Some(Place::new(0, b"new")));
    // Moved on before its arrival is announced: it is looked at, and known by its TTL.
    tracking.touch(0, b"new", Some(7));
    tracking.leave(0, b"new");
    let (arrival, left) = rename(&mut tracking, b"on the way", b"further");
    assert!(arrival == Arrival::Unclear && tracking.left_touched(left, Some(7)));
    // The end of some moves is never announced, or that of some that never began.
    (0..1000_u32).for_each(|n| tracking.leave(0, &n.to_le_bytes()));
    assert!(tracking.leaving.len() < 100, "{}", tracking.leaving.len());
    tracking.track(0, b"k", 100);
    assert_eq!(rename(&mut tracking, b"k", b"new").0, Arrival::Noted);
    tracking.all_arrived();
    let left = tracking.arrive();
    assert_eq!((left.database, tracking.take_along(0, b"new", left)), (None, Arrival::Nothing));
}

#[test]
fn what_waits_is_known_until_its_set_is_gone_or_elsewhere() {
    let unfinished = crate::model::tracking::Outcome::Unfinished { due: 5, left: 17 };
    let mut tracking = Tracking::default();
    tracking.track(0, b"k", 5);
    let place = tracking.next_visit(10).unwrap();
    tracking.visited(&place, unfinished, 10);
    assert_eq!(tracking.backlog(), 17);
    tracking.swap(0, 3);
    assert_eq!(tracking.backlog(), 17);
    tracking.swap(1, 0);
    assert_eq!(tracking.backlog(), 17);
    tracking.swap(4, 3);
    assert_eq!((tracking.backlog(), tracking.next_visit(10)), (17, Some(Place::new(4, b"k"))));
    tracking.flush(Some(4));
    assert_eq!(tracking.backlog(), 0);
}
