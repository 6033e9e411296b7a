//! Simulated histories. The simulated server has a wall clock that can step, and a monotonic clock that cannot. Its
//! timers and its cron work as in Redis. Clients block, time out and disconnect. Queues get pushes and claims, and are
//! deleted and renamed.
//!
//! `ZEITSET_SEEDS` sets the number of histories (default 300). `ZEITSET_SEED` sets the first seed. A failure prints its
//! seed.

mod by_hand;

use super::{CLOCK_STEP, HORIZON, Turn, WAKE_TIMEOUT, Waiting};
use crate::base::alarm::Alarm;
use crate::base::time::Millis;
use crate::base::{histories, number};
use crate::queues::model::{Fate, NackOptions, Push, Queue, Rate};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

type Key = u8;
const KEYS: Key = 3;
const DAY: Millis = 86_400_000;

/// The maximum time, by the monotonic clock, that a client waits for a job that it could claim, while the server serves
/// all woken clients. It is the sum of three delays. The client's key is checked again after `WAKE_TIMEOUT`. A small
/// step back of the wall clock adds up to `CLOCK_STEP`. Waiting for the next tick adds up to 1100 ms.
///
/// If the server fails to serve a woken client, the next check of this client's key may be `WAKE_TIMEOUT` away. Later
/// clients of the key wait behind this client, and with them clients of their other keys. So all three delays may begin
/// again at each such failure, for every client.
const PATIENCE: Millis = WAKE_TIMEOUT + CLOCK_STEP + 1100;
/// After a disturbance, such as a step of the clock, timers can be inexact for this long.
const CALM: Millis = 5000;
/// The maximum time that a client waits for a job that it could claim, if no disturbance occurs during the wait or in
/// the `CALM` ms before it. The time is not 0, because the clock moves while the server checks its clients.
const EXACT: Millis = 40;

struct Client {
    /// The keys in the client's order. A key may occur twice.
    keys: Vec<Key>,
    /// The time-out by the wall clock. 0 means no time-out.
    timeout: Millis,
    count: u64,
    /// The monotonic time at which a job became claimable for this client. `None` if no job is claimable.
    passed_over: Option<Millis>,
}

/// The server's timer. It expires by the wall clock. The event loop checks the timer when the monotonic clock reaches
/// `event`.
#[derive(Clone, Copy)]
struct Timer {
    expires: Millis,
    event: Millis,
}

struct Claim {
    key: Key,
    id: Vec<u8>,
    token: u64,
}

struct World {
    rng: SmallRng,
    wall: Millis,
    mono: Millis,
    waiting: Waiting<Key>,
    queues: BTreeMap<Key, Queue>,
    clients: BTreeMap<u64, Client>,
    /// The clients that the server will check.
    woken: VecDeque<u64>,
    timer: Option<Timer>,
    tick_every: Millis,
    next_tick: Millis,
    /// Whether the server must not serve clients: during CLIENT PAUSE, without enough replicas (min-replicas-to-write),
    /// or as a replica.
    refused: bool,
    /// The keys in slots of other nodes.
    foreign: BTreeSet<Key>,
    claims: Vec<Claim>,
    next_client: u64,
    disturbed: Millis,
    /// The last time, by the monotonic clock, at which the server failed to serve a woken client.
    failed: Millis,
    /// The value of `firings` when the server became idle. `None` if the server is not idle. The server is idle while
    /// no command runs, and no queue with a waiting client has work to do within the next [`PATIENCE`] ms.
    idle: Option<u64>,
    served: u64,
    checks: u64,
    firings: u64,
}

impl World {
    fn new(seed: u64) -> World {
        let mut rng = SmallRng::seed_from_u64(seed);
        let tick_every = *[10, 100, 100, 500, 1000].get(rng.random_range(0..5)).unwrap();
        World {
            rng,
            wall: 1_767_225_600_000,
            mono: 0,
            waiting: Waiting::default(),
            queues: BTreeMap::new(),
            clients: BTreeMap::new(),
            woken: VecDeque::new(),
            timer: None,
            tick_every,
            next_tick: tick_every,
            refused: false,
            foreign: BTreeSet::new(),
            claims: Vec::new(),
            next_client: 0,
            disturbed: 0,
            failed: 0,
            idle: None,
            served: 0,
            checks: 0,
            firings: 0,
        }
    }

    // Functions of the module.

