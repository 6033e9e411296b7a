//! Durations, instants and rates: converts values from callers to arguments of commands.

use crate::error::Error;
use redis::{RedisWrite, ToRedisArgs, ToSingleRedisArg};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// The largest number of milliseconds that the commands accept.
const MAX_MS: u128 = (1 << 53) - 1;

/// The longest wait of a worker. The server refuses due times above [`MAX_MS`], so it would refuse a longer wait.
#[cfg(feature = "worker")]
const LONGEST_MS: u128 = 1 << 52;

/// A duration: a [`Duration`], a number of seconds, or text as in the commands (`"250ms"` `"1.5h"` `"7d"`).
///
/// ```
/// use std::time::Duration;
/// use zeitset_client::Period;
///
/// for period in [Period::from("5m"), Period::from(300), Period::from(Duration::from_secs(300))] {
///     assert_eq!(period.millis()?, 300_000);
/// }
/// assert!(Period::from("soon").millis().is_err());
/// # Ok::<(), zeitset_client::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Period(String);

impl Period {
    /// Returns the milliseconds, rounded up. Fails if the text is no duration.
    pub fn millis(&self) -> Result<u64, Error> {
        self.parse().filter(|ms| *ms <= MAX_MS).and_then(|ms| u64::try_from(ms).ok()).ok_or_else(|| self.invalid())
    }

    /// Returns the duration in whole milliseconds, at most [`LONGEST_MS`]. Fails if the text is no duration.
    #[cfg(feature = "worker")]
    pub(crate) fn capped(&self) -> Result<Duration, Error> {
        let ms = self.parse().and_then(|ms| u64::try_from(ms.min(LONGEST_MS)).ok());
        ms.map(Duration::from_millis).ok_or_else(|| self.invalid())
    }

    fn invalid(&self) -> Error {
        Error::Argument(format!("expected a duration such as 30 (seconds), \"250ms\" or \"5m\", not {:?}", self.0))
    }

    fn parse(&self) -> Option<u128> {
        let end = self.0.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(self.0.len());
        let (number, unit) = self.0.split_at(end);
        let unit_ms: u128 = match unit.to_ascii_lowercase().as_str() {
            "ms" => 1,
            "" | "s" => 1000,
            "m" => 60_000,
            "h" => 3_600_000,
            "d" => 86_400_000,
            "w" => 604_800_000,
            _ => return None,
        };
        let (whole, fraction) = match number.split_once('.') {
            Some((whole, fraction)) if !fraction.is_empty() => (whole, fraction),
            Some(_) => return None,
            None => (number, ""),
        };
        let whole: u128 = whole.parse().ok()?;
        // Exact, and at most 25 digits, so that nothing overflows.
        let digits = u32::try_from(fraction.len()).ok().filter(|digits| *digits <= 25)?;
        let parts: u128 = if fraction.is_empty() { 0 } else { fraction.parse().ok()? };
        whole.checked_mul(unit_ms)?.checked_add((parts * unit_ms).div_ceil(10_u128.pow(digits)))
    }

    #[cfg(feature = "limiter")]
    pub(crate) fn of_millis(ms: u64) -> Self {
        Self(format!("{ms}ms"))
    }
}

impl From<Duration> for Period {
    fn from(duration: Duration) -> Self {
        Self(format!("{}ms", duration.as_nanos().div_ceil(1_000_000)))
    }
}

impl From<&str> for Period {
    fn from(text: &str) -> Self {
        Self(text.to_owned())
    }
}

impl From<u32> for Period {
    fn from(seconds: u32) -> Self {
        Self(format!("{seconds}s"))
    }
}

/// A moment: a [`SystemTime`], Unix time in milliseconds, or text that the commands accept after `AT`.
///
/// ```
/// use std::time::{Duration, UNIX_EPOCH};
/// use zeitset_client::Moment;
///
/// let moment = Moment::from(UNIX_EPOCH + Duration::from_secs(1_900_000_000));
/// assert_eq!(moment, Moment::from(1_900_000_000_000));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Moment(String);

impl From<SystemTime> for Moment {
    fn from(time: SystemTime) -> Self {
        let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
        Self(format!("{}ms", since.as_millis()))
    }
}

impl From<u64> for Moment {
    fn from(unix_ms: u64) -> Self {
        Self(format!("{unix_ms}ms"))
    }
}

impl From<&str> for Moment {
    fn from(text: &str) -> Self {
        Self(text.to_owned())
    }
}

macro_rules! argument {
    ($($name:ident)*) => {$(
        impl ToRedisArgs for $name {
            fn write_redis_args<W: ?Sized + RedisWrite>(&self, out: &mut W) {
                out.write_arg(self.0.as_bytes());
            }
        }
        impl ToSingleRedisArg for $name {}
    )*};
}
argument!(Period Moment);

/// Reads a rate, such as `5/1m`, `5/m`, `5/minute` or `100/2 hours`. Returns the limit, and the window in ms.
#[cfg(feature = "limiter")]
pub(crate) fn rate(text: &str) -> Result<(u64, u64), Error> {
    let wrong = || Error::Argument(format!("expected a rate such as 5/1m or 100/hour, not {text:?}"));
    let (limit, window) = text.split_once('/').ok_or_else(wrong)?;
    let window = window.trim().to_ascii_lowercase();
    let end = window.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(window.len());
    let (count, unit) = window.split_at(end);
    let unit = match unit.trim() {
        "millisecond" | "milliseconds" => "ms",
        "sec" | "secs" | "second" | "seconds" => "s",
        "min" | "mins" | "minute" | "minutes" => "m",
        "hour" | "hours" => "h",
        "day" | "days" => "d",
        "week" | "weeks" => "w",
        "" if count.is_empty() => return Err(wrong()),
        short => short,
    };
    let count = if count.is_empty() { "1" } else { count };
    let window = Period(format!("{count}{unit}")).millis().map_err(|_| wrong())?;
    let limit: u64 = limit.trim().parse().map_err(|_| wrong())?;
    if limit < 1 || window < 1 || u128::from(limit) > MAX_MS {
        return Err(wrong());
    }
    Ok((limit, window))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_exact_and_rounded_up() {
        let cases = [("0.25", 250), ("2.007", 2007), ("1.5h", 5_400_000), ("0.0001", 1), ("7D", 604_800_000), ("0", 0)];
        for (text, ms) in cases {
            assert_eq!(Period::from(text).millis().ok(), Some(ms), "{text}");
        }
        assert_eq!(Period::from(Duration::from_nanos(1)).millis().ok(), Some(1));
        for text in ["", "s", "1.", ".5", "-1", "+1", "1 s", "1y", "1..2", "nan", "9007199254740992ms", "1e3", "٣"] {
            assert!(Period::from(text).millis().is_err(), "{text}");
        }
    }

    #[cfg(feature = "limiter")]
    #[test]
    fn rates_have_a_limit_and_a_window() {
        let cases =
            [("5/1m", (5, 60_000)), ("5/m", (5, 60_000)), ("5/minute", (5, 60_000)), ("100/2 hours", (100, 7_200_000))];
        for (text, expected) in cases {
            assert_eq!(rate(text).ok(), Some(expected), "{text}");
        }
        for text in ["5", "5/", "0/1m", "5/0s", "x/1m", "5/1y", "-5/1m", "5/1m/2"] {
            assert!(rate(text).is_err(), "{text}");
        }
    }
}
