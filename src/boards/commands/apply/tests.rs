//! Tests that a replica equals its master after it has applied the recorded effects.

use super::*;
use crate::base::packed::{Packer, is_packed};
use crate::base::stream::Writer;
use crate::boards::model::{Board, Condition, Dimension, Direction, Kind, Schema, SetOptions, Ties, Value};
use crate::boards::parse::values;
use crate::boards::{BoardEffect, Edit, decode_words};
use crate::server::OwnedStr;
use crate::server::alone::without_a_server;
use proptest::prelude::*;
use std::num::NonZeroU64;

#[derive(Clone, Debug)]
enum Op {
    Set(Vec<(u8, [i8; 2])>, SetOptions),
    Incr(u8, Vec<(usize, i8)>),
    Remove(Vec<u8>),
    RemoveRange(i64, i64),
    Clear,
}

fn ops() -> impl Strategy<Value = Vec<Op>> {
    let member = || 0..24_u8;
    let condition = prop_oneof![4 => Just(Condition::Any), 1 => Just(Condition::Absent), 1 => Just(Condition::Present)];
    let options = (condition, prop_oneof![3 => Just(false), 1 => Just(true)])
        .prop_map(|(condition, best)| SetOptions { condition, best });
    let rows = prop::collection::vec((member(), any::<[i8; 2]>()), 1..5);
    let op = prop_oneof![
        8 => (rows, options).prop_map(|(rows, options)| Op::Set(rows, options)),
        4 => (member(), prop::collection::vec((0..2_usize, any::<i8>()), 1..4)).prop_map(|(who, by)| Op::Incr(who, by)),
        3 => prop::collection::vec(member(), 1..4).prop_map(Op::Remove),
        2 => (-9..9_i64, -9..9_i64).prop_map(|(start, stop)| Op::RemoveRange(start, stop)),
        1 => Just(Op::Clear),
    ];
    prop::collection::vec(op, 1..40)
}

fn schemas() -> impl Strategy<Value = Schema> {
    let ties = prop_oneof![Just(Ties::First), Just(Ties::Last), Just(Ties::Name)];
    let dimensions = prop::collection::vec(any::<[bool; 2]>(), 2).prop_map(|dimensions| {
        let dimension = |(at, [asc, float]): (usize, [bool; 2])| Dimension {
            name: format!("d{at}").into_bytes().into(),
            direction: if asc { Direction::Asc } else { Direction::Desc },
            kind: if float { Kind::Float } else { Kind::Int },
        };
        dimensions.into_iter().enumerate().map(dimension).collect::<Vec<_>>()
    });
    (dimensions, ties, 0..9_u64)
        .prop_map(|(dimensions, ties, keep)| Schema::new(dimensions, ties, NonZeroU64::new(keep)).expect("a schema"))
}

/// Returns a member's name. Some names look like keywords or numbers.
fn name(member: u8) -> Vec<u8> {
    match member {
        0 => Vec::new(),
        1 => b"NX".to_vec(),
        2 => b"3".to_vec(),
        _ => format!("m{member}").into_bytes(),
    }
}

/// Returns one of a few values, including the maximum, so that ties and overflows are frequent.
fn value(seed: i8, dimension: &Dimension) -> Value {
    match (dimension.kind, seed) {
        (Kind::Int, 120..) => Value::Int(i64::MAX),
        (Kind::Int, _) => Value::Int((seed / 40).into()),
        (Kind::Float, 120..) => Value::Float(f64::MAX),
        (Kind::Float, _) => Value::Float(f64::from(seed / 20) / 3.0),
    }
}

/// Returns the encoded form of the board.
fn saved(board: &Board) -> Vec<u8> {
    let mut packer = Packer::default();
    board.encode(&mut packer);
    packer.bytes().to_vec()
}

/// The numbers and byte strings of a board as words, as 0.3 wrote them after `REPLACE`.
struct Words(Vec<OwnedStr>);

impl Writer for Words {
    fn number(&mut self, number: u64) {
        self.0.push(OwnedStr::new(number.to_string().as_bytes()));
    }

    fn bytes(&mut self, bytes: &[u8]) {
        self.0.push(OwnedStr::new(bytes));
    }
}

/// Returns an effect as 0.3 wrote it.
fn in_words(change: &BoardChange<'_>, dimensions: &[Dimension]) -> Vec<OwnedStr> {
    let mut words = Words(vec![OwnedStr::new(change.name().as_bytes())]);
    match change {
        BoardChange::Set(rows) => {
            let members = rows.members(dimensions).expect("members").expect("the same dimensions");
            for (member, values) in members.names.iter().zip(members.values.chunks(dimensions.len())) {
                words.bytes(member);
                values.iter().for_each(|value| words.bytes(value.to_string().as_bytes()));
            }
        }
        BoardChange::Remove(members) => members.iter().for_each(|member| words.bytes(member)),
        BoardChange::RemoveRange { first, count } => [*first, *count].iter().for_each(|&number| words.number(number)),
        BoardChange::Replace(board) => board.encode(&mut words),
        BoardChange::Create(_) | BoardChange::Clear => {}
    }
    words.0
}