    fn arm(&mut self, alarm: Alarm) {
        match alarm {
            Alarm::AsItIs => {}
            Alarm::Off => self.timer = None,
            Alarm::In(delay) => {
                assert!(delay <= HORIZON, "a timer for what is far off: {delay} ms");
                self.timer = Some(Timer { expires: self.wall + delay, event: self.mono + delay });
            }
        }
    }

    fn allowed(&self, key: Key) -> bool {
        !self.refused && !self.foreign.contains(&key)
    }

    /// Does the same as `OpenQueue::commit`.
    fn changed(&mut self, key: Key) {
        let now = self.wall;
        let next = self.queues.get(&key).and_then(|queue| queue.next_claimable(now));
        let whom = self.waiting.checked(&key, now, next, true);
        self.wake(whom, key);
        let alarm = self.waiting.alarm(now);
        self.arm(alarm);
    }

    fn check_key(&mut self, key: Key) {
        self.checks += 1;
        let now = self.wall;
        let allowed = self.allowed(key);
        let mut next = None;
        if let Some(queue) = self.queues.get_mut(&key) {
            if queue.needs_settling(now) {
                if allowed {
                    queue.claim(now * 1000, now, 0, b"", |_| ());
                    next = queue.next_claimable(now);
                } else {
                    next = Some(now);
                }
            } else {
                next = queue.next_claimable(now);
            }
        }
        let whom = self.waiting.checked(&key, now, next, allowed);
        self.wake(whom, key);
    }

    fn wake(&mut self, whom: Option<u64>, key: Key) {
        let Some(id) = whom else { return };
        assert!(self.clients[&id].keys.contains(&key), "a client that waits for the key");
        self.woken.push_back(id);
    }

    fn fire(&mut self) {
        let (now, refused) = (self.wall, self.refused);
        self.firings += 1;
        for key in self.waiting.fired(now, || !refused) {
            self.check_key(key);
        }
        let alarm = self.waiting.alarm(now);
        self.arm(alarm);
    }

    fn tick(&mut self) {
        let (now, refused) = (self.wall, self.refused);
        let alarm = self.waiting.tick(now, || !refused);
        self.arm(alarm);
        self.check_timer();
    }

    /// Checks the keys of a woken client. Serves the client if a key has a job for it.
    fn serve(&mut self, id: u64) {
        let now = self.wall;
        let turn = self.find_turn(id);
        if let Some(key) = turn {
            let earlier = self.clients.range(..id).find(|(_, other)| other.keys.contains(&key));
            assert!(earlier.is_none(), "{id} is served before one who came earlier");
            self.check_order(id, key);
            let client = self.clients.remove(&id).expect("nobody is served twice");
            self.idle = None;
            for other in &client.keys {
                if *other == key {
                    self.waiting.serve(other, id);
                } else {
                    self.waiting.leave(other, id, now);
                }
            }
            assert!(self.claim(key, client.count), "a client was served with nothing");
            let next = self.queues[&key].next_claimable(now);
            let whom = self.waiting.checked(&key, now, next, true);
            self.wake(whom, key);
            self.served += 1;
        }
        let alarm = self.waiting.alarm(now);
        self.arm(alarm);
    }

    /// Does the same as `Waiter::find_turn`.
    fn find_turn(&mut self, id: u64) -> Option<Key> {
        let now = self.wall;
        let keys = self.clients[&id].keys.clone();
        for (nth, key) in keys.iter().enumerate() {
            let mut turn = self.waiting.turn(key, id, now);
            if turn == Turn::Check {
                self.checks += 1;
                let allowed = self.allowed(*key);
                let next = self.queues.get(key).and_then(|queue| queue.next_claimable(now));
                match self.waiting.checked(key, now, next, allowed) {
                    Some(first) if first == id => return Some(*key),
                    other => self.wake(other, *key),
                }
                turn = self.waiting.turn(key, id, now);
            }
            if turn == Turn::Wait {
                self.waiting.wait_behind(key, &keys[nth + 1..], id);
                return None;
            }
        }
        None
    }

    /// Panics unless `key` is the first of the client's keys that has a job. Checks nothing in the first [`CALM`] ms
    /// after a disturbance, such as a step of the clock.
    fn check_order(&self, id: u64, key: Key) {
        if self.mono < self.disturbed + CALM {
            return;
        }
        let before = self.clients[&id].keys.iter().take_while(|&&other| other != key);
        for other in before {
            let has_job = self.queues.get(other).is_some_and(|queue| queue.claimable(self.wall) > 0);
            assert!(!has_job || !self.allowed(*other), "{id} is served from {key}, and {other} has a job");
        }
    }

