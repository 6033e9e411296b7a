//! Random calls against the plainest board there is: rows in a `Vec`, in order.

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use std::cmp::Ordering;
use testkit::{Client, start};

#[derive(Clone, Copy, PartialEq)]
enum Ties {
    First,
    Last,
    Name,
}

/// Values are kept as integers; a FLOAT dimension shows a quarter of them.
#[derive(Clone, PartialEq)]
struct Row {
    member: String,
    values: Vec<i64>,
}

struct Plain {
    /// Of each dimension: whether less is better, and whether it is FLOAT.
    dimensions: Vec<(bool, bool)>,
    ties: Ties,
    keep: usize,
    rows: Vec<Row>,
}

impl Plain {
    fn compare(&self, a: &[i64], b: &[i64]) -> Ordering {
        let pairs = a.iter().zip(b).zip(&self.dimensions);
        pairs
            .map(|((a, b), (asc, _))| if *asc { a.cmp(b) } else { b.cmp(a) })
            .find(|o| o.is_ne())
            .unwrap_or(Ordering::Equal)
    }

    fn find(&self, member: &str) -> Option<usize> {
        self.rows.iter().position(|row| row.member == member)
    }

    /// Where somebody stands who reaches these values now.
    fn place(&self, member: &str, values: &[i64]) -> usize {
        let before = |row: &&Row| match (self.compare(&row.values, values), self.ties) {
            (Ordering::Equal, Ties::First) => true,
            (Ordering::Equal, Ties::Last) => false,
            (Ordering::Equal, Ties::Name) => row.member.as_str() < member,
            (order, _) => order.is_lt(),
        };
        self.rows.iter().take_while(before).count()
    }

    fn set(&mut self, member: &str, values: Vec<i64>) {
        if let Some(at) = self.find(member) {
            if self.rows[at].values == values {
                return;
            }
            self.rows.remove(at);
        } else if self.rows.len() == self.keep && self.place(member, &values) == self.keep {
            return;
        }
        let at = self.place(member, &values);
        self.rows.insert(at, Row { member: member.into(), values });
        self.rows.truncate(self.keep);
    }

    /// The union of boards, key by key; None for an overflow.
    fn merged(&self, boards: &[&[Row]], best: bool) -> Option<Vec<Row>> {
        let mut union =
            Plain { dimensions: self.dimensions.clone(), ties: self.ties, keep: usize::MAX, rows: Vec::new() };
        for rows in boards {
            let mut rows = rows.to_vec();
            if self.ties == Ties::Last {
                rows.reverse();
            }
            for Row { member, values } in rows {
                let values = match union.find(&member).map(|at| &union.rows[at].values) {
                    None => values,
                    Some(present) if best && self.compare(&values, present).is_lt() => values,
                    Some(present) if best => present.clone(),
                    Some(present) => {
                        let sums = present.iter().zip(&values).map(|(a, b)| a.checked_add(*b));
                        sums.collect::<Option<Vec<_>>>()?
                    }
                };
                union.set(&member, values);
            }
        }
        union.rows.truncate(self.keep);
        Some(union.rows)
    }

    /// A value as it is written, and as it is replied.
    fn text(&self, dimension: usize, value: i64) -> String {
        if self.dimensions[dimension].1 { (value as f64 / 4.0).to_string() } else { value.to_string() }
    }

    fn written(&self, values: &[i64]) -> String {
        values.iter().enumerate().map(|(at, value)| format!(" {}", self.text(at, *value))).collect()
    }

    fn shown(&self, values: &[i64]) -> String {
        let show = |(at, value): (usize, &i64)| match self.dimensions[at].1 {
            true => format!(" '{}'", self.text(at, *value)),
            false => format!(" {value}"),
        };
        values.iter().enumerate().map(show).collect()
    }

    fn listed(&self, rows: &[Row]) -> String {
        let row = |row: &Row| format!("['{}'{}]", row.member, self.shown(&row.values));
        format!("[{}]", rows.iter().map(row).collect::<Vec<_>>().join(" "))
    }

