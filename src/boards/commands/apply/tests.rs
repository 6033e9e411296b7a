//! Tests that a replica equals its master after it has applied the recorded effects.

use super::*;
use crate::boards::model::{Board, Condition, Dimension, Direction, Kind, Schema, Ties, Value};
use crate::boards::{BoardEffect, decode_board, encode_board};
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
fn saved(board: &Board) -> Vec<Vec<u8>> {
    encode_board(board).iter().map(|word| word.bytes().to_vec()).collect()
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

fn run<'k>(edit: &mut Edit<'_, 'k>, op: &Op, words: &'k [Str<'k>], dimensions: &[Dimension]) {
    match op {
        Op::Set(_, options) => {
            let values = set::values(words, dimensions).expect("rows as ZLB.SET takes them");
            edit.set(words, &values, *options).expect("there is room");
        }
        Op::Incr(member, increments) => {
            let increments: Vec<_> = increments.iter().map(|&(at, by)| (at, value(by, &dimensions[at]))).collect();
            // An overflow is an error and changes nothing.
            let _ = edit.incr(&name(*member), &increments);
        }
        Op::Remove(_) => {
            edit.remove(words);
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

    /// After each change, a replica equals its master, and replicates the same effects to its own replicas. A call
    /// without effects changes nothing.
    #[test]
    fn an_equal_board_that_gets_the_effects_stays_equal(schema in schemas(), ops in ops()) {
        without_a_server();
        let dimensions = schema.dimensions().to_vec();
        let (mut master, mut replica) = (Board::new(schema.clone()), Board::new(schema));
        for op in &ops {
            let before = saved(&master);
            let words = written(op, &dimensions);
            let words: Vec<_> = words.iter().map(OwnedStr::as_str).collect();
            let mut edit = Edit::new(&mut master);
            run(&mut edit, op, &words, &dimensions);
            match edit.effect {
                None => prop_assert_eq!(&saved(&master), &before),
                Some(effect) => {
                    let words: Vec<_> = effect.words.iter().collect();
                    let mut passed_on = Edit::new(&mut replica);
                    prop_assert_eq!(carry_out(&mut passed_on, effect.name, &words), Ok(true));
                    let bytes = |effect: &BoardEffect| -> Vec<_> { effect.words.iter().map(|word| word.bytes().to_vec()).collect() };
                    let told = passed_on.effect.expect("what has changed");
                    prop_assert_eq!((told.name, bytes(&told)), (effect.name, bytes(&effect)));
                }
            }
            prop_assert_eq!(saved(&replica), saved(&master));
        }
        let words = encode_board(&master);
        let decoded = decode_board(&words.iter().map(OwnedStr::as_str).collect::<Vec<_>>()).expect("what was written can be read");
        prop_assert_eq!(saved(&decoded), saved(&master));
    }
}
