//! Clients that wait for jobs of queues, and the time of the next check of each queue. A pure model: no server, no timer; `now` is a
//! parameter.
//!
//! Each key that clients wait for has an entry. The entry holds the key's clients in the order of their arrival, and
//! the next time at which the queue becomes claimable without a command (`next`). At this time, a job is due, a lease
//! expires, or RATE has units again.
//!
//! # Which client is woken
//!
//! A key wakes one client at a time, the first one. After this client has claimed, the key wakes the next client if
//! jobs are left. So a push causes one check of the queue for each served client, and at most one more, however many
//! clients wait. If a woken client leaves without a job, the key is checked again.
//!
//! # Which key serves a client
//!
//! A client that waits for several keys is served from the first of them, in its own order, that has a job for it. This
//! may be another key than the one that woke the client. So a woken client goes through its keys ([`Waiting::turn`]).
//! If an earlier client was woken for one of these keys and has not claimed yet, the later client waits until the
//! earlier one has claimed ([`Waiting::wait_behind`]). If the earlier client leaves a job, this key wakes the later
//! client. Otherwise, the key that first woke the later client wakes it again.
//!
//! # When a key is checked
//!
//! The timer is armed only for times at most [`HORIZON`] away. For later times, the server's cron ([`Waiting::tick`],
//! at least once a second) arms it when they are near. So delays stay far below the integer limits of event loops. If
//! the clock steps forward, the next tick finds the overdue keys. If the clock steps back, the next tick makes all keys
//! due. An idle server has no timer, and its ticks compare one number.
//!
//! # No claimable key is forgotten
//!
//! A claimable key that clients wait for always has a time for its next check. If a client was woken, the key is
//! checked again after [`WAKE_TIMEOUT`], in case the client did not take the job. If the clients of a key may not be
//! served now (writes are refused, the slot belongs to another node), the key is checked again after [`RETRY`]. If the
//! whole server may not serve clients, the keys are checked at the first tick at which the server may serve clients
//! again.
//!
//! The tests simulate histories of clients, clocks and queues (`waiting/tests.rs`).

pub mod name;
#[cfg(test)]
mod tests;

use super::alarm::Alarm;
use super::time::Millis;
use hashbrown::{Equivalent, HashMap};
use std::collections::BTreeSet;
use std::hash::Hash;

/// The maximum delay of the timer, in ms. It is longer than the longest pause between two ticks.
pub const HORIZON: Millis = 1500;

/// The time in ms after which a key whose clients may not be served is checked again.
const RETRY: Millis = 250;

/// The time in ms after which a key is checked again if its woken client has not claimed. It is above [`HORIZON`], so
/// that a push to a waiting client arms no timer.
const WAKE_TIMEOUT: Millis = 2000;

/// The minimum step back of the clock, in ms, after which all keys are checked. A smaller step delays no client
/// noticeably.
const STEP: Millis = 1000;

/// The maximum number of keys to check in one call. The others follow after the server has served its clients.
const BATCH: usize = 1000;

/// The number of a waiting client. Later clients have higher numbers.
pub type Client = u64;

/// The keys that clients wait for.
#[derive(Debug)]
pub struct Waiting<K> {
    keys: HashMap<K, WaitedKey<K>>,
    /// The keys by the time of their next check. Keys without such a time are not here.
    schedule: BTreeSet<(Millis, K)>,
    /// When the armed timer fires. `None` if no timer is armed.
    armed: Option<Millis>,
    /// Whether the server may not serve clients now. Then no key is checked until a tick finds that the server may
    /// serve clients again.
    paused: bool,
    /// The latest time since the clock was last set back.
    latest: Millis,
}

#[derive(Debug)]
struct WaitedKey<K> {
    clients: BTreeSet<Client>,
    /// The client that was woken last, until it claims or leaves.
    woken: Option<WokenClient>,
    /// When to check the key, if no command changes its queue before that time.
    next: Option<Millis>,
    /// Keys whose woken client waits until this key's woken client has claimed or left.
    behind: BTreeSet<K>,
}

impl<K> Default for WaitedKey<K> {
    fn default() -> Self {
        WaitedKey { clients: BTreeSet::new(), woken: None, next: None, behind: BTreeSet::new() }
    }
}

#[derive(Clone, Copy, Debug)]
struct WokenClient {
    client: Client,
    since: Millis,
}