    /// The ranks of all members: plain, COMPETITION, DENSE.
    fn ranks(&self) -> Vec<[usize; 3]> {
        let mut ranks: Vec<[usize; 3]> = Vec::new();
        for (at, row) in self.rows.iter().enumerate() {
            ranks.push(match at.checked_sub(1).map(|before| (ranks[before], &self.rows[before])) {
                None => [0; 3],
                Some(([_, competition, dense], before)) if before.values == row.values => [at, competition, dense],
                Some(([_, _, dense], _)) => [at, at, dense + 1],
            });
        }
        ranks
    }

    /// Rows from `start` to `end` with their ranks.
    fn ranked(&self, start: usize, end: usize, ranking: usize) -> Vec<String> {
        let ranks = self.ranks();
        let row = |at: usize| {
            let Row { member, values } = &self.rows[at];
            format!("[{} '{member}'{}]", ranks[at][ranking], self.shown(values))
        };
        (start..end).map(row).collect()
    }
}

struct Play {
    c: Client,
    /// What ZLB.CREATE takes after the key.
    description: String,
    plain: Plain,
    random: StdRng,
}

impl Play {
    fn member(&mut self) -> String {
        format!("m{}", self.random.random_range(0..60))
    }

    /// Small numbers, so that there are equals; now and then one from the ends.
    fn value(&mut self, dimension: usize) -> i64 {
        let is_float = self.plain.dimensions[dimension].1;
        match self.random.random_range(0..20) {
            0 if !is_float => i64::MAX - self.random.random_range(0..2),
            1 if !is_float => i64::MIN + self.random.random_range(0..2),
            _ => self.random.random_range(-2..3),
        }
    }

    fn values(&mut self) -> Vec<i64> {
        (0..self.plain.dimensions.len()).map(|dimension| self.value(dimension)).collect()
    }

    fn set(&mut self) {
        let option = ["", "NX", "XX", "BEST", "NX BEST", "XX BEST"][self.random.random_range(0..6)];
        let rows: Vec<_> = (0..self.random.random_range(1..4)).map(|_| (self.member(), self.values())).collect();
        let before: Vec<_> = self.plain.rows.iter().map(|row| row.member.clone()).collect();
        let only = (rows.len() == 1).then(|| rows[0].0.clone());
        let mut line = format!("ZLB.SET b {option}");
        for (member, values) in rows {
            line.push_str(&format!(" {member}{}", self.plain.written(&values)));
            let passes = match self.plain.find(&member) {
                None => !option.contains("XX"),
                Some(at) => {
                    let better = self.plain.compare(&values, &self.plain.rows[at].values).is_lt();
                    !option.contains("NX") && (better || !option.contains("BEST"))
                }
            };
            if passes {
                self.plain.set(&member, values);
            }
        }
        let new = self.plain.rows.iter().filter(|row| !before.contains(&row.member)).count();
        if let (Some(member), true) = (only, self.random.random_bool(0.5)) {
            let line = line.replacen("ZLB.SET b", "ZLB.SET b WITHRANK", 1);
            let rank = self.plain.find(&member).map_or("nil".to_owned(), |at| at.to_string());
            self.c.script(&[(line, format!("[{new} {rank}]"))]);
        } else {
            self.c.script(&[(line, new.to_string())]);
        }
    }

    fn increment(&mut self) {
        let (member, dimension) = (self.member(), self.random.random_range(0..self.plain.dimensions.len()));
        let by = self.value(dimension);
        let line = format!("ZLB.INCR b {member} d{dimension} {}", self.plain.text(dimension, by));
        let zeros = vec![0; self.plain.dimensions.len()];
        let mut values = self.plain.find(&member).map_or(zeros, |at| self.plain.rows[at].values.clone());
        match values[dimension].checked_add(by) {
            None => self.c.script(&[(line, "!ERR increment or decrement would overflow")]),
            Some(sum) => {
                values[dimension] = sum;
                let shown = self.plain.shown(&values);
                self.plain.set(&member, values);
                let rank = self.plain.find(&member).map_or("nil".to_owned(), |at| at.to_string());
                if self.random.random_bool(0.5) {
                    self.c.script(&[(format!("{line} WITHRANK"), format!("[{rank}{shown}]"))]);
                } else {
                    self.c.script(&[(line, format!("[{}]", shown.trim_start()))]);
                }
            }
        }
    }

