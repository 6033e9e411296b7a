//! The stored form of a limit: decimal numbers and separators, which are readable in the reply of GET.

use super::Foreign;
use crate::model::time::{decimal, leading_digits};
use std::fmt;

/// Room for five numbers of 20 digits, a tag and separators.
pub const CAPACITY: usize = 112;

#[derive(Clone, Copy)]
pub struct NumberText {
    bytes: [u8; CAPACITY],
    len: usize,
}

impl NumberText {
    pub(super) fn of(tag: &str) -> NumberText {
        let mut text = NumberText { bytes: [0; CAPACITY], len: 0 };
        text.write(tag.as_bytes());
        text
    }

    fn write(&mut self, bytes: &[u8]) {
        let end = self.len + bytes.len();
        if let Some(room) = self.bytes.get_mut(self.len..end) {
            room.copy_from_slice(bytes);
            self.len = end;
        } else {
            debug_assert!(false, "at most five numbers");
        }
    }

    pub(super) fn sign(mut self, sign: u8) -> NumberText {
        self.write(&[sign]);
        self
    }

    pub(super) fn number(mut self, number: u64) -> NumberText {
        let len = decimal(number, &mut self.bytes[self.len..]);
        debug_assert!(len > 0, "at most five numbers");
        self.len += len;
        self
    }

    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}

impl PartialEq for NumberText {
    fn eq(&self, other: &NumberText) -> bool {
        self.as_bytes() == other.as_bytes()
    }
}

impl fmt::Debug for NumberText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", String::from_utf8_lossy(self.as_bytes()))
    }
}

/// Parses a [`NumberText`] from left to right.
pub(super) struct NumberReader<'a>(pub &'a [u8]);

impl NumberReader<'_> {
    pub fn is_at(&self, sign: &str) -> bool {
        self.0.starts_with(sign.as_bytes())
    }

    /// Parses a sign and the number after it, which must be decimal and without leading zeros.
    pub fn number_after(&mut self, sign: &str) -> Result<u64, Foreign> {
        let text = self.0.strip_prefix(sign.as_bytes()).ok_or(Foreign)?;
        if let [b'0', b'0'..=b'9', ..] = text {
            return Err(Foreign);
        }
        let (number, rest) = leading_digits(text).ok_or(Foreign)?;
        self.0 = rest;
        Ok(number)
    }

    /// Parses the last sign and number.
    pub fn last_number_after(mut self, sign: &str) -> Result<u64, Foreign> {
        let number = self.number_after(sign)?;
        if self.0.is_empty() { Ok(number) } else { Err(Foreign) }
    }
}
