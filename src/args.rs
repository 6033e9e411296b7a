//! The cursor over a command's arguments, and the parsers that several of the command families (sets, limits, queues,
//! boards) use. A family's own parsers are in its `commands/mod.rs`.

use crate::base::time::{self, Millis, Unit, digits};
use crate::error::Error;
use crate::server::Str;
use crate::server::command::Arg;

pub const KEY_AND_MEMBERS: &[Arg] = &[Arg::key(c"key"), Arg::string(c"member").multiple()];

pub const CONDITION: Arg = Arg::one_of(c"condition", &[Arg::flag(c"nx", c"NX"), Arg::flag(c"xx", c"XX")]).optional();

#[derive(Clone)]
pub struct Args<'a> {
    rest: &'a [Str<'a>],
}

/// Returns `now` plus `duration`, or an error if the sum exceeds [`time::MAX`].
pub fn after(now: Millis, duration: Millis) -> Result<Millis, Error> {
    time::after(now, duration).ok_or(Error::TooFar)
}

/// An argument in upper case, to be compared with keywords. Empty if the argument is longer than every keyword.
#[derive(PartialEq, Eq)]
pub struct Keyword {
    bytes: [u8; Keyword::MAX_LEN],
    len: usize,
}

impl Keyword {
    const MAX_LEN: usize = 16;

    /// Returns the argument in upper case. Returns `None` if it does not begin with a letter: numbers, durations and
    /// times are not keywords.
    fn of(argument: Str<'_>) -> Option<Keyword> {
        let text = argument.bytes();
        if !text.first()?.is_ascii_alphabetic() {
            return None;
        }
        let len = if text.len() > Keyword::MAX_LEN { 0 } else { text.len() };
        let mut bytes = [0; Keyword::MAX_LEN];
        bytes[..len].copy_from_slice(&text[..len]);
        bytes.make_ascii_uppercase();
        Some(Keyword { bytes, len })
    }

