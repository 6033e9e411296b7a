//! The text form of FIXED, LEAKY and THROTTLE limits: decimal numbers and separators.

use super::{NotThisFormat, SmallBytes};
use crate::base::time::{decimal, leading_digits};

/// The maximum length of a text: five numbers of 20 digits, the algorithm's prefix such as `leaky:`, and separators.
pub const CAPACITY: usize = 112;

/// Returns the text of up to five numbers. Each number follows its `sign`: the first sign is the algorithm's prefix,
/// such as `leaky:`, and the others are separators.
pub(super) fn number_text(numbers: &[(&str, u64)]) -> SmallBytes {
    let (mut text, mut len) = ([0; CAPACITY], 0);
    for (sign, number) in numbers {
        text[len..len + sign.len()].copy_from_slice(sign.as_bytes());
        len += sign.len();
        len += decimal(*number, &mut text[len..]);
    }
    SmallBytes::from_slice(&text[..len])
}

/// A parser that reads the text of [`number_text`] from left to right.
pub(super) struct NumberReader<'a>(pub &'a [u8]);

impl NumberReader<'_> {
    pub fn is_at(&self, sign: &str) -> bool {
        self.0.starts_with(sign.as_bytes())
    }

    /// Parses `sign` and the number after it. `sign` is a separator or the algorithm's prefix. The number must be
    /// decimal, without leading zeros.
    pub fn number_after(&mut self, sign: &str) -> Result<u64, NotThisFormat> {
        let text = self.0.strip_prefix(sign.as_bytes()).ok_or(NotThisFormat)?;
        if let [b'0', b'0'..=b'9', ..] = text {
            return Err(NotThisFormat);
        }
        let (number, rest) = leading_digits(text).ok_or(NotThisFormat)?;
        self.0 = rest;
        Ok(number)
    }

    /// Does the same as [`number_after`](Self::number_after), but rejects text after the number.
    pub fn last_number_after(mut self, sign: &str) -> Result<u64, NotThisFormat> {
        let number = self.number_after(sign)?;
        if self.0.is_empty() { Ok(number) } else { Err(NotThisFormat) }
    }
}
