//! Clients that wait for jobs, and the times at which to check their queues. The model uses no server and no timer:
//! `now` is a parameter.
//!
//! Each key that clients wait for has an entry. The entry holds the key's clients in the order of their arrival, and
//! the time of the key's next check. This is the time at which the queue becomes claimable without a command: a job is
//! due, a lease expires, or RATE has units again.
//!
//! # Which client is woken
//!
//! A key wakes only its first client. After this client has claimed, the key wakes its next client if the queue is
//! still claimable. So a push causes one check of the queue for each served client, and at most one more check, however
//! many clients wait. If a woken client leaves without a job, the module checks the key again.
//!
//! # Which key serves a client
//!
//! A client may wait for several keys. When any of them wakes the client, the client checks its keys in its own order
//! ([`Waiting::turn`]), and claims from the first key that has a job for it. But an earlier client may be about to
//! claim from that key. Then the later client waits until the earlier client has claimed ([`Waiting::wait_behind`]). If
//! a job is left, the key wakes the later client. If none is left, the module checks the later client's other keys
//! again.
//!
//! # When a key is checked
//!
//! The timer is armed only for times at most [`HORIZON`] away. For later times, the server's cron ([`Waiting::tick`],
//! at least once a second) arms the timer when these times are near. So delays stay far below the integer limits of
//! event loops. If the clock steps forward, the next tick finds the overdue keys. If the clock steps back, the next
//! tick makes all keys due.
//!
//! # No claimable key is forgotten
//!
//! A claimable key that clients wait for always has a time for its next check:
//!
//! - If a key has woken a client, the key is checked again after [`WAKE_TIMEOUT`], in case the client did not claim.
//! - If the server must not serve the clients of a key now (writes are refused, the slot belongs to another node), the
//!   key is checked again after [`RETRY_SERVING`].
//! - If the server may serve no client at all, the keys are checked at the first tick at which it may serve clients
//!   again.

pub mod name;
#[cfg(test)]
mod tests;

use crate::base::alarm::{Alarm, HORIZON};
use crate::base::time::Millis;
use hashbrown::{Equivalent, HashMap};
use std::collections::BTreeSet;
use std::hash::Hash;

/// The delay in ms until the next check of a claimable key if the server must not serve the key's clients now.
const RETRY_SERVING: Millis = 250;

/// A key that has woken a client is checked again after this delay, in ms. The delay is longer than [`HORIZON`], so
/// waking a client arms no timer.
const WAKE_TIMEOUT: Millis = 2000;

/// If the clock steps back by at least this time, in ms, all keys are checked. A smaller step hardly delays a client.
const CLOCK_STEP: Millis = 1000;

/// The maximum number of keys to check in one call of the timer. The server serves its clients between two calls.
const BATCH: usize = 1000;

/// The number of a waiting client. Later clients have higher numbers.
pub type Client = u64;

#[derive(Debug)]
pub struct Waiting<K> {
    keys: HashMap<K, WaitedKey<K>>,
    /// The keys by the time of their next check. Keys without a next check are not here.
    schedule: BTreeSet<(Millis, K)>,
    armed: Option<Millis>,
    /// Whether serving clients is forbidden now, for example on a replica. If so, no due key is checked.
    paused: bool,
    /// The latest `now` since the clock was last set back.
    latest: Millis,
}

#[derive(Debug)]
struct WaitedKey<K> {
    clients: BTreeSet<Client>,
    /// The woken client that has neither claimed nor left yet.
    woken: Option<WokenClient>,
    /// The time of the key's next check, unless a command changes its queue earlier.
    next: Option<Millis>,
    /// Keys to check again when a check of this key wakes no client. Each of them has woken a client that now waits at
    /// this key for an earlier client ([`Waiting::wait_behind`]).
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

/// A woken client's next step for one of its keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turn {
    /// The key has no job, or the server must not serve the clients of this key now. The client goes on to its next
    /// key.
    GoOn,
    /// The key may have a job for this client. The caller must check the queue, and call [`checked`](Waiting::checked).
    Check,
    /// The key has woken an earlier client. The caller must call [`wait_behind`](Waiting::wait_behind), so that this
    /// client waits.
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

    pub fn is_waited_for<Q: Hash + Equivalent<K> + ?Sized>(&self, key: &Q) -> bool {
        self.keys.contains_key(key)
    }

    /// Adds a client that waits for the key. The caller must then check the key ([`checked`](Self::checked)).
    pub fn join(&mut self, key: &K, client: Client, now: Millis) {
        if self.keys.is_empty() {
            (self.latest, self.paused) = (now, false);
        }
        self.keys.entry(key.clone()).or_default().clients.insert(client);
    }

    /// Removes a client from a key: the client has disconnected or timed out, or another key serves it. If this key has
    /// woken the client, the key is checked again for its other clients.
    pub fn leave(&mut self, key: &K, client: Client, now: Millis) {
        if self.is_woken(key, client) {
            self.set_next(key, Some(now));
        }
        self.serve(key, client);
    }

    /// Removes a client from the clients that wait for `key`, because it is served now. The caller then calls
    /// [`checked`](Self::checked).
    pub fn serve(&mut self, key: &K, client: Client) {
        let Some(entry) = self.keys.get_mut(key) else { return };
        entry.clients.remove(&client);
        entry.woken = entry.woken.filter(|woken| woken.client != client);
        if entry.clients.is_empty() {
            self.set_next(key, None);
            self.keys.remove(key);
        }
    }

