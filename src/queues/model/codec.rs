//! Encodes and decodes a queue for RDB, DUMP and the digest: the *stored form*. For AOF rewriting, computes the effects
//! that rebuild a queue. An effect is a change as the module replicates it.
//!
//! The stored form is a sequence of numbers and byte strings. [`Queue::slots`] lists the jobs in an order that does not
//! depend on where they are in memory. So equal queues have equal bytes. Optional numbers are stored as a bit mask,
//! followed by the numbers whose bits are set. A new optional number gets the next bit.
//!
//! RESTORE can pass any bytes to [`Queue::decode`]. So `decode` checks each number against its range and against other
//! numbers. A length in the input never determines how much memory is allocated. Jobs must pass the same checks as jobs
//! in an AOF file.

use super::effect::{Change, Effect, Totals};
use super::field::{ensure, present, read_fields, read_values, write_fields, write_values};
use super::followers::Kind;
use super::ids::AutoId;
use super::job::Job;
use super::job_data::{Extras, JobData, NewJob};
use super::node::{State, TreeId};
use super::rate::Taken;
use super::settings::Settings;
use super::stats::Counters;
use super::{MAX_TIME, Millis, Queue};
use crate::base::stream::{DecodeError, Reader, Writer};
use std::collections::HashMap;

/// The first number of a stored queue: its version. Zeitset before 0.3 wrote versions 1 to 3, which are rejected.
/// Zeitset 0.3 wrote version 4, in which a job has no `BACKOFF`, `PROGRESS` and `DECLARATION`. A queue without these
/// parts is still written as version 4, so that 0.3 can read it.
const VERSION: u64 = 5;
const OLDEST_VERSION: u64 = 4;

/// The last number of a stored queue. It detects a payload that was truncated within the last job.
const END: u64 = 0;

/// The first number of a job is a bit mask. Its two lowest bits are the state. Then comes a bit for each of
/// [`JobData::FIELDS`], and then the bits `WORKER`, `ERROR`, `GROUP`, `FOLLOWER`, `BACKOFF`, `PROGRESS` and
/// `DECLARATION`.
const STATE_BITS: usize = 2;
const WORKER: u64 = 1 << (STATE_BITS + JobData::FIELDS.len());
const ERROR: u64 = 2 * WORKER;
const GROUP: u64 = 2 * ERROR;
const FOLLOWER: u64 = 2 * GROUP;
const BACKOFF: u64 = 2 * FOLLOWER;
const PROGRESS: u64 = 2 * BACKOFF;
const DECLARATION: u64 = 2 * PROGRESS;

impl Queue {
    /// Writes the stored form of the queue. O(n), with few allocations.
    pub fn encode(&self, to: &mut impl Writer) {
        let is_new = |job: &Job| {
            job.backoff() != self.backoff_as_set(job)
                || job.declaration().is_some()
                || !job.extras().progress.is_empty()
        };
        to.number(if self.jobs.iter().any(is_new) { VERSION } else { OLDEST_VERSION });
        write_fields(Settings::FIELDS, &*self.settings, to);
        for number in [self.last_token, self.last_id.ms, self.last_id.seq, self.next_seq] {
            to.number(number);
        }
        write_fields(Counters::FIELDS, &self.totals().counters, to);
        write_units(self.rate_log.entries(), to);
        let mut groups = HashMap::new();
        to.number(self.turns().count() as u64);
        for (name, units) in self.turns() {
            to.bytes(name);
            write_units(units, to);
            groups.insert(name, groups.len() as u64);
        }
        to.number(self.holds().count() as u64);
        for (name, until) in self.holds() {
            to.number(groups[name]);
            to.number(until);
        }
        to.number(self.len() as u64);
        for slot in self.slots() {
            let job = &self.jobs[slot];
            let data = self.job_data(job);
            let group = if data.group.is_empty() { None } else { groups.get(data.group).copied() };
            write_job(&data, group, job, to);
        }
        to.number(END);
    }

