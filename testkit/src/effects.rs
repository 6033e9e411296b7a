//! Packed effects of ZQ.APPLY and ZLB.APPLY, as docs/formats.md describes them: read as words, and written by tests.

/// Returns a replicated command as a line. Shows packed effects as words.
pub fn line(words: &[Vec<u8>], show: impl Fn(&[u8]) -> String) -> String {
    if let [command, key, packed] = words
        && let Some(effects) = match &command[..] {
            b"ZQ.APPLY" => queue(packed, &show),
            b"ZLB.APPLY" => board(packed, &show),
            _ => None,
        }
    {
        return format!("{} {} {effects}", show(command), show(key));
    }
    words.iter().map(|word| show(word)).collect::<Vec<_>>().join(" ")
}

/// Returns the codes of a queue's packed effects.
pub fn codes(packed: &[u8]) -> Option<Vec<u8>> {
    let mut from = Unpacker(packed.strip_prefix(&[1])?);
    from.number()?;
    let mut codes = Vec::new();
    while !from.0.is_empty() {
        codes.push(from.effect()?.0);
    }
    Some(codes)
}

/// A reader of packed bytes. Reads `None` beyond the end.
struct Unpacker<'a>(&'a [u8]);

impl<'a> Unpacker<'a> {
    fn take(&mut self, length: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(taken)
    }

    fn byte(&mut self) -> Option<u8> {
        Some(self.take(1)?[0])
    }

    fn number(&mut self) -> Option<u64> {
        let (mut number, mut shift) = (0, 0);
        loop {
            let byte = self.byte()?;
            number |= u64::from(byte & 0x7F) << shift;
            shift += 7;
            if byte < 0x80 {
                return Some(number);
            }
        }
    }

    fn signed(&mut self) -> Option<i64> {
        self.number().map(|number| (number >> 1).cast_signed() ^ -(number & 1).cast_signed())
    }

    fn bytes(&mut self) -> Option<&'a [u8]> {
        let length = self.number()?;
        self.take(usize::try_from(length).ok()?)
    }

    /// Reads a code and its contents.
    fn effect(&mut self) -> Option<(u8, Unpacker<'a>)> {
        Some((self.byte()?, Unpacker(self.bytes()?)))
    }
}

/// The settings of a queue, by their bits.
const SETTINGS: [&str; 16] = [
    "max_attempts",
    "backoff_base_ms",
    "backoff_max_ms",
    "aging_ms",
    "maxlen",
    "concurrency",
    "rate_limit",
    "rate_window_ms",
    "groupconcurrency",
    "grouprate_limit",
    "grouprate_window_ms",
    "ordered",
    "paused",
    "jitter",
    "deadlen",
    "deadttl_ms",
];

/// Returns the time and the effects of a queue as words.
fn queue(packed: &[u8], show: &impl Fn(&[u8]) -> String) -> Option<String> {
    let mut from = Unpacker(packed.strip_prefix(&[1])?);
    let mut words = vec![from.number()?.to_string()];
    while !from.0.is_empty() {
        let (code, mut from) = from.effect()?;
        queue_effect(code, &mut from, &mut words, show)?;
        assert!(from.0.is_empty(), "effect {code} is too long");
    }
    Some(words.join(" "))
}

