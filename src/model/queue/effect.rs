//! Effects: what is replicated and written to the AOF instead of commands.
//!
//! An effect says what a command did: ids, tokens and absolute times as they came out, and `at`, the clock of the server
//! that ran it. Applying one is a function of the queue and the effect alone, so two queues that have applied the same
//! effects are equal, byte for byte, whatever their own clocks say. A command decides on an effect, and applies that very one.
//!
//! `at` decides two things besides the time stamps: whether a lease that is given up had already ended (the counter
//! `expired_leases`), and whether a job that becomes due by command is due at once ([`State::Ready`]).

use super::ids::AutoId;
use super::job::{MAX_ERROR, MAX_WORKER, Record, State};
use super::push::NewJob;
use super::rate::Taken;
use super::settings::Settings;
use super::stats::Counters;
use super::transitions::Attempt;
use super::{MAX_NOW, MAX_TIME, MAX_TOKEN, Millis, Queue};

/// One change of a queue. Borrows ids and payloads from the command's arguments or from the queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Effect<'a> {
    /// The clock of the server that ran the command.
    pub at: Millis,
    /// What came out.
    pub change: Change<'a>,
}

/// What changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change<'a> {
    /// A job is new, or replaces whatever had its id.
    Push {
        job: NewJob<'a>,
        /// The id is one the queue made up.
        generated: bool,
        /// AGAIN: if the job of that id waits, it gets the payload; if it is claimed, this push waits.
        again: bool,
    },
    /// A job was claimed: one more attempt, and a unit of RATE.
    Claim {
        id: &'a [u8],
        token: u64,
        deadline: Millis,
        /// Empty: without a name.
        worker: &'a [u8],
    },
    /// A claim found units of RATE or GROUPRATE held longer than a window, because the clock had stepped back; or the upkeep found units of
    /// GROUPRATE to be forgotten.
    SettleRate,
    /// A job is finished: gone, or scheduled `again` (EVERY).
    Ack { id: &'a [u8], again: Option<Millis> },
    /// A job was given back.
    Retry {
        id: &'a [u8],
        due: Millis,
        attempt: Attempt,
        /// Empty: none was given, and the one before stays.
        error: &'a [u8],
    },
    /// A job was given back and is dead.
    Bury {
        id: &'a [u8],
        /// Whether the attempt does not count.
        is_free: bool,
        /// As in `Retry`.
        error: &'a [u8],
    },
    /// A lease ends at another time.
    Extend { id: &'a [u8], deadline: Millis },
    /// A job was cancelled.
    Cancel { id: &'a [u8] },
    /// A ready or delayed job got another due time or priority; `None`: as it was.
    Reschedule { id: &'a [u8], due: Option<Millis>, priority: Option<i32> },
    /// A job was cleaned away.
    Clean { id: &'a [u8] },
    /// A dead letter went because of DEADLEN or DEADTTL.
    Drop { id: &'a [u8] },
    /// A waiting job's TTL is over: it is gone, or scheduled `again` (EVERY).
    Expire { id: &'a [u8], again: Option<Millis> },
    /// A job is dead, and the push that waited behind it takes its place.
    Follow { id: &'a [u8] },
    /// A dead job is ready again.
    Revive { id: &'a [u8] },
    /// The `count` jobs of a group, or of all, that are longest dead at `at` are ready again.
    Redrive { count: u64, group: Option<&'a [u8]> },
    /// No job of a group is claimed before `until`; 0: the group is not held any more.
    Hold { group: &'a [u8], until: Millis },
    /// The settings are these.
    Configure(Settings),
    /// AOF rewrite: a job as it stood. The jobs come in order of `seq`.
    RestoreJob(Record<'a>),
    /// AOF rewrite: a push that waits behind the job of its id.
    RestoreFollower(NewJob<'a>),
    /// AOF rewrite: units of RATE. They come in order of time, after `Configure`.
    RestoreRate(Taken),
    /// AOF rewrite: units of a group. They come in order of time, after the jobs.
    RestoreUnits { group: &'a [u8], taken: Taken },
    /// AOF rewrite: the group's turn comes after those of all groups before it.
    RestoreTurn { group: &'a [u8] },
    /// AOF rewrite: the counters; comes last.
    RestoreTotals(Totals),
}

/// The counters a queue hands its numbers out from, and those it reports.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// The last token handed out; 0: none yet.
    pub last_token: u64,
    /// The last id made up.
    pub last_id: AutoId,
    /// The number of the next push.
    pub next_seq: u64,
    pub counters: Counters,
}

impl Totals {
    /// Numbers from which a queue can go on counting forever, and which fit a reply.
    pub(super) fn possible(&self) -> bool {
        let counts = Counters::FIELDS.iter().map(|field| (field.get)(&self.counters));
        counts.chain([self.last_token, self.next_seq]).all(|count| count <= MAX_TOKEN) && self.last_id.possible()
    }
}

impl<'a> Effect<'a> {
    /// The job the effect is about, if it is about one.
    pub fn id(&self) -> Option<&'a [u8]> {
        match self.change {
            Change::Push { job: NewJob { id, .. }, .. }
            | Change::Claim { id, .. }
            | Change::Ack { id, .. }
            | Change::Retry { id, .. }
            | Change::Bury { id, .. }
            | Change::Extend { id, .. }
            | Change::Cancel { id }
            | Change::Clean { id }
            | Change::Drop { id }
            | Change::Expire { id, .. }
            | Change::Follow { id }
            | Change::Revive { id }
            | Change::Reschedule { id, .. }
            | Change::RestoreFollower(NewJob { id, .. })
            | Change::RestoreJob(Record { id, .. }) => Some(id),
            _ => None,
        }
    }
}

impl Queue {
    /// Applies an effect: on a replica, or when the AOF is replayed. Reads no clock.
    ///
    /// All or nothing: true if it was applied; false, with the queue unchanged, if it does not fit this queue, which
    /// means that the queue is not the one the effect was made from. Never panics. Costs what the command cost.
    pub fn apply(&mut self, effect: &Effect<'_>) -> bool {
        let at = effect.at;
        if at > MAX_NOW {
            return false;
        }
        match effect.change {
            Change::Push { job, generated, again } => {
                let auto = if generated { AutoId::parse(job.id) } else { None };
                let fits = job.possible()
                    && generated == auto.is_some()
                    && auto.is_none_or(AutoId::possible)
                    && !(generated && again)
                    && self.has_room();
                if fits && again {
                    self.enter_again(at, &job);
                } else if fits {
                    self.enter(at, self.new_job(&job), job.group, auto);
                }
                fits
            }
            Change::SettleRate => {
                let settled = self.settle(at);
                settled > 0 || self.settings.rate.is_some() || self.settings.group_rate.is_some()
            }
            Change::Redrive { count, group } => {
                let fits = count <= self.count_of(group.map(|name| self.roots_of(name)), at, State::Dead);
                if fits {
                    self.revive_oldest(at, group, count);
                }
                fits
            }
            Change::Hold { group, until } => until <= MAX_TIME && self.hold_group(group, until),
            Change::Configure(settings) => {
                let fits = settings == settings.normal();
                if fits {
                    self.set(at, settings);
                }
                fits
            }
            Change::RestoreJob(record) => {
                let fits = record.seq >= self.next_seq
                    && record.seq < MAX_TOKEN
                    && record.token <= MAX_TOKEN
                    && self.restore(&record);
                if fits {
                    self.next_seq = record.seq + 1;
                    self.last_token = self.last_token.max(record.token);
                }
                fits
            }
            Change::RestoreFollower(job) => self.restore_follower(&job),
            Change::RestoreRate(taken) => self.settings.rate.is_some() && self.rate_log.restore(taken),
            Change::RestoreUnits { group, taken } => self.restore_units(group, taken),
            Change::RestoreTurn { group } => self.restore_turn(group),
            Change::RestoreTotals(totals) => {
                let fits =
                    totals.possible() && totals.next_seq >= self.next_seq && totals.last_token >= self.last_token;
                if fits {
                    self.last_token = totals.last_token;
                    self.last_id = totals.last_id;
                    self.next_seq = totals.next_seq;
                    self.counters = totals.counters;
                }
                fits
            }
            _ => {
                let slot = effect.id().and_then(|id| self.slot_of(id));
                slot.is_some_and(|slot| self.change_job(slot, at, &effect.change))
            }
        }
    }

    /// Applies a change of one job. All or nothing, as [`apply`](Self::apply).
    pub(super) fn change_job(&mut self, slot: u32, at: Millis, change: &Change<'_>) -> bool {
        let (job, state) = (&self.jobs[slot], self.state_of(slot, at));
        let is_held = job.token != 0;
        let fits = match *change {
            Change::Claim { token, deadline, worker, .. } => {
                let is_possible = token <= MAX_TOKEN && deadline <= MAX_TIME && worker.len() <= MAX_WORKER;
                state == State::Ready && token > self.last_token && deadline > at && is_possible
            }
            Change::Ack { again, .. } => is_held && again.is_none_or(|due| due <= MAX_TIME),
            Change::Retry { due, attempt, error, .. } => {
                let is_allowed = match attempt {
                    Attempt::Counts => !job.exhausted(),
                    Attempt::Free => !job.is_exhausted_after(job.attempts.saturating_sub(1)),
                    Attempt::Last => job.recurrence().is_some(),
                };
                is_allowed && is_held && due <= MAX_TIME && error.len() <= MAX_ERROR
            }
            Change::Bury { error, .. } => is_held && error.len() <= MAX_ERROR,
            Change::Extend { deadline, .. } => state == State::Claimed && deadline > at && deadline <= MAX_TIME,
            Change::Cancel { .. } => true,
            Change::Clean { .. } => state != State::Claimed,
            Change::Drop { .. } | Change::Revive { .. } => state == State::Dead,
            Change::Expire { again, .. } => {
                self.is_expired(slot, at)
                    && again.is_some() == job.recurrence().is_some()
                    && again.is_none_or(|due| due <= MAX_TIME)
            }
            Change::Follow { .. } => state == State::Dead && self.has_follower(slot),
            Change::Reschedule { due, .. } => {
                matches!(state, State::Ready | State::Delayed) && due.is_none_or(|due| due <= MAX_TIME)
            }
            _ => false,
        };
        if fits {
            self.carry_out(slot, at, change);
        }
        fits
    }

    /// The same, by a command that has decided on it. The effect that makes the same change elsewhere; `None` if it does not fit.
    pub(super) fn decide<'a>(&mut self, slot: u32, at: Millis, change: Change<'a>) -> Option<Effect<'a>> {
        self.change_job(slot, at, &change).then_some(Effect { at, change })
    }
}