    /// Reads the stored form of a queue. O(n log n). Never panics. Allocates at most a small multiple of the input's
    /// size.
    ///
    /// # Errors
    ///
    /// The errors of the reader, `Format` if the version is unknown, or `Invalid` if no queue has this stored form.
    pub fn decode(from: &mut impl Reader) -> Result<Self, DecodeError> {
        let version = from.number()?;
        if !(OLDEST_VERSION..=VERSION).contains(&version) {
            return Err(DecodeError::Format { found: version, oldest: OLDEST_VERSION, newest: VERSION });
        }
        let settings: Settings = read_fields(Settings::FIELDS, from)?;
        ensure(settings == settings.normal(), "setting out of range")?;
        let totals = Totals {
            last_token: from.number()?,
            last_id: AutoId { ms: from.number()?, seq: from.number()? },
            next_seq: from.number()?,
            counters: read_fields(Counters::FIELDS, from)?,
        };
        ensure(totals.possible(), "counter out of range")?;
        let mut queue = Self::new();
        queue.set(0, settings);
        for units in read_units(from)? {
            ensure(settings.rate.is_some() && queue.rate_log.restore(units), "impossible entry in the rate log")?;
        }
        let mut groups = Vec::new();
        for _ in 0..from.number()? {
            groups.push((from.bytes()?, read_units(from)?));
        }
        let mut holds = Vec::new();
        for _ in 0..from.number()? {
            holds.push((from.number()?, from.number()?));
        }
        let mut numbers = Vec::new();
        for _ in 0..from.number()? {
            numbers.push(read_job(&mut queue, &totals, &groups, version, from)?);
        }
        ensure(from.number()? == END, "no end where it should be")?;
        numbers.sort_unstable();
        ensure(numbers.is_sorted_by(|a, b| a < b), "push number used twice")?;
        for (name, units) in &groups {
            for &taken in units {
                ensure(queue.restore_units(name.as_ref(), taken), "impossible units of a group")?;
            }
            ensure(queue.restore_turn(name.as_ref()), "a group with neither jobs nor units")?;
        }
        for (number, until) in holds {
            let group = usize::try_from(number).ok().and_then(|number| groups.get(number));
            let is_held = group.is_some_and(|(name, _)| until <= MAX_TIME && queue.hold_group(name.as_ref(), until));
            ensure(is_held, "impossible hold of a group")?;
        }
        queue.set_totals(totals);
        Ok(queue)
    }

    /// Adds a stored job. If the job is invalid or the queue has its ID already, returns false and adds nothing. The
    /// caller must check the range of `seq` and `token`.
    pub(super) fn restore(&mut self, data: &JobData<'_>) -> bool {
        let found = self.find(data.id);
        let possible = data.time <= MAX_TIME
            && data.recurrence.is_none_or(|r| (1..=MAX_TIME).contains(&r.period) && r.anchor <= MAX_TIME)
            && data.created <= MAX_TIME
            && data.ttl.is_none_or(|it| [it.ttl, it.expires].iter().all(|ms| (1..=MAX_TIME).contains(ms)))
            && data.backoff.is_none_or(|backoff| backoff <= MAX_TIME)
            && data.extras.possible()
            && self.has_room()
            && found.slot.is_none();
        let mut job = Job::of(data);
        if data.backoff.is_none() && data.state == State::Claimed && !job.exhausted() {
            job.set_backoff(self.settings.jittered_backoff(job.attempts, job.token));
        }
        // A waiting job must have an attempt left. A claimed job must have had an attempt.
        let (tree, counts) = match data.state {
            State::Ready => (TreeId::Ready, !job.exhausted()),
            State::Delayed => (job.delayed_tree(data.time), !job.exhausted()),
            State::Claimed => (job.claimed_tree(), job.attempts > 0 && job.token > 0),
            State::Dead => (TreeId::Dead, job.token == 0),
        };
        let may_wait = data.state == State::Claimed && !job.exhausted();
        let possible = possible && counts && (may_wait || job.backoff() == 0);
        if possible {
            self.insert(job, found.hash, data.group, tree, data.extras);
        }
        possible
    }

    /// Restores a job's text of PROGRESS. Returns false, and does nothing, if there is no job with this ID, the text is
    /// empty, or a value is out of range.
    pub(super) fn restore_progress(&mut self, id: &[u8], progress: &[u8], progressed: Millis) -> bool {
        let slot = self.slot_of(id).filter(|_| !progress.is_empty());
        let fits = Extras { progress, progressed, ..Extras::default() }.possible();
        slot.filter(|_| fits)
            .inspect(|&slot| self.edit_extras(slot, |it| it.set_progress(progress, progressed)))
            .is_some()
    }

