//! Random operations on a board, on a replica that gets its effects, and on the reference.

use super::reference::Reference;
use super::*;
use crate::base::histories;
use proptest::prelude::*;
use std::collections::BTreeMap;

const RANKINGS: [Ranking; 3] = [Ranking::Plain, Ranking::Dense, Ranking::Competition];

#[derive(Clone, Debug)]
enum Op {
    Set(Vec<(Vec<u8>, Vec<i8>)>, SetOptions),
    Incr(Vec<u8>, Vec<(usize, i8)>),
    Remove(Vec<u8>),
    RemoveRange(i64, i64),
    /// A merge with another board. The flag tells whether the other board comes first.
    Merge(Vec<(Vec<u8>, Vec<i8>)>, bool, Combine),
    Reload,
}

const DIMENSIONS: usize = 4;

/// Maps a small number to one of a few values, including the extremes, so that ties and overflows are frequent.
fn value(seed: i8, kind: Kind) -> Value {
    match (kind, seed) {
        (Kind::Int, i8::MIN..=-120) => Value::Int(i64::MIN),
        (Kind::Int, 120..) => Value::Int(i64::MAX),
        (Kind::Int, _) => Value::Int(i64::from(seed / 40)),
        (Kind::Float, i8::MIN..=-120) => Value::Float(-f64::MAX),
        (Kind::Float, 120..) => Value::Float(f64::MAX),
        (Kind::Float, 1..10) => Value::Float(-0.0),
        (Kind::Float, _) => Value::Float(f64::from(seed / 40) / 4.0),
    }
}

fn member() -> impl Strategy<Value = Vec<u8>> {
    (0..60u8).prop_map(|n| match n {
        0 => Vec::new(),
        1..40 => vec![n; usize::from(n % 4) + 1],
        _ => format!("member-{n}").into_bytes(),
    })
}

fn options() -> impl Strategy<Value = SetOptions> {
    let condition = prop_oneof![4 => Just(Condition::Any), 1 => Just(Condition::Absent), 1 => Just(Condition::Present)];
    let best = prop_oneof![3 => Just(false), 1 => Just(true)];
    (condition, best).prop_map(|(condition, best)| SetOptions { condition, best })
}

fn op() -> impl Strategy<Value = Op> {
    let assignment = || (member(), prop::collection::vec(any::<i8>(), DIMENSIONS));
    let board = prop::collection::vec(assignment(), 0..30);
    let combine = prop_oneof![Just(Combine::Sum), Just(Combine::Best)];
    prop_oneof![
        8 => (prop::collection::vec(assignment(), 1..5), options()).prop_map(|(a, o)| Op::Set(a, o)),
        3 => (member(), prop::collection::vec((0..DIMENSIONS, any::<i8>()), 1..4)).prop_map(|(m, i)| Op::Incr(m, i)),
        5 => member().prop_map(Op::Remove),
        1 => (-9..9i64, -9..9i64).prop_map(|(start, stop)| Op::RemoveRange(start, stop)),
        1 => (board, any::<bool>(), combine).prop_map(|(board, first, combine)| Op::Merge(board, first, combine)),
        1 => Just(Op::Reload),
    ]
}

fn schema() -> impl Strategy<Value = Schema> {
    let ties = prop_oneof![Just(Ties::First), Just(Ties::Last), Just(Ties::Name)];
    let keep = prop_oneof![2 => Just(0u64), 1 => 1u64..20];
    let bits = prop::collection::vec(any::<(bool, bool)>(), 1..=DIMENSIONS);
    (bits, ties, keep).prop_map(|(bits, ties, keep)| {
        let dims = bits.iter().enumerate().map(|(i, (asc, float))| {
            let direction = if *asc { Direction::Asc } else { Direction::Desc };
            dim(&format!("d{i}"), direction, if *float { Kind::Float } else { Kind::Int })
        });
        Schema::new(dims.collect(), ties, NonZeroU64::new(keep)).unwrap()
    })
}

fn rows(assignments: &[(Vec<u8>, Vec<i8>)], kinds: &[Kind]) -> Vec<(Vec<u8>, Vec<Value>)> {
    let values = |seeds: &Vec<i8>| kinds.iter().zip(seeds).map(|(k, s)| value(*s, *k)).collect();
    assignments.iter().map(|(member, seeds)| (member.clone(), values(seeds))).collect()
}

/// The board under test, a replica that gets its effects, and the reference.
struct Trio {
    board: Board,
    replica: Board,
    reference: Reference,
    rows: usize,
}

impl Trio {
    fn new(schema: &Schema, rows: usize) -> Self {
        Trio {
            board: Board::tiny(schema.clone(), rows),
            replica: Board::tiny(schema.clone(), rows + 3),
            reference: Reference::new(schema.clone()),
            rows,
        }
    }

