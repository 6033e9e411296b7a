//! Which clients wait for which queue, and when to look at a queue next. Pure: no server, no timer, `now` is always a parameter.
//!
//! For every key that a client waits for there is an entry here. It holds the clients in the order in which they came, and the next
//! moment at which the queue becomes claimable because time passes (`next`): a job falls due, a lease ends, RATE opens.
//!
//! # Whom to ask
//!
//! One client at a time, the first. It claims, and then the next one is asked if jobs are left. So a push costs as many looks at the
//! queue as clients are served, and at most one more, however many clients wait. A client that was asked and leaves without a job has
//! the key looked at again.
//!
//! # From which key
//!
//! A client that waits for several keys is served from the first of them, in its own order, that has a job for it: not from the one
//! for whose sake it was asked. So when it is asked it goes through its keys ([`Waiting::turn`]). If a client that came earlier was
//! asked for one of them, it is not yet known whether that key has a job for the later client, too. Then the later client waits until that is
//! known ([`Waiting::wait_behind`]), and is asked once more if the key has nothing left.
//!
//! # When to look
//!
//! A timer is armed only for a moment at most [`HORIZON`] away. The server's housekeeping ([`Waiting::tick`], at least once a second)
//! hands over what is further off. Three things follow. No delay comes near the integers in which event loops count. The wall
//! clock may step: after a step forward the next tick finds keys overdue, and after a step back it has every key looked at again. And
//! an idle server is idle: it has no timer, and a tick with nothing due looks at one number.
//!
//! # What cannot get lost
//!
//! A key that is claimable while clients wait for it always has a moment: whoever takes one away sets the next one, in the same
//! step. A key of which a client was asked is looked at again after [`UNANSWERED`], in case it did not take the job. A key whose clients
//! may not be served now (writes are refused, the slot belongs to another node) is looked at again after [`REFUSED`], or, when
//! that holds for the whole server, as soon as a tick finds that writes are possible again.
//!
//! The tests run whole histories of clients, clocks and queues against this (`waiting/tests.rs`).

pub mod name;
#[cfg(test)]
mod tests;

use super::alarm::Alarm;
use super::time::Millis;
use hashbrown::{Equivalent, HashMap};
use std::collections::BTreeSet;
use std::hash::Hash;

/// A timer is armed for moments no further off than this, in ms: longer than the longest pause between two ticks.
pub const HORIZON: Millis = 1500;

/// After that many ms a key whose clients may not be served is looked at again.
const REFUSED: Millis = 250;

/// After that many ms a key is looked at again of which a client was asked, in case it did not take the job. Beyond [`HORIZON`], so
/// that a push to a client that waits arms no timer.
const UNANSWERED: Millis = 2000;

/// A clock that has gone back by that many ms has been set back. Less than that makes no client wait noticeably longer.
const STEP: Millis = 1000;

/// How many keys are looked at in one go. The rest follows after the server has served its clients.
const BATCH: usize = 1000;

/// A client that waits. A client that came later has a higher number.
pub type Client = u64;

/// The keys that clients wait for.
#[derive(Debug)]
pub struct Waiting<K> {
    keys: HashMap<K, WaitedKey<K>>,
    /// The moments of the entries that have one.
    schedule: BTreeSet<(Millis, K)>,
    /// When the armed timer fires.
    armed: Option<Millis>,
    /// The server may not serve anybody now: nothing is looked at until a tick finds that it may.
    held: bool,
    /// The latest time seen since the clock was last set back.
    latest: Millis,
}

#[derive(Debug)]
struct WaitedKey<K> {
    /// Clients that wait for the key.
    clients: BTreeSet<Client>,
    /// The one that was asked last, and has not answered.
    asked: Option<AskedClient>,
    /// When the key is to be looked at if nothing else happens.
    next: Option<Millis>,
    /// Keys whose client has been asked, and waits until it is known whether this one has a job for it.
    lesser: BTreeSet<K>,
}

impl<K> Default for WaitedKey<K> {
    fn default() -> Self {
        WaitedKey { clients: BTreeSet::new(), asked: None, next: None, lesser: BTreeSet::new() }
    }
}

/// A client that was asked, and since when.
#[derive(Clone, Copy, Debug)]
struct AskedClient {
    client: Client,
    since: Millis,
}

/// What a client that was asked is to do about one of its keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turn {
    /// There is no job, or none may be served: go on to the next key.
    GoOn,
    /// Look at the key, and tell ([`looked`](Waiting::looked)): there may be a job for this client.
    Look,
    /// A client that came earlier has been asked ([`wait_behind`](Waiting::wait_behind)).
    Wait,
}

impl<K> Default for Waiting<K> {
    fn default() -> Self {
        Waiting { keys: HashMap::new(), schedule: BTreeSet::new(), armed: None, held: false, latest: 0 }
    }
}

