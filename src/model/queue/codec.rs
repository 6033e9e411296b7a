//! The serialised form: RDB, DUMP, digest.
//!
//! Numbers and byte strings in a fixed order, through the two traits [`Writer`] and [`Reader`], behind which the server
//! has its RDB routines. The jobs come tree by tree, each by time, which makes the form canonical: equal queues have
//! equal bytes, whatever slots their jobs happen to sit in.
//!
//! RESTORE feeds bytes of anybody's making to [`Queue::decode`]. So nothing read is believed: every number is checked
//! against its range and against the others, no memory is reserved on the word of a length, and the jobs are entered
//! through the same gate as those of an AOF rewrite.

use super::Queue;
use super::effect::Totals;
use super::ids::AutoId;
use super::job::{Record, Recurrence, Standing};
use super::rate::{Rate, Taken};
use super::settings::Settings;
use super::stats::Counters;

/// The first number of every serialised queue.
const VERSION: u64 = 1;

/// Takes the serialised form.
pub trait Writer {
    /// Takes a number.
    fn write_u64(&mut self, value: u64);
    /// Takes a byte string, of any length.
    fn write_bytes(&mut self, bytes: &[u8]);
}

/// Gives back what a [`Writer`] took, in the same order.
pub trait Reader {
    /// Why there is no more.
    type Error;
    /// A byte string: borrowed, or a buffer of the server.
    type Bytes: AsRef<[u8]>;

    /// Gives the next value, a number.
    ///
    /// # Errors
    ///
    /// When there is no number here. An implementation has to report the end of its input, not make up zeros.
    fn read_u64(&mut self) -> Result<u64, Self::Error>;

    /// Gives the next value, a byte string.
    ///
    /// # Errors
    ///
    /// When there is no byte string here.
    fn read_bytes(&mut self) -> Result<Self::Bytes, Self::Error>;
}

/// Why bytes are not a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DecodeError<E> {
    /// The reader failed.
    Read(E),
    /// What was read cannot be; says what.
    Invalid(&'static str),
}

impl<E> From<E> for DecodeError<E> {
    fn from(error: E) -> Self {
        Self::Read(error)
    }
}

fn ensure<E>(holds: bool, what: &'static str) -> Result<(), DecodeError<E>> {
    if holds { Ok(()) } else { Err(DecodeError::Invalid(what)) }
}

fn narrow<T: TryFrom<u64>, E>(value: u64, what: &'static str) -> Result<T, DecodeError<E>> {
    T::try_from(value).map_err(|_| DecodeError::Invalid(what))
}

impl Queue {
    /// Writes the whole queue. O(n), allocates next to nothing.
    pub fn encode(&self, to: &mut impl Writer) {
        to.write_u64(VERSION);
        let rate = self.settings.rate.map_or((0, 0), |r| (r.limit, r.window));
        for number in [
            u64::from(self.settings.attempts),
            self.settings.backoff_base,
            self.settings.backoff_max,
            self.settings.aging,
            self.settings.maxlen,
            self.settings.concurrency,
            rate.0,
            rate.1,
            u64::from(self.settings.paused),
            self.last_token,
            self.last_id.ms,
            self.last_id.seq,
            self.next_seq,
            self.counters.pushed,
            self.counters.claimed,
            self.counters.acked,
            self.counters.nacked,
            self.counters.cancelled,
            self.counters.redriven,
            self.counters.expired_leases,
            self.rate_log.entries().len() as u64,
        ] {
            to.write_u64(number);
        }
        for taken in self.rate_log.entries() {
            to.write_u64(taken.back_at);
            to.write_u64(taken.units);
        }
        to.write_u64(self.len() as u64);
        for slot in self.slots() {
            write_record(&self.jobs[slot].record(), to);
        }
    }

    /// Reads a queue. O(n log n).
    ///
    /// # Errors
    ///
    /// When the reader fails, or what it gives is not a possible queue. Never panics; holds no more memory than a small
    /// multiple of what was read, and reads no more than the input has.
    pub fn decode<R: Reader>(from: &mut R) -> Result<Self, DecodeError<R::Error>> {
        ensure(from.read_u64()? == VERSION, "unknown version")?;
        let settings = read_settings(from)?;
        let totals = read_totals(from)?;
        let mut queue = Self::new();
        queue.set(0, settings);
        for _ in 0..from.read_u64()? {
            let back_at = from.read_u64()?;
            let units = from.read_u64()?;
            let fits = settings.rate.is_some() && queue.rate_log.restore(Taken { back_at, units });
            ensure(fits, "impossible entry in the rate log")?;
        }
        let mut numbers = Vec::new();
        for _ in 0..from.read_u64()? {
            let id = from.read_bytes()?;
            let payload = from.read_bytes()?;
            let record = read_record(id.as_ref(), payload.as_ref(), from)?;
            ensure(record.seq < totals.next_seq, "push number ahead of count")?;
            ensure(record.token <= totals.last_token, "token ahead of count")?;
            ensure(queue.restore(&record), "impossible job")?;
            numbers.push(record.seq);
        }
        numbers.sort_unstable();
        let distinct = numbers.is_sorted_by(|a, b| a < b);
        ensure(distinct, "push number used twice")?;
        queue.last_token = totals.last_token;
        queue.last_id = totals.last_id;
        queue.next_seq = totals.next_seq;
        queue.counters = totals.counters;
        Ok(queue)
    }

    /// For tests: a fingerprint of the whole canonical state, equal on primary and replica. O(n). To feed a digest of one's own,
    /// give [`encode`](Self::encode) a writer that does so.
    #[cfg(test)]
    pub fn digest(&self) -> u64 {
        let mut digest = Fnv(0xcbf2_9ce4_8422_2325);
        self.encode(&mut digest);
        digest.0
    }
}