    fn run(&mut self, op: &Op) {
        let kinds: Vec<Kind> = self.board.schema().dimensions().iter().map(|d| d.kind).collect();
        let replica = &mut self.replica;
        let mut effects = 0_u32;
        let replicate = |effect: Entry| {
            effects += 1;
            replica.apply(effect).unwrap();
        };
        let before = self.board.saved();
        match op {
            Op::Set(assignments, options) => {
                let owned = rows(assignments, &kinds);
                let given: Vec<Assignment> =
                    owned.iter().map(|(member, values)| Assignment { member, values }).collect();
                let added = self.board.set(&given, *options, replicate).unwrap();
                assert_eq!(added, self.reference.set(&owned, *options));
            }
            Op::Incr(member, increments) => {
                let increments: Vec<(usize, Value)> =
                    increments.iter().map(|(at, by)| (at % kinds.len(), value(*by, kinds[at % kinds.len()]))).collect();
                let result = self.board.incr(member, &increments, replicate);
                assert_eq!(result.ok(), self.reference.incr(member, &increments));
                assert_eq!(effects > 0, before != self.board.saved());
            }
            Op::Remove(member) => {
                assert_eq!(self.board.remove(member), self.reference.remove(member));
                effects += u32::from(replica.remove(member));
            }
            Op::RemoveRange(start, stop) => {
                let RemovedRange { first, count, .. } = self.board.remove_range(*start, *stop);
                assert_eq!(count, self.reference.remove_range(*start, *stop));
                if count > 0 {
                    let last = (first + count - 1) as i64;
                    let same = replica.remove_range(first as i64, last);
                    assert_eq!((same.first, same.count), (first, count));
                    effects += 1;
                }
            }
            Op::Merge(members, first, combine) => {
                let other_rows = rows(members, &kinds);
                let mut other = Board::tiny(self.board.schema().clone(), 4);
                let mut other_reference = Reference::new(self.board.schema().clone());
                for (member, values) in &other_rows {
                    other.set(&[Assignment { member, values }], SetOptions::default(), |_| ()).unwrap();
                }
                other_reference.set(&other_rows, SetOptions::default());
                let mut boards = [(&other, &other_reference), (&self.board, &self.reference)];
                if !first {
                    boards.reverse();
                }
                let mut merge = Merge::new(self.board.schema().clone(), *combine);
                let done = boards.iter().try_for_each(|(board, _)| merge.add(board));
                let expected = Reference::merge(&boards.map(|(_, reference)| reference), *combine);
                assert_eq!(done.is_ok(), expected.is_some());
                if let Some(expected) = expected {
                    self.board = merge.finish();
                    self.replica = Board::decode(&mut self.board.saved()).unwrap();
                    self.reference = expected;
                    effects += 1;
                }
            }
            Op::Reload => {
                let mut loaded = Board::decode(&mut self.board.saved()).unwrap();
                assert_eq!(loaded.saved(), self.board.saved());
                loaded.check();
                let mut rebuilt = Board::tiny(self.board.schema().clone(), self.rows);
                for effect in self.board.rebuild() {
                    rebuilt.apply(effect).unwrap();
                }
                assert_eq!(rebuilt.saved(), self.board.saved());
                self.board = if self.rows.is_multiple_of(2) { rebuilt } else { self.board.clone() };
                self.replica = std::mem::replace(&mut loaded, Board::new(self.board.schema().clone()));
            }
        }
        if effects == 0 {
            assert_eq!(before, self.board.saved(), "what has no effect changes nothing");
        }
    }

    fn check(&self) {
        self.board.check();
        self.replica.check();
        assert_eq!(self.board.saved(), self.replica.saved());
        let sorted = self.reference.sorted();
        assert_eq!(self.board.len(), sorted.len() as u64);
        let entries: Vec<(Vec<u8>, Vec<Value>)> =
            self.board.iter(Order::BestFirst).map(|e| (e.member.to_vec(), e.values.iter().collect())).collect();
        let expected: Vec<(Vec<u8>, Vec<Value>)> =
            sorted.into_iter().map(|r| (r.member.clone(), r.values.clone())).collect();
        assert_eq!(entries, expected);
    }

