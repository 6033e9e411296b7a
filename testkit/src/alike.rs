//! Comparison of outputs that were printed at different times.
//!
//! Everything must be equal, including blanks, except for two kinds of numbers:
//!
//! - Current times: Unix ms (13 digits), and the tokens of queues, which begin with a time (16 digits). Within a
//!   session, the interval between two of them must be about the same on the page and in this run. If a command on the
//!   page repeats a time or token from an output, the test replaces it with the one that this run printed.
//! - Numbers in a range that the page declares to vary, such as a remaining time.

use std::collections::HashMap;
use std::ops::RangeInclusive;

/// Numbers in this range count as current times: 2020 to 2100 in Unix ms. If a page needs a fixed time, the time must
/// be after 2100.
const CURRENT_TIMES: std::ops::Range<u64> = 1_577_836_800_000..4_102_444_800_000;

/// The maximum difference in ms between an interval on the page and the same interval in this run. An interval is the
/// time between two timestamps.
const SLACK: u64 = 60_000;

/// A comparison of a page with this run. It maps the times and tokens on the page to the times and tokens that this run
/// printed.
#[derive(Default)]
pub struct Alike {
    /// The session's first timestamp on the page, and the same timestamp in this run.
    first: Option<(u64, u64)>,
    numbers: HashMap<String, String>,
    /// The tokens that this run has printed, in the order of their first output.
    tokens: Vec<String>,
    /// The timestamps that this run has printed, in the order of their first output.
    moments: Vec<String>,
}

impl Alike {
    /// Begins the next session of a page of docs. Forgets the first timestamp of the previous session, because the
    /// sessions of a page may be from different days.
    pub fn next_session(&mut self) {
        self.first = None;
    }

    /// Whether `now`, a line printed now, matches `page`, a line of the page.
    pub fn are(&mut self, page: &str, now: &str, varying: &[RangeInclusive<u64>]) -> bool {
        let (page, now) = (pieces(page), pieces(now));
        page.len() == now.len() && page.iter().zip(&now).all(|(page, now)| self.is_same(page, now, varying))
    }

    fn is_same(&mut self, page: &str, now: &str, varying: &[RangeInclusive<u64>]) -> bool {
        let varies = || match (page.parse(), now.parse()) {
            (Ok(page), Ok(now)) => varying.iter().any(|range| range.contains(&page) && range.contains(&now)),
            _ => false,
        };
        match (moment(page), moment(now)) {
            _ if page == now => true,
            (Some(then), Some(at)) if page.len() == now.len() => self.is_moved(page, then, now, at) || varies(),
            _ => varies(),
        }
    }

    fn is_moved(&mut self, page: &str, then: u64, now: &str, at: u64) -> bool {
        let (first_then, first_at) = *self.first.get_or_insert((then, at));
        let shift = |from: u64, to: u64| to.cast_signed() - from.cast_signed();
        let drift = shift(first_then, then) - shift(first_at, at);
        let known = self.numbers.insert(page.into(), now.into());
        // Two claims never have the same token, but several calls may happen in one millisecond.
        let is_token = page.len() > 13;
        drift.unsigned_abs() <= SLACK && (!is_token || known.is_none_or(|known| known == now))
    }

    pub fn note(&mut self, now: &str) {
        for piece in pieces(now).into_iter().filter(|piece| moment(piece).is_some()) {
            let known = if piece.len() > 13 { &mut self.tokens } else { &mut self.moments };
            if !known.iter().any(|known| known == piece) {
                known.push(piece.into());
            }
        }
    }

    /// Returns a command of the page with the tokens and times of this run. `TOKENn` and `MOMENTn` stand for the n-th
    /// token and the n-th time of this run. Use them in new examples, whose outputs are not on the page yet.
    pub fn command(&self, page: &str) -> String {
        let known = |piece: &str| self.numbers.get(piece).cloned().unwrap_or_else(|| piece.into());
        let mut command: String = pieces(page).into_iter().map(known).collect();
        for (name, list) in [("TOKEN", &self.tokens), ("MOMENT", &self.moments)] {
            for (n, number) in list.iter().enumerate().rev() {
                command = command.replace(&format!("{name}{}", n + 1), number);
            }
        }
        command
    }
}

/// Parses a number of 13 digits, or the first 13 of 16 digits, as a Unix time in ms. Returns `None` if this is not a
/// current time.
fn moment(number: &str) -> Option<u64> {
    let ms = match number.len() {
        13 => number.parse(),
        16 => number[..13].parse(),
        _ => return None,
    };
    ms.ok().filter(|ms| CURRENT_TIMES.contains(ms))
}

fn pieces(line: &str) -> Vec<&str> {
    let mut pieces: Vec<&str> = Vec::new();
    let mut rest = line;
    while let Some(first) = rest.chars().next() {
        let is_number = first.is_ascii_digit();
        let end = rest.find(|char: char| char.is_ascii_digit() != is_number).unwrap_or(rest.len());
        let (piece, after) = rest.split_at(end);
        pieces.push(piece);
        rest = after;
    }
    pieces
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_compared_exactly() {
        let mut alike = Alike::default();
        assert!(alike.are("1) (integer) 5", "1) (integer) 5", &[]));
        assert!(!alike.are("1) (integer) 5", "1) (integer) 6", &[]));
        assert!(!alike.are("1) \"a\"", "1) \"b\"", &[]));
        assert!(!alike.are("4102444800000", "4102444800001", &[]));
        assert!(!alike.are("5", "5 ", &[]));
    }

    #[test]
    fn declared_numbers_may_vary_within_their_range() {
        let mut alike = Alike::default();
        assert!(alike.are("(integer) 299985", "(integer) 299000", &[240_000..=300_000]));
        assert!(!alike.are("(integer) 299985", "(integer) 3", &[240_000..=300_000]));
        assert!(!alike.are("(integer) 7", "(integer) 299985", &[240_000..=300_000]));
    }

    #[test]
    fn moments_move_together() {
        let mut alike = Alike::default();
        assert!(alike.are("1795237731925", "1895237731925", &[]));
        assert!(alike.are("1795237791925", "1895237792000", &[]), "a minute later, as on the page");
        assert!(!alike.are("1795237731999", "1895237991999", &[]), "minutes later, other than on the page");
        assert_eq!(alike.command("REFUND 1795237731925 3"), "REFUND 1895237731925 3");
        assert!(!alike.are("1795237731925", "4102444800000", &[]), "not a current moment");
        assert!(alike.are("1767225600000", "1767225600000", &[]), "chosen by the page");
    }

    #[test]
    fn tokens_stay_different() {
        let mut alike = Alike::default();
        assert!(alike.are("1795240138315000", "1895240138315000", &[]));
        assert!(alike.are("1795240138315000", "1895240138315000", &[]));
        assert!(!alike.are("1795240138315000", "1895240138315001", &[]));
        alike.note("3) (integer) 1895240138315000");
        assert_eq!(alike.command("ZQ.ACK q a TOKEN1"), "ZQ.ACK q a 1895240138315000");
    }
}
