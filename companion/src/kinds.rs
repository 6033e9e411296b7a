//! The kind of an error: its first line, in which IDs, numbers, addresses and times are replaced. Errors that differ
//! only in these have the same kind.

use regex::bytes::{Captures, Regex};
use std::sync::LazyLock;

/// The maximum length of a kind in bytes.
const LONGEST: usize = 240;

/// The parts of a text that [`kind`] replaces. Of two alternatives at the same position, the first one wins.
static PARTS: LazyLock<Regex> = LazyLock::new(|| {
    let parts = r#"(?x-u)
        # Status codes stay, as they tell one error from another.
        (?P<code> \b (?i: https? | smtp | ftp | sqlstate | status | code | errno ) (?: /\d (?: \.\d )? )?
            [\ :=]* (?i: code [\ :=]* )? \d{1,5} \b )
        | (?P<time> \b \d{4}-\d\d-\d\d (?: [T\ ] \d\d:\d\d (?: :\d\d (?: [.,]\d+ )? )? (?: Z | [+-]\d\d:?\d\d )? )? \b
            | \b \d\d:\d\d:\d\d (?: [.,]\d+ )? \b )
        | (?P<address> [A-Za-z0-9._%+-]+ @ [A-Za-z0-9-]+ (?: \.[A-Za-z0-9-]+ )+ )
        | :// (?P<url> [^/\s"'<>()?\#]+ )
        | (?P<ip> \b \d{1,3} (?: \.\d{1,3} ){3} (?: :\d+ )? \b | \[ [0-9A-Fa-f:.]* : [0-9A-Fa-f:.]+ \] (?: :\d+ )? )
        | (?P<host> \b [A-Za-z0-9] [A-Za-z0-9-]* (?: \.[A-Za-z0-9-]+ )* ) : \d{2,5} \b
        | (?P<id> \b [0-9A-Fa-f]{8} (?: -[0-9A-Fa-f]{4} ){3} -[0-9A-Fa-f]{12} \b | \b 0x[0-9A-Fa-f]+ \b )
        | (?P<number> \d+ (?: [.,]\d+ )+ )
        | (?P<word> [A-Za-z0-9]* \d [A-Za-z0-9]* )
    "#;
    Regex::new(parts).expect("the pattern is valid")
});

/// A name before a colon and a number is a host if it follows one of these words.
const BEFORE_HOSTS: [&[u8]; 9] = [b"to", b"from", b"host", b"server", b"upstream", b"peer", b"via", b"on", b"with"];

/// A name with one of these endings is a source file, and the number is a line.
const SOURCES: [&[u8]; 16] = [
    b"py", b"js", b"ts", b"mjs", b"jsx", b"tsx", b"rs", b"go", b"rb", b"java", b"kt", b"php", b"c", b"cc", b"cpp",
    b"cs",
];

pub fn kind(error: &[u8]) -> Vec<u8> {
    let line = error.split(|byte| *byte == b'\n').next().unwrap_or_default().trim_ascii();
    let replaced = PARTS.replace_all(line, |found: &Captures| {
        let whole = found.get(0).expect("the match");
        let has = |name| found.name(name).is_some();
        if has("code") {
            return whole.as_bytes().to_vec();
        }
        let text = match found.name("host") {
            Some(host) if !is_host(&line[..whole.start()], host.as_bytes()) => {
                return without_numbers(whole.as_bytes());
            }
            _ if has("time") => "⟨time⟩",
            _ if has("address") => "⟨address⟩",
            _ if has("url") => "://⟨host⟩",
            _ if has("ip") || has("host") => "⟨host⟩",
            _ if has("id") || has("word") && is_id(whole.as_bytes()) => "⟨id⟩",
            _ if has("number") => "⟨n⟩",
            _ => return without_numbers(whole.as_bytes()),
        };
        text.as_bytes().to_vec()
    });
    let mut kind = replaced.into_owned();
    if kind.len() > LONGEST {
        // Never cuts inside a character.
        let is_inside = |end: usize| kind[end] & 0xc0 == 0x80;
        let end = (LONGEST - 4..=LONGEST).rev().find(|end| !is_inside(*end)).unwrap_or(LONGEST);
        kind.truncate(end);
    }
    kind
}

