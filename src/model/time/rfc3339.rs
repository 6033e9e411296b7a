//! Parsing of RFC 3339 dates with a time zone: `2026-12-24T18:00:00.250+01:00`.
//!
//! The format is short and fixed, and the module needs only one number from it, so a crate is not worth its
//! dependencies (`time` has five). The tests compare the results with those of `time`.

use super::{Millis, digits, fraction_of};

/// Parses a date. Rounds fractions up to a millisecond. Returns `None` if the text is not an RFC 3339 date with a time
/// zone, or is before 1970. Also returns `None` for a leap second (`:60`), because Unix time has none.
pub fn parse(text: &[u8]) -> Option<Millis> {
    let (clock, rest) = text.split_at_checked(b"2026-12-24T18:00:00".len())?;
    let [y0, y1, y2, y3, b'-', m0, m1, b'-', d0, d1, b'T' | b't', h0, h1, b':', i0, i1, b':', s0, s1] = *clock else {
        return None;
    };
    let year = digits(&[y0, y1, y2, y3])?;
    let month = digits(&[m0, m1]).filter(|month| (1..=12).contains(month))?;
    let day = digits(&[d0, d1]).filter(|day| (1..=days_of(year, month)).contains(day))?;
    let (hour, minute) = time_of_day([h0, h1], [i0, i1])?;
    let second = digits(&[s0, s1]).filter(|&second| second < 60)?;

    let (fraction, zone) = match rest.strip_prefix(b".") {
        Some(rest) => {
            let end = rest.iter().position(|byte| !byte.is_ascii_digit())?;
            (fraction_of(&rest[..end], 1000)?, &rest[end..])
        }
        None => (0, rest),
    };
    let east_minutes = match *zone {
        [b'Z' | b'z'] => 0,
        [sign @ (b'+' | b'-'), h0, h1, b':', m0, m1] => {
            let (hours, minutes) = time_of_day([h0, h1], [m0, m1])?;
            let minutes = i64::try_from(hours * 60 + minutes).ok()?;
            if sign == b'-' { -minutes } else { minutes }
        }
        _ => return None,
    };
    let days = days_before(year, month) + i64::try_from(day).ok()? - 1;
    let minutes = days * 24 * 60 + i64::try_from(hour * 60 + minute).ok()? - east_minutes;
    Some((u64::try_from(minutes).ok()? * 60 + second) * 1000 + fraction)
}

fn time_of_day(hour: [u8; 2], minute: [u8; 2]) -> Option<(u64, u64)> {
    let hour = digits(&hour).filter(|&hour| hour < 24)?;
    let minute = digits(&minute).filter(|&minute| minute < 60)?;
    Some((hour, minute))
}

fn is_leap(year: u64) -> bool {
    year.is_multiple_of(4) && !year.is_multiple_of(100) || year.is_multiple_of(400)
}