    pub fn bytes(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}

impl<'a> Args<'a> {
    pub fn new(arguments: &'a [Str<'a>]) -> Args<'a> {
        Args { rest: arguments }
    }

    pub fn string(&mut self) -> Result<Str<'a>, Error> {
        let (&first, rest) = self.rest.split_first().ok_or(Error::Arity)?;
        self.rest = rest;
        Ok(first)
    }

    /// Parses `numkeys key [key ...]` and returns the keys. After the keys, the command must have at least `behind`
    /// arguments for each key, and `then` arguments more. The errors have the texts of ZMPOP and EVAL.
    pub fn keys(&mut self, behind: usize, then: usize) -> Result<&'a [Str<'a>], Error> {
        let numkeys = integer(self.string()?.bytes()).filter(|&numkeys| numkeys > 0).ok_or(Error::NumKeys)?;
        let most = self.rest.len().saturating_sub(then) / (1 + behind);
        let count = usize::try_from(numkeys).ok().filter(|&count| count <= most).ok_or(Error::TooManyKeys)?;
        let (keys, rest) = self.rest.split_at(count);
        self.rest = rest;
        Ok(keys)
    }

    pub fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    /// Returns all remaining arguments, or an error if there are none.
    pub fn strings(&mut self) -> Result<&'a [Str<'a>], Error> {
        match std::mem::take(&mut self.rest) {
            [] => Err(Error::Arity),
            rest => Ok(rest),
        }
    }

    /// Returns an error if arguments remain.
    pub fn finish(&self) -> Result<(), Error> {
        if self.is_empty() { Ok(()) } else { Err(Error::Syntax) }
    }

    /// Returns the next argument if it begins with a letter, as every keyword does. Otherwise, returns `None` and takes
    /// no argument. For options that precede a number, a duration or a time.
    pub fn leading_keyword(&mut self) -> Option<Keyword> {
        let keyword = Keyword::of(*self.rest.first()?)?;
        self.rest = &self.rest[1..];
        Some(keyword)
    }

    /// Whether an argument remains, and the next one is a value, not a keyword.
    pub fn is_at_value(&self) -> bool {
        self.rest.first().is_some_and(|next| Keyword::of(*next).is_none())
    }

    /// Returns the next argument as a keyword, or `None` if no argument remains. Returns an error if the argument does
    /// not begin with a letter. For options at the end of a command.
    pub fn trailing_keyword(&mut self) -> Result<Option<Keyword>, Error> {
        match self.leading_keyword() {
            None if !self.is_empty() => Err(Error::Syntax),
            keyword => Ok(keyword),
        }
    }

    /// Returns an option's value. If the value is missing, returns the error `Syntax`, not `Arity`.
    pub fn option_value(&mut self) -> Result<Str<'a>, Error> {
        self.string().map_err(|_| Error::Syntax)
    }

    /// Parses a duration of at least 1 ms.
    pub fn duration(&mut self) -> Result<Millis, Error> {
        match time::parse(self.option_value()?.bytes(), Unit::Seconds) {
            Some(0) | None => Err(Error::Duration),
            Some(duration) => Ok(duration),
        }
    }

    /// Parses a duration, which may be 0.
    pub fn wait(&mut self) -> Result<Millis, Error> {
        time::parse(self.option_value()?.bytes(), Unit::Seconds).ok_or(Error::DurationOrZero)
    }

    /// Parses a time, the value of `AT`: a Unix time or a date.
    pub fn instant(&mut self) -> Result<Millis, Error> {
        time::instant(self.option_value()?.bytes()).ok_or(Error::Instant)
    }

    pub fn integer(&mut self) -> Result<i64, Error> {
        integer(self.option_value()?.bytes()).ok_or(Error::NotAnInteger)
    }

    /// Parses a finite double.
    pub fn float(&mut self) -> Result<f64, Error> {
        float(self.option_value()?.bytes()).ok_or(Error::NotAFloat)
    }

    /// Parses a count: 0 to 2^63-1.
    pub fn count(&mut self) -> Result<u64, Error> {
        let count = integer(self.option_value()?.bytes()).ok_or(Error::NotAnInteger)?;
        u64::try_from(count).map_err(|_| Error::Negative)
    }

    /// Parses a count of at least 1.
    pub fn positive(&mut self) -> Result<u64, Error> {
        match self.count() {
            Ok(0) | Err(Error::Negative) => Err(Error::NotPositive),
            count => count,
        }
    }

    /// If the next argument is `word`, skips it and returns true.
    pub fn skip(&mut self, word: &[u8]) -> bool {
        match self.rest.split_first() {
            Some((first, rest)) if first.bytes() == word => {
                self.rest = rest;
                true
            }
            _ => false,
        }
    }
}

/// Parses a decimal integer as the server does: an optional `-`, then digits. Rejects blanks, a leading `+` and leading
/// zeros.
pub fn integer(text: &[u8]) -> Option<i64> {
    let (negative, number) = match text {
        [b'-', number @ ..] => (true, number),
        number => (false, number),
    };
    if number.first() == Some(&b'0') && (negative || number.len() > 1) {
        return None;
    }
    let value = digits(number)?;
    if negative { 0_i64.checked_sub_unsigned(value) } else { i64::try_from(value).ok() }
}

/// Parses a decimal number with an optional exponent: `-1`, `0.5`, `1e+20`. Rejects blanks, a leading plus, hex,
/// infinity, numbers too large for a double, and nonzero numbers that a double would round to zero.
fn float(text: &[u8]) -> Option<f64> {
    let is_decimal = |byte: &u8| byte.is_ascii_digit() || b"+-.eE".contains(byte);
    if text.first() == Some(&b'+') || !text.iter().all(is_decimal) {
        return None;
    }
    let value: f64 = std::str::from_utf8(text).ok()?.parse().ok()?;
    let mantissa = text.split(|byte| byte.eq_ignore_ascii_case(&b'e')).next()?;
    let is_zero = !mantissa.iter().any(|byte| (b'1'..=b'9').contains(byte));
    (value.is_finite() && (value == 0.0) == is_zero).then_some(value)
}

/// Sets an option. Returns an error if the option is already set.
pub fn once<T>(option: &mut Option<T>, value: T) -> Result<(), Error> {
    match option.replace(value) {
        None => Ok(()),
        Some(_) => Err(Error::Syntax),
    }
}

pub fn flag(flag: &mut bool) -> Result<(), Error> {
    if std::mem::replace(flag, true) { Err(Error::Syntax) } else { Ok(()) }
}

#[cfg(test)]
mod tests;
