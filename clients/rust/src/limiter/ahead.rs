//! Units ahead: a limiter takes many units in one call, and hands them out without asking the server.
//!
//! The limiter hands out the units of a call only for a short time, the hold. The hold begins when the limiter sends
//! the call. The server counts all units of the call at once, but the limiter hands some out only at the end of the
//! hold. So the limiter adds the hold to the window that it sends to the server.
//!
//! At most one call is in flight for a key. A call takes units for the callers that wait, and units to hold. If the
//! held units were used up during the hold, the next call takes twice as many. If units are left at the end of the
//! hold, the limiter refunds them, and the next call takes as many as were used.
//!
//! A task of its own makes the calls for a key. So if a caller is cancelled, other callers still get their units, and
//! the units of the cancelled caller stay in stock.

use super::clock::now;
use super::{Connection, Inner, lock};
use crate::error::Error;
use crate::patience::within;
use crate::zrl::Check;
use lru::LruCache;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::sync::{oneshot, watch};

/// The most keys for which a limiter takes units in advance.
const MAX_KEYS: usize = 10_000;

struct Waiter {
    cost: u64,
    reply: oneshot::Sender<Result<Check, Error>>,
}

/// The held units of a key.
#[derive(Default)]
struct Stock {
    left: u64,
    /// Units handed out since the last call to the server or the last sweep.
    used: u64,
    /// How many units the next call should take.
    want: u64,
    /// When the limiter stops handing out the units that it took in advance.
    deadline: Duration,
    /// When the sweep refunds the unused units.
    sweep_at: Duration,
    /// The reply to the latest call that was allowed, and the time of this reply.
    reply: Option<(Check, Duration)>,
    /// How many units were free at the server when it last replied.
    free: Option<u64>,
    waiters: VecDeque<Waiter>,
    is_calling: bool,
    resets: u64,
}

impl Stock {
    fn take(&mut self, cost: u64, is_peek: bool) -> Option<Check> {
        let time = now();
        if self.left < cost || time >= self.deadline {
            return None;
        }
        let (reply, _) = self.reply?;
        if !is_peek {
            self.left -= cost;
            self.used += cost;
        }
        Some(self.answer(&reply, if is_peek { 0 } else { reply.charged_until_ms }, time))
    }

    fn answer(&self, reply: &Check, charged_until_ms: u64, time: Duration) -> Check {
        let replied = self.reply.map_or(time, |(_, at)| at);
        let reset_after = super::whole_ms(reply.reset_after.saturating_sub(time.saturating_sub(replied)));
        let reset_after = reset_after.max(Duration::from_millis(1));
        Check { remaining: reply.remaining + self.left, debt: 0, reset_after, charged_until_ms, ..*reply }
    }

    /// Removes and returns the callers that the next call serves. Their total cost is at most `free`, unless the first
    /// caller alone costs more.
    fn next_waiters(&mut self) -> Vec<Waiter> {
        let (mut sum, mut count) = (0_u64, 0);
        for waiter in &self.waiters {
            sum = sum.saturating_add(waiter.cost);
            if count > 0 && self.free.is_some_and(|free| sum > free) {
                break;
            }
            count += 1;
        }
        self.waiters.drain(..count).collect()
    }

    /// Takes the unused units out of the stock. Returns their number and `charged_until_ms`; None if there are none.
    fn empty(&mut self, max_units: u64) -> Option<(u64, u64)> {
        let (left, used) = (std::mem::take(&mut self.left), std::mem::take(&mut self.used));
        let (reply, _) = self.reply?;
        (left > 0).then(|| {
            self.want = used.min(max_units);
            (left, reply.charged_until_ms)
        })
    }
}

struct Stocks {
    /// The stocks in the order of `sweep_at`. This order changes only when a stock is kept, so look-ups use `peek_mut`.
    keys: LruCache<String, Stock>,
    is_closed: bool,
    is_sweeping: bool,
}

pub(super) struct Ahead {
    max_units: u64,
    limit: u64,
    hold: Duration,
    stocks: Mutex<Stocks>,
    /// The number of tasks that call the server.
    pending: watch::Sender<usize>,
}

/// The units that a call takes.
struct Plan {
    waiters: Vec<Waiter>,
    asked: u64,
    more: u64,
    resets: u64,
    sent: Duration,
}

impl Ahead {
    pub fn new(units: u64, limit: u64, hold: Duration) -> Self {
        let stocks = Stocks { keys: LruCache::unbounded(), is_closed: false, is_sweeping: false };
        Self { max_units: units.min(limit), limit, hold, stocks: Mutex::new(stocks), pending: watch::Sender::new(0) }
    }

    /// Hands out units taken in advance. Returns None if too few are left.
    pub fn take(&self, key: &str, cost: u64, is_peek: bool) -> Option<Check> {
        lock(&self.stocks).keys.peek_mut(key)?.take(cost, is_peek)
    }