fn days_of(year: u64, month: u64) -> u64 {
    match month {
        2 => 28 + u64::from(is_leap(year)),
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// Returns the number of days from 1970-01-01 to the first day of a month. The number is negative for a month before
/// 1970. A local date in December 1969 is valid if the time in UTC is already in 1970.
fn days_before(year: u64, month: u64) -> i64 {
    // The Gregorian calendar, extended to the year 0.
    let leap_days = |year: u64| year.div_ceil(4) - year.div_ceil(100) + year.div_ceil(400);
    let year_begins = |year: u64| year * 365 + leap_days(year);
    let months: u64 = (1..month).map(|month| days_of(year, month)).sum();
    (year_begins(year) + months).cast_signed() - year_begins(1970).cast_signed()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{any_text, fuzzing};
    use proptest::prelude::*;
    use time::OffsetDateTime;
    use time::format_description::well_known::Rfc3339;

    /// Returns the result of the crate `time`, with fractions truncated to microseconds and then rounded up to
    /// milliseconds.
    fn reference(text: &str) -> Option<Millis> {
        let at = OffsetDateTime::parse(text, &Rfc3339).ok()?;
        let nanos = u64::try_from(at.unix_timestamp_nanos() / 1_000).ok()?;
        (at.unix_timestamp_nanos() >= 0).then_some(nanos.div_ceil(1000))
    }

    #[test]
    fn dates_are_read_with_their_zone() {
        for (text, expected) in [
            ("1970-01-01T00:00:00Z", 0),
            ("2026-01-01T00:00:00Z", 1_767_225_600_000),
            ("2026-01-01T00:00:00.1234Z", 1_767_225_600_124),
            ("2026-12-24T18:00:00.250+01:00", 1_798_131_600_250),
            ("2026-12-24t12:00:00.25-05:00", 1_798_131_600_250),
            ("2000-02-29T23:59:59z", 951_868_799_000),
            ("1970-01-01T01:00:00+01:00", 0),
            ("1969-12-31T23:30:00-01:00", 1_800_000),
            ("2026-01-01T00:00:00-00:00", 1_767_225_600_000),
            ("9999-12-31T23:59:59.999Z", 253_402_300_799_999),
        ] {
            assert_eq!(parse(text.as_bytes()), Some(expected), "{text}");
        }
    }

    #[test]
    fn what_is_no_date_with_a_zone_is_refused() {
        for text in [
            "2026-12-24",
            "2026-12-24T18:00Z",
            "2026-12-24T18:00:00",
            "2026-12-24 18:00:00Z",
            "2026-12-24T18:00:00.Z",
            "2026-12-24T18:00:00,5Z",
            "2026-12-24T18:00:00+01",
            "2026-12-24T18:00:00+0100",
            "2026-12-24T18:00:00+24:00",
            "2026-12-24T18:00:00+01:60",
            "2026-12-24T18:00:00ZZ",
            "2026-12-24T18:00:00 Z",
            "2026-12-24T24:00:00Z",
            "2026-12-24T18:60:00Z",
            "2026-06-30T23:59:60Z",
            "2026-13-24T18:00:00Z",
            "2026-00-24T18:00:00Z",
            "2026-12-00T18:00:00Z",
            "2026-04-31T18:00:00Z",
            "2026-02-29T18:00:00Z",
            "1900-02-29T18:00:00Z",
            "1969-12-31T23:59:59Z",
            "1970-01-01T00:59:59+01:00",
            "0000-01-01T00:00:00Z",
            "+2026-12-24T18:00:00Z",
            "20261224T180000Z",
            "2026-12-24T18:00:00.25",
        ] {
            assert_eq!(parse(text.as_bytes()), None, "{text}");
        }
    }

    proptest! {
        #![proptest_config(fuzzing())]

        #[test]
        fn every_date_is_read_as_the_crate_time_reads_it(
            (year, month, day) in (1960_u32..=9999, 0_u32..14, 0_u32..33),
            (hour, minute, second) in (0_u32..25, 0_u32..61, 0_u32..60),
            // At most six digits, because `reference` truncates fractions to microseconds.
            fraction in proptest::option::of("[0-9]{1,6}"),
            zone in prop_oneof![Just("Z".to_owned()), (0..25, 0..61, "[+-]").prop_map(|(h, m, sign)| format!("{sign}{h:02}:{m:02}"))],
        ) {
            let fraction = fraction.map_or(String::new(), |fraction| format!(".{fraction}"));
            let text = format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}{fraction}{zone}");
            prop_assert_eq!(parse(text.as_bytes()), reference(&text), "{}", text);
        }

        #[test]
        fn no_bytes_make_it_panic(mut text in any_text(), at in 0_usize..19) {
            let _ = parse(&text);
            let mut date = b"2026-12-24T18:00:00Z".to_vec();
            date.truncate(at);
            date.append(&mut text);
            let _ = parse(&date);
        }
    }
}
