//! Cron expressions on the wall clock of a zone. clients/cron-cases.json defines what they mean, for all languages.
//! This module reads no clock and does no I/O.
//!
//! Five fields: minute, hour, day of the month, month, day of the week. If neither of the two fields for days begins
//! with `*`, a day has to match only one of them. If the clock is set forward, a job due at a skipped time runs later
//! by the length of the skip. If the clock is set back, a job due at a repeated time runs once. But a job whose hour
//! field begins with `*` runs twice.

use crate::error::Error;
use jiff::Timestamp;
use jiff::civil::{Date, DateTime};
use jiff::tz::{AmbiguousOffset, TimeZone};

const MONTHS: [&str; 12] = ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"];
const WEEKDAYS: [&str; 7] = ["sun", "mon", "tue", "wed", "thu", "fri", "sat"];

/// In any period of this many days, 29 February falls on each day of the week at least once.
const LONGEST_DAYS: u32 = 366 * 45;

#[derive(Clone, Debug)]
pub(super) struct Calendar {
    minutes: Set,
    hours: Set,
    days: Set,
    months: Set,
    weekdays: Set,
    is_either_day: bool,
    is_every_hour: bool,
    zone: TimeZone,
}

/// The values of a field, one bit each.
#[derive(Clone, Copy, Debug)]
struct Set(u64);

impl Set {
    fn has(self, value: i8) -> bool {
        self.0 >> value & 1 == 1
    }
}

impl Calendar {
    pub fn new(expression: &str, zone: &str) -> Result<Self, Error> {
        let expression = expression.trim();
        let text = match expression.to_ascii_lowercase().as_str() {
            "@hourly" => "0 * * * *",
            "@daily" | "@midnight" => "0 0 * * *",
            "@weekly" => "0 0 * * 0",
            "@monthly" => "0 0 1 * *",
            "@yearly" | "@annually" => "0 0 1 1 *",
            _ => expression,
        };
        let words: Vec<_> = text.split([' ', '\t']).filter(|word| !word.is_empty()).collect();
        let [minute, hour, day, month, weekday] = words[..] else {
            return Err(Error::Argument(format!("expected five fields such as \"0 3 * * 1-5\", not {expression:?}")));
        };
        let zone = TimeZone::get(zone).map_err(|error| Error::Argument(format!("no time zone {zone:?}: {error}")))?;
        let Set(weekdays) = field(weekday, 0, 7, &WEEKDAYS)?;
        Ok(Self {
            minutes: field(minute, 0, 59, &[])?,
            hours: field(hour, 0, 23, &[])?,
            days: field(day, 1, 31, &[])?,
            months: field(month, 1, 12, &MONTHS)?,
            // 0 and 7 are Sunday.
            weekdays: Set(weekdays | weekdays >> 7),
            is_either_day: !day.starts_with('*') && !weekday.starts_with('*'),
            is_every_hour: hour.starts_with('*'),
            zone,
        })
    }

    /// Returns the first moment after `after_ms`, in Unix ms; None if there is none.
    pub fn next(&self, after_ms: i64) -> Option<i64> {
        let after = Timestamp::from_millisecond(after_ms).ok()?;
        // If the clock was set forward, a time of yesterday may occur today.
        let mut day = self.zone.to_datetime(after).date().yesterday().ok()?;
        for _ in 0..LONGEST_DAYS {
            let next = day.tomorrow().ok()?;
            if let Some(first) = self.first(day, after_ms) {
                let later = self.first(next, after_ms);
                return Some(later.map_or(first, |later| later.min(first)));
            }
            day = next;
        }
        None
    }

    fn has_day(&self, date: Date) -> bool {
        let (day, weekday) = (self.days.has(date.day()), self.weekdays.has(date.weekday().to_sunday_zero_offset()));
        self.months.has(date.month()) && if self.is_either_day { day || weekday } else { day && weekday }
    }

