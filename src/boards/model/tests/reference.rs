//! The reference: members in a `Vec`, each with the time at which it reached its values. Every query sorts the members.

use super::*;
use std::cmp::Ordering;

#[derive(Clone, Debug)]
pub(super) struct Row {
    pub(super) member: Vec<u8>,
    pub(super) values: Vec<Value>,
    reached: u64,
}

pub(super) struct Reference {
    schema: Schema,
    rows: Vec<Row>,
    moments: u64,
}

impl Reference {
    pub(super) fn new(schema: Schema) -> Self {
        Reference { schema, rows: Vec::new(), moments: 0 }
    }

    fn by_values(&self, a: &[Value], b: &[Value]) -> Ordering {
        for ((a, b), dimension) in a.iter().zip(b).zip(self.schema.dimensions()) {
            let order = match (a, b) {
                (Value::Int(a), Value::Int(b)) => a.cmp(b),
                (Value::Float(a), Value::Float(b)) => a.partial_cmp(b).unwrap(),
                _ => unreachable!(),
            };
            let order = if dimension.direction == Direction::Desc { order.reverse() } else { order };
            if order.is_ne() {
                return order;
            }
        }
        Ordering::Equal
    }

    fn by_rank(&self, a: &Row, b: &Row) -> Ordering {
        self.by_values(&a.values, &b.values).then_with(|| match self.schema.ties() {
            Ties::First => a.reached.cmp(&b.reached),
            Ties::Last => b.reached.cmp(&a.reached),
            Ties::Name => a.member.cmp(&b.member),
        })
    }

    pub(super) fn sorted(&self) -> Vec<&Row> {
        let mut rows: Vec<&Row> = self.rows.iter().collect();
        rows.sort_by(|a, b| self.by_rank(a, b));
        rows
    }

    fn find(&self, member: &[u8]) -> Option<usize> {
        self.rows.iter().position(|r| r.member == member)
    }

    pub(super) fn set(&mut self, assignments: &[(Vec<u8>, Vec<Value>)], options: SetOptions) -> u64 {
        let mut absent: Vec<&Vec<u8>> = assignments.iter().map(|(member, _)| member).collect();
        absent.sort();
        absent.dedup();
        absent.retain(|member| self.find(member).is_none());
        for (member, values) in assignments {
            self.moments += 1;
            match self.find(member) {
                Some(at) => {
                    let order = self.by_values(values, &self.rows[at].values);
                    if options.condition == Condition::Absent || order.is_eq() || (options.best && order.is_gt()) {
                        continue;
                    }
                    self.rows[at].values = values.clone();
                    self.rows[at].reached = self.moments;
                }
                None if options.condition == Condition::Present => {}
                None => {
                    let row = Row { member: member.clone(), values: values.clone(), reached: self.moments };
                    self.rows.push(row);
                    if self.schema.keep().is_some_and(|keep| self.rows.len() as u64 > keep.get()) {
                        let worst = self.rows.iter().max_by(|a, b| self.by_rank(a, b)).unwrap().member.clone();
                        self.remove(&worst);
                    }
                }
            }
        }
        absent.into_iter().filter(|member| self.find(member).is_some()).count() as u64
    }

    /// Increments values. Returns the new values, or `None` on an overflow.
    pub(super) fn incr(&mut self, member: &[u8], increments: &[(usize, Value)]) -> Option<Vec<Value>> {
        let zero = |d: &Dimension| if d.kind == Kind::Int { Value::Int(0) } else { Value::Float(0.0) };
        let mut values: Vec<Value> = match self.find(member) {
            Some(at) => self.rows[at].values.clone(),
            None => self.schema.dimensions().iter().map(zero).collect(),
        };
        for (at, by) in increments {
            values[*at] = match (values[*at], by) {
                (Value::Int(v), Value::Int(by)) => Value::Int(i64::try_from(i128::from(v) + i128::from(*by)).ok()?),
                (Value::Float(v), Value::Float(by)) if (v + by).is_finite() => Value::Float(v + by),
                _ => return None,
            };
        }
        self.set(&[(member.to_vec(), values.clone())], SetOptions::default());
        Some(values)
    }

