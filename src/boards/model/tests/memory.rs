//! Tests of copies, memory usage and digests.

use super::*;
use crate::server::counting;

#[test]
fn a_clone_goes_its_own_way() {
    let mut board = Board::tiny(plain(1, Ties::First, 0), 4);
    for i in 0..50 {
        set(&mut board, &i.to_string(), &[i]);
    }
    let copy = board.clone();
    for i in 0..50 {
        board.remove(i.to_string().as_bytes());
    }
    copy.check();
    assert_eq!((board.len(), copy.len()), (0, 50));
}

#[test]
fn names_of_all_lengths_are_kept_and_their_room_is_used_again() {
    let mut board = Board::new(plain(1, Ties::Name, 0));
    let name = |i: usize| vec![b'x'; i * i % 40_000];
    for round in 0..3 {
        for i in 0..300 {
            board
                .set(&[Assignment { member: &name(i), values: &[int(i as i64)] }], SetOptions::default(), |_| ())
                .unwrap();
        }
        board.check();
        let bytes = board.memory_usage(0);
        for i in 0..300 {
            board.remove(&name(i));
        }
        assert!(board.is_empty());
        assert!(board.memory_usage(0) < bytes / 10, "round {round}: {} of {bytes} left", board.memory_usage(0));
    }
}

/// MEMORY USAGE equals the allocated memory, and unused memory is freed.
#[test]
fn memory_is_counted_as_it_is_and_follows_the_members() {
    const MEMBERS: usize = 20_000;
    let name = |i: usize, length: usize| format!("{i:0>length$}");
    for (dimensions, length) in [(1, 5), (3, 20), (2, 70), (64, 10)] {
        let before = counting::held();
        let mut board = Board::new(plain(dimensions, Ties::First, 0));
        let values = vec![7; dimensions];
        // Members are removed in another order than they were added, so each page keeps some names for a long time.
        (0..MEMBERS).for_each(|i| assert_eq!(set(&mut board, &name(i * 7919 % MEMBERS, length), &values), 1));
        let mut full = 0;
        for left in [MEMBERS, MEMBERS / 2, MEMBERS / 10, 100, 0] {
            while board.len() > left as u64 {
                assert!(board.remove(name(board.len() as usize - 1, length).as_bytes()));
            }
            let held = usize::try_from(counting::held() - before).unwrap() + size_of::<Board>();
            let reported = board.memory_usage(0);
            let case = format!("{left} of {dimensions} dimensions and {length} bytes");
            assert!(reported.abs_diff(held) <= held / 50 + 2000, "{reported} reported, {held} held for {case}");
            let sampled = board.memory_usage(20);
            let is_sampled_well = left < MEMBERS / 2 || sampled.abs_diff(reported) <= reported / 3;
            assert!(is_sampled_well, "{sampled} by samples, {reported} reported for {case}");
            full = if left == MEMBERS { held } else { full };
            let most = if left > MEMBERS / 10 { full } else { full / 2 };
            assert!(held <= if left == 0 { 5000 } else { most }, "{held} held for {case}, {full} when full");
            // All pages of names but one are at least a quarter full.
            let names = board.names.page_bytes();
            let most = (4 * left + 256) * (4 + length) + 10_000;
            assert!(names <= most, "{names} for the names of {case}");
        }
    }
}

#[test]
fn a_board_has_room_for_a_limited_number_of_members() {
    use super::super::update::room;
    assert!(room(MAX_MEMBERS - 1, 1));
    assert!(!room(MAX_MEMBERS, 1));
    assert!(!room(0, u64::MAX));
}

#[test]
fn filling_in_order_leaves_full_leaves() {
    let mut rising = Board::new(plain(3, Ties::First, 0));
    let mut shuffled = Board::new(plain(3, Ties::First, 0));
    for i in 0..20_000i64 {
        set(&mut rising, &format!("{i:06}"), &[-i, 0, 0]);
        set(&mut shuffled, &format!("{i:06}"), &[i * 7_919 % 20_000, 0, 0]);
    }
    let leaves = |board: &Board| board.tree.bytes(0) / 20_000;
    assert!(leaves(&rising) <= 31, "{}", leaves(&rising));
    assert!(leaves(&shuffled) <= 35, "{}", leaves(&shuffled));
    let each = |board: &Board| board.memory_usage(0) / 20_000;
    let sampled = shuffled.memory_usage(5) / 20_000;
    assert!(sampled.abs_diff(each(&shuffled)) < 10, "{sampled}");
    assert!(shuffled.free_effort() < 20_000 / 5);
}

#[test]
fn what_is_saved_tells_boards_apart() {
    let board = |ties, keep, pairs: &[(&str, i64)]| {
        let mut board = Board::new(plain(1, ties, keep));
        pairs.iter().for_each(|(m, v)| assert_eq!(set(&mut board, m, &[*v]), 1));
        board.saved()
    };
    let one = board(Ties::First, 0, &[("a", 1), ("b", 1)]);
    assert_eq!(one, board(Ties::First, 0, &[("c", 9), ("a", 1), ("b", 1), ("c", 0)][1..3]));
    assert_ne!(one, board(Ties::First, 0, &[("b", 1), ("a", 1)]));
    assert_ne!(one, board(Ties::Name, 0, &[("a", 1), ("b", 1)]));
    assert_ne!(one, board(Ties::First, 9, &[("a", 1), ("b", 1)]));
    assert_ne!(one, board(Ties::First, 0, &[("a", 1), ("b", 0)]));
}

#[test]
fn a_board_is_the_same_after_its_memory_has_moved() {
    let mut board = Board::new(plain(2, Ties::First, 0));
    for i in 0..5000i64 {
        set(&mut board, &format!("member {i}"), &[i * 7 % 1000, i]);
    }
    let before = board.saved();
    for patience in [0, 1, 1000] {
        let moved = crate::base::relocate::relocate_all(&mut board, patience);
        assert!(moved * 10 > board.memory_usage(0) * 8, "{moved} of {} bytes", board.memory_usage(0));
        board.check();
        assert_eq!(board.saved(), before);
    }
}
