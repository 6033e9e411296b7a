//! Tests of encoding and decoding, including hostile input.

use super::super::codec::*;
use super::random::Random;
use super::*;
use crate::base::packed;
use proptest::prelude::*;

fn decode(items: Vec<Item>) -> Result<Board, DecodeError> {
    Board::decode(&mut Tape { items, at: 0 })
}

/// Returns the header of a stored board. All dimensions are DESC INT, with the names d0, d1 and so on.
fn header(dims: u64, ties: u64, keep: u64, members: u64) -> Vec<Item> {
    let mut items = vec![Item::Number(1), Item::Number(ties), Item::Number(keep), Item::Number(dims)];
    for i in 0..dims {
        items.extend([Item::Number(0), Item::Bytes(format!("d{i}").into())]);
    }
    items.push(Item::Number(members));
    items
}

fn with_block(mut items: Vec<Item>, block: &[u8]) -> Vec<Item> {
    items.push(Item::Bytes(block.to_vec()));
    items
}

fn sample(ties: Ties, members: i64) -> Board {
    let dims = vec![dim("score", Direction::Desc, Kind::Int), dim("time", Direction::Asc, Kind::Float)];
    let mut board = Board::new(Schema::new(dims, ties, NonZeroU64::new(1_000)).unwrap());
    let mut random = Random(11);
    for i in 0..members {
        let tuple = [int(random.below(9) as i64 - 4), Value::Float(random.below(4) as f64 / 2.0 - 0.5)];
        let name = format!("member-{i}");
        board.set(&[Assignment { member: name.as_bytes(), values: &tuple }], SetOptions::default(), |_| ()).unwrap();
    }
    board
}

#[test]
fn a_loaded_board_is_the_board_that_was_saved_and_goes_on_like_it() {
    for ties in [Ties::First, Ties::Last, Ties::Name] {
        for members in [0, 1, 63, 64, 700] {
            let mut board = sample(ties, members);
            let mut loaded = Board::decode(&mut board.saved()).unwrap();
            loaded.check();
            assert_eq!(loaded.saved(), board.saved());
            assert_eq!(loaded.distinct(), board.distinct());
            for board in [&mut board, &mut loaded] {
                board.incr(b"member-0", &[(0, int(1))], |_| ()).unwrap();
                board.incr(b"new", &[(0, int(1))], |_| ()).unwrap();
                board.remove(b"member-5");
            }
            loaded.check();
            assert_eq!(loaded.saved(), board.saved());
        }
    }
}

#[test]
fn the_format_of_version_1_stays_readable() {
    let items = with_block(header(1, 0, 0, 2), b"\x03abc\x04\x00\x81\x01");
    let board = decode(items.clone()).unwrap();
    assert_eq!(listed(board.iter(Order::BestFirst)), "abc ");
    assert_eq!(board.get(b"").unwrap().1.iter().next(), Some(int(-65)));
    assert_eq!(board.saved().items, items);
}

#[test]
fn every_part_of_a_header_is_checked() {
    let changed = |at: usize, number: u64| {
        let mut items = sample(Ties::First, 3).saved().items;
        items[at] = Item::Number(number);
        decode(items).err()
    };
    assert_eq!(changed(0, 2), Some(DecodeError::Format { found: 2, oldest: 1, newest: 1 }));
    assert_eq!(changed(1, 3), Some(SCHEMA));
    assert_eq!(changed(2, 2), Some(TOO_MANY));
    assert_eq!(changed(2, i64::MAX as u64 + 1), Some(SCHEMA), "a KEEP that ZLB.CREATE refuses");
    assert_eq!(changed(3, 0), Some(SCHEMA));
    assert_eq!(changed(3, 65), Some(SCHEMA));
    assert_eq!(changed(3, u64::MAX), Some(SCHEMA));
    assert_eq!(changed(4, 4), Some(SCHEMA));
    assert_eq!(changed(8, u64::MAX), Some(TOO_MANY));
    assert_eq!(changed(8, 4), Some(DecodeError::Truncated));
    assert_eq!(changed(8, 2), Some(MALFORMED));
    let mut twice = header(2, 0, 0, 0);
    twice[7] = Item::Bytes(b"d0".to_vec());
    assert_eq!(decode(twice).err(), Some(SCHEMA));
}