fn write_record(job: &Record<'_>, to: &mut impl Writer) {
    to.write_bytes(job.id);
    to.write_bytes(job.payload);
    let recurrence = job.recurrence.map_or((0, 0), |r| (r.period, r.anchor));
    for number in [
        job.standing as u64,
        job.time,
        u64::from(job.priority.cast_unsigned()),
        job.seq,
        job.token,
        u64::from(job.attempts),
        u64::from(job.max_attempts),
        recurrence.0,
        recurrence.1,
    ] {
        to.write_u64(number);
    }
}

fn read_record<'a, R: Reader>(
    id: &'a [u8],
    payload: &'a [u8],
    from: &mut R,
) -> Result<Record<'a>, DecodeError<R::Error>> {
    let standing = match from.read_u64()? {
        0 => Standing::Ready,
        1 => Standing::Scheduled,
        2 => Standing::Claimed,
        3 => Standing::Dead,
        _ => return Err(DecodeError::Invalid("unknown standing")),
    };
    let time = from.read_u64()?;
    let priority: u32 = narrow(from.read_u64()?, "priority out of range")?;
    let seq = from.read_u64()?;
    let token = from.read_u64()?;
    let attempts = narrow(from.read_u64()?, "attempts out of range")?;
    let max_attempts = narrow(from.read_u64()?, "attempts out of range")?;
    let recurrence = match (from.read_u64()?, from.read_u64()?) {
        (0, 0) => None,
        (0, _) => return Err(DecodeError::Invalid("anchor without period")),
        (period, anchor) => Some(Recurrence { period, anchor }),
    };
    Ok(Record {
        id,
        payload,
        standing,
        time,
        priority: priority.cast_signed(),
        seq,
        token,
        attempts,
        max_attempts,
        recurrence,
    })
}

fn read_settings<R: Reader>(from: &mut R) -> Result<Settings, DecodeError<R::Error>> {
    let settings = Settings {
        attempts: narrow(from.read_u64()?, "attempts out of range")?,
        backoff_base: from.read_u64()?,
        backoff_max: from.read_u64()?,
        aging: from.read_u64()?,
        maxlen: from.read_u64()?,
        concurrency: from.read_u64()?,
        rate: match (from.read_u64()?, from.read_u64()?) {
            (0, 0) => None,
            (limit, window) => Some(Rate { limit, window }),
        },
        paused: match from.read_u64()? {
            0 => false,
            1 => true,
            _ => return Err(DecodeError::Invalid("paused is neither yes nor no")),
        },
    };
    ensure(settings == settings.normal(), "setting out of range")?;
    Ok(settings)
}

fn read_totals<R: Reader>(from: &mut R) -> Result<Totals, DecodeError<R::Error>> {
    let totals = Totals {
        last_token: from.read_u64()?,
        last_id: AutoId { ms: from.read_u64()?, seq: from.read_u64()? },
        next_seq: from.read_u64()?,
        counters: Counters {
            pushed: from.read_u64()?,
            claimed: from.read_u64()?,
            acked: from.read_u64()?,
            nacked: from.read_u64()?,
            cancelled: from.read_u64()?,
            redriven: from.read_u64()?,
            expired_leases: from.read_u64()?,
        },
    };
    ensure(totals.possible(), "counter out of range")?;
    Ok(totals)
}

/// FNV-1a, eight bytes at a time for numbers.
#[cfg(test)]
struct Fnv(u64);

#[cfg(test)]
impl Fnv {
    fn mix(&mut self, value: u64) {
        self.0 = (self.0 ^ value).wrapping_mul(0x0000_0100_0000_01b3);
    }
}

#[cfg(test)]
impl Writer for Fnv {
    fn write_u64(&mut self, value: u64) {
        for byte in value.to_le_bytes() {
            self.mix(u64::from(byte));
        }
    }

    fn write_bytes(&mut self, bytes: &[u8]) {
        self.write_u64(bytes.len() as u64);
        for &byte in bytes {
            self.mix(u64::from(byte));
        }
    }
}

/// Plain bytes: numbers as LEB128, strings behind their length.
#[cfg(test)]
impl Writer for Vec<u8> {
    fn write_u64(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.push(value as u8);
    }

    fn write_bytes(&mut self, bytes: &[u8]) {
        self.write_u64(bytes.len() as u64);
        self.extend_from_slice(bytes);
    }
}

/// Reads what was written to a `Vec<u8>`.
#[cfg(test)]
#[derive(Clone, Copy, Debug)]
pub struct ByteReader<'a>(pub &'a [u8]);

/// The bytes end too soon, or a number is longer than 64 bits.
#[cfg(test)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Truncated;

#[cfg(test)]
impl<'a> Reader for ByteReader<'a> {
    type Error = Truncated;
    type Bytes = &'a [u8];

    fn read_u64(&mut self) -> Result<u64, Truncated> {
        let mut value = 0;
        for shift in (0..64).step_by(7) {
            let (&byte, rest) = self.0.split_first().ok_or(Truncated)?;
            self.0 = rest;
            let bits = u64::from(byte & 0x7f);
            if bits << shift >> shift != bits {
                return Err(Truncated);
            }
            value |= bits << shift;
            if byte < 0x80 {
                return Ok(value);
            }
        }
        Err(Truncated)
    }

    fn read_bytes(&mut self) -> Result<&'a [u8], Truncated> {
        let len = usize::try_from(self.read_u64()?).map_err(|_| Truncated)?;
        let (bytes, rest) = self.0.split_at_checked(len).ok_or(Truncated)?;
        self.0 = rest;
        Ok(bytes)
    }
}