    /// Returns the first moment after `after_ms` at which the expression matches on a day.
    fn first(&self, date: Date, after_ms: i64) -> Option<i64> {
        if !self.has_day(date) {
            return None;
        }
        let hours = (0..24).filter(|hour| self.hours.has(*hour));
        let times =
            hours.flat_map(|hour| (0..60).filter(|minute| self.minutes.has(*minute)).map(move |minute| (hour, minute)));
        times.flat_map(|(hour, minute)| self.moments(date.at(hour, minute, 0, 0))).filter(|ms| *ms > after_ms).min()
    }

    /// Converts a time of the wall clock to Unix ms. A time that occurs twice can give two results.
    fn moments(&self, wall: DateTime) -> impl Iterator<Item = i64> {
        let (first, second) = match self.zone.to_ambiguous_timestamp(wall).offset() {
            AmbiguousOffset::Unambiguous { offset } => (offset, None),
            // The change skips this time. So the job runs at the moment that the old offset gives.
            AmbiguousOffset::Gap { before, .. } => (before, None),
            AmbiguousOffset::Fold { before, after } => (before, Some(after).filter(|_| self.is_every_hour)),
        };
        let moment = move |offset: jiff::tz::Offset| Some(offset.to_timestamp(wall).ok()?.as_millisecond());
        [Some(first), second].into_iter().flatten().filter_map(moment)
    }
}

/// Parses a field of a cron expression, such as `1,5-9/2` or `mon-fri`. Returns all its values.
fn field(text: &str, low: u32, high: u32, names: &[&str]) -> Result<Set, Error> {
    let number = |word: &str| {
        let name = names.iter().zip(low..).find(|(name, _)| word.eq_ignore_ascii_case(name)).map(|(_, value)| value);
        let digits = || word.parse().ok().filter(|_| word.bytes().all(|byte| byte.is_ascii_digit()));
        name.or_else(digits).filter(|value| (low..=high).contains(value)).ok_or_else(|| {
            Error::Argument(format!("expected {low} to {high} in a cron expression, not {word:?} in {text:?}"))
        })
    };
    let mut found = 0;
    for item in text.split(',') {
        let (range, step) = item.split_once('/').map_or((item, None), |(range, step)| (range, Some(step)));
        let wrong = || {
            let examples = "numbers, ranges and steps such as \"1,5-9/2\" or \"*/15\"";
            Error::Argument(format!("expected {examples} in a cron expression, not {item:?}"))
        };
        let (from, to) = match (range, range.split_once('-')) {
            ("*", _) => (low, high),
            (_, Some((first, last))) => (number(first)?, number(last)?),
            (_, None) if step.is_some() => return Err(wrong()),
            (one, None) => (number(one)?, number(one)?),
        };
        let is_number = |step: &str| !step.is_empty() && step.bytes().all(|byte| byte.is_ascii_digit());
        let by = match step {
            None => 1,
            Some(step) if is_number(step) => step.parse::<usize>().unwrap_or(usize::MAX),
            Some(_) => 0,
        };
        if to < from || by < 1 {
            return Err(wrong());
        }
        (from..=to).step_by(by).for_each(|value| found |= 1_u64 << value);
    }
    Ok(Set(found))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_are_at_the_times_of_all_libraries() {
        let cases: Vec<serde_json::Value> =
            serde_json::from_str(include_str!("../../cases/cron.json")).expect("the table of cases");
        assert!(cases.len() > 100);
        for case in cases {
            let text = |name: &str| case[name].as_str().expect("a text");
            let mut after = case["after"].as_i64().expect("a time");
            let calendar = Calendar::new(text("expression"), text("tz"));
            let Some(times) = case["next"].as_array() else {
                let next = calendar.ok().and_then(|calendar| calendar.next(after));
                assert_eq!(next, None, "the expression is an error, or never comes: {case}");
                continue;
            };
            let calendar = calendar.expect("a calendar");
            for expected in times {
                let next = calendar.next(after);
                assert_eq!(next, expected.as_i64(), "{case}");
                after = next.unwrap_or_default();
            }
        }
    }
}
