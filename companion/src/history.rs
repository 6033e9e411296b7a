//! The last hour of the server and of queues, in memory: one point per sample. The oldest point is dropped first.

use crate::server::{Key, State};
use crate::watch::{Watch, Watched};
use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

/// The maximum number of points: an hour, at one sample every five seconds.
const POINTS: usize = 720;

/// The maximum number of queues with a history. The history of a queue takes up to 29 KB. If there are more queues,
/// only queues with recent activity have a history.
pub const QUEUES: usize = 1_000;

/// The idle time after which a queue's history is dropped to make room for others.
const QUIET_MS: u64 = 3_600_000;

/// The names of the values that the history keeps for the server.
const OF_SERVER: [&str; 18] = [
    "lag", "overdue", "expired", "allowed", "denied", "forced", "claims", "lost", "waiting", "ready", "delayed",
    "claimed", "dead", "wait", "memory", "commands", "clients", "sweep",
];

/// The names of a queue's values in charts.
const OF_QUEUE: [&str; 8] = ["ready", "delayed", "claimed", "dead", "wait", "pushed", "acked", "nacked"];

/// A series of points. Each point has a time and one value for each of `names`.
pub struct History<const FIGURES: usize> {
    names: [&'static str; FIGURES],
    /// The time of each point in Unix ms, and its values in the order of `names`. An unknown value is NaN.
    points: VecDeque<(u64, [f32; FIGURES])>,
}

pub struct Histories {
    pub server: History<{ OF_SERVER.len() }>,
    queues: BTreeMap<Key, OfQueue>,
}

struct OfQueue {
    history: History<{ OF_QUEUE.len() }>,
    /// When the sampler last saw that a counter had grown, Unix ms.
    busy_ms: u64,
}

impl Default for Histories {
    fn default() -> Histories {
        Histories { server: History::new(OF_SERVER), queues: BTreeMap::new() }
    }
}

impl Histories {
    pub fn add(&mut self, watch: &Watch) {
        self.server.push(watch.now_ms(), |name| of_server(watch, name));
        let all_fit = watch.queues.len() <= QUEUES;
        self.queues.retain(|name, kept| {
            watch.queues.contains_key(name) && (all_fit || watch.now_ms() < kept.busy_ms + QUIET_MS)
        });
        for (name, watched) in &watch.queues {
            let at_ms = watched.at_us / 1000;
            let is_busy = watched.before.is_some_and(|(_, before)| before != watched.queue.counters);
            if !self.queues.contains_key(name) {
                if self.queues.len() >= QUEUES || !all_fit && !is_busy {
                    continue;
                }
                self.queues.insert(name.clone(), OfQueue { history: History::new(OF_QUEUE), busy_ms: 0 });
            }
            let kept = self.queues.get_mut(name).expect("just inserted");
            if is_busy {
                kept.busy_ms = at_ms;
            }
            // If there are many queues, a sample reads only some of them. The others get no new point.
            if kept.history.last_ms().is_none_or(|last| last < at_ms) {
                kept.history.push(at_ms, |name| of_queue(watched, name));
            }
        }
    }

    pub fn of_queue(&self, name: &[u8]) -> Option<&History<{ OF_QUEUE.len() }>> {
        Some(&self.queues.get(name)?.history)
    }