    /// Returns the effects that rebuild this queue from an empty one. O(n log n), with four bytes of memory per job.
    pub fn rebuild(&self) -> impl Iterator<Item = Effect<'_>> {
        let mut slots: Vec<u32> = self.slots().collect();
        slots.sort_unstable_by_key(|&slot| self.jobs[slot].node.seq);
        let jobs = slots.into_iter().flat_map(|slot| {
            let data = self.job_data(&self.jobs[slot]);
            let behind = self.jobs[slot].behind().map(|push| match (push.job(data.id), push.kind) {
                (job, Kind::Follower) => Change::RestoreFollower(job),
                (job, Kind::Declaration { is_timed }) => Change::RestoreDeclaration { job, is_timed },
            });
            let Extras { progress: text, progressed: at, .. } = data.extras;
            let progress = (!text.is_empty()).then_some(Change::RestoreProgress { id: data.id, text, at });
            std::iter::once(Change::RestoreJob(data)).chain(progress).chain(behind)
        });
        let rate = self.rate_log.entries().map(|&taken| Change::RestoreUnits { group: None, taken });
        let groups = self.turns().flat_map(|(name, units)| {
            let units = units.map(move |&taken| Change::RestoreUnits { group: Some(name), taken });
            units.chain(std::iter::once(Change::RestoreTurn { group: name }))
        });
        let holds = self.holds().map(|(group, until)| Change::Hold { group, until });
        std::iter::once(Change::Configure(*self.settings))
            .chain(rate)
            .chain(jobs)
            .chain(groups)
            .chain(holds)
            .chain(std::iter::once(Change::RestoreTotals(self.totals())))
            .map(|change| Effect { at: 0, change })
    }
}

fn write_units<'t>(log: impl ExactSizeIterator<Item = &'t Taken>, to: &mut impl Writer) {
    to.number(log.len() as u64);
    for taken in log {
        to.number(taken.back_at);
        to.number(taken.units);
    }
}

fn read_units(from: &mut impl Reader) -> Result<Vec<Taken>, DecodeError> {
    let mut log = Vec::new();
    for _ in 0..from.number()? {
        log.push(Taken { back_at: from.number()?, units: from.number()? });
    }
    Ok(log)
}

/// Writes a job, and the push that waits for the end of its claim (AGAIN, DECLARE), if any. `group` is the number of
/// the job's group.
fn write_job(job: &JobData<'_>, group: Option<u64>, stored: &Job, to: &mut impl Writer) {
    let Extras { worker, error, progress, progressed, .. } = job.extras;
    let (follower, declaration) = (stored.follower(), stored.declaration());
    let bare = job.bare();
    let mut first = job.state as u64 | present(&JobData::FIELDS, job, &bare) << STATE_BITS;
    let flags = [
        (!worker.is_empty(), WORKER),
        (!error.is_empty(), ERROR),
        (group.is_some(), GROUP),
        (follower.is_some(), FOLLOWER),
        (job.backoff.is_some(), BACKOFF),
        (!progress.is_empty(), PROGRESS),
        (declaration.is_some(), DECLARATION),
    ];
    first |= flags.into_iter().filter(|(is_present, _)| *is_present).map(|(_, flag)| flag).sum::<u64>();
    to.bytes(job.id);
    to.bytes(job.payload);
    for number in [first, job.time, u64::from(job.priority.cast_unsigned()), job.seq] {
        to.number(number);
    }
    write_values(&JobData::FIELDS, job, &bare, to);
    [worker, error].into_iter().filter(|text| !text.is_empty()).for_each(|text| to.bytes(text));
    if let Some(group) = group {
        to.number(group);
    }
    if let Some(backoff) = job.backoff {
        to.number(backoff);
    }
    if let Some(follower) = follower {
        write_push(&follower.job(b""), to);
    }
    if !progress.is_empty() {
        to.bytes(progress);
        to.number(progressed);
    }
    if let Some(declaration) = declaration {
        write_push(&declaration.job(b""), to);
        to.number(declaration.is_timed().into());
    }
}