    /// Claims jobs. Returns whether the queue had a job.
    fn claim(&mut self, key: Key, count: u64) -> bool {
        let now = self.wall;
        let lease = *[1, 50, 3000, DAY].get(self.rng.random_range(0..4)).unwrap();
        let claims = self.queues.get_mut(&key).expect("a queue").claim(now * 1000, now + lease, count, b"", |_| ());
        let jobs = claims.iter().map(|job| Claim { key, id: job.id.to_vec(), token: job.token });
        let before = self.claims.len();
        self.claims.extend(jobs);
        self.claims.len() > before
    }

    /// Runs ZQ.CLAIM with BLOCK.
    fn block(&mut self, keys: Vec<Key>, timeout: Millis, count: u64) {
        let now = self.wall;
        for &key in &keys {
            let Some(queue) = self.queues.get(&key) else { continue };
            if self.waiting.is_waited_for(&key) {
                if queue.next_claimable(now) == Some(now) {
                    break;
                }
            } else if self.claim(key, count) {
                self.changed(key);
                return;
            }
        }
        let id = self.next_client;
        self.next_client += 1;
        for key in &keys {
            self.waiting.join(key, id, now);
        }
        let timeout = if timeout == 0 { 0 } else { now + timeout };
        self.clients.insert(id, Client { keys: keys.clone(), timeout, count, passed_over: None });
        for key in keys {
            self.check_key(key);
        }
        let alarm = self.waiting.alarm(now);
        self.arm(alarm);
    }

    fn go_away(&mut self, id: u64) {
        let client = self.clients.remove(&id).expect("a client");
        for key in &client.keys {
            self.waiting.leave(key, id, self.wall);
        }
        let alarm = self.waiting.alarm(self.wall);
        self.arm(alarm);
    }

    // Functions of the server.

    /// Checks the woken clients, as the server does after every command and every round of the event loop.
    fn handle_woken(&mut self) {
        while let Some(id) = self.woken.pop_front() {
            // The server may fail to serve a client, for example because of a panic.
            if self.rng.random_ratio(1, 300) {
                (self.disturbed, self.failed) = (self.mono, self.mono);
                continue;
            }
            // The client may disconnect before its turn.
            if self.rng.random_ratio(1, 20) && self.clients.contains_key(&id) {
                self.go_away(id);
            }
            if self.clients.contains_key(&id) {
                self.serve(id);
                // The clock moves while the server checks client after client.
                if self.rng.random_ratio(1, 3) {
                    self.pass(1);
                }
            }
        }
    }

    fn time_outs(&mut self) {
        let now = self.wall;
        let over: Vec<_> =
            self.clients.iter().filter(|(_, c)| c.timeout != 0 && c.timeout <= now).map(|(&id, _)| id).collect();
        over.into_iter().for_each(|id| self.go_away(id));
    }

    fn pass(&mut self, ms: Millis) {
        self.wall += ms;
        self.mono += ms;
    }

    /// Runs a round of the event loop.
    fn settle_down(&mut self) {
        self.time_outs();
        self.handle_woken();
        self.check();
    }

    /// Lets time pass, with all timers and ticks.
    fn advance(&mut self, ms: Millis) {
        let until = self.mono + ms;
        let mut rounds = 0;
        loop {
            let event = self.timer.map_or(Millis::MAX, |timer| timer.event);
            let next = event.min(self.next_tick).max(self.mono);
            if next > until {
                break;
            }
            rounds = if next == self.mono { rounds + 1 } else { 0 };
            assert!(rounds < 100, "the event loop spins");
            self.pass(next - self.mono);
            if self.next_tick <= self.mono {
                self.next_tick = self.mono + self.tick_every;
                self.tick();
            }
            if let Some(timer) = self.timer.filter(|timer| timer.event <= self.mono) {
                if timer.expires <= self.wall {
                    self.timer = None;
                    self.fire();
                } else {
                    // As in Redis, the event loop uses the monotonic clock, and the timer expires by the wall clock.
                    self.timer = Some(Timer { event: self.mono + (timer.expires - self.wall), ..timer });
                }
            }
            self.settle_down();
        }
        self.pass(until.saturating_sub(self.mono));
        self.settle_down();
    }

