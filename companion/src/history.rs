//! The last hour of a server: one point for each sample, the oldest forgotten first.

use crate::server::Queue;
use crate::watch::Watch;
use std::collections::VecDeque;

/// Points that are kept: an hour, at one sample every five seconds.
const POINTS: usize = 720;

/// What is kept of a sample, in the order of [`NAMES`]. NaN: not known.
#[derive(Clone)]
pub struct Point {
    pub at_ms: u64,
    values: [f32; NAMES.len()],
}

/// The figures, by the names that charts use.
pub const NAMES: [&str; 17] = [
    "lag", "overdue", "expired", "allowed", "denied", "claims", "lost", "waiting", "ready", "delayed", "claimed",
    "dead", "wait", "memory", "commands", "clients", "sweep",
];

#[derive(Default)]
pub struct History {
    pub points: VecDeque<Point>,
}

impl History {
    pub fn add(&mut self, watch: &Watch) {
        let info = &watch.now.info;
        let field = |name: &str| info.number(name).map_or(f32::NAN, |number| number as f32);
        let rate = |name: &str| watch.rate(name).map_or(f32::NAN, |rate| rate as f32);
        // By the clock, as the queues themselves tell; INFO counts jobs by their places.
        let total = |state: fn(&Queue) -> u64| watch.total(state) as f32;
        let value = |name: &str| match name {
            "lag" => field("zeitset_sweep_lag_ms"),
            "overdue" => field("zeitset_sweep_backlog_members"),
            "expired" => rate("zeitset_members_expired"),
            "allowed" => rate("zeitset_checks_allowed"),
            "denied" => rate("zeitset_checks_denied"),
            "claims" => rate("zeitset_jobs_claimed"),
            "lost" => rate("zeitset_leases_expired"),
            "waiting" => field("zeitset_clients_waiting"),
            "ready" => total(|queue| queue.ready),
            "delayed" => total(|queue| queue.delayed),
            "claimed" => total(|queue| queue.claimed),
            "dead" => total(|queue| queue.dead),
            "wait" => watch.longest_wait_ms() as f32,
            "memory" => field("used_memory"),
            "commands" => rate("total_commands_processed"),
            "clients" => field("connected_clients"),
            "sweep" => rate("zeitset_sweep_cpu_us") / 10_000.0,
            _ => f32::NAN,
        };
        if self.points.len() == POINTS {
            self.points.pop_front();
        }
        self.points.push_back(Point { at_ms: watch.now_ms(), values: NAMES.map(value) });
    }

    /// One figure over time: Unix ms and value, without the points at which it was not known.
    pub fn series(&self, name: &str) -> Vec<(u64, f64)> {
        let Some(place) = NAMES.iter().position(|known| *known == name) else { return Vec::new() };
        let points = self.points.iter().map(|point| (point.at_ms, f64::from(point.values[place])));
        points.filter(|(_, value)| value.is_finite()).collect()
    }
}
