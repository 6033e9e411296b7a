//! Remembers denials. A denial says how long the key stays denied. During that time, the limiter does not ask the
//! server.

use super::clock::now;
use crate::zrl::Check;
use lru::LruCache;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Duration;

/// The most keys for which a limiter remembers a denial. The least recently used key is forgotten first.
const KEYS: NonZeroUsize = NonZeroUsize::new(10_000).unwrap();

struct Denial {
    cost: u64,
    check: Check,
    told: Duration,
    until: Duration,
    among: Option<Among>,
}

/// A denied call for several limits: its keys and costs as one text, and the checks of its reply.
#[derive(Clone)]
pub(super) struct Among {
    pub call: Arc<str>,
    pub checks: Arc<[Check]>,
}

pub(super) struct Denials {
    /// Unbounded, because a bounded cache of this crate allocates all its memory at the beginning.
    keys: LruCache<String, Denial>,
    /// How often `forget` was called. `add` ignores the reply to a call that was sent before the last `forget`.
    pub forgotten: u64,
    /// No denial is remembered for longer than this.
    most: Duration,
}

impl Denials {
    pub fn new(most: Duration) -> Self {
        Self { keys: LruCache::unbounded(), forgotten: 0, most }
    }

    /// Returns the denial of a call that costs `cost`, with the waits as of now. Returns None if the server may allow
    /// the call.
    pub fn get(&mut self, key: &str, cost: u64) -> Option<Check> {
        let denial = self.find(key)?;
        (cost >= denial.cost).then(|| later(&denial.check, now().saturating_sub(denial.told)))
    }

    /// Returns the checks that the server would return now to a call for several limits. Returns None unless the limit
    /// of `key` has denied this call and still denies it.
    pub fn among(&mut self, key: &str, call: &str) -> Option<Vec<Check>> {
        let denial = self.find(key)?;
        let among = denial.among.as_ref().filter(|among| &*among.call == call)?;
        let passed = now().saturating_sub(denial.told);
        let checks: Vec<_> = among.checks.iter().map(|check| later(check, passed)).collect();
        // If the wait of one limit is over, the decision of the server is no longer known.
        let is_over = checks.iter().any(|check| !check.allowed && check.retry_after == Some(Duration::ZERO));
        (!is_over).then_some(checks)
    }

    /// Remembers a reply that denies. `forgotten` is the value of `self.forgotten` when the command was sent.
    pub fn add(&mut self, key: &str, cost: u64, check: &Check, forgotten: u64, among: Option<Among>) {
        // The denial ends 1 ms early, because timers may fire early, and the server must decide about a caller that has
        // waited.
        let wait = check.retry_after.unwrap_or_default().min(self.most).saturating_sub(Duration::from_millis(1));
        if check.allowed || wait.is_zero() || forgotten != self.forgotten {
            return;
        }
        let told = now();
        if self.keys.len() >= KEYS.get() && !self.keys.contains(key) {
            self.keys.pop_lru();
        }
        self.keys.put(key.to_owned(), Denial { cost, check: *check, told, until: told + wait, among });
    }

    pub fn forget(&mut self, key: &str) {
        self.forgotten += 1;
        self.keys.pop(key);
    }

    fn find(&mut self, key: &str) -> Option<&Denial> {
        // Reads the clock only if a denial is remembered.
        let until = self.keys.peek(key)?.until;
        if now() >= until {
            self.keys.pop(key);
        }
        self.keys.get(key)
    }
}

fn later(check: &Check, passed: Duration) -> Check {
    let left = |wait: Duration| super::whole_ms(wait.saturating_sub(passed));
    Check { retry_after: check.retry_after.map(left), reset_after: left(check.reset_after), ..*check }
}