    // Invariants.

    fn check(&mut self) {
        let (now, mono) = (self.wall, self.mono);
        let could: BTreeSet<Key> = self
            .queues
            .iter()
            .filter(|&(&key, queue)| queue.claimable(now) > 0 && self.allowed(key))
            .map(|(&key, _)| key)
            .collect();
        let calm = mono >= self.disturbed + CALM;
        for (id, client) in &mut self.clients {
            if !client.keys.iter().any(|key| could.contains(key)) {
                client.passed_over = None;
                continue;
            }
            let since = *client.passed_over.get_or_insert(mono);
            let patience = if calm && since >= self.disturbed + CALM { EXACT } else { PATIENCE };
            let within = mono - since.max(self.failed) <= patience;
            assert!(within, "client {id} has waited {} ms while there was a job", mono - since);
        }
        for key in 0..KEYS {
            let waits = self.clients.values().any(|client| client.keys.contains(&key));
            assert_eq!(waits, self.waiting.is_waited_for(&key), "clients wait for {key}");
        }
        assert_eq!(self.clients.is_empty(), self.waiting.is_empty());
        if self.clients.is_empty() {
            assert!(self.waiting.schedule.is_empty() && self.timer.is_none(), "something is left over");
        }
    }

    /// Panics if the timer is armed beyond [`HORIZON`], or fires repeatedly although nothing is due soon. Allows a late
    /// timer just after a step of the clock, because the event loop corrects it only at the next tick.
    fn check_timer(&mut self) {
        let now = self.wall;
        if let Some(timer) = self.timer {
            let is_in_time = timer.event <= self.mono + HORIZON || self.mono < self.disturbed + CALM;
            assert!(timer.expires <= now + HORIZON && is_in_time, "a timer for what is far off");
        }
        let soon = |key: &Key| {
            self.queues.get(key).is_some_and(|queue| {
                queue.needs_settling(now) || queue.next_claimable(now).is_some_and(|next| next <= now + PATIENCE)
            })
        };
        if self.mono < self.disturbed + CALM || self.clients.values().any(|client| client.keys.iter().any(soon)) {
            self.idle = None;
        } else {
            // A timer may still fire once for a client that has left, and once for each queue that was deleted, because
            // the model is not notified of these two events.
            let most = *self.idle.get_or_insert(self.firings) + 1 + Millis::from(KEYS);
            assert!(self.firings <= most, "an idle server has timers");
        }
    }

    // Actions of clients and operators.

    fn step(&mut self) {
        self.idle = None;
        let key = self.rng.random_range(0..KEYS);
        match self.rng.random_range(0..100) {
            0..16 => self.push(key),
            16..20 => self.rush(key),
            20..40 => {
                let mut keys = vec![key];
                while self.rng.random_ratio(1, 3) {
                    keys.push(self.rng.random_range(0..KEYS));
                }
                let timeout = *[0, 0, 30, 5000, 366 * DAY].get(self.rng.random_range(0..5)).unwrap();
                let count = self.rng.random_range(1..4);
                self.block(keys, timeout, count);
            }
            40..44 => {
                let now = self.wall;
                if self.queues.get(&key).is_some_and(|queue| queue.claimable(now) > 0) {
                    assert!(self.claim(key, 2), "a client was served with nothing");
                    self.changed(key);
                }
            }
            44..56 => self.finish(),
            56..60 => {
                if let Some(&id) = self.clients.keys().nth(self.rng.random_range(0..8)) {
                    self.go_away(id);
                }
            }
            60 => drop(self.queues.remove(&key)),
            61 => self.rush_of_all(),
            62..64 => {
                if let Some(queue) = self.queues.remove(&key) {
                    let to = self.rng.random_range(0..KEYS);
                    self.queues.insert(to, queue);
                    // The server sends an event for the new key.
                    let whom = self.waiting.checked(&to, self.wall, Some(self.wall), true);
                    self.wake(whom, to);
                    let alarm = self.waiting.alarm(self.wall);
                    self.arm(alarm);
                }
            }
            64..69 => self.configure(key),
            69..72 => {
                self.refused = !self.refused;
                self.disturbed = self.mono;
            }
            72..74 => {
                if !self.foreign.remove(&key) {
                    self.foreign.insert(key);
                }
                self.disturbed = self.mono;
            }
            74..77 => {
                let step = *[300, 2000, 60_000, 3_600_000, 60 * DAY].get(self.rng.random_range(0..5)).unwrap();
                self.wall = if self.rng.random() { self.wall + step } else { self.wall - step };
                self.disturbed = self.mono;
            }
            77 => {
                self.waiting.check_all(self.wall);
                let alarm = self.waiting.alarm(self.wall);
                self.arm(alarm);
            }
            _ => {
                let ms = match self.rng.random_range(0..40) {
                    0..20 => self.rng.random_range(0..5),
                    20..30 => self.rng.random_range(0..200),
                    30..39 => self.rng.random_range(0..4000),
                    _ => self.rng.random_range(0..120_000),
                };
                self.advance(ms);
            }
        }
        self.settle_down();
    }

