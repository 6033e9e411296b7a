//! Formatting of numbers, durations and arbitrary bytes.

/// Formats any bytes safely. Writes invalid UTF-8 as `\xff`. Writes characters as `\u{202e}` if they are invisible,
/// move the cursor, or change the writing direction.
pub fn printable(bytes: &[u8]) -> String {
    shown(bytes, is_unfit)
}

/// Like [`printable`], but keeps line breaks and tabs.
pub fn readable(bytes: &[u8]) -> String {
    shown(bytes, |c| !matches!(c, '\n' | '\t') && is_unfit(c))
}

/// Like [`printable`], but also escapes backslashes, so that different keys have different texts.
pub fn distinct(bytes: &[u8]) -> String {
    shown(bytes, |c| c == '\\' || is_unfit(c))
}

fn shown(bytes: &[u8], is_escaped: impl Fn(char) -> bool) -> String {
    let mut text = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        for c in chunk.valid().chars() {
            match c {
                c if !is_escaped(c) => text.push(c),
                '\\' => text.push_str("\\\\"),
                '\n' => text.push_str("\\n"),
                '\t' => text.push_str("\\t"),
                '\r' => text.push_str("\\r"),
                c if c.is_ascii() => text.push_str(&format!("\\x{:02x}", u32::from(c))),
                c => text.push_str(&format!("\\u{{{:x}}}", u32::from(c))),
            }
        }
        for byte in chunk.invalid() {
            text.push_str(&format!("\\x{byte:02x}"));
        }
    }
    text
}

fn is_unfit(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}' | '\u{3164}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}')
}

/// Truncates a text, with an ellipsis.
pub fn shortened(text: &str, width: usize) -> String {
    match text.char_indices().nth(width) {
        None => text.to_owned(),
        Some(_) => text.chars().take(width.saturating_sub(1)).chain(['…']).collect(),
    }
}

/// Formats a number as `1,234,567`.
pub fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (place, digit) in digits.char_indices() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Formats a number in at most five characters: `12345`, `123k`, `1.2M`.
pub fn short(number: u64) -> String {
    let scaled = |scale: u64, unit: char| {
        let tenths = u128::from(number) * 10 / u128::from(scale);
        if tenths < 100 { format!("{}.{}{unit}", tenths / 10, tenths % 10) } else { format!("{}{unit}", tenths / 10) }
    };
    match number {
        0..100_000 => number.to_string(),
        100_000..1_000_000 => scaled(1_000, 'k'),
        1_000_000..1_000_000_000 => scaled(1_000_000, 'M'),
        1_000_000_000..1_000_000_000_000 => scaled(1_000_000_000, 'G'),
        _ => scaled(1_000_000_000_000, 'T'),
    }
}

/// Formats a rate, with one decimal below ten.
pub fn rate(per_second: f64) -> String {
    if per_second < 0.05 {
        "0".into()
    } else if per_second < 9.95 {
        format!("{per_second:.1}")
    } else {
        short(per_second.round() as u64)
    }
}

/// Formats bytes in binary units: `1.5 MB`.
pub fn bytes(count: u64) -> String {
    const UNITS: [&str; 5] = ["KB", "MB", "GB", "TB", "PB"];
    if count < 1024 {
        return format!("{count} B");
    }
    let mut value = count as f64 / 1024.0;
    let mut unit = 0;
    while value >= 1000.0 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    if value < 10.0 { format!("{value:.1} {}", UNITS[unit]) } else { format!("{value:.0} {}", UNITS[unit]) }
}

/// Formats a duration with one or two units.
pub fn span(ms: u64) -> String {
    let seconds = ms / 1000;
    match seconds {
        0 if ms > 0 => format!("{ms} ms"),
        0..10 => format!("{}.{} s", seconds, ms % 1000 / 100),
        10..60 => format!("{seconds} s"),
        60..3600 => format!("{}m {}s", seconds / 60, seconds % 60),
        3600..86_400 => format!("{}h {}m", seconds / 3600, seconds % 3600 / 60),
        _ => format!("{}d {}h", seconds / 86_400, seconds % 86_400 / 3600),
    }
}

/// Formats Unix ms as `2026-11-21 23:59:59.123` (UTC).
pub fn instant(ms: u64) -> String {
    let (days, rest) = (ms / 86_400_000, ms % 86_400_000);
    // The conversion to the Gregorian calendar follows Howard Hinnant, "chrono-compatible low-level date algorithms".
    let z = days + 719_468;
    let (era, day_of_era) = (z / 146_097, z % 146_097);
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted + 2) / 5 + 1;
    let month = if shifted < 10 { shifted + 3 } else { shifted - 9 };
    let year = year_of_era + era * 400 + u64::from(month <= 2);
    let (hours, minutes) = (rest / 3_600_000, rest / 60_000 % 60);
    format!("{year:04}-{month:02}-{day:02} {hours:02}:{minutes:02}:{:02}.{:03}", rest / 1000 % 60, rest % 1000)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn foreign_bytes_show_nothing_but_themselves() {
        assert_eq!(printable(b"a\x1b[2J\r\n\t\xff\xc3"), r"a\x1b[2J\r\n\t\xff\xc3");
        assert_eq!(printable("evil\u{202e}gpj.exe \u{e9}".as_bytes()), "evil\\u{202e}gpj.exe \u{e9}");
        assert_ne!(distinct(b"a\\xff"), distinct(b"a\xff"));
        assert_ne!(distinct(b"a\\n"), distinct(b"a\n"));
    }

    #[test]
    fn numbers_keep_to_their_width() {
        assert_eq!([0, 999, 1000, 1_234_567].map(grouped), ["0", "999", "1,000", "1,234,567"]);
        let numbers = [99_999, 100_000, 999_999, 1_000_000, 9_999_999, 12_345_678, 1_000_000_000];
        assert_eq!(numbers.map(short), ["99999", "100k", "999k", "1.0M", "9.9M", "12M", "1.0G"]);
        assert!((0..64).all(|bit| short(1 << bit).len() <= 9));
        assert_eq!([0.0, 0.5, 9.96, 1234.4].map(rate), ["0", "0.5", "10", "1234"]);
        assert_eq!(
            [0, 1023, 1024, 1_048_576, 1_047_527_424].map(bytes),
            ["0 B", "1023 B", "1.0 KB", "1.0 MB", "999 MB"]
        );
    }

    #[test]
    fn times_are_what_a_clock_shows() {
        assert_eq!(
            [0, 5, 1_500, 61_000, 3_660_000, 90_000_000].map(span),
            ["0.0 s", "5 ms", "1.5 s", "1m 1s", "1h 1m", "1d 1h"]
        );
        assert_eq!(instant(0), "1970-01-01 00:00:00.000");
        assert_eq!(instant(951_782_400_000), "2000-02-29 00:00:00.000");
        assert_eq!(instant(4_102_444_799_999), "2099-12-31 23:59:59.999");
    }
}