    /// Forgets the units of a limit that was reset, including units of a call in flight.
    pub fn drop_units(&self, key: &str) {
        if let Some(stock) = lock(&self.stocks).keys.peek_mut(key) {
            stock.left = 0;
            stock.resets += 1;
        }
    }
}

/// Takes units with the next call to the server, and waits for the reply.
pub(super) async fn ask<C: Connection>(
    limiter: &Arc<Inner<C>>,
    ahead: &Ahead,
    key: &str,
    cost: u64,
) -> Result<Check, Error> {
    let (reply, receiver) = oneshot::channel();
    let begins = {
        let mut stocks = lock(&ahead.stocks);
        if !stocks.keys.contains(key) {
            stocks.keys.push(key.to_owned(), Stock::default());
        }
        let stock = stocks.keys.peek_mut(key).expect("it was pushed");
        stock.waiters.push_back(Waiter { cost, reply });
        !std::mem::replace(&mut stock.is_calling, true)
    };
    if begins {
        let (limiter, key) = (Arc::clone(limiter), key.to_owned());
        track(ahead, call_all(limiter, key));
    }
    receiver.await.unwrap_or_else(|_| Err(Error::Timeout("the runtime has ended".into())))
}

/// Runs a task for which `close` waits.
fn track(ahead: &Ahead, body: impl Future<Output = ()> + Send + 'static) {
    let pending = ahead.pending.clone();
    pending.send_modify(|count| *count += 1);
    tokio::spawn(async move {
        body.await;
        pending.send_modify(|count| *count -= 1);
    });
}

fn refund<C: Connection>(limiter: &Arc<Inner<C>>, ahead: &Ahead, key: &str, units: Option<(u64, u64)>) {
    let Some((units, charged_until_ms)) = units else { return };
    let (limiter, key) = (Arc::clone(limiter), key.to_owned());
    // Units that cannot be refunded become available again when their window ends.
    track(ahead, async move { drop(limiter.refund(&key, units, charged_until_ms).await) });
}

/// Calls the server until no caller waits.
async fn call_all<C: Connection>(limiter: Arc<Inner<C>>, key: String) {
    let Some(ahead) = limiter.ahead.as_ref() else { return };
    loop {
        let (plan, unused) = {
            let mut stocks = lock(&ahead.stocks);
            let is_closed = stocks.is_closed;
            let Some(stock) = stocks.keys.peek_mut(&key) else { return };
            if stock.waiters.is_empty() {
                stock.is_calling = false;
                return;
            }
            ahead.plan(stock, is_closed)
        };
        refund(&limiter, ahead, &key, unused);
        keep(&limiter, ahead, &key, plan.sent + ahead.hold);
        call(&limiter, ahead, &key, plan).await;
    }
}

impl Ahead {
    fn plan(&self, stock: &mut Stock, is_closed: bool) -> (Plan, Option<(u64, u64)>) {
        let sent = now();
        let wants_more = sent < stock.deadline;
        let doubled = (2 * stock.want.max(1)).min(self.max_units);
        let unused = stock.empty(self.max_units);
        if wants_more {
            stock.want = if unused.is_some() { stock.want } else { doubled };
        }
        let waiters = stock.next_waiters();
        let asked = waiters.iter().map(|waiter| waiter.cost).sum();
        // Holds at most half of the units that are left at the server, because other processes need units, too.
        let spare = stock.want.saturating_sub(asked).min(self.limit.saturating_sub(asked));
        let more = if is_closed { 0 } else { spare.min(stock.free.unwrap_or(u64::MAX).saturating_sub(asked) / 2) };
        (Plan { waiters, asked, more, resets: stock.resets, sent }, unused)
    }
}

