//! The stored form of a limit: decimal numbers and separators, kept on the stack.
//!
//! Decimals are readable in the reply of GET.

use super::Foreign;
use crate::model::time::{decimal, digits};
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

/// Parses a number that [`NumberText::number`] wrote: decimal, without leading zeros.
pub(super) fn number(text: &[u8]) -> Result<u64, Foreign> {
    match text {
        [b'0', _, ..] => Err(Foreign),
        _ => digits(text).ok_or(Foreign),
    }
}

/// Splits at the first `sign`.
pub(super) fn split(text: &[u8], sign: u8) -> Option<(&[u8], &[u8])> {
    let at = text.iter().position(|&byte| byte == sign)?;
    Some((&text[..at], &text[at + 1..]))
}
