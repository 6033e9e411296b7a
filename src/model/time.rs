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

/// The latest time, 2^53-1 ms. As a member's score it means "does not expire".
pub const MAX: Millis = (1 << 53) - 1;

/// The unit of a number that is given without a unit.
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

/// The units of times, with their length in ms.
const SUFFIXES: [(&[u8], u64); 6] =
    [(b"ms", 1), (b"s", 1000), (b"m", 60_000), (b"h", 3_600_000), (b"d", 86_400_000), (b"w", 604_800_000)];

/// Parses a duration: digits, an optional fraction (a point and more digits), and an optional unit. The unit may be in
/// upper or lower case.
///
/// `bare` is the unit of a number that is given without a unit. Fractions of a millisecond are rounded up, so that
/// nothing ends early. Returns `None` for any other text, such as one with a sign, a blank or an exponent. A point must
/// have digits on both sides. A value above [`MAX`] is also `None`.
pub fn parse(text: &[u8], bare: Unit) -> Option<Millis> {
    let (whole, rest) = leading_digits(text)?;
    let (fraction, suffix) = match rest {
        [b'.', rest @ ..] => {
            let (fraction, suffix) = rest.split_at(rest.iter().take_while(|byte| byte.is_ascii_digit()).count());
            (Some(fraction), suffix)
        }
        rest => (None, rest),
    };
    let unit = match suffix {
        [] => bare.millis(),
        suffix => SUFFIXES.iter().find(|(name, _)| suffix.eq_ignore_ascii_case(name))?.1,
    };
    let fraction = match fraction {
        Some(fraction) => fraction_of(fraction, unit)?,
        None => 0,
    };
    let total = whole.checked_mul(unit)?.checked_add(fraction)?;
    (total <= MAX).then_some(total)
}

/// Returns the time `duration` after `at`. `None` if it exceeds [`MAX`].
pub fn after(at: Millis, duration: Millis) -> Option<Millis> {
    at.checked_add(duration).filter(|&end| end <= MAX)
}

/// Returns the time `duration` after `at`, but at most [`MAX`].
pub fn after_at_most(at: Millis, duration: Millis) -> Millis {
    after(at, duration).unwrap_or(MAX)
}

/// A time without a unit is in milliseconds from this number on, and in seconds below it. In seconds, this number is in
/// the year 5138. In milliseconds, it is in March 1973.
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

/// Parses a decimal integer without sign or blanks. `None` if it is empty, has other characters, or exceeds `u64::MAX`.
pub fn digits(text: &[u8]) -> Option<u64> {
    leading_digits(text).filter(|(_, rest)| rest.is_empty()).map(|(number, _)| number)
}

/// Parses the decimal integer at the beginning of a text. Returns the integer and the remaining text. `None` if the
/// text does not begin with a digit, or if the integer exceeds `u64::MAX`.
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

/// Returns `0.<fraction> × unit`, rounded up. The result is exact for any number of digits: the digits after the 18th
/// matter only if one of them is not zero.
fn fraction_of(fraction: &[u8], unit: u64) -> Option<u64> {
    const EXACT: usize = 18;
    let (head, tail) = fraction.split_at(fraction.len().min(EXACT));
    if !tail.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let scale = 10_u128.pow(u32::try_from(head.len()).ok()?);
    let product = u128::from(digits(head)?) * u128::from(unit);
    let beyond = u128::from(tail.iter().any(|&byte| byte != b'0'));
    // The tail is worth less than one unit of the 18th digit. It changes the result only if `product` is a multiple of `scale`.
    u64::try_from((product + beyond).div_ceil(scale)).ok()
}

/// Converts a score in `unit`s to a time, with fractions of a ms rounded up.
///
/// The score is converted by its shortest decimal form, which is the number that the client wrote. So 1767225600.123 s
/// becomes 1767225600123 ms, although the nearest double is slightly different. Returns `None` for scores that are
/// negative, not finite or above [`MAX`].
pub fn from_score(score: f64, unit: Unit) -> Option<Millis> {
    if !score.is_finite() {
        return None;
    }
    let positive = if score == 0.0 { 0.0 } else { score };
    parse(positive.to_string().as_bytes(), unit)
}

/// Returns the score for a time. This is exact, because times end at 2^53-1.
#[expect(clippy::cast_precision_loss, reason = "a Millis is at most 2^53-1")]
pub fn to_score(at: Millis) -> f64 {
    debug_assert!(at <= MAX);
    at as f64
}