fn is_host(before: &[u8], name: &[u8]) -> bool {
    let mut labels = name.rsplit(|byte| *byte == b'.');
    let last = labels.next().unwrap_or_default();
    let word = before.trim_ascii_end().rsplit(|byte| !byte.is_ascii_alphabetic()).next().unwrap_or_default();
    let follows = before.ends_with(b" ") && BEFORE_HOSTS.iter().any(|known| word.eq_ignore_ascii_case(known));
    name == b"localhost" || labels.next().is_some() && !SOURCES.contains(&last) || follows
}

/// Whether a word of letters and digits looks random, as hexadecimal digests and generated IDs do.
fn is_id(word: &[u8]) -> bool {
    let digits = word.iter().filter(|byte| byte.is_ascii_digit()).count();
    let is_mixed = digits > 0 && digits < word.len();
    is_mixed && (word.len() >= 8 && word.iter().all(u8::is_ascii_hexdigit) || word.len() >= 10 && digits >= 3)
}

/// Replaces each sequence of digits.
fn without_numbers(text: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    for part in text.chunk_by(|one, next| one.is_ascii_digit() == next.is_ascii_digit()) {
        out.extend_from_slice(if part[0].is_ascii_digit() { "⟨n⟩".as_bytes() } else { part });
    }
    out
}

#[cfg(test)]
mod tests {
    use super::{LONGEST, kind};

    #[test]
    fn ids_numbers_addresses_and_times_are_replaced() {
        for (error, expected) in [
            ("connection to db-7.internal:5432 refused\nat line 7", "connection to ⟨host⟩ refused"),
            ("connection to database:5432 refused", "connection to ⟨host⟩ refused"),
            ("connection to 10.0.0.7:6379 refused", "connection to ⟨host⟩ refused"),
            ("connect to [2001:db8::1]:443 failed", "connect to ⟨host⟩ failed"),
            ("GET https://api.example.com/users/17 failed", "GET https://⟨host⟩/users/⟨n⟩ failed"),
            ("no mailbox ann.lee+x@mail.example.org", "no mailbox ⟨address⟩"),
            ("order 123e4567-e89b-12d3-a456-426614174000 is gone", "order ⟨id⟩ is gone"),
            ("commit 9f86d081884c7d65 at 0x7ffe12", "commit ⟨id⟩ at ⟨id⟩"),
            ("customer cus_9s6XKzkNRiz8i3 of job-12", "customer cus_⟨id⟩ of job-⟨n⟩"),
            ("since 2026-11-28T00:36:50.123Z, 12:30:59", "since ⟨time⟩, ⟨time⟩"),
            ("timeout after 30s (1,234.5 ms)", "timeout after ⟨n⟩s (⟨n⟩ ms)"),
            ("HTTP 503 from payment 7", "HTTP 503 from payment ⟨n⟩"),
            ("status code: 404, SMTP 550", "status code: 404, SMTP 550"),
            ("KeyError in tasks.py:42", "KeyError in tasks.py:⟨n⟩"),
            ("out of stock", "out of stock"),
            ("", ""),
        ] {
            assert_eq!(String::from_utf8_lossy(&kind(error.as_bytes())), expected, "{error}");
        }
    }

    #[test]
    fn any_bytes_have_a_kind_of_bounded_length() {
        assert_eq!(kind(b"\xff\xfe 12 \xff"), b"\xff\xfe \xe2\x9f\xa8n\xe2\x9f\xa9 \xff");
        for error in ["é".repeat(500), "1 ".repeat(500), "x".repeat(1_000)] {
            let kind = kind(error.as_bytes());
            assert!(kind.len() <= LONGEST && std::str::from_utf8(&kind).is_ok(), "{error}");
        }
        assert!(kind(&[0x80; 1_000]).len() <= LONGEST);
    }

    #[test]
    fn a_kind_is_of_its_own_kind() {
        for error in ["a 12 b", "to db:5432", "x@y.org at 10:00:00", "0x12 9f86d081884c7d65"] {
            let once = kind(error.as_bytes());
            assert_eq!(kind(&once), once, "{error}");
        }
    }
}
