//! Tests of times, with chosen and with random values.

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
    fn what_is_read_is_a_moment_we_accept(text in crate::base::any_text()) {
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