    fn push(&mut self, key: Key) {
        let now = self.wall;
        for _ in 0..self.rng.random_range(1..4) {
            let delay = *[0, 0, 0, 1, 40, 1000, 1600, 5000, 60_000, 3_600_000, 60 * DAY]
                .get(self.rng.random_range(0..11))
                .unwrap();
            let every =
                self.rng.random_ratio(1, 6).then(|| *[70, 60_000, 60 * DAY].get(self.rng.random_range(0..3)).unwrap());
            let attempts = self.rng.random_ratio(1, 4).then_some(1);
            let ttl = self.rng.random_ratio(1, 6).then(|| *[1, 50, 60_000].get(self.rng.random_range(0..3)).unwrap());
            let push = Push { payload: b"", due: now + delay, every, max_attempts: attempts, ttl, ..Push::default() };
            self.queues.entry(key).or_default().push(now, &push).expect("there is room");
        }
        self.changed(key);
    }

    /// Clients wait and are woken for jobs. Before they claim, more jobs become due.
    fn rush(&mut self, key: Key) {
        let now = self.wall;
        self.queues.remove(&key);
        for _ in 0..6 {
            self.block(vec![key], 0, 1);
        }
        for delay in [0, 1, 1, 2, 3] {
            let push = Push { payload: b"", due: now + delay, ..Push::default() };
            self.queues.entry(key).or_default().push(now, &push).expect("there is room");
        }
        self.changed(key);
    }

    /// Clients wait for several queues, each client in its own order. Jobs of all queues become due at one time.
    fn rush_of_all(&mut self) {
        let now = self.wall;
        let due = now + *[0, 0, 1, 40].get(self.rng.random_range(0..4)).unwrap();
        for _ in 0..self.rng.random_range(1..8) {
            let mut keys: Vec<Key> = (0..KEYS).collect();
            keys.rotate_left(self.rng.random_range(0..KEYS.into()));
            keys.truncate(self.rng.random_range(1..=KEYS.into()));
            if self.rng.random() {
                keys.reverse();
            }
            self.block(keys, 0, 1);
        }
        for key in 0..KEYS {
            for _ in 0..self.rng.random_range(0..5) {
                let push = Push { payload: b"", due, ..Push::default() };
                self.queues.entry(key).or_default().push(now, &push).expect("there is room");
                self.changed(key);
            }
        }
    }

    fn finish(&mut self) {
        if self.claims.is_empty() {
            return;
        }
        let claim = self.claims.swap_remove(self.rng.random_range(0..self.claims.len()));
        let (now, kind) = (self.wall, self.rng.random_range(0..4));
        let Some(queue) = self.queues.get_mut(&claim.key) else { return };
        match kind {
            0 | 1 => drop(queue.ack(now, &claim.id, claim.token)),
            2 => drop(queue.nack(now, &claim.id, claim.token, Fate::At(now + 700), NackOptions::default())),
            _ => drop(queue.extend(now, &claim.id, claim.token, now + 900)),
        }
        self.changed(claim.key);
    }

    fn configure(&mut self, key: Key) {
        let now = self.wall;
        let Some(queue) = self.queues.get_mut(&key) else { return };
        let mut settings = *queue.settings();
        match self.rng.random_range(0..4) {
            // ZQ.HOLD: clients are woken when the hold ends or is released.
            3 => {
                let until = *[0, now + 40, now + 3000, now + 3_600_000].get(self.rng.random_range(0..4)).unwrap();
                queue.hold(now, b"", until);
            }
            0 => settings.paused = !settings.paused,
            1 => settings.concurrency = self.rng.random_range(0..3),
            _ => {
                let window = *[20, 2000, 3_600_000].get(self.rng.random_range(0..3)).unwrap();
                settings.rate = self.rng.random::<bool>().then_some(Rate { limit: 2, window });
            }
        }
        queue.configure(now, settings);
        self.changed(key);
    }
}

