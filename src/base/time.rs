//! Times and durations in Unix milliseconds, and the parser for all times that clients send.
//!
//! A time is an integer from 0 to 2^53-1 ms. Up to this bound, a sorted set's score (an IEEE double) represents every
//! integer exactly, so a time stored as a score stays the same. Numbers are parsed as decimals, never as floats: `0.1s`
//! is 100 ms, not 100.00000000000001.

mod rfc3339;

/// A duration or a Unix time, in ms.
pub type Millis = u64;

/// A Unix time in µs.
pub type Micros = u64;

/// A time that never comes.
pub const NEVER: Millis = Millis::MAX;

/// The latest time, 2^53-1 ms. In an expiring set, a member with this score does not expire.
pub const MAX: Millis = (1 << 53) - 1;

/// The unit that a parser assumes for a number without a unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    Milliseconds,
    Seconds,
}

impl Unit {
    const fn millis(self) -> u64 {
        match self {
            Unit::Milliseconds => 1,
            Unit::Seconds => 1000,
        }
    }
}

/// The units of durations, and their lengths in ms.
const SUFFIXES: [(&[u8], u64); 6] =
    [(b"ms", 1), (b"s", 1000), (b"m", 60_000), (b"h", 3_600_000), (b"d", 86_400_000), (b"w", 604_800_000)];

/// Parses a duration: digits, an optional fraction (a point and more digits), and an optional unit. The unit may be in
/// upper or lower case.
///
/// `bare` is the unit of a number that is given without a unit. Fractions of a millisecond are rounded up, so that
/// nothing ends early. A point must have digits on both sides. Returns `None` for any other text, such as one with a
/// sign, a blank or an exponent, and for a value above [`MAX`].
pub fn parse(text: &[u8], bare: Unit) -> Option<Millis> {
    let (whole, rest) = leading_digits(text)?;
    let (fraction, suffix) = split_fraction(rest)?;
    let unit = match suffix {
        [] => bare.millis(),
        suffix => SUFFIXES.iter().find(|(name, _)| suffix.eq_ignore_ascii_case(name))?.1,
    };
    let total = whole.checked_mul(unit)?.checked_add(fraction_of(fraction, unit))?;
    (total <= MAX).then_some(total)
}

/// Returns the time `duration` after `at`. Returns `None` if that time exceeds [`MAX`].
pub fn after(at: Millis, duration: Millis) -> Option<Millis> {
    at.checked_add(duration).filter(|&end| end <= MAX)
}

/// Returns the time `duration` after `at`, but at most [`MAX`].
pub fn after_at_most(at: Millis, duration: Millis) -> Millis {
    after(at, duration).unwrap_or(MAX)
}

/// A time without a unit is in seconds if it is below this number, otherwise in milliseconds. As seconds, this number
/// is a time in the year 5138. As milliseconds, it is a time in March 1973.
const BARE_MILLIS_FROM: u64 = 100_000_000_000;

/// Parses the argument of the keyword `AT`, in all commands. A valid argument is one of:
///
/// - A Unix time without a unit. A number below 10^11 is in seconds, any other number in milliseconds. So a time that
///   a reply gives in milliseconds is also a valid argument.
/// - A Unix time with the unit `s` or `ms`, in upper or lower case.
/// - A time in RFC 3339 format with a time zone, such as `2026-12-24T18:00:00.250+01:00`.
///
/// Seconds may have decimals. Fractions of a millisecond are rounded up. Returns `None` for a time before 1970 or after
/// [`MAX`]. Also returns `None` for any other text, such as a number with another unit, or a local time without a zone.
pub fn instant(text: &[u8]) -> Option<Millis> {
    let unit = text.iter().position(u8::is_ascii_alphabetic).unwrap_or(text.len());
    match text.split_at(unit) {
        (number, b"") => {
            let whole = number.split(|&byte| byte == b'.').next()?;
            match digits(whole)? {
                ..BARE_MILLIS_FROM => parse(number, Unit::Seconds),
                millis => (whole.len() == number.len() && millis <= MAX).then_some(millis),
            }
        }
        (number, unit) if unit.eq_ignore_ascii_case(b"s") => parse(number, Unit::Seconds),
        (number, unit) if unit.eq_ignore_ascii_case(b"ms") => digits(number).filter(|&millis| millis <= MAX),
        _ => rfc3339::parse(text),
    }
}

