//! What a limit is stored as, in bytes: a few decimal numbers and the signs between them, kept on the stack.
//!
//! Plain decimals are what a listpack stores smallest, and what a person reads in GET and ZRANGE.

use super::Foreign;
use crate::model::time::{decimal, digits};
use std::fmt;

/// Room for five numbers of 20 digits, a tag and the signs between them.
pub const CAPACITY: usize = 112;

/// The member of an entry, or the value of a string.
#[derive(Clone, Copy)]
pub struct Text {
    bytes: [u8; CAPACITY],
    len: usize,
}

impl Text {
    pub(super) fn of(tag: &str) -> Text {
        let mut text = Text { bytes: [0; CAPACITY], len: 0 };
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

    pub(super) fn sign(mut self, sign: u8) -> Text {
        self.write(&[sign]);
        self
    }

    pub(super) fn number(mut self, number: u64) -> Text {
        let len = decimal(number, &mut self.bytes[self.len..]);
        debug_assert!(len > 0, "at most five numbers");
        self.len += len;
        self
    }

    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}

impl PartialEq for Text {
    fn eq(&self, other: &Text) -> bool {
        self.as_bytes() == other.as_bytes()
    }
}

impl fmt::Debug for Text {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", String::from_utf8_lossy(self.as_bytes()))
    }
}

/// A number as [`Text::number`] writes it: decimal, without leading zeros.
pub(super) fn number(text: &[u8]) -> Result<u64, Foreign> {
    match text {
        [b'0', _, ..] => Err(Foreign),
        _ => digits(text).ok_or(Foreign),
    }
}

/// The two parts around the first `sign`.
pub(super) fn split(text: &[u8], sign: u8) -> Option<(&[u8], &[u8])> {
    let at = text.iter().position(|&byte| byte == sign)?;
    Some((&text[..at], &text[at + 1..]))
}