#[test]
fn no_client_is_passed_over_and_nothing_is_left_over() {
    let first = number("ZEITSET_SEED").unwrap_or(0);
    let seeds = first..first + u64::from(histories(300));
    let (mut served, mut checks, mut firings, mut time) = (0, 0, 0, 0);
    for seed in seeds {
        let run = || {
            let mut world = World::new(seed);
            for _ in 0..200 {
                world.step();
            }
            world
        };
        let Ok(world) = std::panic::catch_unwind(run) else {
            panic!("ZEITSET_SEED={seed} ZEITSET_SEEDS=1 repeats this")
        };
        (served, checks, firings) = (served + world.served, checks + world.checks, firings + world.firings);
        time += world.mono;
    }
    println!("{} h simulated: {served} clients served, {checks} checks, {firings} timers fired", time / 3_600_000);
    assert!(served > 0 && checks > 0 && firings > 0, "the histories are about something");
}

/// The clock is set back, and later set forward again. Between the two steps, the event loop computes the timer's wait
/// from the wrong time. So the timer is late, but the next tick serves the client.
#[test]
fn a_clock_that_goes_back_and_returns_between_two_ticks_delays_a_client_until_the_next_tick_at_most() {
    let mut world = World::new(0);
    world.block(vec![0], 0, 1);
    let due = world.wall + 20;
    let push = Push { due, ..Push::default() };
    world.queues.entry(0).or_default().push(world.wall, &push).expect("there is room");
    world.changed(0);
    world.next_tick = world.mono + 10;
    world.advance(15);
    world.tick_every = 1000;
    world.next_tick = world.mono + 1000;
    world.wall -= 60 * DAY;
    world.advance(10);
    world.wall += 60 * DAY;
    assert!(world.timer.is_some_and(|timer| timer.expires == due && timer.event > world.mono + DAY), "put off");
    world.advance(1000);
    assert_eq!((world.served, world.timer.is_none()), (1, true));
}

/// Thousands of clients wait for a queue, and `n` jobs are pushed. Then `n` clients are served, and the queue is
/// checked at most `n + 1` times.
#[test]
fn a_push_costs_as_many_checks_as_clients_it_serves() {
    const CLIENTS: u64 = 10_000;
    let mut world = World::new(0);
    for _ in 0..CLIENTS {
        world.block(vec![0, 1], 0, 1);
    }
    for jobs in [1, 1, 7, 100] {
        let before = world.checks;
        for _ in 0..jobs {
            let push = Push { due: world.wall, ..Push::default() };
            world.queues.entry(0).or_default().push(world.wall, &push).expect("there is room");
        }
        world.changed(0);
        let mut served = 0;
        while let Some(id) = world.woken.pop_front() {
            world.serve(id);
            served += 1;
        }
        assert_eq!(served, jobs);
        assert!(world.checks - before <= jobs + 1, "{} checks", world.checks - before);
    }
    assert_eq!(world.served, 109);
    assert_eq!(*world.clients.keys().next().expect("most wait on"), 109);
}

/// With thousands of clients that wait for several keys, and jobs in all keys, each served client causes a few checks.
#[test]
fn jobs_of_several_keys_cost_a_few_checks_for_each_served_client() {
    const CLIENTS: u64 = 3000;
    const JOBS: u64 = 100;
    let mut world = World::new(0);
    for n in 0..CLIENTS {
        world.block([vec![2], vec![2, 1], vec![2, 1, 0]][n as usize % 3].clone(), 0, 1);
    }
    for key in 0..KEYS {
        for _ in 0..JOBS {
            let push = Push { due: world.wall, ..Push::default() };
            world.queues.entry(key).or_default().push(world.wall, &push).expect("there is room");
            world.changed(key);
        }
    }
    let before = world.checks;
    for _ in 0..1000 {
        while let Some(id) = world.woken.pop_front() {
            if world.clients.contains_key(&id) {
                world.serve(id);
            }
        }
        world.fire();
    }
    assert_eq!(world.served, JOBS * u64::from(KEYS));
    let (checks, most) = (world.checks - before, 4 * world.served);
    assert!(checks <= most, "{checks} checks for {} clients", world.served);
}
