//! ZQ.STATS: the number of jobs in each state, and counters.

use super::field::Field;
use super::node::{State, TreeId};
use super::query::Part;
use super::{MAX_COUNT, MAX_NOW, Millis, NEVER, Queue};
use crate::base::sparse::Off;

/// The counters of a queue since its creation. They are the same on master and replica.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// The number of pushes, including pushes that replaced a job or another push. A push with AGAIN that waits for the
    /// end of a claim counts when it becomes a job, or is replaced.
    pub pushed: u64,
    pub claimed: u64,
    pub acked: u64,
    pub nacked: u64,
    pub cancelled: u64,
    pub redriven: u64,
    /// Leases that expired. A lease is counted when a command next changes its job. [`Queue::stats`] adds the expired
    /// leases that are not counted yet.
    pub expired_leases: u64,
    pub replaced: u64,
    /// How often a recurring job got its next occurrence after an ACK, or after an occurrence expired (TTL).
    pub recurred: u64,
    /// Occurrences of a recurring job in which every attempt failed. If the lease of the last attempt expired, this
    /// counter grows only when a command next changes the job. [`Queue::stats`] adds the occurrences that are not
    /// counted yet.
    pub missed: u64,
    pub cleaned: u64,
    /// Dead letters removed because of DEADLEN and DEADTTL.
    pub dropped: u64,
    /// Claims that ended because the job was replaced or cancelled.
    pub revoked: u64,
    /// ACKs and NACKs after the lease had expired.
    pub late: u64,
    /// Waiting jobs whose TTL ended. A recurring job counts once for each occurrence that expired.
    pub expired: u64,
}

macro_rules! counters {
    ($($field:ident $name:literal)*) => {
        impl Counters {
            pub const FIELDS: &[Field<Counters>] =
                &[$(Field::plain($name, MAX_COUNT, |counters| counters.$field, |counters, count| counters.$field = count)),*];
        }

        impl Off for Counters {
            const OFF: &'static Counters = &Counters { $($field: 0),* };
        }
    };
}

counters! {
    pushed "pushed"
    claimed "claimed_total"
    acked "acked"
    nacked "nacked"
    cancelled "cancelled"
    redriven "redriven"
    expired_leases "expired_leases"
    replaced "replaced"
    recurred "recurred"
    missed "missed"
    cleaned "cleaned"
    dropped "dropped"
    revoked "revoked"
    late "late"
    expired "expired"
}

/// The length of [`Queue::stored_states`].
pub const STORED_STATES: usize = 5;

/// The stats of a queue at `now`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stats {
    /// The number of ready jobs, even if PAUSED, CONCURRENCY or RATE prevents a claim.
    pub ready: u64,
    pub delayed: u64,
    pub claimed: u64,
    pub dead: u64,
    /// The counters. They include all leases that have expired up to `now`.
    pub totals: Counters,
    /// The time since which the oldest ready job has waited for a claim ([`Queue::waits_from`]). `None` if no job
    /// waits, or if the queue is paused.
    pub oldest_ready: Option<Millis>,
}

impl Queue {
    pub fn stats(&self, now: Millis) -> Stats {
        let now = now.min(MAX_NOW);
        let mut totals = self.totals().counters;
        let expired = |trees| self.count_in_trees(None, trees, Part::Until, now);
        totals.expired_leases = totals.expired_leases.saturating_add(expired(&TreeId::OF_LEASES));
        totals.missed = totals.missed.saturating_add(expired(&[TreeId::ClaimedRecurring]));
        let [ready, delayed, claimed, dead] = State::ALL.map(|state| self.count(now, state));
        Stats { ready, delayed, claimed, dead, totals, oldest_ready: self.waits_from().filter(|&time| time <= now) }
    }

    /// Returns the counter `expired_leases`, without the expired leases that [`stats`](Self::stats) adds.
    pub fn expired_leases(&self) -> u64 {
        self.rare_counters.expired_leases
    }

    /// Returns the number of jobs in each stored state: ready, delayed, claimed, claimed for the last attempt
    /// ([`TreeId::ClaimedLast`]), dead. A stored state changes only with an effect, not with time. O(1).
    pub fn stored_states(&self) -> [u32; STORED_STATES] {
        let count = |tree| self.tree_size(tree);
        [
            count(TreeId::Ready),
            count(TreeId::Delayed) + count(TreeId::Upcoming),
            count(TreeId::Claimed) + count(TreeId::ClaimedBackoff) + count(TreeId::ClaimedRecurring),
            count(TreeId::ClaimedLast),
            count(TreeId::Dead),
        ]
    }

    /// Returns the earliest time from which on a job waits for a claim. This time can be in the future. A job waits
    /// from its due time on, or from the time at which its group allows claims (ZQ.HOLD, GROUPCONCURRENCY, GROUPRATE,
    /// ORDERED) if that is later. Returns `None` if the queue is paused, or no job will wait without a command.
    /// CONCURRENCY and RATE do not matter: if they prevent a claim, the jobs wait. O(log n).
    pub fn waits_from(&self) -> Option<Millis> {
        let time = match &self.groups {
            Some(groups) => groups.waits_from(),
            None => self.first_due(&self.roots),
        };
        (time != NEVER && !self.settings.paused).then_some(time)
    }
}
