//! Values, and the words that represent them in comparisons.
//!
//! Every value is converted to a `u64` such that *a smaller word is a better value*. So two tuples are compared word by
//! word, whatever the kinds and directions of the dimensions are. The conversion is exact:
//!
//! - INT: the sign bit is flipped, so that the unsigned order of the words is the signed order of the values.
//! - FLOAT: the sign bit of a positive number is flipped. All bits of a negative number are flipped. The order of the
//!   words is then IEEE 754's totalOrder, without NaNs.
//! - DESC: the word is complemented, because a larger value is better.

use std::fmt;

use super::BoardError;
use super::schema::{Dimension, Direction, Kind};

const SIGN: u64 = 1 << 63;

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Value {
    Int(i64),
    /// A finite double. A board never holds NaN, an infinity or `-0.0`.
    Float(f64),
}

impl Value {
    /// Returns zero as a value of this kind.
    pub(super) fn zero(kind: Kind) -> Value {
        match kind {
            Kind::Int => Value::Int(0),
            Kind::Float => Value::Float(0.0),
        }
    }

    /// Returns the sum of two values of one dimension. A sum is never `-0.0`.
    pub(super) fn plus(self, more: Value) -> Result<Value, BoardError> {
        match (self, more) {
            (Value::Int(a), Value::Int(b)) => a.checked_add(b).map(Value::Int).ok_or(BoardError::Overflow),
            (Value::Float(a), Value::Float(b)) if (a + b).is_finite() => Ok(Value::Float(a + b + 0.0)),
            (Value::Float(_), Value::Float(_)) => Err(BoardError::NotFinite),
            _ => Err(BoardError::WrongKind),
        }
    }

    /// Returns the word that represents this value in comparisons.
    pub(super) fn to_word(self, dimension: &Dimension) -> Result<u64, BoardError> {
        let ascending = match (dimension.kind, self) {
            (Kind::Int, Value::Int(v)) => v.cast_unsigned() ^ SIGN,
            (Kind::Float, Value::Float(v)) if v.is_finite() => {
                let bits = (v + 0.0).to_bits(); // -0.0 + 0.0 is 0.0, so both zeros have the same word
                if bits & SIGN == 0 { bits | SIGN } else { !bits }
            }
            (Kind::Float, Value::Float(_)) => return Err(BoardError::NotFinite),
            _ => return Err(BoardError::WrongKind),
        };
        Ok(match dimension.direction {
            Direction::Asc => ascending,
            Direction::Desc => !ascending,
        })
    }

    pub(super) fn from_word(word: u64, dimension: &Dimension) -> Value {
        let ascending = match dimension.direction {
            Direction::Asc => word,
            Direction::Desc => !word,
        };
        match dimension.kind {
            Kind::Int => Value::Int((ascending ^ SIGN).cast_signed()),
            Kind::Float if ascending & SIGN != 0 => Value::Float(f64::from_bits(ascending ^ SIGN)),
            Kind::Float => Value::Float(f64::from_bits(!ascending)),
        }
    }
}

/// Formats integers in decimal, and doubles as in Redis' replies ([`write_double`]).
impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Value::Int(v) => write!(f, "{v}"),
            Value::Float(v) => write_double(v, f),
        }
    }
}

/// Writes a finite double as Redis does (`d2string`). Whole numbers up to 2^62 are written in full. Other numbers have
/// the fewest digits that parse to the same double, and an exponent if Redis' `fpconv` would write one.
fn write_double(v: f64, out: &mut impl fmt::Write) -> fmt::Result {
    const WHOLE: f64 = (1u64 << 62) as f64;
    if v.trunc() == v && v.abs() <= WHOLE {
        return write!(out, "{}", v as i64); // exact: whole and in range
    }
    // Rust's `{:e}` writes the same digits as Redis, but always in the form d.ddde±x.
    let scientific = format!("{:e}", v.abs());
    let (mantissa, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    let digits: String = mantissa.chars().filter(|c| *c != '.').collect();
    let count = digits.len() as i32; // 1 to 17
    let scale = exponent + 1 - count; // the value is digits × 10^scale

    if v < 0.0 {
        out.write_char('-')?;
    }
    let zeros = |n: i32| "0".repeat(n.max(0) as usize);
    if scale >= 0 && exponent < count + 7 {
        write!(out, "{digits}{}", zeros(scale))
    } else if scale < 0 && (scale > -7 || exponent.abs() < 4) {
        match usize::try_from(count + scale) {
            Ok(whole) if whole > 0 => write!(out, "{}.{}", &digits[..whole], &digits[whole..]),
            _ => write!(out, "0.{}{digits}", zeros(-(count + scale))),
        }
    } else {
        let (first, rest) = digits.split_at(1);
        let point = if rest.is_empty() { "" } else { "." };
        write!(out, "{first}{point}{rest}e{exponent:+}")
    }
}
