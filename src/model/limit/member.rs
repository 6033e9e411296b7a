//! The member of a limit's entry: a few decimal numbers, kept on the stack.
//!
//! Plain decimals are what a listpack stores smallest, and what a person reads in ZRANGE.

use super::Foreign;
use crate::model::time::digits;
use std::fmt::{self, Write};

/// Room for three numbers of 20 digits and two separators; within the 64 bytes that a listpack entry may have.
const CAPACITY: usize = 62;

/// The bytes of a member.
#[derive(Clone, Copy)]
pub struct Member {
    bytes: [u8; CAPACITY],
    len: usize,
}

impl Member {
    /// Writes `args`, which must be numbers and separators within [`CAPACITY`].
    pub(super) fn format(args: fmt::Arguments<'_>) -> Member {
        let mut member = Member { bytes: [0; CAPACITY], len: 0 };
        let written = member.write_fmt(args);
        debug_assert!(written.is_ok(), "members are at most three numbers");
        member
    }

    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}

impl Write for Member {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let end = self.len + text.len();
        let room = self.bytes.get_mut(self.len..end).ok_or(fmt::Error)?;
        room.copy_from_slice(text.as_bytes());
        self.len = end;
        Ok(())
    }
}

impl PartialEq for Member {
    fn eq(&self, other: &Member) -> bool {
        self.as_bytes() == other.as_bytes()
    }
}

impl fmt::Debug for Member {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", String::from_utf8_lossy(self.as_bytes()))
    }
}

/// A number as we write it: decimal, without leading zeros.
pub(super) fn number(text: &[u8]) -> Result<u64, Foreign> {
    match text {
        [b'0', _, ..] => Err(Foreign),
        _ => digits(text).ok_or(Foreign),
    }
}

/// The two parts around the first `separator`.
pub(super) fn split(text: &[u8], separator: u8) -> Option<(&[u8], &[u8])> {
    let at = text.iter().position(|&byte| byte == separator)?;
    Some((&text[..at], &text[at + 1..]))
}
