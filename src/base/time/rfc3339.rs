//! Parsing of RFC 3339 dates with a time zone: `2026-12-24T18:00:00.250+01:00`.
//!
//! The format is short and fixed, and the module needs only one number from it, so a crate is not worth its
//! dependencies (the crate `time` has five). The tests compare the results with those of `time`.

use super::{Millis, digits, fraction_of, split_fraction};

/// Parses a date. Rounds up to a whole millisecond. Returns `None` if the text is not an RFC 3339 date with a time
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

    let (fraction, zone) = split_fraction(rest)?;
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
    Some((u64::try_from(minutes).ok()? * 60 + second) * 1000 + fraction_of(fraction, 1000))
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

/// Returns the number of days from 1970-01-01 to the first day of a month. The number is negative for December 1969:
/// `1969-12-31T23:30:00-01:00` is a valid time, because in UTC it is in 1970.
fn days_before(year: u64, month: u64) -> i64 {
    // The Gregorian calendar, extended to the year 0.
    let leap_days = |year: u64| year.div_ceil(4) - year.div_ceil(100) + year.div_ceil(400);
    let year_begins = |year: u64| year * 365 + leap_days(year);
    let months: u64 = (1..month).map(|month| days_of(year, month)).sum();
    (year_begins(year) + months).cast_signed() - year_begins(1970).cast_signed()
}

#[cfg(test)]
mod tests;