/// Parses a decimal integer without sign or blanks. Returns `None` if the text is empty, has other characters, or
/// exceeds `u64::MAX`.
pub fn digits(text: &[u8]) -> Option<u64> {
    leading_digits(text).filter(|(_, rest)| rest.is_empty()).map(|(number, _)| number)
}

/// Parses the decimal integer at the beginning of a text. Returns the integer and the remaining text, or `None` if the
/// text does not begin with a digit or the integer exceeds `u64::MAX`.
pub fn leading_digits(text: &[u8]) -> Option<(u64, &[u8])> {
    /// Any number with this many digits fits into 64 bits.
    const CERTAIN: usize = 19;
    let (mut value, mut len) = (0_u64, 0);
    for &byte in text.iter().take(CERTAIN).take_while(|byte| byte.is_ascii_digit()) {
        value = value * 10 + u64::from(byte - b'0');
        len += 1;
    }
    if len == CERTAIN {
        for &byte in text[CERTAIN..].iter().take_while(|byte| byte.is_ascii_digit()) {
            value = value.checked_mul(10)?.checked_add(u64::from(byte - b'0'))?;
            len += 1;
        }
    }
    (len > 0).then(|| (value, &text[len..]))
}

pub fn decimal_len(number: u64) -> usize {
    number.checked_ilog10().map_or(1, |power| power as usize + 1)
}

/// Writes a number in decimal, without leading zeros. Returns the number of bytes, or 0 if `room` is too short.
pub fn decimal(mut number: u64, room: &mut [u8]) -> usize {
    let len = decimal_len(number);
    let Some(room) = room.get_mut(..len) else { return 0 };
    // Writes two digits at a time, which halves the number of 64-bit divisions.
    for digits in room.rchunks_mut(2) {
        let pair = (number % 100) as u8;
        number /= 100;
        match digits {
            [tens, ones] => (*tens, *ones) = (b'0' + pair / 10, b'0' + pair % 10),
            digits => digits.fill(b'0' + pair),
        }
    }
    len
}

pub struct Decimal {
    bytes: [u8; 20],
    len: usize,
}

impl Decimal {
    pub fn of(number: u64) -> Decimal {
        let mut bytes = [0; 20];
        let len = decimal(number, &mut bytes);
        Decimal { bytes, len }
    }

    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}

/// Splits a text into the digits of a fraction and the text after them. If the text does not begin with a point, the
/// digits are empty. Returns `None` if no digit follows the point.
fn split_fraction(text: &[u8]) -> Option<(&[u8], &[u8])> {
    let Some(text) = text.strip_prefix(b".") else { return Some((b"", text)) };
    let digits = text.iter().take_while(|byte| byte.is_ascii_digit()).count();
    (digits > 0).then(|| text.split_at(digits))
}

/// Returns `0.<digits> × unit`, rounded up. Each step divides by 10 and rounds up. For any number of digits, this gives
/// the same result as rounding up once at the end.
fn fraction_of(digits: &[u8], unit: u64) -> u64 {
    digits.iter().rev().fold(0, |behind, digit| (u64::from(digit - b'0') * unit + behind).div_ceil(10))
}

/// Converts the score of a sorted set's member to a time. `unit` is the unit of the score. Fractions of a millisecond
/// are rounded up.
///
/// The score is converted by its shortest decimal form. This form is the number that the client wrote, if the number
/// has at most 15 digits. So 1767225600.123 s becomes 1767225600123 ms, although the nearest double is slightly
/// different. Returns `None` for scores that are negative, not finite or above [`MAX`].
pub fn from_score(score: f64, unit: Unit) -> Option<Millis> {
    if !score.is_finite() {
        return None;
    }
    let positive = if score == 0.0 { 0.0 } else { score };
    parse(positive.to_string().as_bytes(), unit)
}

/// Returns the score for a time. The score is exact, because the latest time is 2^53-1.
#[expect(clippy::cast_precision_loss, reason = "a Millis is at most 2^53-1")]
pub fn to_score(at: Millis) -> f64 {
    debug_assert!(at <= MAX);
    at as f64
}

/// Rounds a score in ms up to a whole number. Returns `None` if the result is not a valid time.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "the range is checked first")]
pub fn ceil_score(score: f64) -> Option<Millis> {
    let up = score.ceil();
    (0.0..=to_score(MAX)).contains(&up).then_some(up as Millis)
}

#[cfg(test)]
mod tests;
