//! Effects: what is replicated and written to the AOF instead of commands.
//!
//! An effect says what a command did: ids, tokens and absolute times as they came out, and `at`, the clock of the server
//! that ran it. Applying one is a function of the queue and the effect alone, so two queues that have applied the same
//! effects are equal, byte for byte, whatever their own clocks say. The commands themselves change the queue through
//! the very transitions that [`Queue::apply`] uses.
//!
//! `at` decides two things besides the time stamps: whether a lease that is given up had already ended (the counter
//! `expired_leases`), and whether a job that becomes due by command is due at once ([`State::Ready`]).

use super::further;
use super::ids::AutoId;
use super::job::{MAX_ERROR, MAX_WORKER, Record, State};
use super::rate::Taken;
use super::settings::Settings;
use super::stats::Counters;
use super::transitions::{Attempt, Body, Lease};
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
        id: &'a [u8],
        payload: &'a [u8],
        due: Millis,
        priority: i32,
        /// 0: unlimited. The queue's default is resolved already.
        max_attempts: u32,
        /// EVERY.
        every: Option<Millis>,
        /// The id is one the queue made up.
        generated: bool,
        /// Empty: none.
        group: &'a [u8],
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
    /// A dead job is ready again.
    Revive { id: &'a [u8] },
    /// The `count` jobs longest dead at `at` are ready again.
    Redrive { count: u64 },
    /// The settings are these.
    Configure(Settings),
    /// AOF rewrite: a job as it stood. The jobs come in order of `seq`.
    RestoreJob(Record<'a>),
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
        let c = &self.counters;
        let counts = [
            self.last_token,
            self.next_seq,
            c.pushed,
            c.claimed,
            c.acked,
            c.nacked,
            c.cancelled,
            c.redriven,
            c.expired_leases,
        ];
        counts.into_iter().all(|count| count <= MAX_TOKEN)
            && further::set_ones(Counters::FURTHER, c).all(|(field, count)| count <= field.most)
            && self.last_id.possible()
    }
}

impl<'a> Effect<'a> {
    /// The job the effect is about, if it is about one.
    pub fn id(&self) -> Option<&'a [u8]> {
        match self.change {
            Change::Push { id, .. }
            | Change::Claim { id, .. }
            | Change::Ack { id, .. }
            | Change::Retry { id, .. }
            | Change::Bury { id, .. }
            | Change::Extend { id, .. }
            | Change::Cancel { id }
            | Change::Clean { id }
            | Change::Drop { id }
            | Change::Revive { id }
            | Change::Reschedule { id, .. }
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
            Change::Push { id, payload, due, priority, max_attempts, every, generated, group } => {
                let auto = if generated { AutoId::parse(id) } else { None };
                let fits = due <= MAX_TIME
                    && every.is_none_or(|period| (1..=MAX_TIME).contains(&period))
                    && generated == auto.is_some()
                    && auto.is_none_or(AutoId::possible)
                    && self.has_room();
                if fits {
                    let recurrence = every.map(|period| (period, due));
                    let job = self.new_job(&Body { id, payload, group }, due, priority, max_attempts, recurrence);
                    self.enter(at, job, group, auto);
                }
                fits
            }
            Change::Claim { id, token, deadline, worker } => self.at_job(id, |queue, slot| {
                let fits = token > queue.last_token
                    && token <= MAX_TOKEN
                    && deadline > at
                    && deadline <= MAX_TIME
                    && worker.len() <= MAX_WORKER
                    && queue.state_of(slot, at) == State::Ready;
                if fits {
                    queue.lease(slot, at, &Lease { token, deadline, worker });
                }
                fits
            }),
            Change::SettleRate => {
                let settled = self.settle(at);
                settled > 0 || self.settings.rate.is_some() || self.settings.group_rate.is_some()
            }
            Change::Ack { id, again } => self.at_job(id, |queue, slot| {
                let fits = queue.jobs[slot].token != 0 && again.is_none_or(|due| due <= MAX_TIME);
                if fits {
                    queue.finish(slot, at, again);
                }
                fits
            }),
            Change::Retry { id, due, attempt, error } => self.at_job(id, |queue, slot| {
                let job = &queue.jobs[slot];
                let allowed = match attempt {
                    Attempt::Counts => !job.exhausted(),
                    Attempt::Free => !job.is_exhausted_after(job.attempts.saturating_sub(1)),
                    Attempt::Last => job.recurrence.is_some(),
                };
                let fits = allowed && job.token != 0 && due <= MAX_TIME && error.len() <= MAX_ERROR;
                if fits {
                    queue.retry(slot, at, due, attempt, error);
                }
                fits
            }),
            Change::Bury { id, is_free, error } => self.at_job(id, |queue, slot| {
                let fits = queue.jobs[slot].token != 0 && error.len() <= MAX_ERROR;
                if fits {
                    queue.bury(slot, at, is_free, error);
                }
                fits
            }),
            Change::Extend { id, deadline } => self.at_job(id, |queue, slot| {
                let fits = queue.state_of(slot, at) == State::Claimed && deadline > at && deadline <= MAX_TIME;
                if fits {
                    queue.move_to(slot, queue.jobs[slot].node.tree, deadline);
                }
                fits
            }),
            Change::Cancel { id } => self.at_job(id, |queue, slot| {
                queue.cancel_slot(slot, at);
                true
            }),
            Change::Clean { id } => self.at_job(id, |queue, slot| {
                let fits = queue.state_of(slot, at) != State::Claimed;
                if fits {
                    queue.remove_clean(slot, at);
                }
                fits
            }),
            Change::Drop { id } => self.at_job(id, |queue, slot| {
                let fits = queue.state_of(slot, at) == State::Dead;
                if fits {
                    queue.drop_slot(slot, at);
                }
                fits
            }),
            Change::Revive { id } => self.at_job(id, |queue, slot| {
                let fits = queue.state_of(slot, at) == State::Dead;
                if fits {
                    queue.revive(slot, at);
                }
                fits
            }),
            Change::Reschedule { id, due, priority } => self.at_job(id, |queue, slot| {
                let state = queue.state_of(slot, at);
                let fits = matches!(state, State::Ready | State::Delayed) && due.is_none_or(|due| due <= MAX_TIME);
                if fits {
                    queue.reorder(slot, at, due, priority);
                }
                fits
            }),
            Change::Redrive { count } => {
                let fits = count <= self.count(at, State::Dead);
                if fits {
                    self.revive_oldest(at, count);
                }
                fits
            }
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
        }
    }

    fn at_job(&mut self, id: &[u8], change: impl FnOnce(&mut Self, u32) -> bool) -> bool {
        self.index.find(&self.jobs, id).is_some_and(|slot| change(self, slot))
    }

    /// The effect that pushed the job as it stands.
    pub(super) fn pushed(&self, at: Millis, slot: u32, generated: bool) -> Effect<'_> {
        let job = &self.jobs[slot];
        let change = Change::Push {
            id: job.id(),
            payload: job.payload(),
            due: job.node.time,
            priority: job.node.priority,
            max_attempts: job.max_attempts,
            every: job.recurrence.as_ref().map(|r| r.period),
            generated,
            group: self.group_name(job),
        };
        Effect { at, change }
    }
}