    fn remove(&mut self) {
        let member = self.member();
        let at = self.plain.find(&member);
        at.map(|at| self.plain.rows.remove(at));
        self.c.script(&[(format!("ZLB.REM b {member}"), u8::from(at.is_some()).to_string())]);
    }

    fn remove_range(&mut self) {
        let (start, stop) = (self.random.random_range(0..70), self.random.random_range(0..70));
        // Mostly a few; now and then many, so that fewer stay than go.
        let stop = if self.random.random_ratio(1, 4) { stop } else { start + stop % 3 };
        let end = (stop + 1).min(self.plain.rows.len());
        let count = end.saturating_sub(start);
        if count > 0 {
            self.plain.rows.drain(start..end);
        }
        self.c.script(&[(format!("ZLB.REMRANGE b {start} {stop}"), count.to_string())]);
    }

    /// Merges the board with another one, which is made for it.
    fn merge(&mut self) {
        let Plain { dimensions, ties, keep, .. } = &self.plain;
        let mut other = Plain { dimensions: dimensions.clone(), ties: *ties, keep: *keep, rows: Vec::new() };
        self.c.run("DEL o");
        self.c.run(&format!("ZLB.CREATE o {}", self.description));
        for _ in 0..self.random.random_range(0..15) {
            let (member, values) = (self.member(), self.values());
            self.c.run(&format!("ZLB.SET o {member}{}", self.plain.written(&values)));
            other.set(&member, values);
        }
        let best = self.random.random_bool(0.5);
        let other_first = self.random.random_bool(0.5);
        let mut boards = [("b", &*self.plain.rows), ("o", &*other.rows)];
        if other_first {
            boards.reverse();
        }
        let line = format!("ZLB.MERGE b 2 {} {} {}", boards[0].0, boards[1].0, if best { "BEST" } else { "SUM" });
        match self.plain.merged(&boards.map(|(_, rows)| rows), best) {
            None => self.c.script(&[(line, "!ERR increment or decrement would overflow")]),
            Some(rows) => {
                self.c.script(&[(line, rows.len().to_string())]);
                self.plain.rows = rows;
            }
        }
    }

    fn look(&mut self) {
        let Play { c, plain, random, .. } = self;
        let plain = &*plain;
        let rows = &plain.rows;
        let member = format!("m{}", random.random_range(0..60));
        let at = plain.find(&member);
        let rank = |rank: Option<usize>| rank.map_or("nil".to_owned(), |rank| rank.to_string());
        let better = |at: usize| rows.iter().filter(move |row| plain.compare(&row.values, &rows[at].values).is_lt());
        let mut distinct: Vec<_> = at.map_or(Vec::new(), |at| better(at).map(|row| &row.values).collect());
        distinct.dedup();
        let radius = random.random_range(0..9);
        let around = at.map_or("nil".to_owned(), |at| {
            plain.listed(&rows[at.saturating_sub(radius)..(at + radius + 1).min(rows.len())])
        });
        let (start, stop) = (random.random_range(0..70), random.random_range(0..70));
        let (end, ranking) = ((stop + 1).min(rows.len()).max(start.min(rows.len())), random.random_range(0..3));
        let ranked = plain.ranked(start.min(rows.len()), end, ranking);
        let with_rank = ["WITHRANK", "WITHRANK COMPETITION", "WITHRANK DENSE"][ranking];
        let mut reversed = ranked.clone();
        reversed.reverse();
        let from_end = |index: usize| rows.len() as i64 - 1 - index as i64;
        let near = at.map_or("nil".to_owned(), |at| {
            let near = plain.ranked(at.saturating_sub(radius), (at + radius + 1).min(rows.len()), ranking);
            format!("[{}]", near.join(" "))
        });
        c.script(&[
            (format!("ZLB.RANGE b {start} {stop} {with_rank} WITHVALUES"), format!("[{}]", ranked.join(" "))),
            (format!("ZLB.AROUND b {member} {radius} {with_rank} WITHVALUES"), near),
        ]);
        if !reversed.is_empty() {
            let line = format!("ZLB.RANGE b {} {} REV {with_rank} WITHVALUES", from_end(end - 1), from_end(start));
            c.script(&[(line, format!("[{}]", reversed.join(" ")))]);
        }
        let range = rows.get(start..(stop + 1).min(rows.len()).max(start)).unwrap_or_default();
        c.script(&[
            ("ZLB.CARD b".to_owned(), rows.len().to_string()),
            ("ZLB.RANGE b 0 -1 WITHVALUES".to_owned(), plain.listed(rows)),
            (format!("ZLB.RANGE b {start} {stop} WITHVALUES"), plain.listed(range)),
            (format!("ZLB.RANK b {member}"), rank(at)),
            (format!("ZLB.RANK b {member} COMPETITION"), rank(at.map(|at| better(at).count()))),
            (format!("ZLB.RANK b {member} DENSE"), rank(at.map(|_| distinct.len()))),
            (format!("ZLB.AROUND b {member} {radius} WITHVALUES"), around),
        ]);
        let got = at.map_or("nil".to_owned(), |at| format!("[{at}{}]", plain.shown(&rows[at].values)));
        c.script(&[(format!("ZLB.GET b {member}"), format!("[{got}]"))]);
        let values = self.values();
        // A newcomer has no name yet, and stands behind all its equals.
        let place = self.plain.place("\u{10FFFF}", &values);
        self.c.script(&[(format!("ZLB.RANKOF b{}", self.plain.written(&values)), place.to_string())]);
    }
}

