//! The serialised form: RDB, DUMP, digest.
//!
//! Numbers and byte strings in a fixed order, through the two traits [`Writer`] and [`Reader`], behind which the server
//! has its RDB routines. The jobs come tree by tree, each by time, which makes the form canonical: equal queues have
//! equal bytes, whatever slots their jobs happen to sit in.
//!
//! RESTORE feeds bytes of anybody's making to [`Queue::decode`]. So nothing read is believed: every number is checked
//! against its range and against the others, no memory is reserved on the word of a length, and the jobs are entered
//! through the same gate as those of an AOF rewrite.

use super::decode_error::{DecodeError, VERSION, ensure, narrow};
use super::effect::Totals;
use super::further;
use super::groups::codec::Saved;
use super::ids::AutoId;
use super::job::{Extras, Record, Recurrence, State};
use super::rate::{Rate, Taken};
use super::settings::Settings;
use super::stats::Counters;
use super::{Millis, Queue};
#[cfg(test)]
use crate::model::stream::Truncated;
use crate::model::stream::{Reader, Writer};

/// The tag of the number of groups, which follow the rate log if there are any.
const GROUPS: u64 = 200;

/// Comes last. Without it, the tail of a payload that was cut short and sealed again could pass for the last number of the last job.
const END: u64 = 0;

/// The optional fields of a job. The first number of a job is its stored state, with a bit for each field that it has; the fields
/// follow behind the numbers that all jobs have, in the order of the bits. A field more is a bit more here.
mod optional {
    /// The number of bits that the state takes.
    pub const SHIFT: u32 = 2;
    pub const CREATED: u64 = 1 << SHIFT;
    pub const CLAIMED: u64 = 2 << SHIFT;
    pub const FAILED: u64 = 4 << SHIFT;
    pub const WORKER: u64 = 8 << SHIFT;
    pub const ERROR: u64 = 16 << SHIFT;
    pub const GROUP: u64 = 32 << SHIFT;
    /// Format 3.
    pub const SINCE: u64 = 64 << SHIFT;

    /// Those of a format.
    pub fn of(version: u64) -> u64 {
        match version {
            1 => 0,
            2 => SINCE - CREATED,
            _ => 2 * SINCE - CREATED,
        }
    }
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
        ] {
            to.number(number);
        }
        let settings = further::set_ones(Settings::FURTHER, &self.settings).map(|(field, value)| (field.tag, value));
        let counters = further::set_ones(Counters::FURTHER, &self.counters).map(|(field, value)| (field.tag, value));
        let groups = self.turns().count() as u64;
        let groups = (groups > 0).then_some((GROUPS, groups));
        let further = settings.chain(counters).chain(groups);
        to.number(further.clone().count() as u64);
        for (tag, value) in further {
            to.number(tag);
            to.number(value);
        }
        to.number(self.rate_log.entries().len() as u64);
        for taken in self.rate_log.entries() {
            to.number(taken.back_at);
            to.number(taken.units);
        }
        let groups = self.write_groups(to);
        to.number(self.len() as u64);
        for slot in self.slots() {
            let record = self.record(slot);
            let group = if record.group.is_empty() { None } else { groups.get(record.group).copied() };
            write_record(&record, group, to);
        }
        to.number(END);
    }

    /// Reads a queue. O(n log n).
    ///
    /// # Errors
    ///
    /// When the reader fails, or what it gives is not a possible queue. Never panics; holds no more memory than a small
    /// multiple of what was read, and reads no more than the input has.
    pub fn decode(from: &mut impl Reader) -> Result<Self, DecodeError> {
        let version = from.number()?;
        if !(1..=VERSION).contains(&version) {
            return Err(DecodeError::Version(version));
        }
        let mut settings = read_settings(from)?;
        let mut totals = read_totals(from)?;
        let mut group_count = 0;
        if version > 1 {
            group_count = read_further(&mut settings, &mut totals.counters, from)?;
        }
        ensure(settings == settings.normal(), "setting out of range")?;
        ensure(totals.possible(), "counter out of range")?;
        let mut queue = Self::new();
        queue.set(0, settings);
        for _ in 0..from.number()? {
            let back_at = from.number()?;
            let units = from.number()?;
            let fits = settings.rate.is_some() && queue.rate_log.restore(Taken { back_at, units });
            ensure(fits, "impossible entry in the rate log")?;
        }
        let groups = Saved::read(group_count, from)?;
        let mut numbers = Vec::new();
        for _ in 0..from.number()? {
            let id = from.bytes()?;
            let payload = from.bytes()?;
            let (mut record, present) = read_record(id.as_ref(), payload.as_ref(), version, from)?;
            let words = read_optional(&mut record, present, from)?;
            if present & optional::GROUP != 0 {
                record.group = groups.name(from.number()?)?;
            }
            if present & optional::SINCE != 0 {
                record.extras.since = from.number()?;
            }
            let [worker, error] = words.each_ref().map(|words| words.as_ref().map_or(&[] as &[u8], AsRef::as_ref));
            record.extras = Extras { worker, error, ..record.extras };
            ensure(record.extras.possible(), "optional field out of range")?;
            ensure(record.seq < totals.next_seq, "push number ahead of count")?;
            ensure(record.token <= totals.last_token, "token ahead of count")?;
            ensure(queue.restore(&record), "impossible job")?;
            numbers.push(record.seq);
        }
        ensure(version == 1 || from.number()? == END, "no end where it should be")?;
        numbers.sort_unstable();
        groups.restore(&mut queue)?;
        let distinct = numbers.is_sorted_by(|a, b| a < b);
        ensure(distinct, "push number used twice")?;
        queue.last_token = totals.last_token;
        queue.last_id = totals.last_id;
        queue.next_seq = totals.next_seq;
        queue.counters = totals.counters;
        Ok(queue)
    }
}

