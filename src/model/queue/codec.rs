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
use crate::model::stream::{Reader, Truncated, Writer};

/// The first number of every serialised queue.
const VERSION: u64 = 1;

/// Why bytes are not a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DecodeError {
    /// The input ends too early.
    Truncated,
    /// What was read cannot be; says what.
    Invalid(&'static str),
}

impl From<Truncated> for DecodeError {
    fn from(_: Truncated) -> DecodeError {
        DecodeError::Truncated
    }
}

fn ensure(holds: bool, what: &'static str) -> Result<(), DecodeError> {
    if holds { Ok(()) } else { Err(DecodeError::Invalid(what)) }
}

fn narrow<T: TryFrom<u64>>(value: u64, what: &'static str) -> Result<T, DecodeError> {
    T::try_from(value).map_err(|_| DecodeError::Invalid(what))
}

impl Queue {
    /// Writes the whole queue. O(n), allocates next to nothing.
    pub fn encode(&self, to: &mut impl Writer) {
        to.number(VERSION);
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
            to.number(number);
        }
        for taken in self.rate_log.entries() {
            to.number(taken.back_at);
            to.number(taken.units);
        }
        to.number(self.len() as u64);
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
    pub fn decode(from: &mut impl Reader) -> Result<Self, DecodeError> {
        ensure(from.number()? == VERSION, "unknown version")?;
        let settings = read_settings(from)?;
        let totals = read_totals(from)?;
        let mut queue = Self::new();
        queue.set(0, settings);
        for _ in 0..from.number()? {
            let back_at = from.number()?;
            let units = from.number()?;
            let fits = settings.rate.is_some() && queue.rate_log.restore(Taken { back_at, units });
            ensure(fits, "impossible entry in the rate log")?;
        }
        let mut numbers = Vec::new();
        for _ in 0..from.number()? {
            let id = from.bytes()?;
            let payload = from.bytes()?;
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
}

fn write_record(job: &Record<'_>, to: &mut impl Writer) {
    to.bytes(job.id);
    to.bytes(job.payload);
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
        to.number(number);
    }
}

fn read_record<'a>(id: &'a [u8], payload: &'a [u8], from: &mut impl Reader) -> Result<Record<'a>, DecodeError> {
    let standing = match from.number()? {
        0 => Standing::Ready,
        1 => Standing::Scheduled,
        2 => Standing::Claimed,
        3 => Standing::Dead,
        _ => return Err(DecodeError::Invalid("unknown standing")),
    };
    let time = from.number()?;
    let priority: u32 = narrow(from.number()?, "priority out of range")?;
    let seq = from.number()?;
    let token = from.number()?;
    let attempts = narrow(from.number()?, "attempts out of range")?;
    let max_attempts = narrow(from.number()?, "attempts out of range")?;
    let recurrence = match (from.number()?, from.number()?) {
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

fn read_settings(from: &mut impl Reader) -> Result<Settings, DecodeError> {
    let settings = Settings {
        attempts: narrow(from.number()?, "attempts out of range")?,
        backoff_base: from.number()?,
        backoff_max: from.number()?,
        aging: from.number()?,
        maxlen: from.number()?,
        concurrency: from.number()?,
        rate: match (from.number()?, from.number()?) {
            (0, 0) => None,
            (limit, window) => Some(Rate { limit, window }),
        },
        paused: match from.number()? {
            0 => false,
            1 => true,
            _ => return Err(DecodeError::Invalid("paused is neither yes nor no")),
        },
    };
    ensure(settings == settings.normal(), "setting out of range")?;
    Ok(settings)
}

fn read_totals(from: &mut impl Reader) -> Result<Totals, DecodeError> {
    let totals = Totals {
        last_token: from.number()?,
        last_id: AutoId { ms: from.number()?, seq: from.number()? },
        next_seq: from.number()?,
        counters: Counters {
            pushed: from.number()?,
            claimed: from.number()?,
            acked: from.number()?,
            nacked: from.number()?,
            cancelled: from.number()?,
            redriven: from.number()?,
            expired_leases: from.number()?,
        },
    };
    ensure(totals.possible(), "counter out of range")?;
    Ok(totals)
}

/// Plain bytes: numbers as LEB128, strings behind their length.
#[cfg(test)]
impl Writer for Vec<u8> {
    fn number(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.push(value as u8);
    }

    fn bytes(&mut self, bytes: &[u8]) {
        self.number(bytes.len() as u64);
        self.extend_from_slice(bytes);
    }
}

/// Reads what was written to a `Vec<u8>`.
#[cfg(test)]
#[derive(Clone, Copy, Debug)]
pub struct ByteReader<'a>(pub &'a [u8]);

#[cfg(test)]
impl<'a> Reader for ByteReader<'a> {
    type Bytes = &'a [u8];

    fn number(&mut self) -> Result<u64, Truncated> {
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

    fn bytes(&mut self) -> Result<&'a [u8], Truncated> {
        let len = usize::try_from(self.number()?).map_err(|_| Truncated)?;
        let (bytes, rest) = self.0.split_at_checked(len).ok_or(Truncated)?;
        self.0 = rest;
        Ok(bytes)
    }
}