    /// Records the result of a check of the key's queue: sets the time of the next check, and returns the client to
    /// wake, if any. Must be called after a change of the queue, and when the key is due.
    ///
    /// `next` is the time at which the queue becomes claimable. If the queue is claimable now, `next` is not later than
    /// `now`. `allowed` is false if the clients of this key may not be served now.
    ///
    /// A woken client also calls this function. The client may claim if the function returns the client's number.
    pub fn checked<Q: Hash + Equivalent<K> + ?Sized>(
        &mut self,
        key: &Q,
        now: Millis,
        next: Option<Millis>,
        allowed: bool,
    ) -> Option<Client> {
        self.latest = self.latest.max(now);
        let is_claimable = next.is_some_and(|next| next <= now);
        let next_check = match (is_claimable, allowed) {
            (false, _) => next,
            (true, true) => Some(now.saturating_add(WAKE_TIMEOUT)),
            (true, false) => Some(now.saturating_add(RETRY_SERVING)),
        };
        self.set_next(key, next_check);
        let entry = self.keys.get_mut(key)?;
        let before = entry.woken;
        entry.woken = entry.clients.first().filter(|_| is_claimable && allowed).map(|&client| {
            before.filter(|before| before.client == client).unwrap_or(WokenClient { client, since: now })
        });
        let Some(woken) = entry.woken else {
            // This key wakes no client now. So the keys behind it are checked again, and wake their clients.
            for behind in std::mem::take(&mut entry.behind) {
                self.set_next(&behind, Some(now));
            }
            return None;
        };
        Some(woken.client)
    }

    /// Returns the next step of a woken client for one of its keys. The client calls this function for each of its
    /// keys, in its own order.
    pub fn turn<Q: Hash + Equivalent<K> + ?Sized>(&self, key: &Q, client: Client, now: Millis) -> Turn {
        let Some(entry) = self.keys.get(key) else { return Turn::GoOn };
        match entry.woken {
            Some(woken) if woken.client == client => Turn::Check,
            // If a woken client has not claimed within `WAKE_TIMEOUT`, it no longer blocks later clients.
            Some(woken) if now.saturating_sub(woken.since) < WAKE_TIMEOUT => Turn::Wait,
            _ if entry.next.is_some_and(|next| next <= now) => Turn::Check,
            _ => Turn::GoOn,
        }
    }

    /// Makes `client` wait at `key`, because `key` has woken an earlier client. `behind` has the keys that `client`
    /// would try after `key`. If some of them have woken `client`, they may still have jobs. So when a later check of
    /// `key` wakes no client, these keys become due, and can wake `client` again.
    pub fn wait_behind(&mut self, key: &K, behind: &[K], client: Client) {
        let behind: Vec<_> = behind.iter().filter(|behind| self.is_woken(behind, client)).cloned().collect();
        if let Some(entry) = self.keys.get_mut(key) {
            entry.behind.extend(behind);
        }
    }

    fn is_woken(&self, key: &K, client: Client) -> bool {
        self.keys.get(key).and_then(|entry| entry.woken).is_some_and(|woken| woken.client == client)
    }

    /// Schedules a check of each key at `now`. This is necessary after the clock was set back, after a promotion, and
    /// when slots or datasets arrive.
    pub fn check_all(&mut self, now: Millis) {
        self.schedule.clear();
        for (key, entry) in &mut self.keys {
            entry.next = Some(now);
            self.schedule.insert((now, key.clone()));
        }
    }

    /// Returns how the caller must set the timer. If the clock was set back, makes all keys due. The server's cron must
    /// call this function at least once a second.
    ///
    /// `allowed` returns whether this server may serve clients now. This function calls `allowed` if a key is due, or
    /// if `allowed` returned false the last time.
    ///
    /// Timers count on the monotonic clock. If the wall clock was set forward, the armed timer fires too late. In this
    /// case, this function requests a new timer.
    pub fn tick(&mut self, now: Millis, allowed: impl FnOnce() -> bool) -> Alarm {
        if self.latest >= now.saturating_add(CLOCK_STEP) {
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

    /// Returns the keys to check when the timer has fired. The caller checks them, and then calls
    /// [`alarm`](Self::alarm). `allowed` returns whether this server may serve clients now. If it may not, the function
    /// returns no keys.
    pub fn fired(&mut self, now: Millis, allowed: impl FnOnce() -> bool) -> Vec<K> {
        self.armed = None;
        if self.is_due(now) {
            self.paused = !allowed();
        }
        if self.paused { Vec::new() } else { self.take_due(now) }
    }

    /// Returns at most [`BATCH`] due keys, which the caller must check. Also schedules a check of each key after
    /// [`WAKE_TIMEOUT`], in case the caller's check fails.
    fn take_due(&mut self, now: Millis) -> Vec<K> {
        let mut due = Vec::new();
        while due.len() < BATCH && self.is_due(now) {
            let Some((_, key)) = self.schedule.pop_first() else { break };
            if let Some(entry) = self.keys.get_mut(&key) {
                let next_check = now.saturating_add(WAKE_TIMEOUT);
                entry.next = Some(next_check);
                self.schedule.insert((next_check, key.clone()));
            }
            due.push(key);
        }
        due
    }

    /// Returns how the caller must set the timer for the next check of a key.
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

    /// If clients wait for the key, sets the time of its next check.
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
