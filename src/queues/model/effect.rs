//! Effects: what the module replicates and writes to the AOF instead of commands.
//!
//! An effect contains the results of a command: IDs, tokens, absolute times. It also contains `at`, the time at which
//! the server ran the command. An effect reads no clock. So after the same effects, two queues have the same bytes,
//! whatever the clocks of their servers say. The server that runs a command changes its own queue by the same effect.
//!
//! `at` determines whether the changed job is due at once ([`State::Ready`]), and whether the job's lease had expired.
//! If the lease had expired, the counter `expired_leases` grows.

use super::ids::AutoId;
use super::job::Attempt;
use super::job_data::{JobData, NewJob};
use super::node::State;
use super::rate::Taken;
use super::settings::Settings;
use super::stats::Counters;
use super::{MAX_COUNT, MAX_NOW, MAX_TIME, Millis, Queue};

/// A change of a queue, and the time of the change. An effect borrows texts from the arguments of the command, or from
/// the queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Effect<'a> {
    /// The time at which the command ran, by the clock of its server.
    pub at: Millis,
    pub change: Change<'a>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change<'a> {
    /// Adds a job, or replaces the job with the same ID.
    Push {
        job: NewJob<'a>,
        /// Whether the queue generated the ID.
        generated: bool,
        /// Whether the push has AGAIN. With AGAIN, if the queue has a waiting job with this ID, that job gets the
        /// payload and the TTL of this push. If that job is claimed, this push waits until the claim ends.
        again: bool,
    },
    /// DECLARE: pushes a recurring job, or gives the job with the same ID the arguments of this push. If that job is
    /// claimed, the declaration waits until the claim ends. `is_timed`: the push has AT or DELAY.
    Declare { job: NewJob<'a>, is_timed: bool },
    /// Changes the job with this ID.
    Job { id: &'a [u8], change: JobChange<'a> },
    /// Updates the log of the units that claims have taken from RATE. Removes the units that are available again, and
    /// limits the time for which the other units stay taken to one window. Does the same for GROUPRATE, but only for a
    /// limited number of groups.
    SettleRates,
    /// Makes the `count` oldest dead letters ready. If `group` is a name, takes only dead letters of this group.
    Redrive { count: u64, group: Option<&'a [u8]> },
    /// Holds a group: its jobs cannot be claimed before `until`. 0 releases the group.
    Hold { group: &'a [u8], until: Millis },
    /// Replaces the settings.
    Configure(Settings),
    /// AOF rewriting: restores a job. Jobs are restored in the order of their push numbers.
    RestoreJob(JobData<'a>),
    /// AOF rewriting: restores a push with AGAIN that waits until the claim of the job with the same ID ends.
    RestoreFollower(NewJob<'a>),
    /// AOF rewriting: restores a push with DECLARE that waits until the claim of the job with the same ID ends.
    RestoreDeclaration { job: NewJob<'a>, is_timed: bool },
    /// AOF rewriting: restores a job's text of PROGRESS, and the time of this text.
    RestoreProgress { id: &'a [u8], text: &'a [u8], at: Millis },
    /// AOF rewriting: restores units that claims have taken from the GROUPRATE of a group, or from RATE if `group` is
    /// `None`. The units of RATE come after `Configure`, and those of groups after the jobs. The units of each group,
    /// and those of RATE, are in the order of `back_at`, the time at which they become available again.
    RestoreUnits { group: Option<&'a [u8]>, taken: Taken },
    /// AOF rewriting: moves a group to the end of the order in which groups take turns. Groups are restored in this
    /// order.
    RestoreTurn { group: &'a [u8] },
    /// AOF rewriting: restores the counters, after all other effects of the queue.
    RestoreTotals(Totals),
}

/// A change of a job that is in the queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JobChange<'a> {
    /// Claims a job. Counts an attempt, and takes a unit of RATE.
    Claim {
        token: u64,
        deadline: Millis,
        /// The worker's name, or empty.
        worker: &'a [u8],
    },
    /// Removes an acknowledged job. A recurring job is due at `next_due` instead.
    Ack { next_due: Option<Millis> },
    /// NACK: makes a job wait for another attempt.
    Retry {
        due: Millis,
        attempt: Attempt,
        /// The error text. If it is empty, the job keeps its previous error text.
        error: &'a [u8],
    },
    /// NACK: makes a job a dead letter.
    Dead {
        /// Whether the NACK had FREE: the attempt does not count.
        is_free: bool,
        /// The error text. If it is empty, the job keeps its previous error text.
        error: &'a [u8],
    },
    /// Changes the deadline of a lease.
    Extend { deadline: Millis },
    /// Removes a job by CANCEL.
    Cancel,
    /// Changes the due time or the priority of a waiting job. `None` keeps the value.
    Reschedule { due: Option<Millis>, priority: Option<i32> },
    /// Removes a job by CLEAN.
    Clean,
    /// Removes a dead letter because of DEADLEN or DEADTTL.
    Drop,
    /// Removes a waiting job whose TTL has ended. A recurring job is due at `next_due` instead.
    Expire { next_due: Option<Millis> },
    /// Carries out the push that has waited for the end of the job's claim (AGAIN, DECLARE). If the job is a dead
    /// letter, the push replaces it. If the job is ready or delayed again, because its lease has expired, a push with
    /// DECLARE changes it.
    Follow,
    /// PROGRESS: stores a text. If it is empty, removes the stored text.
    Progress { text: &'a [u8] },
    /// Makes a dead letter ready.
    Revive,
}

/// All counters of a queue, including the counters that ZQ.STATS returns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// The last token. 0 before the first claim.
    pub last_token: u64,
    pub last_id: AutoId,
    /// The push number of the next push.
    pub next_seq: u64,
    pub counters: Counters,
}

impl Totals {
    /// Whether the counters are small enough for a reply, and can grow without an overflow.
    pub(super) fn possible(&self) -> bool {
        let counts = Counters::FIELDS.iter().map(|field| (field.get)(&self.counters));
        counts.chain([self.last_token, self.next_seq]).all(|count| count <= MAX_COUNT) && self.last_id.possible()
    }
}

impl<'a> Effect<'a> {
    /// Returns the ID of the job that the effect pushes or changes, if any.
    pub fn id(&self) -> Option<&'a [u8]> {
        match self.change {
            Change::Push { job: NewJob { id, .. }, .. }
            | Change::Declare { job: NewJob { id, .. }, .. }
            | Change::Job { id, .. } => Some(id),
            _ => None,
        }
    }
}

impl Queue {
    /// Applies an effect on a replica or from an AOF file. Reads no clock, and never panics. Has the same complexity as
    /// the command that caused the effect.
    ///
    /// Returns false, and does nothing, if the effect is not possible in this queue. In this case, the queue differs
    /// from the queue for which the effect was computed.
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
                if fits {
                    self.add_job(at, &job, auto, again, self.find(job.id));
                }
                return fits;
            }
            Change::Declare { job, is_timed } => {
                let fits = job.possible() && job.every.is_some() && self.has_room();
                if fits {
                    self.add_declared(at, &job, is_timed, self.find(job.id));
                }
                return fits;
            }
            Change::SettleRates => {
                let settled = self.settle_rates(at);
                return settled > 0 || self.settings.rate.is_some() || self.settings.group_rate.is_some();
            }
            Change::Redrive { count, group }
                if count <= self.count_in_group(group.map(|name| self.roots_by_name(name)), at, State::Dead) =>
            {
                self.revive_oldest(at, group, count);
            }
            Change::Hold { group, until } => return until <= MAX_TIME && self.hold_group(group, until),
            Change::Configure(settings) if settings == settings.normal() => self.set(at, settings),
            Change::RestoreJob(data)
                if (self.next_seq..MAX_COUNT).contains(&data.seq) && data.token <= MAX_COUNT && self.restore(&data) =>
            {
                self.next_seq = data.seq + 1;
                self.last_token = self.last_token.max(data.token);
            }
            Change::RestoreFollower(job) => return self.restore_follower(&job),
            Change::RestoreDeclaration { job, is_timed } => return self.restore_declaration(&job, is_timed),
            Change::RestoreProgress { id, text, at } => return self.restore_progress(id, text, at),
            Change::RestoreUnits { group: None, taken } => {
                return self.settings.rate.is_some() && self.rate_log.restore(taken);
            }
            Change::RestoreUnits { group: Some(group), taken } => return self.restore_units(group, taken),
            Change::RestoreTurn { group } => return self.restore_turn(group),
            Change::RestoreTotals(totals)
                if totals.possible() && totals.next_seq >= self.next_seq && totals.last_token >= self.last_token =>
            {
                self.set_totals(totals);
            }
            Change::Job { id, change } => {
                return self.slot_of(id).is_some_and(|slot| self.change_job(slot, at, change));
            }
            _ => return false,
        }
        true
    }

    pub(super) fn set_totals(&mut self, totals: Totals) {
        let Totals { last_token, last_id, next_seq, counters } = totals;
        (self.last_token, self.last_id, self.next_seq) = (last_token, last_id, next_seq);
        (self.pushed, self.claimed, self.acked) = (counters.pushed, counters.claimed, counters.acked);
        self.rare_counters = Counters { pushed: 0, claimed: 0, acked: 0, ..counters }.into();
    }

    /// Applies a change of a job for a command. Returns the effect, or `None` if [`change_job`](Self::change_job)
    /// rejects the change.
    pub(super) fn decide<'a>(
        &mut self,
        slot: u32,
        at: Millis,
        id: &'a [u8],
        change: JobChange<'a>,
    ) -> Option<Effect<'a>> {
        self.change_job(slot, at, change).then_some(Effect { at, change: Change::Job { id, change } })
    }

    /// Applies a change of a job, and passes it to `sink` as an effect. The caller has checked that the job's state
    /// allows the change.
    pub(super) fn carry_out(
        &mut self,
        slot: u32,
        at: Millis,
        change: JobChange<'_>,
        mut sink: impl FnMut(&Effect<'_>),
    ) {
        sink(&Effect { at, change: Change::Job { id: self.jobs[slot].id(), change } });
        self.change_job(slot, at, change);
    }
}