/// Returns the first millisecond at or after a score. `None` if it is not a valid time.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "the range is checked first")]
pub fn ceil_score(score: f64) -> Option<Millis> {
    let up = score.ceil();
    (0.0..=to_score(MAX)).contains(&up).then_some(up as Millis)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn seconds(text: &str) -> Option<Millis> {
        parse(text.as_bytes(), Unit::Seconds)
    }

    #[test]
    fn digits_are_a_number_of_64_bits_and_nothing_else() {
        for (text, number) in [
            ("0", Some(0)),
            ("0000000000000000000000000000000000000042", Some(42)),
            ("9999999999999999999", Some(9_999_999_999_999_999_999)),
            ("10000000000000000007", Some(10_000_000_000_000_000_007)),
            ("18446744073709551615", Some(u64::MAX)),
            ("18446744073709551616", None),
            ("18446744073709551620", None),
            ("184467440737095516150", None),
            ("1844674407370955161x", None),
            ("184467440737095516/5", None),
            ("", None),
            ("-1", None),
            ("+1", None),
            (" 1", None),
            ("1 ", None),
        ] {
            assert_eq!(digits(text.as_bytes()), number, "{text:?}");
        }
    }

    #[test]
    fn units_in_either_case_and_seconds_without_one() {
        for (text, expected) in [
            ("10", 10_000),
            ("250ms", 250),
            ("10s", 10_000),
            ("5m", 300_000),
            ("2h", 7_200_000),
            ("7d", 604_800_000),
            ("2W", 1_209_600_000),
            ("1MS", 1),
            ("0", 0),
            ("007", 7_000),
        ] {
            assert_eq!(seconds(text), Some(expected), "{text}");
        }
        assert_eq!(parse(b"17", Unit::Milliseconds), Some(17));
    }

    #[test]
    fn decimals_are_exact_and_rounded_up_to_the_millisecond() {
        for (text, expected) in [
            ("0.25", 250),
            ("1.5h", 5_400_000),
            ("0.1", 100),
            ("0.0001s", 1),
            ("1.5ms", 2),
            ("1.0ms", 1),
            ("0.000000000000000000000000000001w", 1),
            ("0.001000000000000000000000000000", 1),
            ("0.001000000000000000000000000001", 2),
            ("0.9999999999999999999999999", 1000),
        ] {
            assert_eq!(seconds(text), Some(expected), "{text}");
        }
    }

    #[test]
    fn anything_but_a_plain_decimal_is_refused() {
        for text in [
            "",
            ".",
            "1.",
            ".5",
            "+1",
            "-1",
            " 1",
            "1 ",
            "1e3",
            "0x10",
            "1_000",
            "1,5",
            "inf",
            "nan",
            "ms",
            "1.2.3",
            "1.ms",
            "5 m",
            "1mm",
            "1y",
            "1\0",
            "1\n",
            "1.0000000000000000000x",
            "1.0000000000000000000-",
        ] {
            assert_eq!(seconds(text), None, "{text:?}");
        }
    }

    #[test]
    fn a_bare_instant_is_in_seconds_below_ten_to_the_eleventh_and_in_milliseconds_from_there_on() {
        for (text, expected) in [
            ("0", 0),
            ("1767225600", 1_767_225_600_000),
            ("1767225600.25", 1_767_225_600_250),
            ("1767225600.0001", 1_767_225_600_001),
            ("99999999999", 99_999_999_999_000),
            ("99999999999.999", 99_999_999_999_999),
            ("100000000000", 100_000_000_000),
            ("1767225600123", 1_767_225_600_123),
            ("9007199254740991", MAX),
            ("1767225600s", 1_767_225_600_000),
            ("1767225600.5S", 1_767_225_600_500),
            ("1767225600123ms", 1_767_225_600_123),
            ("17MS", 17),
            ("100000000000s", 100_000_000_000_000),
        ] {
            assert_eq!(instant(text.as_bytes()), Some(expected), "{text}");
        }
    }

    #[test]
    fn an_instant_is_nothing_else() {
        for text in [
            "",
            "1d",
            "1m",
            "2h",
            "1w",
            "1y",
            "-1",
            "-1ms",
            "+1",
            "1767225600123.5",
            "100000000000.0",
            "1767225600123.5ms",
            "1.0ms",
            ".5",
            "5.",
            "1..5",
            "ms",
            "s",
            "1e9",
            "0x10",
            " 1",
            "1 ",
            "1\0",
            "9007199254740992",
            "9007199254740992ms",
            "9007199254741s",
            "99999999999999999999999",
            "noon",
            "now",
            "2026-12-24",
            "2026-12-24T18:00:00",
        ] {
            assert_eq!(instant(text.as_bytes()), None, "{text:?}");
        }
    }

    #[test]
    fn the_largest_time_is_2_to_the_53_minus_1_ms() {
        assert_eq!(seconds("9007199254740991ms"), Some(MAX));
        assert_eq!(seconds("9007199254740.991"), Some(MAX));
        assert_eq!(seconds("9007199254740990.1ms"), Some(MAX));
        assert_eq!(seconds("9007199254740992ms"), None);
        assert_eq!(seconds("9007199254740991.1ms"), None);
        assert_eq!(seconds("99999999999999999999999"), None);
        assert_eq!(seconds("18446744073709551615w"), None);
    }

    #[test]
    fn no_moment_lies_after_the_last_one() {
        assert_eq!(after(5, 7), Some(12));
        assert_eq!((after(MAX - 7, 7), after(MAX - 7, 8), after(u64::MAX, 1)), (Some(MAX), None, None));
        assert_eq!((after_at_most(5, 7), after_at_most(MAX, 1), after_at_most(1, u64::MAX)), (12, MAX, MAX));
    }

    #[test]
    fn a_foreign_score_is_read_as_it_was_written() {
        assert_eq!(from_score(1_767_225_600.123, Unit::Seconds), Some(1_767_225_600_123));
        assert_eq!(from_score(1_767_225_600_123.0, Unit::Milliseconds), Some(1_767_225_600_123));
        assert_eq!(from_score(0.5, Unit::Milliseconds), Some(1));
        assert_eq!(from_score(-0.0, Unit::Milliseconds), Some(0));
        for bad in [f64::INFINITY, f64::NEG_INFINITY, f64::NAN, -1.0, 9_007_199_254_740_992.0, 1e300] {
            assert_eq!(from_score(bad, Unit::Milliseconds), None, "{bad}");
        }
    }

    proptest! {
        #[test]
        fn every_millisecond_score_comes_back_as_it_is(at in 0..=MAX) {
            prop_assert_eq!(from_score(to_score(at), Unit::Milliseconds), Some(at));
            prop_assert_eq!(ceil_score(to_score(at)), Some(at));
        }

        #[test]
        fn a_number_is_written_as_it_is_read(number in prop_oneof![any::<u64>(), 0_u64..1000, Just(u64::MAX)], room in 0_usize..24) {
            let mut bytes = [b'x'; 24];
            let len = decimal(number, &mut bytes[..room]);
            let expected = number.to_string();
            prop_assert_eq!(len, if expected.len() <= room { expected.len() } else { 0 });
            prop_assert_eq!(&bytes[..len], &expected.as_bytes()[..len]);
            prop_assert!(bytes[len..].iter().all(|&byte| byte == b'x'));
        }

        /// Compares the parsed duration with a result of integer arithmetic. The input has a unit and nine decimals.
        #[test]
        fn decimals_agree_with_integer_arithmetic(whole in 0_u64..1_000_000, fraction in 0_u64..1_000_000_000, suffix in 0..6_usize) {
            let (name, unit) = SUFFIXES[suffix];
            let text = format!("{whole}.{fraction:09}{}", String::from_utf8_lossy(name));
            let scaled = (u128::from(whole) * 1_000_000_000 + u128::from(fraction)) * u128::from(unit);
            let expected = u64::try_from(scaled.div_ceil(1_000_000_000)).unwrap();
            prop_assert_eq!(seconds(&text), Some(expected));
        }

        #[test]
        fn what_is_read_is_a_moment_we_accept(text in super::super::any_text()) {
            for unit in [Unit::Seconds, Unit::Milliseconds] {
                if let Some(value) = parse(&text, unit) {
                    prop_assert!(value <= MAX && text[0].is_ascii_digit());
                }
            }
        }

        #[test]
        fn what_a_reply_gives_can_be_given_back(at in BARE_MILLIS_FROM..=MAX) {
            prop_assert_eq!(instant(at.to_string().as_bytes()), Some(at));
        }

        #[test]
        fn any_instant_can_be_written_with_its_unit(at in 0..=MAX) {
            prop_assert_eq!(instant(format!("{at}ms").as_bytes()), Some(at));
            prop_assert_eq!(instant(format!("{}.{:03}s", at / 1000, at % 1000).as_bytes()), Some(at));
        }

        #[test]
        fn no_score_makes_it_panic(bits in any::<u64>()) {
            let score = f64::from_bits(bits);
            for at in [from_score(score, Unit::Seconds), from_score(score, Unit::Milliseconds), ceil_score(score)] {
                prop_assert!(at.is_none_or(|at| at <= MAX));
            }
        }

        #[test]
        fn no_bytes_make_it_panic(text in proptest::collection::vec(any::<u8>(), 0..40)) {
            let _ = (parse(&text, Unit::Seconds), instant(&text));
        }
    }
}