fn queue_effect(
    code: u8,
    from: &mut Unpacker<'_>,
    words: &mut Vec<String>,
    show: &impl Fn(&[u8]) -> String,
) -> Option<()> {
    const NAMES: [&str; 25] = [
        "PUSH",
        "CLAIM",
        "SETTLE",
        "ACK",
        "RETRY",
        "DEAD",
        "EXTEND",
        "CANCEL",
        "MOVE",
        "CLEAN",
        "DROP",
        "REVIVE",
        "REDRIVE",
        "CONFIGURE",
        "HOLD",
        "EXPIRE",
        "FOLLOW",
        "FOLLOWER",
        "JOB",
        "UNITS",
        "TURN",
        "TOTALS",
        "DECLARE",
        "DECLARATION",
        "PROGRESS",
    ];
    words.push((*NAMES.get(usize::from(code))?).to_owned());
    let texts = |words: &mut Vec<String>, name: &str, text: &[u8]| {
        if !text.is_empty() {
            words.extend([name.to_owned(), show(text)]);
        }
    };
    match code {
        0 | 22 => {
            let flags = from.byte()?;
            let is_push = code == 0;
            if is_push && flags & 1 != 0 {
                words.pop();
                words.push("PUSHAUTO".to_owned());
            }
            words.extend([show(from.bytes()?), show(from.bytes()?)]);
            words.extend([from.number()?.to_string(), from.signed()?.to_string(), from.number()?.to_string()]);
            words.push(from.number()?.saturating_sub(1).to_string());
            texts(words, "group", from.bytes()?);
            let ttl = from.number()?;
            if ttl > 0 {
                words.extend(["ttl".to_owned(), (ttl - 1).to_string()]);
            }
            if is_push && flags & 2 != 0 {
                words.push("again".to_owned());
            }
            if !is_push && flags & 1 != 0 {
                words.push("timed".to_owned());
            }
        }
        2 => {}
        12 => {
            words.push(from.number()?.to_string());
            if from.byte()? == 1 {
                words.extend(["group".to_owned(), show(from.bytes()?)]);
            }
        }
        13 => {
            let present = from.number()?;
            for (_, name) in SETTINGS.iter().enumerate().filter(|(bit, _)| present >> bit & 1 != 0) {
                words.extend([(*name).to_owned(), from.number()?.to_string()]);
            }
        }
        14 => words.extend([show(from.bytes()?), from.number()?.to_string()]),
        _ => {
            words.push(show(from.bytes()?));
            match code {
                1 => {
                    words.extend([from.number()?.to_string(), from.number()?.to_string()]);
                    texts(words, "worker", from.bytes()?);
                }
                3 | 15 => {
                    let next_due = from.number()?;
                    if next_due > 0 {
                        words.push((next_due - 1).to_string());
                    }
                }
                4 => {
                    words.push(from.number()?.to_string());
                    words.extend(["", "free", "last"].get(usize::from(from.byte()?)).map(|it| (*it).to_owned()));
                    words.retain(|word| !word.is_empty());
                    texts(words, "error", from.bytes()?);
                }
                5 => {
                    if from.byte()? == 1 {
                        words.push("free".to_owned());
                    }
                    texts(words, "error", from.bytes()?);
                }
                6 => words.push(from.number()?.to_string()),
                24 => words.push(show(from.bytes()?)),
                8 => {
                    let unless_same = |number: u64| number.checked_sub(1);
                    let due = unless_same(from.number()?);
                    let priority = unless_same(from.number()?);
                    words.push(due.map_or("-".to_owned(), |due| due.to_string()));
                    let signed = |number: u64| (number >> 1).cast_signed() ^ -(number & 1).cast_signed();
                    words.push(priority.map_or("-".to_owned(), |priority| signed(priority).to_string()));
                }
                _ => {}
            }
        }
    }
    Some(())
}

/// Returns the effect of a board as words.
fn board(packed: &[u8], show: &impl Fn(&[u8]) -> String) -> Option<String> {
    let mut from = Unpacker(packed.strip_prefix(&[1])?);
    let (code, mut from) = from.effect()?;
    let name = *["CREATE", "SET", "REM", "REMRANGE", "CLEAR", "REPLACE"].get(usize::from(code))?;
    let mut words = vec![name.to_owned()];
    match code {
        0 => {
            let (_, ties, keep, dimensions) = (from.number()?, from.number()?, from.number()?, from.number()?);
            for _ in 0..dimensions {
                let flags = from.number()?;
                words.extend(["DIM".to_owned(), show(from.bytes()?)]);
                words.extend((flags & 1 != 0).then(|| "ASC".to_owned()));
                words.extend((flags & 2 != 0).then(|| "FLOAT".to_owned()));
            }
            if ties > 0 {
                words.extend(["TIES", ["FIRST", "LAST", "NAME"][usize::try_from(ties).ok()?]].map(str::to_owned));
            }
            if keep > 0 {
                words.extend(["KEEP".to_owned(), keep.to_string()]);
            }
        }
        1 => {
            let (dimensions, floats) = (from.number()?, from.number()?);
            while !from.0.is_empty() {
                words.push(show(from.bytes()?));
                for bit in 0..dimensions {
                    words.push(if floats >> bit & 1 == 0 {
                        from.signed()?.to_string()
                    } else {
                        f64::from_le_bytes(from.take(8)?.try_into().ok()?).to_string()
                    });
                }
            }
        }
        2 => {
            while !from.0.is_empty() {
                words.push(show(from.bytes()?));
            }
        }
        3 => words.extend([from.number()?.to_string(), from.number()?.to_string()]),
        5 => {
            // Format, TIES, KEEP and the dimensions; then the number of members and blocks of them.
            for _ in 0..3 {
                words.push(from.number()?.to_string());
            }
            let dimensions = from.number()?;
            words.push(dimensions.to_string());
            for _ in 0..dimensions {
                words.extend([from.number()?.to_string(), show(from.bytes()?)]);
            }
            words.push(from.number()?.to_string());
            while !from.0.is_empty() {
                words.push(show(from.bytes()?));
            }
        }
        _ => {}
    }
    Some(words.join(" "))
}

/// Writes a number as packed effects have it.
pub fn put_number(to: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        to.push((number & 0x7F) as u8 | 0x80);
        number >>= 7;
    }
    to.push(number as u8);
}

/// Writes a byte string, or an effect's contents after its code.
pub fn put_bytes(to: &mut Vec<u8>, bytes: &[u8]) {
    put_number(to, bytes.len() as u64);
    to.extend_from_slice(bytes);
}
