//! Tests of ranks and ranges, case by case.

use super::*;

#[test]
fn the_three_ranks_count_equals_differently() {
    let mut board = Board::tiny(plain(2, Ties::First, 0), 4);
    for (member, v) in [("a", 9), ("b", 8), ("c", 8), ("d", 8), ("e", 7), ("f", 7), ("g", 1)] {
        set(&mut board, member, &[v, 0]);
    }
    let ranks = |ranking| -> Vec<u64> {
        board.iter(Order::BestFirst).map(|e| board.rank(e.member, ranking).unwrap()).collect()
    };
    assert_eq!(ranks(Ranking::Plain), [0, 1, 2, 3, 4, 5, 6]);
    assert_eq!(ranks(Ranking::Competition), [0, 1, 1, 1, 4, 4, 6]);
    assert_eq!(ranks(Ranking::Dense), [0, 1, 1, 1, 2, 2, 3]);
    assert_eq!(board.distinct(), 4);
    assert_eq!(board.rank(b"nobody", Ranking::Dense), None);
    assert!(board.get(b"nobody").is_none());
}

#[test]
fn dense_ranks_hold_where_equals_span_many_leaves() {
    for ties in [Ties::First, Ties::Last, Ties::Name] {
        let mut board = Board::tiny(plain(1, ties, 0), 4);
        for i in 0..300i64 {
            set(&mut board, &format!("{i:03}"), &[i / 100]);
        }
        board.check();
        assert_eq!(board.distinct(), 3);
        assert_eq!(board.rank(b"050", Ranking::Dense), Some(2));
        assert_eq!(board.rank(b"050", Ranking::Competition), Some(200));
        for i in 100..199 {
            assert!(board.remove(format!("{i}").as_bytes()));
            board.check();
        }
        assert_eq!(board.rank(b"050", Ranking::Dense), Some(2));
        board.remove(b"199");
        assert_eq!((board.rank(b"050", Ranking::Dense), board.distinct()), (Some(1), 2));
    }
}

#[test]
fn rankof_is_the_place_of_a_newcomer() {
    for (ties, expected) in [(Ties::First, 3), (Ties::Last, 1), (Ties::Name, 3)] {
        let mut board = Board::new(plain(1, ties, 0));
        assert_eq!(board.rank_of(&[int(0)]), Ok(0));
        for (member, v) in [("a", 9), ("b", 8), ("c", 8), ("d", 1)] {
            set(&mut board, member, &[v]);
        }
        assert_eq!(board.rank_of(&[int(8)]), Ok(expected));
        assert_eq!(board.rank_of(&[int(i64::MAX)]), Ok(0));
        assert_eq!(board.rank_of(&[int(i64::MIN)]), Ok(4));
        set(&mut board, "zz", &[8]);
        assert_eq!(board.get(b"zz").unwrap().0, expected);
    }
}

#[test]
fn range_counts_as_zrange_does() {
    let mut board = Board::new(plain(1, Ties::First, 0));
    assert_eq!(listed(board.range(0, -1, Order::BestFirst)), "");
    assert!(board.around(b"a", 3).is_none());
    for (member, v) in [("a", 5), ("b", 4), ("c", 3), ("d", 2), ("e", 1)] {
        set(&mut board, member, &[v]);
    }
    let range = |start, stop| listed(board.range(start, stop, Order::BestFirst));
    assert_eq!(range(0, -1), "a b c d e");
    assert_eq!(range(1, 2), "b c");
    assert_eq!(range(-2, -1), "d e");
    assert_eq!(range(-100, 0), "a");
    assert_eq!(range(4, 100), "e");
    assert_eq!(range(5, 100), "");
    assert_eq!(range(3, 1), "");
    assert_eq!(range(0, -6), "");
    assert_eq!(range(i64::MIN, i64::MAX), "a b c d e");
    assert_eq!(range(i64::MAX, i64::MIN), "");
    let reverse = |start, stop| listed(board.range(start, stop, Order::WorstFirst));
    assert_eq!(reverse(0, -1), "e d c b a");
    assert_eq!(reverse(0, 1), "e d");
    assert_eq!(reverse(-1, -1), "a");
}

#[test]
fn around_has_fewer_neighbours_at_an_edge() {
    let mut board = Board::tiny(plain(1, Ties::First, 0), 4);
    for i in 0..20i64 {
        set(&mut board, &format!("{i}"), &[-i]);
    }
    let around = |member: &str, radius| listed(board.around(member.as_bytes(), radius).unwrap());
    assert_eq!(around("10", 0), "10");
    assert_eq!(around("10", 2), "8 9 10 11 12");
    assert_eq!(around("0", 2), "0 1 2");
    assert_eq!(around("19", 2), "17 18 19");
    assert_eq!(around("1", 2), "0 1 2 3");
    assert_eq!(board.around(b"7", u64::MAX).unwrap().len(), 20);
}

#[test]
fn a_range_knows_the_ranks_of_its_members_either_way() {
    let mut board = Board::tiny(plain(1, Ties::First, 0), 4);
    for (member, v) in [("a", 9), ("b", 8), ("c", 8), ("d", 8), ("e", 7), ("f", 7), ("g", 1)] {
        set(&mut board, member, &[v]);
    }
    let ranks = |start, stop, order, ranking| -> Vec<u64> {
        board.range(start, stop, order).ranked(ranking).map(|(rank, _)| rank).collect()
    };
    assert_eq!(ranks(2, -1, Order::BestFirst, Ranking::Plain), [2, 3, 4, 5, 6]);
    assert_eq!(ranks(2, -1, Order::BestFirst, Ranking::Competition), [1, 1, 4, 4, 6]);
    assert_eq!(ranks(2, -1, Order::BestFirst, Ranking::Dense), [1, 1, 2, 2, 3]);
    // Index 0 is the worst. Ranks count from the best.
    assert_eq!(ranks(0, 4, Order::WorstFirst, Ranking::Plain), [6, 5, 4, 3, 2]);
    assert_eq!(ranks(0, 4, Order::WorstFirst, Ranking::Competition), [6, 4, 4, 1, 1]);
    assert_eq!(ranks(0, 4, Order::WorstFirst, Ranking::Dense), [3, 2, 2, 1, 1]);
    assert_eq!(ranks(9, 9, Order::WorstFirst, Ranking::Dense), []);
}

#[test]
fn ranks_hold_where_equals_reach_over_the_ends_of_a_range() {
    for ties in [Ties::First, Ties::Last, Ties::Name] {
        let mut board = Board::tiny(plain(1, ties, 0), 4);
        for i in 0..300i64 {
            set(&mut board, &format!("{i:03}"), &[i / 100]);
        }
        for order in [Order::BestFirst, Order::WorstFirst] {
            for (start, stop) in [(0, -1), (50, 250), (120, 130), (150, 199), (199, 200), (99, 100)] {
                for ranking in [Ranking::Plain, Ranking::Dense, Ranking::Competition] {
                    for (rank, entry) in board.range(start, stop, order).ranked(ranking) {
                        assert_eq!(Some(rank), board.rank(entry.member, ranking), "{order:?} {start} {ranking:?}");
                    }
                }
            }
        }
    }
}