fn play(dimensions: &[(bool, bool)], ties: Ties, keep: Option<usize>, seed: u64) {
    let (_server, mut c) = start();
    let mut description = String::new();
    for (at, (asc, float)) in dimensions.iter().enumerate() {
        description.push_str(&format!(
            " DIM d{at}{}{}",
            if *asc { " ASC" } else { "" },
            if *float { " FLOAT" } else { "" }
        ));
    }
    description.push_str(match ties {
        Ties::First => "",
        Ties::Last => " TIES LAST",
        Ties::Name => " TIES NAME",
    });
    if let Some(keep) = keep {
        description.push_str(&format!(" KEEP {keep}"));
    }
    let description = description.trim_start().to_owned();
    c.run(&format!("ZLB.CREATE b {description}"));
    let plain = Plain { dimensions: dimensions.to_vec(), ties, keep: keep.unwrap_or(usize::MAX), rows: Vec::new() };
    let mut play = Play { c, description, plain, random: StdRng::seed_from_u64(seed) };
    for round in 0..1500 {
        match play.random.random_range(0..100) {
            0..50 => play.set(),
            50..80 => play.increment(),
            80..96 => play.remove(),
            96..98 => play.remove_range(),
            _ => play.merge(),
        }
        if round % 5 == 0 {
            play.look();
        }
    }
}

const INT: (bool, bool) = (false, false);
const INT_ASC: (bool, bool) = (true, false);
const FLOAT: (bool, bool) = (false, true);
const FLOAT_ASC: (bool, bool) = (true, true);

#[test]
fn ties_first() {
    play(&[INT, INT_ASC], Ties::First, None, 1);
}

#[test]
fn ties_last() {
    play(&[FLOAT_ASC], Ties::Last, None, 2);
}

#[test]
fn ties_name() {
    play(&[INT, FLOAT, FLOAT_ASC], Ties::Name, None, 3);
}

#[test]
fn keep_and_ties_first() {
    play(&[INT], Ties::First, Some(20), 4);
}

#[test]
fn keep_and_ties_last() {
    play(&[INT_ASC, FLOAT], Ties::Last, Some(15), 5);
}

#[test]
fn keep_and_ties_name() {
    play(&[INT_ASC], Ties::Name, Some(10), 6);
}

#[test]
fn sixty_four_dimensions() {
    let dimensions: Vec<_> = [INT, INT_ASC, FLOAT, FLOAT_ASC].into_iter().cycle().take(64).collect();
    play(&dimensions, Ties::First, None, 7);
}