    pub(super) fn remove(&mut self, member: &[u8]) -> bool {
        let found = self.find(member);
        found.map(|at| self.rows.remove(at)).is_some()
    }

    /// Removes the members that [`Reference::range`] returns. Returns their number.
    pub(super) fn remove_range(&mut self, start: i64, stop: i64) -> u64 {
        let gone = self.range(start, stop, Order::BestFirst);
        gone.iter().filter(|member| self.remove(member)).count() as u64
    }

    /// Merges boards in the order of `sources`. With SUM, adds each member's values to its current values. With BEST,
    /// sets each member's values if the values are better than its current ones. After all sources, applies KEEP.
    /// Returns `None` on an overflow.
    pub(super) fn merge(sources: &[&Reference], combine: Combine) -> Option<Reference> {
        let schema = sources[0].schema.clone();
        let endless = Schema::new(schema.dimensions().to_vec(), schema.ties(), None).unwrap();
        let mut union = Reference::new(endless);
        for source in sources {
            let mut rows = source.sorted();
            if schema.ties() == Ties::Last {
                rows.reverse();
            }
            for Row { member, values, .. } in rows {
                match combine {
                    Combine::Sum => {
                        let increments: Vec<_> = values.iter().copied().enumerate().collect();
                        union.incr(member, &increments)?;
                    }
                    Combine::Best => {
                        let better = SetOptions { best: true, ..SetOptions::default() };
                        union.set(&[(member.clone(), values.clone())], better);
                    }
                }
            }
        }
        let keep = schema.keep().map_or(usize::MAX, |keep| keep.get() as usize);
        let rows = union.sorted().into_iter().take(keep).cloned().collect();
        Some(Reference { schema, rows, moments: union.moments })
    }

    pub(super) fn rank(&self, member: &[u8], ranking: Ranking) -> Option<u64> {
        let sorted = self.sorted();
        let at = sorted.iter().position(|r| r.member == member)?;
        let better = || sorted.iter().filter(|r| self.by_values(&r.values, &sorted[at].values).is_lt());
        Some(match ranking {
            Ranking::Plain => at as u64,
            Ranking::Competition => better().count() as u64,
            Ranking::Dense => {
                let mut tuples: Vec<&Vec<Value>> = better().map(|r| &r.values).collect();
                tuples.dedup();
                tuples.len() as u64
            }
        })
    }

    pub(super) fn rank_of(&self, values: &[Value]) -> u64 {
        let stays_before = |r: &&Row| match self.schema.ties() {
            Ties::Last => self.by_values(&r.values, values).is_lt(),
            _ => self.by_values(&r.values, values).is_le(),
        };
        self.rows.iter().filter(stays_before).count() as u64
    }

    /// Returns a range according to the documentation of ZRANGE.
    pub(super) fn range(&self, start: i64, stop: i64, order: Order) -> Vec<Vec<u8>> {
        let mut sorted = self.sorted();
        if order == Order::WorstFirst {
            sorted.reverse();
        }
        let len = sorted.len() as i128;
        let index = |i: i64| if i < 0 { i128::from(i) + len } else { i128::from(i) };
        let inside = |(at, row): (usize, &Row)| {
            (index(start) <= at as i128 && at as i128 <= index(stop)).then(|| row.member.clone())
        };
        sorted.into_iter().enumerate().filter_map(inside).collect()
    }

    pub(super) fn around(&self, member: &[u8], radius: u64) -> Option<Vec<Vec<u8>>> {
        let rank = self.rank(member, Ranking::Plain)?;
        let near = |(at, row): (usize, &Row)| ((at as u64).abs_diff(rank) <= radius).then(|| row.member.clone());
        Some(self.sorted().into_iter().enumerate().filter_map(near).collect())
    }
}