/// Returns an operation as the arguments that a client sends.
fn written(op: &Op, dimensions: &[Dimension]) -> Vec<OwnedStr> {
    let texts: Vec<Vec<u8>> = match op {
        Op::Set(rows, _) => rows
            .iter()
            .flat_map(|(member, seeds)| {
                let values = seeds.iter().zip(dimensions).map(|(&seed, dimension)| value(seed, dimension));
                std::iter::once(name(*member)).chain(values.map(|value| value.to_string().into_bytes()))
            })
            .collect(),
        Op::Remove(members) => members.iter().map(|&member| name(member)).collect(),
        _ => Vec::new(),
    };
    texts.iter().map(|text| OwnedStr::new(text)).collect()
}

fn run(edit: &mut Edit<'_>, op: &Op, words: &[Str<'_>], dimensions: &[Dimension]) {
    match op {
        Op::Set(_, options) => {
            let values = values(words, dimensions).expect("rows as ZLB.SET takes them");
            let members = words.iter().step_by(1 + dimensions.len()).map(|member| member.bytes());
            edit.set(members, &values, *options).expect("there is room");
        }
        Op::Incr(member, increments) => {
            let increments: Vec<_> = increments.iter().map(|&(at, by)| (at, value(by, &dimensions[at]))).collect();
            // An overflow is an error and changes nothing.
            let _ = edit.incr(&name(*member), &increments);
        }
        Op::Remove(_) => {
            edit.remove(words.iter().map(|member| member.bytes()));
        }
        Op::RemoveRange(start, stop) => {
            edit.remove_range(*start, *stop);
        }
        Op::Clear => {
            edit.clear();
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// After each change, a replica equals its master, and replicates the same effects to its own replicas. So does a
    /// replica that gets the words of 0.3. A call without effects changes nothing.
    #[test]
    fn an_equal_board_that_gets_the_effects_stays_equal(schema in schemas(), ops in ops()) {
        without_a_server();
        let dimensions = schema.dimensions().to_vec();
        let [mut master, mut replica, mut of_words] = [(); 3].map(|()| Board::new(schema.clone()));
        for op in &ops {
            let before = saved(&master);
            let words = written(op, &dimensions);
            let words: Vec<_> = words.iter().map(OwnedStr::as_str).collect();
            let mut edit = Edit::new(&mut master);
            run(&mut edit, op, &words, &dimensions);
            match edit.effect {
                None => prop_assert_eq!(&saved(&master), &before),
                Some(effect) => {
                    prop_assert!(is_packed(effect.bytes()));
                    let change = boards::decode(effect.bytes()).expect("what was written can be read");
                    let mut passed_on = Edit::new(&mut replica);
                    prop_assert_eq!(passed_on.apply(&change), Ok(true));
                    let told = passed_on.effect.expect("what has changed");
                    prop_assert_eq!(told.bytes(), effect.bytes());
                    let words = in_words(&change, &dimensions);
                    let words: Vec<_> = words.iter().map(OwnedStr::as_str).collect();
                    let change = decode_words(&words).map_err(|(why, _)| why).expect("what 0.3 wrote can be read");
                    prop_assert_eq!(Edit::new(&mut of_words).apply(&change), Ok(true));
                }
            }
            prop_assert_eq!(saved(&replica), saved(&master));
            prop_assert_eq!(saved(&of_words), saved(&master));
        }
        let effect = BoardEffect::replace(&master);
        let change = boards::decode(effect.bytes()).expect("what was written can be read");
        let words = in_words(&change, &dimensions);
        let words: Vec<_> = words.iter().map(OwnedStr::as_str).collect();
        for change in [change, decode_words(&words).map_err(|(why, _)| why).expect("what 0.3 wrote can be read")] {
            let BoardChange::Replace(board) = change else { panic!("another effect") };
            prop_assert_eq!(saved(&board), saved(&master));
        }
    }

    /// Bytes that no master wrote are refused, or they change a board as an effect does.
    #[test]
    fn any_bytes_are_refused_or_applied(schema in schemas(), ops in ops(), damage: [(prop::sample::Index, u8); 2], cut: prop::sample::Index) {
        without_a_server();
        let dimensions = schema.dimensions().to_vec();
        let mut board = Board::new(schema);
        for op in &ops {
            let words = written(op, &dimensions);
            let words: Vec<_> = words.iter().map(OwnedStr::as_str).collect();
            let mut edit = Edit::new(&mut board);
            run(&mut edit, op, &words, &dimensions);
            let Some(effect) = edit.effect else { continue };
            let mut bytes = effect.bytes().to_vec();
            for (at, byte) in &damage {
                let at = at.index(bytes.len());
                bytes[at] = *byte;
            }
            for bytes in [&bytes[..], &bytes[..cut.index(bytes.len())]] {
                if let Ok(change) = boards::decode(bytes) {
                    let _ = Edit::new(&mut board).apply(&change);
                }
            }
        }
        let mut packer = Packer::default();
        board.encode(&mut packer);
        let mut unpacker = crate::base::packed::Unpacker::of(packer.bytes());
        prop_assert_eq!(Board::decode(&mut unpacker).map(|board| saved(&board)), Ok(saved(&board)));
    }
}
