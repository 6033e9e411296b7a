//! Compares the parser of dates with the crate `time`.

use super::*;
use crate::base::{any_text, fuzzing};
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
