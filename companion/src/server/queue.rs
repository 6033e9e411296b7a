//! The figures of one queue: ZQ.STATS.

use super::reply;
use redis::Value;

/// Counters, by the names of ZQ.STATS.
pub const COUNTERS: [&str; 14] = [
    "pushed",
    "claimed_total",
    "acked",
    "nacked",
    "cancelled",
    "redriven",
    "expired_leases",
    "replaced",
    "recurred",
    "missed",
    "cleaned",
    "dropped",
    "revoked",
    "late",
];

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Queue {
    pub ready: u64,
    pub delayed: u64,
    pub claimed: u64,
    pub dead: u64,
    /// In the order of [`COUNTERS`].
    pub counters: [u64; COUNTERS.len()],
    /// The due time of the job that has been ready the longest, Unix ms.
    pub oldest_ready_ms: Option<u64>,
    pub is_paused: bool,
    /// All else: the settings, and what newer modules tell.
    pub others: Vec<(String, String)>,
}

impl Queue {
    pub fn read(stats: &Value) -> Queue {
        let mut queue = Queue::default();
        for (name, value) in reply::pairs(stats) {
            let count = reply::count(value);
            if let Some(place) = COUNTERS.iter().position(|counter| *counter == name) {
                queue.counters[place] = count.unwrap_or_default();
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

    pub fn jobs(&self) -> u64 {
        self.ready + self.delayed + self.claimed + self.dead
    }

    pub fn counter(&self, name: &str) -> u64 {
        COUNTERS.iter().position(|counter| *counter == name).map_or(0, |place| self.counters[place])
    }

    /// A setting, or another field that has no place of its own here.
    pub fn other(&self, name: &str) -> Option<&str> {
        self.others.iter().find(|(other, _)| other == name).map(|(_, value)| value.as_str())
    }

    /// For how long the job that waits longest has been ready.
    pub fn wait_ms(&self, now_ms: u64) -> Option<u64> {
        self.oldest_ready_ms.map(|due| now_ms.saturating_sub(due))
    }
}