/// Writes a push that waits for the end of a job's claim (AGAIN, DECLARE). Writes the name of the push's group instead
/// of a number, because a group that does not exist yet has no number.
fn write_push(push: &NewJob<'_>, to: &mut impl Writer) {
    let NewJob { id: _, payload, group, due, priority, max_attempts, every, ttl } = *push;
    to.bytes(payload);
    to.bytes(group);
    let (priority, max_attempts) = (u64::from(priority.cast_unsigned()), u64::from(max_attempts));
    for number in [due, priority, max_attempts, every.unwrap_or(0), ttl.unwrap_or(0)] {
        to.number(number);
    }
}

/// Reads a push that waits for the end of a claim of the job `id` (AGAIN, DECLARE), and passes it to `restore`.
/// `restore` returns whether the job and the push fit together.
fn read_push<R: Reader>(
    id: &[u8],
    from: &mut R,
    restore: impl FnOnce(&NewJob<'_>, &mut R) -> Result<bool, DecodeError>,
) -> Result<(), DecodeError> {
    let (payload, group) = (from.bytes()?, from.bytes()?);
    let (due, priority, max_attempts, every, ttl) =
        (from.number()?, from.number()?, from.number()?, from.number()?, from.number()?);
    let small = |number| u32::try_from(number).map_err(|_| DecodeError::Invalid("number out of range"));
    let some = |number: u64| (number != 0).then_some(number);
    let push = NewJob {
        id,
        payload: payload.as_ref(),
        group: group.as_ref(),
        due,
        priority: small(priority)?.cast_signed(),
        max_attempts: small(max_attempts)?,
        every: some(every),
        ttl: some(ttl),
    };
    ensure(restore(&push, from)?, "impossible push behind a job")
}

/// Reads a job and adds it to the queue. Returns the job's push number.
fn read_job<R: Reader>(
    queue: &mut Queue,
    totals: &Totals,
    groups: &[(R::Bytes, Vec<Taken>)],
    version: u64,
    from: &mut R,
) -> Result<u64, DecodeError> {
    let (id, payload) = (from.bytes()?, from.bytes()?);
    let first = from.number()?;
    let last = if version == OLDEST_VERSION { FOLLOWER } else { DECLARATION };
    ensure(first < 2 * last, "unknown part of a job")?;
    let state = State::ALL[(first & 3) as usize];
    let (time, priority, seq) = (from.number()?, from.number()?, from.number()?);
    let priority = u32::try_from(priority).map_err(|_| DecodeError::Invalid("priority out of range"))?;
    let mut job = JobData::new(id.as_ref(), payload.as_ref(), state, time, priority.cast_signed(), seq).bare();
    read_values(&JobData::FIELDS, first >> STATE_BITS, &mut job, from)?;
    let mut text = |flag| if first & flag != 0 { from.bytes().map(Some) } else { Ok(None) };
    let (worker, error) = (text(WORKER)?, text(ERROR)?);
    job.extras.worker = worker.as_ref().map_or(b"", AsRef::as_ref);
    job.extras.error = error.as_ref().map_or(b"", AsRef::as_ref);
    if first & GROUP != 0 {
        let number = usize::try_from(from.number()?).unwrap_or(usize::MAX);
        job.group = groups.get(number).map_or(b"", |(name, _)| name.as_ref());
        ensure(!job.group.is_empty(), "job of an unknown group")?;
    }
    if first & BACKOFF != 0 {
        job.backoff = Some(from.number()?);
    }
    ensure(job.seq < totals.next_seq, "push number ahead of count")?;
    ensure(job.token <= totals.last_token, "token ahead of count")?;
    ensure(queue.restore(&job), "impossible job")?;
    if first & FOLLOWER != 0 {
        read_push(job.id, from, |push, _| Ok(queue.restore_follower(push)))?;
    }
    if first & PROGRESS != 0 {
        let (progress, progressed) = (from.bytes()?, from.number()?);
        ensure(queue.restore_progress(job.id, progress.as_ref(), progressed), "impossible progress of a job")?;
    }
    if first & DECLARATION != 0 {
        read_push(job.id, from, |push, from| {
            let is_timed = from.number()?;
            Ok(is_timed <= 1 && queue.restore_declaration(push, is_timed == 1))
        })?;
    }
    Ok(job.seq)
}