/// `group`: the number of its group.
fn write_record(job: &Record<'_>, group: Option<u64>, to: &mut impl Writer) {
    to.bytes(job.id);
    to.bytes(job.payload);
    let recurrence = job.recurrence.map_or((0, 0), |r| (r.period, r.anchor));
    let present = optional_fields(job);
    for number in [
        job.state as u64 | present,
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
    let Extras { claimed, failed, since, worker, error } = job.extras;
    for (field, number) in [(optional::CREATED, job.created), (optional::CLAIMED, claimed), (optional::FAILED, failed)]
    {
        if present & field != 0 {
            to.number(number);
        }
    }
    for (field, words) in [(optional::WORKER, worker), (optional::ERROR, error)] {
        if present & field != 0 {
            to.bytes(words);
        }
    }
    if let Some(group) = group {
        to.number(group);
    }
    if since != 0 {
        to.number(since);
    }
}

/// Which optional fields the job has.
fn optional_fields(job: &Record<'_>) -> u64 {
    let Extras { claimed, failed, since, worker, error } = job.extras;
    let by_default = Record::created_by_default(job.id, job.state, job.time);
    [
        (optional::CREATED, job.created != by_default),
        (optional::CLAIMED, claimed != 0),
        (optional::FAILED, failed != 0),
        (optional::WORKER, !worker.is_empty()),
        (optional::ERROR, !error.is_empty()),
        (optional::GROUP, !job.group.is_empty()),
        (optional::SINCE, since != 0),
    ]
    .into_iter()
    .filter(|&(_, present)| present)
    .fold(0, |fields, (field, _)| fields | field)
}

/// Reads what a record has of numbers, and which optional fields follow.
fn read_record<'a>(
    id: &'a [u8],
    payload: &'a [u8],
    version: u64,
    from: &mut impl Reader,
) -> Result<(Record<'a>, u64), DecodeError> {
    let first = from.number()?;
    let present = first & optional::of(version);
    let state = match first - present {
        0 => State::Ready,
        1 => State::Delayed,
        2 => State::Claimed,
        3 => State::Dead,
        _ => return Err(DecodeError::Invalid("unknown state")),
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
    let record = Record {
        id,
        group: b"",
        payload,
        state,
        time,
        priority: priority.cast_signed(),
        seq,
        token,
        attempts,
        max_attempts,
        recurrence,
        created: if version > 1 { Record::created_by_default(id, state, time) } else { Record::created_by_id(id) },
        extras: Extras::default(),
    };
    Ok((record, present))
}

/// Reads the optional fields that are present: numbers into the record, and the bytes of worker and error.
fn read_optional<R: Reader>(
    record: &mut Record<'_>,
    present: u64,
    from: &mut R,
) -> Result<[Option<R::Bytes>; 2], DecodeError> {
    let mut number = |field, into: &mut Millis| {
        if present & field != 0 {
            *into = from.number()?;
        }
        Ok::<_, DecodeError>(())
    };
    number(optional::CREATED, &mut record.created)?;
    number(optional::CLAIMED, &mut record.extras.claimed)?;
    number(optional::FAILED, &mut record.extras.failed)?;
    let mut bytes = |field| if present & field != 0 { from.bytes().map(Some) } else { Ok(None) };
    Ok([bytes(optional::WORKER)?, bytes(optional::ERROR)?])
}

/// Reads the numbers that came after format 1. Answers how many groups there are.
fn read_further(settings: &mut Settings, counters: &mut Counters, from: &mut impl Reader) -> Result<u64, DecodeError> {
    let (mut last, mut groups) = (0, 0);
    for _ in 0..from.number()? {
        let (tag, value) = (from.number()?, from.number()?);
        ensure(tag > last && value > 0, "numbers out of order")?;
        last = tag;
        if tag == GROUPS {
            groups = value;
            continue;
        }
        let known = further::set_by_tag(Settings::FURTHER, settings, tag, value)
            || further::set_by_tag(Counters::FURTHER, counters, tag, value);
        ensure(known, "unknown number")?;
    }
    Ok(groups)
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
        ..Settings::default()
    };
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
            ..Counters::default()
        },
    };
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
