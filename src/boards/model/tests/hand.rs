//! Tests of the documented behaviour, case by case.

use super::*;

fn best() -> SetOptions {
    SetOptions { best: true, ..SetOptions::default() }
}

fn only(condition: Condition) -> SetOptions {
    SetOptions { condition, ..SetOptions::default() }
}

fn give<'a>(pairs: &'a [(&'a str, Vec<Value>)]) -> Vec<Assignment<'a>> {
    pairs.iter().map(|(m, v)| Assignment { member: m.as_bytes(), values: v }).collect()
}

fn all(board: &Board) -> String {
    listed(board.iter(Order::BestFirst))
}

fn values(board: &Board, member: &str) -> Vec<Value> {
    board.get(member.as_bytes()).unwrap().1.iter().collect()
}

#[test]
fn a_schema_has_1_to_64_dimensions_of_different_names() {
    let dims = |n: usize| (0..n).map(|i| dim(&i.to_string(), Direction::Desc, Kind::Int)).collect::<Vec<_>>();
    assert_eq!(Schema::new(dims(0), Ties::First, None), Err(BoardError::DimensionCount));
    assert_eq!(Schema::new(dims(65), Ties::First, None), Err(BoardError::DimensionCount));
    assert!(Schema::new(dims(1), Ties::First, None).is_ok());
    assert!(Schema::new(dims(64), Ties::First, None).is_ok());
    let twice = vec![dim("a", Direction::Asc, Kind::Int), dim("a", Direction::Desc, Kind::Float)];
    assert_eq!(Schema::new(twice, Ties::First, None), Err(BoardError::DuplicateDimension));
    assert_eq!(plain(3, Ties::First, 0).find(b"d2"), Some(2));
    assert_eq!(plain(3, Ties::First, 0).find(b"D2"), None);
    assert_eq!((Direction::default(), Kind::default(), Ties::default()), (Direction::Desc, Kind::Int, Ties::First));
}

#[test]
fn integers_are_exact_and_ordered_up_to_both_ends_of_64_bits() {
    let edges =
        [i64::MIN, i64::MIN + 1, -(1 << 53) - 1, -(1 << 53), -1, 0, 1, 1 << 53, (1 << 53) + 1, i64::MAX - 1, i64::MAX];
    for direction in [Direction::Asc, Direction::Desc] {
        let d = dim("d", direction, Kind::Int);
        let words: Vec<u64> = edges.iter().map(|v| int(*v).to_word(&d).unwrap()).collect();
        assert!(words.windows(2).all(|w| (w[0] < w[1]) == (direction == Direction::Asc) && w[0] != w[1]));
        for (word, v) in words.iter().zip(edges) {
            assert_eq!(Value::from_word(*word, &d), int(v));
        }
    }
    let mut board = Board::new(plain(1, Ties::First, 0));
    for (i, v) in edges.iter().enumerate() {
        set(&mut board, &i.to_string(), &[*v]);
    }
    assert_eq!(all(&board), "10 9 8 7 6 5 4 3 2 1 0");
}

#[test]
fn floats_are_ordered_and_zero_is_one_value() {
    let edges = [-f64::MAX, -1.5, -f64::MIN_POSITIVE, -5e-324, 0.0, 5e-324, 0.1, 1.0, f64::MAX];
    for direction in [Direction::Asc, Direction::Desc] {
        let d = dim("d", direction, Kind::Float);
        let words: Vec<u64> = edges.iter().map(|v| Value::Float(*v).to_word(&d).unwrap()).collect();
        assert!(words.windows(2).all(|w| (w[0] < w[1]) == (direction == Direction::Asc) && w[0] != w[1]));
        for (word, v) in words.iter().zip(edges) {
            assert_eq!(Value::from_word(*word, &d), Value::Float(v));
        }
        assert_eq!(Value::Float(-0.0).to_word(&d), Value::Float(0.0).to_word(&d));
    }
}

#[test]
fn negative_zero_is_never_stored_and_equal_to_zero() {
    let mut board = Board::new(Schema::new(vec![dim("f", Direction::Desc, Kind::Float)], Ties::First, None).unwrap());
    let pairs = [("a", vec![Value::Float(-0.0)]), ("b", vec![Value::Float(0.0)])];
    board.set(&give(&pairs), SetOptions::default(), |_| ()).unwrap();
    assert_eq!(board.set(&give(&pairs[..1]), SetOptions::default(), |_| panic!("nothing changes")), Ok(0));
    assert_eq!((all(&board).as_str(), board.distinct()), ("a b", 1));
    let Value::Float(zero) = values(&board, "a")[0] else { panic!() };
    assert!(zero.is_sign_positive());
    let result = board.incr(b"a", &[(0, Value::Float(-0.0))], |_| panic!("nothing changes")).unwrap();
    let Value::Float(zero) = result[0] else { panic!() };
    assert!(zero.is_sign_positive());
}

#[test]
fn dimensions_compare_in_order_each_in_its_direction() {
    let dims = vec![
        dim("wins", Direction::Desc, Kind::Int),
        dim("time", Direction::Asc, Kind::Float),
        dim("bonus", Direction::Desc, Kind::Int),
    ];
    let mut board = Board::new(Schema::new(dims, Ties::First, None).unwrap());
    let tuple = |w, t, b| vec![int(w), Value::Float(t), int(b)];
    let pairs = [
        ("slow", tuple(5, 9.5, 99)),
        ("fast", tuple(5, 1.25, 0)),
        ("fast+", tuple(5, 1.25, 1)),
        ("top", tuple(6, 99.0, 0)),
    ];
    assert_eq!(board.set(&give(&pairs), SetOptions::default(), |_| ()), Ok(4));
    assert_eq!(all(&board), "top fast+ fast slow");
}

#[test]
fn sixty_four_dimensions_differ_in_the_last() {
    let mut board = Board::new(plain(64, Ties::First, 0));
    for i in 0..200i64 {
        let mut tuple = [7; 64];
        tuple[63] = i;
        set(&mut board, &format!("{i}"), &tuple);
    }
    board.check();
    assert_eq!(board.rank(b"199", Ranking::Plain), Some(0));
    assert_eq!(board.rank(b"0", Ranking::Dense), Some(199));
    let mut loaded = Board::decode(&mut board.saved()).unwrap();
    assert_eq!(loaded.saved(), board.saved());
    assert_eq!(loaded.incr(b"0", &[(63, int(1_000))], |_| ()).unwrap()[63], int(1_000));
    assert_eq!(loaded.get(b"0").unwrap().0, 0);
}

#[test]
fn ties_first_last_and_name() {
    for (ties, expected) in [(Ties::First, "c a b"), (Ties::Last, "b a c"), (Ties::Name, "a b c")] {
        let mut board = Board::new(plain(1, ties, 0));
        for member in ["c", "a", "b"] {
            set(&mut board, member, &[1]);
        }
        assert_eq!(all(&board), expected);
    }
}

#[test]
fn equal_values_keep_the_place_among_ties_and_returning_to_them_loses_it() {
    for (ties, returned) in [(Ties::First, "b c a"), (Ties::Last, "a c b"), (Ties::Name, "a b c")] {
        let mut board = Board::new(plain(1, ties, 0));
        for member in ["a", "b", "c"] {
            set(&mut board, member, &[1]);
        }
        let before = all(&board);
        let again = [("a", vec![int(1)])];
        board.set(&give(&again), SetOptions::default(), |_| panic!("nothing changes")).unwrap();
        assert_eq!(all(&board), before);
        set(&mut board, "a", &[2]);
        set(&mut board, "a", &[1]);
        assert_eq!(all(&board), returned);
    }
}

#[test]
fn names_break_ties_by_bytes_whatever_they_are() {
    let mut board = Board::tiny(plain(1, Ties::Name, 0), 4);
    let members: [&[u8]; 6] = [b"", b"\0", b"A", b"a", b"aa", b"\xFF\xFE"];
    for member in members.iter().rev() {
        board.set(&[Assignment { member, values: &[int(0)] }], SetOptions::default(), |_| ()).unwrap();
    }
    assert!(board.iter(Order::BestFirst).map(|e| e.member).eq(members));
    board.check();
}

#[test]
fn nx_xx_and_best_change_only_the_members_that_they_allow() {
    let mut board = Board::new(plain(2, Ties::First, 0));
    assert_eq!(set_with(&mut board, "a", &[1, 5], only(Condition::Present)), 0);
    assert!(board.is_empty());
    assert_eq!(set_with(&mut board, "a", &[1, 5], only(Condition::Absent)), 1);
    assert_eq!(set_with(&mut board, "a", &[9, 9], only(Condition::Absent)), 0);
    assert_eq!(values(&board, "a"), [int(1), int(5)]);
    assert_eq!(set_with(&mut board, "a", &[1, 4], best()), 0);
    assert_eq!(values(&board, "a"), [int(1), int(5)]);
    set_with(&mut board, "a", &[1, 6], best());
    assert_eq!(values(&board, "a"), [int(1), int(6)]);
    set_with(&mut board, "a", &[2, 0], best());
    assert_eq!(values(&board, "a"), [int(2), int(0)]);
    assert_eq!(set_with(&mut board, "b", &[0, 0], best()), 1);
    set_with(&mut board, "a", &[0, 0], only(Condition::Present));
    assert_eq!(values(&board, "a"), [int(0), int(0)]);
    let both = SetOptions { condition: Condition::Present, best: true };
    assert_eq!(set_with(&mut board, "c", &[9, 9], both), 0);
    assert!(!board.contains(b"c"));
}

#[test]
fn an_error_in_any_assignment_changes_nothing() {
    let dims = vec![dim("i", Direction::Desc, Kind::Int), dim("f", Direction::Desc, Kind::Float)];
    let mut board = Board::new(Schema::new(dims, Ties::First, None).unwrap());
    let good = ("a", vec![int(1), Value::Float(1.0)]);
    board.set(&give(std::slice::from_ref(&good)), SetOptions::default(), |_| ()).unwrap();
    let before = board.saved();
    let bad = [
        (vec![int(1)], BoardError::ValueCount),
        (vec![], BoardError::ValueCount),
        (vec![int(1), Value::Float(1.0), int(1)], BoardError::ValueCount),
        (vec![Value::Float(1.0), Value::Float(1.0)], BoardError::WrongKind),
        (vec![int(1), int(1)], BoardError::WrongKind),
        (vec![int(1), Value::Float(f64::NAN)], BoardError::NotFinite),
        (vec![int(1), Value::Float(f64::INFINITY)], BoardError::NotFinite),
        (vec![int(1), Value::Float(f64::NEG_INFINITY)], BoardError::NotFinite),
    ];
    for (tuple, error) in bad {
        let pairs = [("b", good.1.clone()), ("a", vec![int(9), Value::Float(9.0)]), ("c", tuple.clone())];
        let result = board.set(&give(&pairs), SetOptions::default(), |_| panic!("no effect of an error"));
        assert_eq!(result, Err(error));
        assert_eq!(board.saved(), before);
        assert_eq!(board.rank_of(&tuple), Err(error));
    }
}

#[test]
fn the_reply_of_set_counts_who_is_on_the_board_now_and_was_not_before() {
    let mut board = Board::new(plain(1, Ties::First, 3));
    let p = |m, v| (m, vec![int(v)]);
    let mut run = |pairs: &[(&'static str, Vec<Value>)]| {
        let reply = board.set(&give(pairs), SetOptions::default(), |_| ()).unwrap();
        (reply, all(&board))
    };
    assert_eq!(run(&[p("a", 1), p("a", 2)]), (1, "a".into()), "a member named twice counts once");
    assert_eq!(run(&[]), (0, "a".into()));
    assert_eq!(run(&[p("b", 3), p("c", 4), p("d", 1)]), (2, "c b a".into()), "d did not get in");
    assert_eq!(run(&[p("d", 5), p("e", 6), p("f", 7), p("g", 8)]), (3, "g f e".into()), "d was dropped again");
    assert_eq!(run(&[p("x", 9), p("e", 10)]), (1, "e x g".into()), "e was dropped and is back, so only x is new");
}

#[test]
fn keep_lets_only_the_best_stay() {
    let mut board = Board::new(plain(1, Ties::First, 2));
    set(&mut board, "a", &[5]);
    set(&mut board, "b", &[7]);
    assert_eq!(set(&mut board, "c", &[4]), 0, "worse than all on a full board");
    assert_eq!(set(&mut board, "c", &[5]), 0, "behind its equal");
    assert_eq!(set(&mut board, "c", &[6]), 1);
    assert_eq!(all(&board), "b c");
    set(&mut board, "b", &[-100]);
    assert_eq!(all(&board), "c b", "a member never goes by its own change");
    board.remove(b"c");
    assert_eq!(set(&mut board, "d", &[-200]), 1, "there is room again");
    assert_eq!(all(&board), "b d");
}

#[test]
fn keep_with_ties_last_drops_the_oldest_and_with_name_the_greatest() {
    let mut board = Board::new(plain(1, Ties::Last, 2));
    for member in ["a", "b", "c"] {
        assert_eq!(set(&mut board, member, &[1]), 1);
    }
    assert_eq!(all(&board), "c b");
    let mut board = Board::new(plain(1, Ties::Name, 2));
    for (member, added) in [("b", 1), ("c", 1), ("a", 1), ("d", 0)] {
        assert_eq!(set(&mut board, member, &[1]), added);
    }
    assert_eq!(all(&board), "a b");
}

#[test]
fn a_new_member_that_keep_refuses_has_no_effect_but_incr_returns_its_values() {
    let mut board = Board::new(plain(1, Ties::First, 1));
    set(&mut board, "a", &[5]);
    let before = board.saved();
    let refused = board.incr(b"b", &[(0, int(3))], |_| panic!("no effect")).unwrap();
    assert_eq!((refused, all(&board).as_str()), (vec![int(3)], "a"));
    board.set(&give(&[("b", vec![int(5)])]), SetOptions::default(), |_| panic!("no effect")).unwrap();
    assert_eq!(board.saved(), before);
    let mut effects = 0;
    assert_eq!(board.incr(b"b", &[(0, int(6))], |_| effects += 1), Ok(vec![int(6)]));
    assert_eq!(effects, 1);
    assert_eq!(all(&board), "b");
}

#[test]
fn effects_carry_final_values_and_drop_the_same_members_elsewhere() {
    let mut board = Board::new(plain(2, Ties::Last, 3));
    let mut replica = board.clone();
    let mut log = Vec::new();
    for (member, by) in [("a", 3), ("b", 3), ("a", -3), ("c", 0), ("d", 1), ("e", 9)] {
        let record = |effect: Entry| {
            log.push((effect.member.to_vec(), effect.values.iter().collect::<Vec<_>>()));
            replica.apply(effect).unwrap();
        };
        board.incr(member.as_bytes(), &[(1, int(by))], record).unwrap();
    }
    assert_eq!(log[2], (b"a".to_vec(), vec![int(0), int(0)]));
    assert_eq!(all(&board), "e b d");
    assert_eq!(replica.saved(), board.saved());
}

#[test]
fn an_effect_of_another_schema_is_refused() {
    let mut two = Board::new(plain(2, Ties::First, 0));
    set(&mut two, "a", &[1, 2]);
    let mut one = Board::new(plain(1, Ties::First, 0));
    assert_eq!(one.apply(two.rebuild().next().unwrap()), Err(BoardError::ValueCount));
    let mut floats =
        Board::new(Schema::new(vec![dim("f", Direction::Desc, Kind::Float); 1], Ties::First, None).unwrap());
    set(&mut one, "a", &[1]);
    assert_eq!(floats.apply(one.rebuild().next().unwrap()), Err(BoardError::WrongKind));
    assert!(floats.is_empty());
}

#[test]
fn incr_starts_at_zeros_adds_in_order_and_checks_every_step() {
    let mut board = Board::new(plain(2, Ties::First, 0));
    let incr = |board: &mut Board, by: &[(usize, i64)]| {
        let by: Vec<_> = by.iter().map(|(at, v)| (*at, int(*v))).collect();
        board.incr(b"a", &by, |_| ())
    };
    assert_eq!(incr(&mut board, &[(1, 5), (1, -2)]), Ok(vec![int(0), int(3)]));
    assert_eq!(incr(&mut board, &[(0, i64::MAX)]), Ok(vec![int(i64::MAX), int(3)]));
    let before = board.saved();
    assert_eq!(incr(&mut board, &[(1, 1), (0, 1)]), Err(BoardError::Overflow));
    assert_eq!(incr(&mut board, &[(0, 1), (0, -1)]), Err(BoardError::Overflow));
    assert_eq!(incr(&mut board, &[(2, 1)]), Err(BoardError::UnknownDimension));
    assert_eq!(board.incr(b"a", &[(0, Value::Float(1.0))], |_| ()).err(), Some(BoardError::WrongKind));
    assert_eq!(board.saved(), before);
    assert_eq!(incr(&mut board, &[(0, i64::MIN), (0, i64::MIN)]), Err(BoardError::Overflow));
    assert_eq!(incr(&mut board, &[(0, i64::MIN), (0, -1)]), Ok(vec![int(-2), int(3)]));
}

#[test]
fn incr_never_lets_a_float_become_infinite_or_nan() {
    let mut board = Board::new(Schema::new(vec![dim("f", Direction::Asc, Kind::Float)], Ties::First, None).unwrap());
    let mut incr = |by: f64| board.incr(b"a", &[(0, Value::Float(by))], |_| ()).map(|values| values[0]);
    assert_eq!(incr(f64::MAX), Ok(Value::Float(f64::MAX)));
    assert_eq!(incr(f64::MAX), Err(BoardError::NotFinite));
    assert_eq!(incr(f64::NAN), Err(BoardError::NotFinite));
    assert_eq!(incr(f64::NEG_INFINITY), Err(BoardError::NotFinite));
    assert_eq!(incr(-f64::MAX), Ok(Value::Float(0.0)));
}

#[test]
fn removing_the_last_member_leaves_a_board_that_works() {
    let mut board = Board::new(plain(1, Ties::First, 0));
    assert!(!board.remove(b"a"));
    set(&mut board, "a", &[1]);
    assert!(board.remove(b"a"));
    assert!(!board.remove(b"a"));
    assert_eq!((board.len(), board.distinct()), (0, 0));
    assert_eq!(board.rank_of(&[int(1)]), Ok(0));
    assert_eq!(set(&mut board, "a", &[1]), 1);
    board.check();
}

#[test]
fn doubles_are_written_as_redis_replies_them() {
    let cases = [
        (0.0, "0"),
        (3.0, "3"),
        (-17.0, "-17"),
        (0.1, "0.1"),
        (-2.5, "-2.5"),
        (1e8, "100000000"),
        (4_611_686_018_427_387_904.0, "4611686018427387904"),
        (1e19, "1e+19"),
        (12_345_678_901_234_567_000.0, "12345678901234567000"),
        (1.5e300, "1.5e+300"),
        (-f64::MAX, "-1.7976931348623157e+308"),
        (5e-324, "5e-324"),
        (0.000001, "0.000001"),
        (0.0000001, "1e-7"),
        (1.0 / 3.0, "0.3333333333333333"),
        (123456.789, "123456.789"),
        (0.001234567, "0.001234567"),
        (1.234567e-5, "1.234567e-5"),
    ];
    for (v, expected) in cases {
        assert_eq!(Value::Float(v).to_string(), expected);
        assert_eq!(expected.parse::<f64>().unwrap().to_bits(), v.to_bits());
    }
    assert_eq!(int(i64::MIN).to_string(), "-9223372036854775808");
}