impl<K: Clone + Ord + Hash> Waiting<K> {
    /// Whether no client waits for anything.
    pub fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }

    /// Whether a client waits for the key.
    pub fn is_waited_for<Q: Hash + Equivalent<K> + ?Sized>(&self, key: &Q) -> bool {
        self.keys.contains_key(key)
    }

    /// One more client waits for the key. The queue is to be looked at next ([`looked`](Self::looked)).
    pub fn enter(&mut self, key: &K, client: Client, now: Millis) {
        if self.keys.is_empty() {
            (self.latest, self.held) = (now, false);
        }
        self.keys.entry(key.clone()).or_default().clients.insert(client);
    }

    /// A client waits for the key no more: it has gone away, its time was up, or another key serves it. If it was asked, somebody else
    /// is to be: the key is looked at again.
    pub fn leave(&mut self, key: &K, client: Client, now: Millis) {
        if self.is_asked(key, client) {
            self.set_next(key, Some(now));
        }
        self.serve(key, client);
    }

    /// A client waits no more, because this key serves it. What it leaves is to be told ([`looked`](Self::looked)).
    pub fn serve(&mut self, key: &K, client: Client) {
        let Some(entry) = self.keys.get_mut(key) else { return };
        entry.clients.remove(&client);
        entry.asked = entry.asked.filter(|asked| asked.client != client);
        if entry.clients.is_empty() {
            self.set_next(key, None);
            self.keys.remove(key);
        }
    }

    /// The queue is claimable from `next` on if nothing else happens: a command has changed it so, or a look has found it so. The client
    /// to ask, if one can be served now. `allowed`: whether the clients of this key may be served now; none is asked otherwise.
    ///
    /// A client that is asked looks too, and this tells whether it is its turn.
    pub fn looked<Q: Hash + Equivalent<K> + ?Sized>(
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
            (true, true) => Some(now.saturating_add(UNANSWERED)),
            (true, false) => Some(now.saturating_add(REFUSED)),
        };
        self.set_next(key, again);
        let entry = self.keys.get_mut(key)?;
        let before = entry.asked;
        entry.asked = entry.clients.first().filter(|_| is_claimable && allowed).map(|&client| {
            before.filter(|before| before.client == client).unwrap_or(AskedClient { client, since: now })
        });
        let Some(asked) = entry.asked else {
            // Nothing is left for the clients that waited for that: they are asked again for their other keys.
            for lesser in std::mem::take(&mut entry.lesser) {
                self.set_next(&lesser, Some(now));
            }
            return None;
        };
        Some(asked.client)
    }

    /// A client that was asked goes through its keys, in its own order: what it is to do about this one.
    pub fn turn<Q: Hash + Equivalent<K> + ?Sized>(&self, key: &Q, client: Client, now: Millis) -> Turn {
        let Some(entry) = self.keys.get(key) else { return Turn::GoOn };
        match entry.asked {
            Some(asked) if asked.client == client => Turn::Look,
            // One that has not answered for so long must not keep others from what they can have.
            Some(asked) if now.saturating_sub(asked.since) < UNANSWERED => Turn::Wait,
            _ if entry.next.is_some_and(|next| next <= now) => Turn::Look,
            _ => Turn::GoOn,
        }
    }

    /// A client that was asked waits until it is known whether `key` has a job for it. If not, those of the `lesser` keys for whose sake it
    /// was asked are looked at again.
    pub fn wait_behind(&mut self, key: &K, lesser: &[K], client: Client) {
        let lesser: Vec<_> = lesser.iter().filter(|lesser| self.is_asked(lesser, client)).cloned().collect();
        if let Some(entry) = self.keys.get_mut(key) {
            entry.lesser.extend(lesser);
        }
    }

    fn is_asked(&self, key: &K, client: Client) -> bool {
        self.keys.get(key).and_then(|entry| entry.asked).is_some_and(|asked| asked.client == client)
    }

    /// The key may hold another queue than before. The client to ask.
    pub fn replaced<Q: Hash + Equivalent<K> + ?Sized>(&mut self, key: &Q, now: Millis) -> Option<Client> {
        self.looked(key, now, Some(now), true)
    }

    /// Every key is to be looked at: the clock was set back, this server has become a master, slots or datasets have arrived.
    pub fn look_at_all(&mut self, now: Millis) {
        self.schedule.clear();
        for (key, entry) in &mut self.keys {
            entry.next = Some(now);
            self.schedule.insert((now, key.clone()));
        }
    }

    /// The server's housekeeping passes by, at least once a second. `allowed` tells whether this server may serve clients by itself;
    /// it is asked only if that matters.
    ///
    /// A timer that should have fired by now counts on another clock than the wall's, which has been set forward: it is set right.
    pub fn tick(&mut self, now: Millis, allowed: impl FnOnce() -> bool) -> Alarm {
        if self.latest >= now.saturating_add(STEP) {
            self.latest = now;
            self.look_at_all(now);
        }
        self.latest = self.latest.max(now);
        if self.held || self.is_due(now) {
            self.held = !allowed();
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

    /// The timer has fired: the keys to look at now. [`alarm`](Self::alarm) is to follow when that is done.
    pub fn fired(&mut self, now: Millis, allowed: impl FnOnce() -> bool) -> Vec<K> {
        self.armed = None;
        if self.is_due(now) {
            self.held = !allowed();
        }
        if self.held { Vec::new() } else { self.take_due(now) }
    }

    /// The keys whose moment has come, a batch at the most. Each is looked at again after a while, should the look fail.
    fn take_due(&mut self, now: Millis) -> Vec<K> {
        let mut due = Vec::new();
        while due.len() < BATCH && self.is_due(now) {
            let Some((_, key)) = self.schedule.pop_first() else { break };
            if let Some(entry) = self.keys.get_mut(&key) {
                let again = now.saturating_add(UNANSWERED);
                entry.next = Some(again);
                self.schedule.insert((again, key.clone()));
            }
            due.push(key);
        }
        due
    }

    /// What is to be done with the timer after any of the above. The answer is taken as done.
    pub fn alarm(&mut self, now: Millis) -> Alarm {
        let soon = now.saturating_add(HORIZON);
        let wanted = self.schedule.first().map(|&(next, _)| next.max(now)).filter(|&next| next <= soon && !self.held);
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

    /// Sets the moment of a key, if a client waits for it.
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