#[test]
fn every_member_is_checked() {
    let block = |members, ties, block: &[u8]| decode(with_block(header(1, ties, 0, members), block)).err();
    assert_eq!(block(1, 0, b""), Some(MALFORMED), "an empty block would go on forever");
    assert_eq!(block(1, 0, b"\x05ab"), Some(DecodeError::Truncated));
    assert_eq!(block(1, 0, b"\x01a"), Some(DecodeError::Truncated));
    assert_eq!(block(1, 0, b"\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\x01a"), Some(DecodeError::Truncated));
    assert_eq!(block(1, 0, b"\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\x02a"), Some(packed::MALFORMED));
    assert_eq!(block(1, 0, b"\x81\x00a\x00"), Some(packed::MALFORMED), "an overlong number");
    assert_eq!(block(1, 0, b"\x01a\x00\x01b\x00"), Some(MALFORMED), "one more than announced");
    assert_eq!(block(2, 0, b"\x01a\x00\x01b\x02"), Some(ORDER), "DESC 0 before 1");
    assert_eq!(block(2, 0, b"\x01b\x00\x01a\x00"), None);
    assert_eq!(block(2, 2, b"\x01b\x00\x01a\x00"), Some(ORDER), "names break ties");
    assert_eq!(block(2, 2, b"\x01a\x00\x01a\x00"), Some(ORDER));
    assert_eq!(block(2, 0, b"\x01a\x00\x01a\x00"), Some(DUPLICATE));
    assert_eq!(block(2, 0, b"\x01a\x02\x01a\x00"), Some(DUPLICATE));
    for bits in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
        let mut items = header(1, 0, 0, 1);
        items[4] = Item::Number(2);
        let member = [b"\x01a".as_slice(), &bits.to_le_bytes()].concat();
        assert_eq!(decode(with_block(items, &member)).err(), Some(MALFORMED));
    }
}

#[test]
fn a_number_of_members_that_are_not_there_costs_nothing() {
    assert_eq!(decode(header(64, 0, 0, MAX_MEMBERS)).err(), Some(DecodeError::Truncated));
}

#[test]
fn whatever_is_cut_off_is_noticed() {
    let items = sample(Ties::Last, 300).saved().items;
    for length in 0..items.len() {
        assert!(decode(items[..length].to_vec()).is_err());
    }
}

fn item() -> impl Strategy<Value = Item> {
    prop_oneof![
        (0..4u64).prop_map(Item::Number),
        any::<u64>().prop_map(Item::Number),
        prop::collection::vec(any::<u8>(), 0..60).prop_map(Item::Bytes),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 4_000, ..ProptestConfig::default() })]

    #[test]
    fn random_input_is_an_error_or_a_sound_board(items in prop::collection::vec(item(), 0..20)) {
        if let Ok(board) = decode(items) {
            board.check();
        }
    }

    #[test]
    fn random_members_are_an_error_or_a_sound_board(
        ties in 0..3u64,
        members in 1..6u64,
        block in prop::collection::vec(prop_oneof![0..3u8, any::<u8>()], 0..30),
    ) {
        let items = with_block(header(1, ties, 0, members), &block);
        if let Ok(board) = decode(items.clone()) {
            board.check();
            prop_assert_eq!(board.saved().items, items, "only what would be written is read");
        }
    }

    #[test]
    fn a_mutated_save_is_an_error_or_a_sound_board(
        ties in prop_oneof![Just(Ties::First), Just(Ties::Last), Just(Ties::Name)],
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<prop::sample::Index>(), any::<u8>()), 1..4),
    ) {
        let mut items = sample(ties, 40).saved().items;
        for (item, byte, to) in changes {
            match item.get(&items).clone() {
                Item::Number(_) => items[item.index(9)] = Item::Number(u64::from(to)),
                Item::Bytes(mut bytes) => {
                    *byte.get_mut(&mut bytes) = to;
                    let at = item.index(items.len());
                    items[at] = Item::Bytes(bytes);
                }
            }
        }
        if let Ok(board) = decode(items) {
            board.check();
            prop_assert_eq!(Board::decode(&mut board.saved()).unwrap().saved(), board.saved());
        }
    }
}