    /// Adds a gap to all histories, because the server did not answer. In each history, the gap begins at the time of
    /// the last point plus `later`.
    pub fn miss(&mut self, later: Duration) {
        self.server.miss(later);
        self.queues.values_mut().for_each(|kept| kept.history.miss(later));
    }
}

fn of_server(watch: &Watch, name: &str) -> f32 {
    let info = &watch.now.info;
    let field = |name: &str| info.number(name).map_or(f32::NAN, |number| number as f32);
    let rate = |name: &str| watch.rate(name).map_or(f32::NAN, |rate| rate as f32);
    // Uses the queues' own stats instead of INFO, because only ZQ.STATS counts a delayed job as ready as soon as it is
    // due.
    if let Some(state) = State::parse(name.as_bytes()) {
        return watch.total(state) as f32;
    }
    match name {
        "lag" => field("zeitset_sweep_lag_ms"),
        "overdue" => field("zeitset_sweep_backlog_members"),
        "expired" => rate("zeitset_members_expired"),
        "allowed" => rate("zeitset_checks_allowed"),
        "denied" => rate("zeitset_checks_denied"),
        "forced" => rate("zeitset_checks_forced"),
        "claims" => rate("zeitset_claims"),
        "lost" => rate("zeitset_expired_leases"),
        "waiting" => field("zeitset_clients_waiting"),
        "wait" => watch.longest_wait_ms() as f32,
        "memory" => field("used_memory"),
        "commands" => rate("total_commands_processed"),
        "clients" => field("connected_clients"),
        "sweep" => rate("zeitset_sweep_cpu_us") / 10_000.0,
        _ => f32::NAN,
    }
}

fn of_queue(watched: &Watched, name: &str) -> f32 {
    let queue = &watched.queue;
    if let Some(state) = State::parse(name.as_bytes()) {
        return queue.count(state) as f32;
    }
    match name {
        "wait" => queue.wait_ms(watched.at_us / 1000).unwrap_or_default() as f32,
        counter => watched.rate(counter).map_or(f32::NAN, |rate| rate as f32),
    }
}

impl<const FIGURES: usize> History<FIGURES> {
    fn new(names: [&'static str; FIGURES]) -> Self {
        History { names, points: VecDeque::new() }
    }

    fn push(&mut self, at_ms: u64, figure: impl FnMut(&'static str) -> f32) {
        if self.points.len() == POINTS {
            self.points.pop_front();
        }
        self.points.push_back((at_ms, self.names.map(figure)));
    }

    fn last_ms(&self) -> Option<u64> {
        self.points.back().map(|(at_ms, _)| *at_ms)
    }

    /// Adds a point whose values are all NaN. This point marks a gap. The point's time is the newest point's time plus
    /// `later`. Does nothing if the newest point already marks a gap.
    fn miss(&mut self, later: Duration) {
        if let Some((at_ms, values)) = self.points.back()
            && !values.iter().all(|value| value.is_nan())
        {
            self.push(at_ms + later.as_millis() as u64, |_| f32::NAN);
        }
    }

    /// Returns the values of one name with their times in Unix ms. An unknown value is NaN.
    pub fn series(&self, name: &str) -> Vec<(u64, f64)> {
        let Some(place) = self.names.iter().position(|known| *known == name) else { return Vec::new() };
        self.points.iter().map(|(at_ms, values)| (*at_ms, f64::from(values[place]))).collect()
    }
}

/// The recent usage of limits that somebody looks at. The server keeps no such history, so each view of a limit adds a
/// point.
#[derive(Default)]
pub struct Usage(BTreeMap<Key, VecDeque<(u64, f64)>>);

/// The maximum number of limits with a history, of points per limit, and the age of the oldest point.
const LIMITS: usize = 100;
const POINTS_OF_LIMIT: usize = 600;
const MINUTES_MS: u64 = 600_000;

impl Usage {
    /// Adds the units in use at a time. Returns the points of the last minutes.
    pub fn add(&mut self, key: &[u8], at_ms: u64, units: f64) -> Vec<(u64, f64)> {
        let points = self.0.entry(key.to_vec()).or_default();
        points.retain(|(other, _)| *other < at_ms && other + MINUTES_MS >= at_ms);
        points.push_back((at_ms, units));
        if points.len() > POINTS_OF_LIMIT {
            points.pop_front();
        }
        let shown = points.iter().copied().collect();
        if self.0.len() > LIMITS {
            let last = |points: &VecDeque<(u64, f64)>| points.back().map(|(at_ms, _)| *at_ms);
            let oldest = self.0.iter().min_by_key(|(_, points)| last(points)).map(|(key, _)| key.clone());
            self.0.remove(&oldest.expect("there are limits"));
        }
        shown
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::server::Queue;

    fn watched(at_ms: u64, ready: u64) -> Watched {
        Watched { at_us: at_ms * 1000, queue: Queue { ready, ..Queue::default() }, before: None }
    }

    /// Returns the counters of a queue to which `count` jobs were pushed.
    fn pushed(count: i64) -> crate::server::Counts {
        use redis::Value::{Array, Int, SimpleString};
        Queue::read(&Array(vec![SimpleString("pushed".into()), Int(count)])).counters
    }

    #[test]
    fn of_many_queues_those_are_kept_in_which_something_happens() {
        let (mut histories, mut watch) = (Histories::default(), Watch::default());
        let name = |n: usize| format!("queue{n:05}").into_bytes();
        let busy = |at_ms: u64, ready: u64| Watched { before: Some((0, pushed(1))), ..watched(at_ms, ready) };
        watch.queues = (0..QUEUES).map(|n| (name(n), watched(1, 7))).collect();
        histories.add(&watch);
        assert_eq!(histories.queues.len(), QUEUES, "all fit");
        watch.queues.extend((QUEUES..2 * QUEUES).map(|n| (name(n), watched(2, 7))));
        watch.queues.insert(name(QUEUES + 5), busy(2, 8));
        watch.now.at_us = QUIET_MS * 1000;
        histories.add(&watch);
        assert_eq!(histories.queues.keys().collect::<Vec<_>>(), [&name(QUEUES + 5)]);
        histories.add(&watch);
        let series = |n: usize| histories.of_queue(&name(n)).map(|history| history.series("ready"));
        assert_eq!(series(QUEUES + 5), Some(vec![(2, 8.0)]), "without a new look there is no new point");
        assert_eq!(series(1), None);
        watch.queues.clear();
        histories.add(&watch);
        assert!(histories.queues.is_empty(), "those that are gone take no memory");
        watch.queues = (0..3 * QUEUES).map(|n| (name(n), busy(3, 7))).collect();
        histories.add(&watch);
        assert_eq!(histories.queues.len(), QUEUES);
    }

    #[test]
    fn the_usage_of_limits_is_kept_for_some_minutes_and_for_some_limits() {
        let mut usage = Usage::default();
        usage.add(b"a", 1_000, 1.0);
        assert_eq!(usage.add(b"a", 3_000, 2.0), [(1_000, 1.0), (3_000, 2.0)]);
        assert_eq!(usage.add(b"a", 3_000 + MINUTES_MS, 3.0), [(3_000, 2.0), (3_000 + MINUTES_MS, 3.0)]);
        for n in 0..LIMITS as u64 {
            usage.add(format!("limit{n}").as_bytes(), 2 * MINUTES_MS + n, 1.0);
        }
        assert_eq!((usage.0.len(), usage.0.contains_key(&b"a"[..])), (LIMITS, false), "the oldest is forgotten");
        for n in 0..2 * POINTS_OF_LIMIT as u64 {
            assert!(usage.add(b"limit7", 3 * MINUTES_MS + n, 1.0).len() <= POINTS_OF_LIMIT);
        }
    }

    #[test]
    fn a_server_that_was_away_leaves_one_gap() {
        let mut histories = Histories::default();
        let mut watch = Watch::default();
        watch.queues.insert(b"mails".to_vec(), watched(10, 1));
        histories.add(&watch);
        for _ in 0..3 {
            histories.miss(Duration::from_millis(5));
        }
        let series = histories.of_queue(b"mails").expect("it is kept").series("ready");
        assert!(matches!(series.as_slice(), [(10, 1.0), (15, gap)] if gap.is_nan()), "{series:?}");
    }
}
