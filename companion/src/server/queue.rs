//! The stats of a queue: ZQ.STATS.

use super::{State, reply};
use redis::Value;

/// Counters: their names in ZQ.STATS and their labels.
pub const COUNTERS: [(&str, &str); 15] = [
    ("pushed", "Jobs pushed"),
    ("claimed_total", "Jobs claimed"),
    ("acked", "Jobs finished"),
    ("nacked", "Jobs given back"),
    ("cancelled", "Jobs cancelled"),
    ("redriven", "Dead letters made ready again"),
    ("expired_leases", "Leases that expired without ACK or NACK"),
    ("replaced", "Pushes that took the place of a job"),
    ("recurred", "Recurring jobs that wait for their next occurrence again"),
    ("missed", "Occurrences of recurring jobs that ran out of attempts"),
    ("cleaned", "Jobs removed by ZQ.CLEAN"),
    ("dropped", "Dead letters removed because of DEADLEN or DEADTTL"),
    ("revoked", "Claims that ended because the job was replaced or cancelled"),
    ("expired", "Jobs dropped because their TTL had ended"),
    ("late", "ACKs and NACKs that were good, after the lease had expired"),
];

/// Values of [`COUNTERS`] in the same order.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Counts([u64; COUNTERS.len()]);

impl Counts {
    pub fn get(&self, counter: &str) -> Option<u64> {
        Some(self.0[place(counter)?])
    }
}

fn place(counter: &str) -> Option<usize> {
    COUNTERS.iter().position(|(name, _)| *name == counter)
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Queue {
    pub ready: u64,
    pub delayed: u64,
    pub claimed: u64,
    pub dead: u64,
    pub counters: Counts,
    /// Since when the oldest job has waited for a claim, Unix ms.
    pub oldest_ready_ms: Option<u64>,
    pub is_paused: bool,
    /// All other fields: the settings, and fields that newer versions of the module add.
    pub others: Vec<(String, String)>,
}

impl Queue {
    pub fn read(stats: &Value) -> Queue {
        let mut queue = Queue::default();
        for (name, value) in reply::pairs(stats) {
            let count = reply::count(value);
            if let Some(place) = place(&name) {
                queue.counters.0[place] = count.unwrap_or_default();
                continue;
            }
            match name.as_str() {
                "ready" => queue.ready = count.unwrap_or_default(),
                "delayed" => queue.delayed = count.unwrap_or_default(),
                "claimed" => queue.claimed = count.unwrap_or_default(),
                "dead" => queue.dead = count.unwrap_or_default(),
                "oldest_ready_ms" => queue.oldest_ready_ms = count,
                _ => {
                    let text = reply::text(value);
                    queue.is_paused |= name == "paused" && text == "yes";
                    queue.others.push((name, text));
                }
            }
        }
        queue
    }

    pub fn count(&self, state: State) -> u64 {
        match state {
            State::Ready => self.ready,
            State::Delayed => self.delayed,
            State::Claimed => self.claimed,
            State::Dead => self.dead,
        }
    }

    pub fn jobs(&self) -> u64 {
        self.ready + self.delayed + self.claimed + self.dead
    }

    pub fn counter(&self, name: &str) -> u64 {
        self.counters.get(name).unwrap_or_default()
    }

    /// Returns the value of a field in [`others`](Self::others), for example of a setting.
    pub fn other(&self, name: &str) -> Option<&str> {
        self.others.iter().find(|(other, _)| other == name).map(|(_, value)| value.as_str())
    }

    /// Returns how long the oldest job has waited for a claim.
    pub fn wait_ms(&self, now_ms: u64) -> Option<u64> {
        self.oldest_ready_ms.map(|due| now_ms.saturating_sub(due))
    }
}