    /// Compares the results of all queries with those of the reference. This check is slow.
    fn check_answers(&self) {
        let members = |range: Range| range.map(|e| e.member.to_vec()).collect::<Vec<_>>();
        let mut tuples = Vec::new();
        let mut ranks = [const { BTreeMap::new() }; 3];
        let sorted = self.reference.sorted();
        // On a large board, only some members' neighbours are checked, because each query of the reference sorts all
        // members.
        let step = 1 + sorted.len() / 64;
        for (at, row) in sorted.into_iter().enumerate() {
            for (ranking, ranks) in RANKINGS.iter().zip(&mut ranks) {
                let rank = self.reference.rank(&row.member, *ranking);
                assert_eq!(self.board.rank(&row.member, *ranking), rank);
                ranks.insert(row.member.clone(), rank.unwrap());
            }
            assert_eq!(self.board.rank_of(&row.values).unwrap(), self.reference.rank_of(&row.values));
            let radii: &[u64] = if at.is_multiple_of(step) { &[0, 1, 5, u64::MAX] } else { &[] };
            for &radius in radii {
                let around = self.board.around(&row.member, radius).map(members);
                let expected = self.reference.around(&row.member, radius);
                let ranked = self.board.around(&row.member, radius).unwrap().ranked(Ranking::Plain);
                let first = self.reference.rank(&expected.as_ref().unwrap()[0], Ranking::Plain).unwrap();
                assert!(ranked.map(|(rank, _)| rank).eq((first..).take(expected.as_ref().unwrap().len())));
                assert_eq!(around, expected);
            }
            tuples.push(&row.values);
        }
        tuples.dedup();
        assert_eq!(self.board.distinct(), tuples.len() as u64);
        let len = self.board.len() as i64;
        let ends = [i64::MIN, -len - 1, -len, -2, -1, 0, 1, 3, len - 1, len, len + 1, i64::MAX];
        for start in ends {
            for stop in ends {
                for order in [Order::BestFirst, Order::WorstFirst] {
                    let range = self.board.range(start, stop, order);
                    assert_eq!(range.len(), self.board.range(start, stop, order).count());
                    let expected = self.reference.range(start, stop, order);
                    for (ranking, ranks) in RANKINGS.iter().zip(&ranks) {
                        let ranked: Vec<_> = self.board.range(start, stop, order).ranked(*ranking).collect();
                        assert_eq!(ranked.len(), expected.len());
                        for ((rank, entry), member) in ranked.into_iter().zip(&expected) {
                            assert_eq!(
                                (entry.member, rank),
                                (member.as_slice(), ranks[member]),
                                "{ranking:?} {order:?}"
                            );
                        }
                    }
                    assert_eq!(members(range), expected);
                }
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: histories(100), ..ProptestConfig::default() })]

    #[test]
    fn a_board_answers_as_the_contract_says_and_its_effects_make_an_equal_one(
        schema in schema(),
        rows in 4usize..9,
        ops in prop::collection::vec(op(), 1..120),
    ) {
        let mut trio = Trio::new(&schema, rows);
        for op in &ops {
            trio.run(op);
            trio.check();
        }
        trio.check_answers();
    }
}

/// A seeded generator, for runs that are too long for proptest.
pub(super) struct Random(pub(super) u64);

impl Random {
    pub(super) fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) % bound
    }
}

#[test]
fn the_tree_keeps_its_shape_through_long_growth_and_decline() {
    // By default, each TIES rule is tested with one node size. If ZEITSET_SEEDS asks for more histories, each rule is
    // tested with each size, in longer runs.
    let is_long = histories(1) > 1;
    let phase: u32 = if is_long { 1_000 } else { 300 };
    let rules = [(1, Ties::First), (2, Ties::Last), (3, Ties::Name)];
    for (nth, (seed, ties)) in rules.into_iter().enumerate() {
        let sizes = [4, 5, 8];
        for &rows in if is_long { &sizes[..] } else { &sizes[nth..=nth] } {
            let mut random = Random(seed);
            let mut trio = Trio::new(&plain(2, ties, 0), rows);
            for round in 0..6 * phase {
                let grows = (round / phase).is_multiple_of(2);
                let member = random.below(1_000).to_be_bytes()[6..].to_vec();
                let tuple = vec![random.below(256) as u8 as i8; 2];
                let op = if random.below(10) < if grows { 8 } else { 1 } {
                    Op::Set(vec![(member, tuple)], SetOptions::default())
                } else {
                    Op::Remove(member)
                };
                trio.run(&op);
                trio.board.check();
                if round % 250 == 0 {
                    trio.check();
                }
            }
            trio.check_answers();
            assert!(trio.board.tree.height() <= 9);
            let all: Vec<Vec<u8>> = trio.board.iter(Order::BestFirst).map(|e| e.member.to_vec()).collect();
            for member in all {
                trio.run(&Op::Remove(member));
                trio.board.check();
            }
            assert!(trio.board.is_empty());
            trio.check();
        }
    }
}

#[test]
fn boards_of_real_node_size_agree_with_the_reference() {
    for ties in [Ties::First, Ties::Last, Ties::Name] {
        let schema = plain(3, ties, 1_500);
        let mut random = Random(7);
        let mut board = Board::new(schema.clone());
        let mut reference = Reference::new(schema);
        for _ in 0..6_000 {
            let member = format!("player:{}", random.below(4_000)).into_bytes();
            let values: Vec<Value> = (0..3).map(|_| int(random.below(12) as i64)).collect();
            board.set(&[Assignment { member: &member, values: &values }], SetOptions::default(), |_| ()).unwrap();
            reference.set(&[(member, values)], SetOptions::default());
        }
        board.check();
        assert_eq!(board.len(), 1_500);
        let expected: Vec<Vec<u8>> = reference.sorted().into_iter().map(|r| r.member.clone()).collect();
        for (at, (entry, member)) in board.iter(Order::BestFirst).zip(&expected).enumerate() {
            assert_eq!(entry.member, member);
            assert_eq!(board.get(member).unwrap().0, at as u64);
        }
        let member = &expected[777];
        assert_eq!(board.rank(member, Ranking::Dense), reference.rank(member, Ranking::Dense));
    }
}
