//! Tests of MERGE and REMRANGE, case by case.

use super::*;

fn board(schema: Schema, members: &[(&str, i64)]) -> Board {
    let mut board = Board::new(schema);
    for (member, value) in members {
        set(&mut board, member, &[*value]);
    }
    board
}

fn merged(combine: Combine, boards: &[&Board]) -> Result<Board, BoardError> {
    let mut merge = Merge::new(boards[0].schema().clone(), combine);
    boards.iter().try_for_each(|board| merge.add(board))?;
    let board = merge.finish();
    board.check();
    Ok(board)
}

fn shown(board: &Board) -> String {
    let shown = board.iter(Order::BestFirst).map(|entry| {
        let values: Vec<_> = entry.values.iter().map(|value| value.to_string()).collect();
        format!("{}={}", String::from_utf8_lossy(entry.member), values.join(","))
    });
    shown.collect::<Vec<_>>().join(" ")
}

#[test]
fn values_are_added_up_or_the_better_ones_taken() {
    let schema = || plain(1, Ties::First, 0);
    let monday = board(schema(), &[("ann", 5), ("bob", 7), ("eve", 1)]);
    let tuesday = board(schema(), &[("ann", 4), ("bob", -2), ("zoe", 3)]);
    assert_eq!(shown(&merged(Combine::Sum, &[&monday, &tuesday]).unwrap()), "ann=9 bob=5 zoe=3 eve=1");
    assert_eq!(shown(&merged(Combine::Best, &[&monday, &tuesday]).unwrap()), "bob=7 ann=5 zoe=3 eve=1");
    assert_eq!(shown(&merged(Combine::Sum, &[&monday, &monday]).unwrap()), "bob=14 ann=10 eve=2");
    let empty = board(schema(), &[]);
    assert_eq!(shown(&merged(Combine::Sum, &[&empty, &empty]).unwrap()), "");
}

#[test]
fn the_better_of_tuples_is_decided_dimension_by_dimension() {
    let schema = || {
        let dims = vec![dim("wins", Direction::Desc, Kind::Int), dim("time", Direction::Asc, Kind::Float)];
        Schema::new(dims, Ties::First, None).unwrap()
    };
    let with = |wins, time| {
        let mut board = Board::new(schema());
        let values = [int(wins), Value::Float(time)];
        board.set(&[Assignment { member: b"ann", values: &values }], SetOptions::default(), |_| ()).unwrap();
        board
    };
    assert_eq!(shown(&merged(Combine::Best, &[&with(2, 9.5), &with(2, 8.5)]).unwrap()), "ann=2,8.5");
    assert_eq!(shown(&merged(Combine::Best, &[&with(2, 9.5), &with(1, 0.5)]).unwrap()), "ann=2,9.5");
    assert_eq!(shown(&merged(Combine::Sum, &[&with(2, 9.5), &with(1, 0.25)]).unwrap()), "ann=3,9.75");
}

#[test]
fn of_equals_the_one_is_first_whose_values_were_complete_after_an_earlier_key() {
    for (ties, expected) in [(Ties::First, "b=4 c=4 a=4"), (Ties::Last, "c=4 a=4 b=4"), (Ties::Name, "a=4 b=4 c=4")] {
        let one = board(plain(1, ties, 0), &[("a", 3), ("b", 4)]);
        let two = board(plain(1, ties, 0), &[("c", 4), ("a", 1)]);
        assert_eq!(shown(&merged(Combine::Sum, &[&one, &two]).unwrap()), expected, "{ties:?}");
        let alone = merged(Combine::Sum, &[&two]).unwrap();
        assert_eq!(alone.saved(), two.saved());
    }
}

#[test]
fn a_board_merged_alone_is_the_board_it_was() {
    for ties in [Ties::First, Ties::Last, Ties::Name] {
        let mut random = Board::new(plain(1, ties, 0));
        for i in 0..3_000i64 {
            set(&mut random, &format!("{}", i * 7_919 % 3_001), &[i % 5]);
        }
        for combine in [Combine::Sum, Combine::Best] {
            assert_eq!(merged(combine, &[&random]).unwrap().saved(), random.saved(), "{ties:?}");
        }
        let doubled = merged(Combine::Best, &[&random, &random]).unwrap();
        assert_eq!(doubled.saved(), random.saved(), "{ties:?}");
    }
}

#[test]
fn keep_counts_in_the_end_only() {
    let schema = || plain(1, Ties::First, 2);
    let one = board(schema(), &[("a", 10), ("b", 6)]);
    let two = board(schema(), &[("c", 9), ("b", 5)]);
    assert_eq!(shown(&merged(Combine::Sum, &[&one, &two]).unwrap()), "b=11 a=10");
    assert_eq!(shown(&merged(Combine::Best, &[&one, &two]).unwrap()), "a=10 c=9");
}

#[test]
fn a_sum_beyond_its_range_is_an_error() {
    let most = board(plain(1, Ties::First, 0), &[("a", i64::MAX)]);
    let least = board(plain(1, Ties::First, 0), &[("a", i64::MIN)]);
    let one = board(plain(1, Ties::First, 0), &[("a", 1)]);
    assert_eq!(merged(Combine::Sum, &[&most, &one]).err(), Some(BoardError::Overflow));
    assert_eq!(shown(&merged(Combine::Sum, &[&most, &least]).unwrap()), "a=-1");
    assert_eq!(shown(&merged(Combine::Best, &[&most, &one]).unwrap()), format!("a={}", i64::MAX));
    let schema = Schema::new(vec![dim("f", Direction::Desc, Kind::Float)], Ties::First, None).unwrap();
    let mut floats = Board::new(schema);
    let values = [Value::Float(f64::MAX)];
    floats.set(&[Assignment { member: b"a", values: &values }], SetOptions::default(), |_| ()).unwrap();
    assert_eq!(merged(Combine::Sum, &[&floats, &floats]).err(), Some(BoardError::NotFinite));
}

#[test]
fn a_range_is_removed_in_place_or_the_rest_is_built_again() {
    for (start, stop, expected, in_place) in [
        (0, 0, "b c d e f g h", true),
        (-2, -1, "a b c d e f", true),
        (2, 5, "a b g h", true),
        (1, -2, "a h", false),
        (1, -1, "a", false),
        (0, -1, "", false),
        (8, 9, "a b c d e f g h", true),
        (3, 2, "a b c d e f g h", true),
    ] {
        for ties in [Ties::First, Ties::Last, Ties::Name] {
            let mut all = Board::tiny(plain(1, ties, 0), 4);
            for (at, member) in ["a", "b", "c", "d", "e", "f", "g", "h"].iter().enumerate() {
                set(&mut all, member, &[-(at as i64) / 2 * 2 - i64::from(ties != Ties::Name) * at as i64]);
            }
            let before = all.len();
            let schema = all.schema().clone();
            let RemovedRange { count, former, .. } = all.remove_range(start, stop);
            assert_eq!(former.map(|former| former.len()), (!in_place).then_some(before), "{start} {stop}");
            all.check();
            assert_eq!(listed(all.iter(Order::BestFirst)), expected, "{start} {stop}");
            assert_eq!(all.len() + count, before);
            assert_eq!(*all.schema(), schema);
        }
    }
}