async fn call<C: Connection>(limiter: &Arc<Inner<C>>, ahead: &Ahead, key: &str, plan: Plan) {
    let Plan { waiters, asked, more, resets, sent } = plan;
    let mut asking = Box::pin({
        let (limiter, key) = (Arc::clone(limiter), key.to_owned());
        async move { limiter.command(&key, asked + more, super::How::Take).await }
    });
    let check = match within(limiter.timeout, &mut asking).await {
        Ok(check) => check,
        Err(error) => {
            // Also rejects the callers that came during the call. If they waited for another call, they might exceed
            // their time limit.
            let others = lock(&ahead.stocks).keys.peek_mut(key).map(|stock| std::mem::take(&mut stock.waiters));
            for waiter in waiters.into_iter().chain(others.unwrap_or_default()) {
                let _ = waiter.reply.send(Err(error.clone()));
            }
            if matches!(error, Error::Timeout(_)) {
                let (limiter, key) = (Arc::clone(limiter), key.to_owned());
                // Waits for a late reply, which may have taken units. No caller gets them.
                tokio::spawn(async move {
                    if let (Ok(check), Some(ahead)) = (asking.await, limiter.ahead.as_ref())
                        && check.allowed
                    {
                        refund(&limiter, ahead, &key, Some((asked + more, check.charged_until_ms)));
                    }
                });
            }
            return;
        }
    };
    let mut stocks = lock(&ahead.stocks);
    let is_closed = stocks.is_closed;
    let Some(stock) = stocks.keys.peek_mut(key) else { return };
    stock.free = Some(check.remaining);
    if !check.allowed {
        stock.want /= 2;
        stock.deadline = Duration::ZERO;
        // The server may allow a call for fewer units, or reply with a shorter wait.
        if waiters.len() > 1 || more > 0 {
            waiters.into_iter().rev().for_each(|waiter| stock.waiters.push_front(waiter));
            return;
        }
        limiter.remember(key, asked, &check);
        let (denied, waiting) = stock.waiters.drain(..).partition::<Vec<_>, _>(|other| other.cost >= asked);
        stock.waiters = waiting.into();
        for waiter in waiters.into_iter().chain(denied) {
            let _ = waiter.reply.send(Ok(check));
        }
        return;
    }
    let time = now();
    stock.reply = Some((check, time));
    stock.left = if stock.resets == resets { more } else { 0 };
    stock.deadline = sent + ahead.hold;
    let mut answered = stock.answer(&check, check.charged_until_ms, time);
    for waiter in waiters {
        let cost = waiter.cost;
        match waiter.reply.send(Ok(answered)) {
            Ok(()) => stock.used += cost,
            // The caller was cancelled, so its units stay in stock.
            Err(_) if stock.resets == resets => stock.left += cost,
            Err(_) => {}
        }
    }
    let unused = if is_closed || time >= stock.deadline { stock.empty(ahead.max_units) } else { None };
    for waiter in std::mem::take(&mut stock.waiters) {
        match stock.take(waiter.cost, false) {
            Some(held) => {
                answered = held;
                if waiter.reply.send(Ok(answered)).is_err() {
                    stock.left += waiter.cost;
                }
            }
            None => stock.waiters.push_back(waiter),
        }
    }
    drop(stocks);
    refund(limiter, ahead, key, unused);
}

/// Remembers the stock of a key until `sweep_at`, and starts the task that sweeps.
fn keep<C: Connection>(limiter: &Arc<Inner<C>>, ahead: &Ahead, key: &str, sweep_at: Duration) {
    let mut stocks = lock(&ahead.stocks);
    let Some(stock) = stocks.keys.get_mut(key) else { return };
    stock.sweep_at = sweep_at;
    let unused = match stocks.keys.len() > MAX_KEYS {
        true => stocks.keys.pop_lru().and_then(|(key, mut stock)| {
            if stock.is_calling {
                stocks.keys.push(key, stock);
                return None;
            }
            stock.empty(ahead.max_units).map(|units| (key, units))
        }),
        false => None,
    };
    if !stocks.is_closed && !std::mem::replace(&mut stocks.is_sweeping, true) {
        tokio::spawn(sweep(Arc::clone(limiter)));
    }
    drop(stocks);
    if let Some((key, units)) = unused {
        refund(limiter, ahead, &key, Some(units));
    }
}

/// Refunds the unused units of the keys whose hold has ended, until no key is left. Forgets a key if none of its units
/// were used. Remembers the other keys for one more hold, so that their next call knows how many units to take ahead.
async fn sweep<C: Connection>(limiter: Arc<Inner<C>>) {
    let Some(ahead) = limiter.ahead.as_ref() else { return };
    loop {
        let wait = {
            let mut stocks = lock(&ahead.stocks);
            let Some((_, first)) = stocks.keys.peek_lru() else {
                stocks.is_sweeping = false;
                return;
            };
            first.sweep_at.saturating_sub(now()).max(Duration::from_millis(1))
        };
        tokio::time::sleep(wait).await;
        let time = now();
        loop {
            let (key, unused) = {
                let mut stocks = lock(&ahead.stocks);
                let Some((key, _)) = stocks.keys.peek_lru().filter(|(_, stock)| stock.sweep_at <= time) else { break };
                let key = key.clone();
                let Some(stock) = stocks.keys.get_mut(&key) else { break };
                let was_used = stock.used > 0;
                let unused = stock.empty(ahead.max_units);
                stock.sweep_at = time + ahead.hold;
                if !was_used && !stock.is_calling {
                    stocks.keys.pop(&key);
                }
                (key, unused)
            };
            refund(&limiter, ahead, &key, unused);
        }
    }
}

/// Refunds all held units. Afterwards, the limiter takes no units ahead.
pub(super) async fn close<C: Connection>(limiter: &Arc<Inner<C>>, ahead: &Ahead) {
    let unused: Vec<_> = {
        let mut stocks = lock(&ahead.stocks);
        stocks.is_closed = true;
        let units = |(key, stock): (&String, &mut Stock)| Some((key.clone(), stock.empty(ahead.max_units)?));
        stocks.keys.iter_mut().filter_map(units).collect()
    };
    for (key, units) in unused {
        refund(limiter, ahead, &key, Some(units));
    }
    let _ = ahead.pending.subscribe().wait_for(|count| *count == 0).await;
}
