//! ZQ.CANCEL, ZQ.RESCHEDULE, ZQ.REDRIVE, ZQ.HOLD and ZQ.CONFIG: the commands that manage jobs and settings without a
//! token.

use super::effect::{Change, Effect, JobChange};
use super::job_data::Ttl;
use super::node::State;
use super::settings::Settings;
use super::{MAX_NOW, MAX_TIME, Millis, Queue};
use crate::base::chunks::NIL;

/// The maximum number of jobs or groups that a change of settings may update. That many updates take tens of
/// milliseconds. A change of AGING or ORDERED updates all jobs. A change of GROUPCONCURRENCY or GROUPRATE updates all
/// groups with jobs.
pub const MAX_CONFIG_UPDATES: usize = 100_000;

impl Queue {
    /// Removes a job in any state. Returns `None` if there is no job with this ID. O(log n).
    pub fn cancel<'a>(&mut self, now: Millis, id: &'a [u8]) -> Option<Effect<'a>> {
        let at = now.min(MAX_NOW);
        let slot = self.slot_of(id)?;
        self.decide(slot, at, id, JobChange::Cancel)
    }

    /// Changes the due time or the priority of a waiting job. `None` keeps the value. Returns `None` if the job is
    /// missing, claimed or a dead letter, and `Some(None)` if nothing changes. O(log n).
    ///
    /// A waiting job can have an expired lease. The token of that lease stays valid for ACK and NACK.
    pub fn reschedule<'a>(
        &mut self,
        now: Millis,
        id: &'a [u8],
        due: Option<Millis>,
        priority: Option<i32>,
    ) -> Option<Option<Effect<'a>>> {
        let at = now.min(MAX_NOW);
        let slot = self.slot_of(id)?;
        if !matches!(self.state_of(slot, at), State::Ready | State::Delayed) {
            return None;
        }
        let due = due.map(|due| due.min(MAX_TIME));
        let job = &self.jobs[slot];
        // Whether the period (EVERY) and the TTL count from `due`.
        let counts_from = |due| {
            job.has_missed(at)
                || job.recurrence().is_none_or(|it| it.anchor == due)
                    && job.ttl().is_none_or(|it| it == Ttl::from(due, it.ttl))
        };
        if due.is_none_or(|due| due == self.jobs[slot].due(at) && counts_from(due))
            && priority.is_none_or(|priority| priority == job.node.priority)
        {
            return Some(None);
        }
        self.decide(slot, at, id, JobChange::Reschedule { due, priority }).map(Some)
    }

    /// Makes up to `count` dead letters ready, oldest first, and resets their attempts to 0. If `group` is a name,
    /// takes only dead letters of this group. Stops when MAXLEN allows no more jobs. Returns `None` if no job became
    /// ready. O(log n) per job.
    pub fn redrive<'a>(&mut self, now: Millis, group: Option<&'a [u8]>, count: u64) -> Option<Effect<'a>> {
        let at = now.min(MAX_NOW);
        let dead = self.count_in_group(group.map(|name| self.roots_by_name(name)), at, State::Dead);
        let count = dead.min(count).min(self.room(at));
        self.revive_oldest(at, group, count);
        let change = Change::Redrive { count, group };
        (count > 0).then_some(Effect { at, change })
    }

    /// Makes a dead letter ready, and resets its attempts to 0. Returns `None` if there is no dead letter with this ID,
    /// or if MAXLEN allows no more jobs. O(log n).
    pub fn redrive_one<'a>(&mut self, now: Millis, id: &'a [u8]) -> Option<Effect<'a>> {
        let at = now.min(MAX_NOW);
        let slot = self.slot_of(id)?;
        if self.room(at) == 0 {
            return None;
        }
        self.decide(slot, at, id, JobChange::Revive)
    }

    /// Holds a group: its jobs cannot be claimed before `until`. 0 releases the group. Returns `None` if the group has
    /// no job, and `Some(None)` if nothing changes. O(log n).
    pub fn hold<'a>(&mut self, now: Millis, group: &'a [u8], until: Millis) -> Option<Option<Effect<'a>>> {
        let until = until.min(MAX_TIME);
        let held = self.held_until(group)?;
        self.hold_group(group, until);
        let change = Change::Hold { group, until };
        Some((held != until).then_some(Effect { at: now.min(MAX_NOW), change }))
    }

    /// Returns the name of a job's group. A NACK with HOLD needs this name, and must get it before the NACK: a push
    /// with AGAIN that then replaces the job may have another group.
    pub fn group_of(&self, id: &[u8]) -> Box<[u8]> {
        self.slot_of(id).map_or(&b""[..], |slot| self.group_name(&self.jobs[slot])).into()
    }

    /// NACK with HOLD: holds a group until `until`. If the group is already held for longer, that hold stays. Returns
    /// `None` if nothing changes.
    pub fn hold_longer<'a>(&mut self, now: Millis, group: &'a [u8], until: Millis) -> Option<Effect<'a>> {
        let until = until.max(self.held_until(group)?);
        self.hold(now, group, until)?
    }

    /// Whether more than [`MAX_CONFIG_UPDATES`] jobs or groups would have to be updated if the queue got these
    /// settings.
    pub fn is_too_long_for(&self, settings: &Settings) -> bool {
        let old = &self.settings;
        let mut touched = 0;
        if settings.order() != old.order() {
            touched = self.len();
        } else if settings.of_groups() != old.of_groups() {
            touched = self.groups_with_jobs();
        }
        touched > MAX_CONFIG_UPDATES
    }

    /// Replaces the settings. Values out of range are clamped. Returns `None` if nothing changes. O(1), unless the
    /// change updates jobs or groups ([`MAX_CONFIG_UPDATES`]).
    ///
    /// If RATE was off before, all its units are available. If RATE had another value before, the taken units become
    /// available again within one window of the new RATE.
    pub fn configure(&mut self, now: Millis, settings: Settings) -> Option<Effect<'static>> {
        let at = now.min(MAX_NOW);
        let settings = settings.normal();
        if settings == *self.settings {
            return None;
        }
        self.set(at, settings);
        let change = Change::Configure(settings);
        Some(Effect { at, change })
    }

    /// Makes the `count` oldest dead letters ready. If `group` is a name, takes only dead letters of this group.
    pub(super) fn revive_oldest(&mut self, at: Millis, group: Option<&[u8]>, count: u64) {
        for _ in 0..count {
            let slot = self.oldest_dead_letter(group.map(|name| self.roots_by_name(name)), at);
            if slot == NIL {
                return;
            }
            self.change_job(slot, at, JobChange::Revive);
        }
    }

    /// Carries out CONFIG. O(1), or O(groups with jobs) if a setting of groups changes. If AGING or ORDERED changes,
    /// O(n), because the trees store the serving order.
    pub(super) fn set(&mut self, at: Millis, settings: Settings) {
        let old = *std::mem::replace(&mut self.settings, settings.into());
        match settings.rate {
            None => self.rate_log = Default::default(),
            Some(rate) if old.rate != settings.rate => self.rate_log.adopt(rate, at),
            Some(_) => {}
        }
        let order = self.order();
        if old.order() != order {
            self.rerank(self.roots, order);
        }
        if self.groups.is_some() || settings.concern_groups() {
            self.adopt_in_groups(at, &old);
        }
    }
}
