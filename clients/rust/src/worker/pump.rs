//! The pump: what a worker knows of the queues of one slot, and of the connections to their server. Outside of a
//! cluster, a worker has one pump.

use super::cron::Chores;
use super::job::Claim;
use super::link::Link;
use super::outcome::Outcome;
use crate::commands::zq;
use crate::error::Error;
use crate::random::random;
use redis::Cmd;
use std::time::Duration;
use tokio::time::Instant;

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Claiming {
    /// A claim without BLOCK, with the outcomes of jobs.
    Turn,
    /// A claim with BLOCK, on a connection of its own.
    Wait,
}

#[derive(Default)]
pub(super) struct Pump {
    /// The keys of each queue: its key, or the keys of its shards. The first queue is served first.
    pub queues: Vec<Vec<String>>,
    weights: Option<Vec<f64>>,
    /// With weights, the clock of each queue. A job moves the clock of its queue by 1 / weight. The queue whose clock
    /// is furthest behind comes first.
    clocks: Vec<f64>,
    /// The order of the queues in the last claim.
    order: Vec<usize>,
    pub chores: Chores,
    pub link: Option<Link>,
    /// The number of the connection. Errors of an earlier connection are ignored.
    pub epoch: u64,
    /// The number of errors since the last successful claim.
    pub troubles: u32,
    pub is_turning: bool,
    pub claiming: Option<Claiming>,
    pub is_ending_wait: bool,
    /// Whether the last claim returned fewer jobs than its COUNT, and when.
    pub is_drained: bool,
    pub claimed_at: Option<Instant>,
    /// How many of the worker's slots are reserved for a claim without BLOCK.
    pub reserved: usize,
    pub is_beating: bool,
    pub beat_at: Option<Instant>,
    /// Whether the server has just refused a command. While this is true, the pump sends no claims, and repeats no
    /// outcomes.
    pub is_resting: bool,
    /// The outcomes that are still to be reported.
    pub unreported: Vec<Outcome>,
    /// The node to which the slot is being moved.
    pub asked: Option<(String, u16)>,
    claims: usize,
}

impl Pump {
    pub fn new(queues: Vec<Vec<String>>, weights: Option<Vec<f64>>, chores: Chores) -> Self {
        let (clocks, order) = (vec![0.0; queues.len()], (0..queues.len()).collect());
        Self { queues, weights, clocks, order, chores, ..Self::default() }
    }

    /// Returns one of the keys. In a cluster, its slot determines the node.
    pub fn key(&self) -> &str {
        &self.queues[0][0]
    }

    pub fn may_claim(&self) -> bool {
        self.link.is_some() && self.claiming.is_none() && !self.is_resting
    }

    /// Whether no request is in flight, and no outcome is left to be reported.
    pub fn is_idle(&self) -> bool {
        self.unreported.is_empty() && !self.is_turning && self.claiming.is_none()
    }

    /// The number of outcomes that are to be reported again. Their jobs count towards `concurrency`.
    pub fn repeated(&self) -> usize {
        self.unreported.iter().filter(|outcome| outcome.is_repeated).count()
    }

    /// Takes the outcomes that are to be reported now.
    pub fn sending(&mut self) -> Vec<Outcome> {
        let is_resting = self.is_resting;
        let (later, now) = std::mem::take(&mut self.unreported).into_iter().partition(|o| is_resting && o.is_repeated);
        self.unreported = later;
        now
    }

    pub fn claim(&mut self, lease: Duration, count: usize, worker: &str, block: Option<Duration>) -> Cmd {
        // The shards of a queue take turns to be the first.
        let turn = self.claims;
        self.claims = self.claims.wrapping_add(1);
        let turned = |shards: &Vec<String>| [&shards[turn % shards.len()..], &shards[..turn % shards.len()]].concat();
        self.order.sort_by(|a, b| self.clocks[*a].total_cmp(&self.clocks[*b]).then(a.cmp(b)));
        let queues = self.order.iter().map(|at| &self.queues[*at]);
        let call = zq::claim(queues.flat_map(turned), lease).count(count as u64).as_worker(worker);
        match block {
            Some(block) => call.block(block),
            None => call,
        }
        .into()
    }

    /// Moves the clocks of the queues after a claim.
    pub fn served(&mut self, jobs: &[Claim]) {
        let Some(weights) = &self.weights else { return };
        let mut last = None;
        for job in jobs {
            last = self.queues.iter().position(|keys| keys.iter().any(|key| key.as_bytes() == job.key));
            if let Some(at) = last {
                self.clocks[at] += 1.0 / weights[at];
            }
        }
        // The queues before the last one are empty; if the claim got too few jobs, all are. They must not catch up later.
        let last = last.filter(|_| !self.is_drained);
        let most = self.clocks.iter().copied().fold(0.0, f64::max);
        self.order.iter().take_while(|at| Some(**at) != last).for_each(|at| self.clocks[*at] = most);
    }

    /// Ends the connections. Requests that wait for a reply fail.
    pub fn drop_link(&mut self, error: &Error) {
        if let Some(link) = self.link.take() {
            link.abandon();
        }
        self.epoch += 1;
        self.troubles += 1;
        self.asked = asked_by(error);
    }

    /// Returns the wait before the pump reconnects. It is 0.1 s after the first error, and doubles with each further
    /// error, up to 3 s. It is shortened at random by up to a third, so that workers do not all reconnect at once.
    pub fn rest(&self) -> Duration {
        let longest = 3000.min(100_u64 << self.troubles.saturating_sub(1).min(10));
        Duration::from_millis(longest - random() % (longest / 3))
    }
}

/// Returns the node that an ASK error names: `3999 127.0.0.1:6381`.
fn asked_by(error: &Error) -> Option<(String, u16)> {
    match error {
        Error::Server { code, message } if code.as_str() == "ASK" => {
            let (host, port) = message.split_once(' ')?.1.rsplit_once(':')?;
            Some((host.to_owned(), port.parse().ok()?))
        }
        _ => None,
    }
}