/// What a woken client does with one of its keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turn {
    /// The key has no job, or may not serve clients. The client goes on to the next key.
    GoOn,
    /// The key may have a job for this client. The client checks the queue and calls [`checked`](Waiting::checked).
    Check,
    /// An earlier client was woken for this key. The client calls [`wait_behind`](Waiting::wait_behind).
    Wait,
}

impl<K> Default for Waiting<K> {
    fn default() -> Self {
        Waiting { keys: HashMap::new(), schedule: BTreeSet::new(), armed: None, paused: false, latest: 0 }
    }
}

impl<K: Clone + Ord + Hash> Waiting<K> {
    /// Whether no client waits.
    pub fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }

    /// Whether a client waits for the key.
    pub fn is_waited_for<Q: Hash + Equivalent<K> + ?Sized>(&self, key: &Q) -> bool {
        self.keys.contains_key(key)
    }

    /// Adds a client that waits for the key. The caller then checks the key ([`checked`](Self::checked)).
    pub fn enter(&mut self, key: &K, client: Client, now: Millis) {
        if self.keys.is_empty() {
            (self.latest, self.paused) = (now, false);
        }
        self.keys.entry(key.clone()).or_default().clients.insert(client);
    }

    /// Removes a client that does not claim from the key, because it disconnected, timed out, or is served from another
    /// key. If the client was woken, the key is checked again for the other clients.
    pub fn leave(&mut self, key: &K, client: Client, now: Millis) {
        if self.is_woken(key, client) {
            self.set_next(key, Some(now));
        }
        self.serve(key, client);
    }

    /// Removes a client that claims from the key. The caller then calls [`checked`](Self::checked).
    pub fn serve(&mut self, key: &K, client: Client) {
        let Some(entry) = self.keys.get_mut(key) else { return };
        entry.clients.remove(&client);
        entry.woken = entry.woken.filter(|woken| woken.client != client);
        if entry.clients.is_empty() {
            self.set_next(key, None);
            self.keys.remove(key);
        }
    }

    /// Sets the time at which the queue becomes claimable (`next`), after a command has changed the queue or a check
    /// has read it. `allowed` tells whether the clients of this key may be served now. Returns the client to wake, if
    /// one can be served now.
    ///
    /// A woken client also calls this function. It may claim if the function returns its own number.
    pub fn checked<Q: Hash + Equivalent<K> + ?Sized>(
        &mut self,
        key: &Q,
        now: Millis,
        next: Option<Millis>,
        allowed: bool,
    ) -> Option<Client> {
        self.latest = self.latest.max(now);
        let is_claimable = next.is_some_and(|next| next <= now);
        let again = match (is_claimable, allowed) {
            (false, _) => next,
            (true, true) => Some(now.saturating_add(WAKE_TIMEOUT)),
            (true, false) => Some(now.saturating_add(RETRY)),
        };
        self.set_next(key, again);
        let entry = self.keys.get_mut(key)?;
        let before = entry.woken;
        entry.woken = entry.clients.first().filter(|_| is_claimable && allowed).map(|&client| {
            before.filter(|before| before.client == client).unwrap_or(WokenClient { client, since: now })
        });
        let Some(woken) = entry.woken else {
            // This key wakes no client now. So the keys that waited for it wake their clients again.
            for behind in std::mem::take(&mut entry.behind) {
                self.set_next(&behind, Some(now));
            }
            return None;
        };
        Some(woken.client)
    }

    /// Returns what a woken client does with this key. The client calls this function for each of its keys, in its own
    /// order.
    pub fn turn<Q: Hash + Equivalent<K> + ?Sized>(&self, key: &Q, client: Client, now: Millis) -> Turn {
        let Some(entry) = self.keys.get(key) else { return Turn::GoOn };
        match entry.woken {
            Some(woken) if woken.client == client => Turn::Check,
            // After `WAKE_TIMEOUT`, a woken client that has not claimed no longer blocks other clients.
            Some(woken) if now.saturating_sub(woken.since) < WAKE_TIMEOUT => Turn::Wait,
            _ if entry.next.is_some_and(|next| next <= now) => Turn::Check,
            _ => Turn::GoOn,
        }
    }

    /// Lets a woken client wait for `key`, for which an earlier client was woken. If `key` has no job for this client,
    /// the keys of `behind` that woke the client are checked again.
    pub fn wait_behind(&mut self, key: &K, behind: &[K], client: Client) {
        let behind: Vec<_> = behind.iter().filter(|behind| self.is_woken(behind, client)).cloned().collect();
        if let Some(entry) = self.keys.get_mut(key) {
            entry.behind.extend(behind);
        }
    }

    fn is_woken(&self, key: &K, client: Client) -> bool {
        self.keys.get(key).and_then(|entry| entry.woken).is_some_and(|woken| woken.client == client)
    }

    /// Notes that the key may hold another queue than before. Returns the client to wake.
    pub fn replaced<Q: Hash + Equivalent<K> + ?Sized>(&mut self, key: &Q, now: Millis) -> Option<Client> {
        self.checked(key, now, Some(now), true)
    }

    /// Makes all keys due. The caller calls this after the clock was set back, after a promotion, and when slots or
    /// datasets arrive.
    pub fn check_all(&mut self, now: Millis) {
        self.schedule.clear();
        for (key, entry) in &mut self.keys {
            entry.next = Some(now);
            self.schedule.insert((now, key.clone()));
        }
    }

    /// The server's cron calls this at least once a second. `allowed` tells whether this server may serve clients.
    /// `allowed` is called only if a key is due, or if the server could not serve clients before.
    ///
    /// Timers count on the monotonic clock. If the wall clock was set forward, the armed timer is late, and this
    /// function requests a new one.
    pub fn tick(&mut self, now: Millis, allowed: impl FnOnce() -> bool) -> Alarm {
        if self.latest >= now.saturating_add(STEP) {
            self.latest = now;
            self.check_all(now);
        }
        self.latest = self.latest.max(now);
        if self.paused || self.is_due(now) {
            self.paused = !allowed();
        }
        let is_overdue = self.armed.is_some_and(|armed| armed < now);
        if is_overdue {
            self.armed = None;
        }
        match self.alarm(now) {
            Alarm::AsItIs if is_overdue => Alarm::Off,
            alarm => alarm,
        }
    }

    /// Notes that the timer has fired. Returns the keys to check now. The caller checks them and then calls
    /// [`alarm`](Self::alarm).
    pub fn fired(&mut self, now: Millis, allowed: impl FnOnce() -> bool) -> Vec<K> {
        self.armed = None;
        if self.is_due(now) {
            self.paused = !allowed();
        }
        if self.paused { Vec::new() } else { self.take_due(now) }
    }

    /// Returns the due keys, at most [`BATCH`]. Schedules another check of each key, in case this check fails.
    fn take_due(&mut self, now: Millis) -> Vec<K> {
        let mut due = Vec::new();
        while due.len() < BATCH && self.is_due(now) {
            let Some((_, key)) = self.schedule.pop_first() else { break };
            if let Some(entry) = self.keys.get_mut(&key) {
                let again = now.saturating_add(WAKE_TIMEOUT);
                entry.next = Some(again);
                self.schedule.insert((again, key.clone()));
            }
            due.push(key);
        }
        due
    }

    /// Returns the request for the timer, which the caller must carry out.
    pub fn alarm(&mut self, now: Millis) -> Alarm {
        let soon = now.saturating_add(HORIZON);
        let wanted = self.schedule.first().map(|&(next, _)| next.max(now)).filter(|&next| next <= soon && !self.paused);
        let alarm = match (wanted, self.armed) {
            (None, Some(armed)) if armed > soon || self.keys.is_empty() => Alarm::Off,
            (None, _) => Alarm::AsItIs,
            (Some(wanted), Some(armed)) if armed <= wanted => Alarm::AsItIs,
            (Some(wanted), _) => Alarm::In(wanted - now),
        };
        match alarm {
            Alarm::AsItIs => {}
            Alarm::Off => self.armed = None,
            Alarm::In(delay) => self.armed = Some(now + delay),
        }
        alarm
    }

    fn is_due(&self, now: Millis) -> bool {
        self.schedule.first().is_some_and(|&(next, _)| next <= now)
    }

    /// Sets the time of a key's next check. Does nothing if no client waits for the key.
    fn set_next<Q: Hash + Equivalent<K> + ?Sized>(&mut self, key: &Q, next: Option<Millis>) {
        let Some((key, _)) = self.keys.get_key_value(key) else { return };
        let key = key.clone();
        let Some(entry) = self.keys.get_mut(&key) else { return };
        let before = std::mem::replace(&mut entry.next, next);
        if before == next {
            return;
        }
        if let Some(before) = before {
            self.schedule.remove(&(before, key.clone()));
        }
        if let Some(next) = next {
            self.schedule.insert((next, key));
        }
    }
}
