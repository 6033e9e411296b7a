//! The limiter: a policy for many keys.

mod ahead;
mod clock;
mod denials;
mod headers;

use crate::commands::Call;
use crate::error::Error;
use crate::patience::within;
use crate::random::random;
use crate::time::{Period, rate};
use crate::zrl::{self, Check, Checks};
use ahead::Ahead;
use denials::{Among, Denials};
use redis::aio::{ConnectionLike, ConnectionManager, MultiplexedConnection};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// A connection that tasks share: `MultiplexedConnection`, `ConnectionManager`, `ClusterConnection`.
///
/// ```
/// use zeitset_client::{Connection, Error, Limiter};
///
/// async fn is_idle<C: Connection>(limiter: &Limiter<C>, key: &str) -> Result<bool, Error> {
///     Ok(limiter.peek(key, 1).await?.remaining() == limiter.policy().limit)
/// }
/// ```
pub trait Connection: ConnectionLike + Clone + Send + Sync + 'static {}
impl<C: ConnectionLike + Clone + Send + Sync + 'static> Connection for C {}

/// A connection that never sends a command twice. A `ClusterConnection` repeats a command after a lost reply. A
/// repeated refund would return units that other callers have taken.
///
/// ```
/// use zeitset_client::{AtMostOnce, Error, Limiter};
///
/// fn busy<C: AtMostOnce>(redis: C) -> Result<Limiter<C>, Error> {
///     Limiter::builder(redis, "api", "100000/1s").ahead(200).build()
/// }
/// ```
pub trait AtMostOnce: Connection {}
impl AtMostOnce for MultiplexedConnection {}
impl AtMostOnce for ConnectionManager {}

/// When a unit becomes available again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Algorithm {
    /// A unit becomes available again one window after it was taken.
    #[default]
    Sliding,
    /// All units become available again at the end of the window.
    Fixed,
    /// Units become available again one by one, at a steady rate.
    Leaky,
}

/// The precision of the time at which a unit of a SLIDING limit becomes available again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Precision {
    /// 1 ms, however high the limit is.
    Exact,
    /// This duration.
    Of(Period),
}

/// What a check does if Redis is away.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum OnError {
    /// The call is allowed.
    Allow,
    /// The call is denied.
    Deny,
    /// The check fails.
    #[default]
    Raise,
}

/// The name, limit and window of a limiter, for header fields.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Policy {
    /// The name of the limiter.
    pub name: String,
    /// The limit.
    pub limit: u64,
    /// The window.
    pub window_ms: u64,
    /// The name of the units, for example `requests` or `content-bytes`.
    pub unit: Option<String>,
}

/// What limits have decided.
#[derive(Clone, Debug)]
pub struct Decision {
    /// Whether the call is allowed. If several limits were checked: whether units were taken from all of them.
    pub allowed: bool,
    /// The checks of the limits, in the order of the call. If [`error`](Self::error) is set, their numbers have no
    /// meaning.
    pub checks: Vec<Check>,
    /// The limits.
    pub policies: Arc<[Arc<Policy>]>,
    /// The error, if Redis was away. In this case, `on_error` has decided.
    pub error: Option<Error>,
}

impl Decision {
    /// Returns the smallest number of units that are free after this call.
    pub fn remaining(&self) -> u64 {
        self.checks.iter().map(|check| check.remaining).min().unwrap_or_default()
    }

    /// Returns the longest wait of the limits that deny; zero if the call was allowed. None: the call never succeeds.
    pub fn retry_after(&self) -> Option<Duration> {
        let denied = self.checks.iter().filter(|check| !self.allowed && !check.allowed);
        denied.map(|check| check.retry_after).try_fold(Duration::ZERO, |longest, wait| Some(longest.max(wait?)))
    }

    /// Returns the fields `RateLimit-Policy` and `RateLimit` and, if the call was denied, `Retry-After`.
    pub fn headers(&self) -> Vec<(&'static str, String)> {
        headers::fields(self)
    }
}

/// How a command takes units.
#[derive(Clone, Copy, PartialEq, Eq)]
enum How {
    Take,
    Force,
    Peek,
}

struct Inner<C> {
    connection: C,
    policy: Arc<Policy>,
    /// The policy, as decisions have it.
    policies: Arc<[Arc<Policy>]>,
    /// What precedes `key` in the Redis keys: the prefix, the name and a colon.
    prefix: String,
    algorithm: Algorithm,
    precision: Option<Precision>,
    /// The window of the commands. With units ahead, it is longer than that of the policy.
    window: Period,
    on_error: OnError,
    timeout: Duration,
    denials: Mutex<Denials>,
    ahead: Option<Ahead>,
}

/// A rate limit for each key, with one policy for all keys. The limiter `search` stores the limit of the key `ann` in
/// the Redis key `search:ann`.
///
/// ```
/// # async fn run() -> Result<(), zeitset_client::Error> {
/// # let Some(url) = std::env::var("ZEITSET_URL").ok() else { return Ok(()) };
/// use zeitset_client::{Limiter, OnError};
///
/// let redis = redis::Client::open(url)?.get_connection_manager().await?;
/// let limiter = Limiter::builder(redis, "search", "5/1m").on_error(OnError::Allow).build()?;
/// let decision = limiter.check("ann", 1).await?;
/// for (name, value) in decision.headers() {
///     println!("{name}: {value}");
/// }
/// # Ok(())
/// # }
/// # tokio::runtime::Runtime::new().unwrap().block_on(run()).unwrap();
/// ```
#[derive(Clone)]
pub struct Limiter<C> {
    inner: Arc<Inner<C>>,
}

/// The options of a [`Limiter`].
#[must_use]
pub struct LimiterBuilder<C> {
    connection: C,
    name: String,
    rate: String,
    unit: Option<String>,
    prefix: String,
    algorithm: Algorithm,
    precision: Option<Precision>,
    on_error: OnError,
    timeout: Period,
    remember: bool,
    ahead: Option<u64>,
}

impl<C: Connection> LimiterBuilder<C> {
    setters! { self [builder "let limiter = Limiter::builder(redis, \"search\", \"5/1m\")" ".build()?;"]
        /// When a unit becomes available again; [`Algorithm::Sliding`] by default.
        algorithm(algorithm: Algorithm = Algorithm::Fixed) { self.algorithm = algorithm }

        /// The precision of a SLIDING limit; by default that of ZRL.CHECK.
        precision(precision: Precision = Precision::Exact) { self.precision = Some(precision) }

        /// What a check does if Redis is away; [`OnError::Raise`] by default.
        on_error(on_error: OnError = OnError::Allow) { self.on_error = on_error }

        /// How long a call may take; by default one second. A shorter time limit of the connection applies, too: that of
        /// redis is 500 ms by default.
        timeout(timeout: impl Into<Period> = "100ms") { self.timeout = timeout.into() }

        /// The prefix of the Redis keys. The limiter's name in header fields has no prefix.
        prefix(prefix: impl Into<String> = "limits:") { self.prefix = prefix.into() }

        /// The name of the units in `RateLimit-Policy`: `requests`, `content-bytes`, `concurrent-requests` or your own.
        unit(unit: impl Into<String> = "requests") { self.unit = Some(unit.into()) }

        /// Whether the limiter remembers a denial until its wait is over; true by default. Until then, the limiter denies
        /// calls for the same key that cost as much or more, without asking the server.
        remember(remember: bool = false) { self.remember = remember }
    }

    /// Returns the limiter. Fails if the rate or an option is invalid.
    pub fn build(self) -> Result<Limiter<C>, Error> {
        let (limit, window_ms) = rate(&self.rate)?;
        for text in [Some(&self.name), self.unit.as_ref()].into_iter().flatten() {
            if text.is_empty() || !text.bytes().all(|byte| matches!(byte, b' '..=b'~')) {
                let message = format!("name and unit go into header fields: printable ASCII only, not {text:?}");
                return Err(Error::Argument(message));
            }
        }
        let hold_ms = window_ms / 100;
        let wrong = |text: &str| Err(Error::Argument(text.into()));
        match self.ahead {
            Some(0) => return wrong("ahead is 1 unit or more"),
            Some(_) if self.algorithm != Algorithm::Sliding || hold_ms < 1 => {
                return wrong("units are taken ahead from sliding limits whose window is 100 ms or longer");
            }
            Some(_) if !self.remember => return wrong("a limiter that takes units ahead remembers denials"),
            _ => {}
        }
        let hold = Duration::from_millis(hold_ms);
        // Remembers a denial for one hold at most: other limiters refund units at the end of their hold, so units may
        // be free before the wait of the denial is over.
        let most = if !self.remember { Duration::ZERO } else { self.ahead.map_or(Duration::MAX, |_| hold) };
        let prefix = format!("{}{}:", self.prefix, self.name);
        let policy = Arc::new(Policy { name: self.name, limit, window_ms, unit: self.unit });
        Ok(Limiter {
            inner: Arc::new(Inner {
                connection: self.connection,
                prefix,
                policies: Arc::new([Arc::clone(&policy)]),
                policy,
                algorithm: self.algorithm,
                precision: self.precision,
                // The window is longer by the hold, and by 1 ms, which is the resolution of the server's clock.
                window: Period::of_millis(window_ms + self.ahead.map_or(0, |_| hold_ms + 1)),
                on_error: self.on_error,
                timeout: Duration::from_millis(self.timeout.millis()?),
                denials: Mutex::new(Denials::new(most)),
                ahead: self.ahead.map(|units| Ahead::new(units, limit, hold)),
            }),
        })
    }
}

impl<C: AtMostOnce> LimiterBuilder<C> {
    /// The most units to take ahead in one call. The limiter hands out these units later, without asking the server. A
    /// hundredth of the window after the call, the limiter refunds the units that are left. If one limiter of a key has
    /// this option, all limiters of this key need it. Only for SLIDING limits.
    ///
    #[doc = example!(builder r#"let limiter = Limiter::builder(redis, "api", "100000/1s").ahead(200).build()?;"#)]
    pub fn ahead(mut self, units: u64) -> Self {
        self.ahead = Some(units);
        self
    }
}

/// If Redis is away, `wait` checks again after this time.
const AWAY: Duration = Duration::from_millis(100);

impl<C: Connection> Limiter<C> {
    /// Returns a limiter with the default options. `rate` is units per window: `5/1m`, `5/minute`, `100/2 hours`.
    pub fn new(connection: C, name: impl Into<String>, rate: &str) -> Result<Self, Error> {
        Self::builder(connection, name, rate).build()
    }

    /// Returns a builder, which has the options.
    ///
    #[doc = example!(builder "let builder: LimiterBuilder<_> = Limiter::builder(redis, \"search\", \"5/1m\");\nlet limiter = builder.build()?;")]
    pub fn builder(connection: C, name: impl Into<String>, rate: &str) -> LimiterBuilder<C> {
        LimiterBuilder {
            connection,
            name: name.into(),
            rate: rate.into(),
            unit: None,
            prefix: String::new(),
            algorithm: Algorithm::default(),
            precision: None,
            on_error: OnError::default(),
            timeout: Period::of_millis(1000),
            remember: true,
            ahead: None,
        }
    }

    /// Returns the name, limit and window.
    ///
    #[doc = example!(limiter "let policy: &Policy = limiter.policy();\nassert_eq!((policy.limit, policy.window_ms), (100, 60_000));")]
    pub fn policy(&self) -> &Policy {
        &self.inner.policy
    }

    /// Takes `cost` units if that many are free. Otherwise, takes none.
    ///
    #[doc = example!(limiter "let decision: Decision = limiter.check(\"ann\", 1).await?;\nprintln!(\"{} {} {:?}\", decision.allowed, decision.remaining(), decision.retry_after());")]
    pub async fn check(&self, key: &str, cost: u64) -> Result<Decision, Error> {
        let inner = &self.inner;
        if cost == 0 {
            return self.ask(key, cost, How::Take).await;
        }
        inner.fits(cost)?;
        if let Some(check) = inner.ahead.as_ref().and_then(|ahead| ahead.take(key, cost, false)) {
            return Ok(inner.decided(check));
        }
        if let Some(check) = lock(&inner.denials).get(key, cost) {
            return Ok(inner.decided(check));
        }
        match &inner.ahead {
            Some(ahead) => inner.answered(within(inner.timeout, ahead::ask(inner, ahead, key, cost)).await),
            None => self.ask(key, cost, How::Take).await,
        }
    }

    /// Takes the units even if they do not fit. Later calls are then denied until the debt is paid.
    ///
    #[doc = example!(limiter r#"let decision = limiter.force("ann", 200).await?;"#)]
    pub async fn force(&self, key: &str, cost: u64) -> Result<Decision, Error> {
        self.ask(key, cost, How::Force).await
    }

    /// Returns what `check` would return, and takes no units. Asks the server even if a denial is remembered.
    ///
    #[doc = example!(limiter r#"assert!(limiter.peek("bob", 1).await?.allowed);"#)]
    pub async fn peek(&self, key: &str, cost: u64) -> Result<Decision, Error> {
        self.inner.fits(cost)?;
        match self.inner.ahead.as_ref().and_then(|ahead| ahead.take(key, cost, true)) {
            Some(held) => Ok(self.inner.decided(held)),
            None => self.ask(key, cost, How::Peek).await,
        }
    }

    /// Takes units as soon as they fit. If the wait would be longer than `timeout`, fails at once with
    /// [`Error::Timeout`], and takes no units. From the second denial on, adds a random time to the wait, so that
    /// waiting callers do not ask at the same moment.
    ///
    #[doc = example!(limiter "let one_second = std::time::Duration::from_secs(1);\nlet decision = limiter.wait(\"cid\", 1, Some(one_second)).await?;")]
    pub async fn wait(&self, key: &str, cost: u64, timeout: Option<Duration>) -> Result<Decision, Error> {
        let start = Instant::now();
        for denials in 0_u64.. {
            let decision = self.check(key, cost).await?;
            if decision.allowed {
                return Ok(decision);
            }
            let wait = if decision.error.is_some() { Some(AWAY) } else { decision.retry_after() };
            let left = timeout.map_or(Duration::MAX, |timeout| timeout.saturating_sub(start.elapsed()));
            let Some(wait) = wait.filter(|wait| *wait <= left) else {
                let Policy { name, .. } = self.policy();
                return Err(Error::Timeout(format!("{name} does not allow {cost} units for {key} in time")));
            };
            let Policy { limit, window_ms, .. } = self.policy();
            let others_ms = (denials.saturating_mul(*window_ms) / limit).min(window_ms / 10);
            let others = Duration::from_millis(if others_ms == 0 { 0 } else { random() % (others_ms + 1) });
            tokio::time::sleep(wait.saturating_add(others).min(left)).await;
        }
        unreachable!("the loop has no end")
    }

    /// Refunds units that a check took. `charged_until_ms` is the value from the check. Returns how many of these units
    /// were still in use.
    ///
    #[doc = example!(limiter "let decision = limiter.check(\"dan\", 5).await?;\nlimiter.refund(\"dan\", 5, decision.checks[0].charged_until_ms).await?;")]
    pub async fn refund(&self, key: &str, units: u64, charged_until_ms: u64) -> Result<u64, Error> {
        self.inner.refund(key, units, charged_until_ms).await
    }

    /// Deletes the limit of the key, so that all units are available. Returns whether the limit existed.
    ///
    #[doc = example!(limiter r#"let existed: bool = limiter.reset("eve").await?;"#)]
    pub async fn reset(&self, key: &str) -> Result<bool, Error> {
        let inner = &self.inner;
        if let Some(ahead) = &inner.ahead {
            ahead.drop_units(key);
        }
        let mut command = redis::cmd("DEL");
        command.arg(inner.key(key));
        let mut connection = inner.connection.clone();
        let reply = within(inner.timeout, async { Ok(command.query_async(&mut connection).await?) }).await;
        lock(&inner.denials).forget(key);
        reply
    }

    /// Like [`check`](Self::check). When the returned value is dropped, the units are refunded, unless
    /// [`keep`](Reservation::keep) was called. If this future is dropped before the reply, the units are refunded, too.
    ///
    #[doc = example!(limiter "let reservation: Reservation<_> = limiter.reserve(\"fay\", 1).await?;\nif reservation.decision().allowed {\n    reservation.keep();\n}")]
    pub async fn reserve(&self, key: &str, cost: u64) -> Result<Reservation<C>, Error> {
        reserve_all(vec![(self.clone(), key.to_owned(), cost)]).await
    }

    /// Refunds the units that were taken ahead. Afterwards, the limiter takes no units ahead.
    ///
    #[doc = example!(limiter r#"limiter.close().await;"#)]
    pub async fn close(&self) {
        if let Some(ahead) = &self.inner.ahead {
            ahead::close(&self.inner, ahead).await;
        }
    }

    async fn ask(&self, key: &str, cost: u64, how: How) -> Result<Decision, Error> {
        let inner = &self.inner;
        if how != How::Force {
            inner.fits(cost)?;
        }
        let forgotten = lock(&inner.denials).forgotten;
        let check = within(inner.timeout, inner.command(key, cost, how)).await;
        if let (Ok(check @ Check { allowed: false, .. }), true) = (&check, how != How::Peek) {
            lock(&inner.denials).add(key, cost, check, forgotten, None);
        }
        inner.answered(check)
    }
}

impl<C: Connection> Inner<C> {
    fn key(&self, key: &str) -> String {
        [&self.prefix, key].concat()
    }

    fn fits(&self, cost: u64) -> Result<(), Error> {
        let limit = self.policy.limit;
        if cost > limit { Err(Error::CostTooHigh { cost, limit }) } else { Ok(()) }
    }

    async fn command(&self, key: &str, cost: u64, how: How) -> Result<Check, Error> {
        let word = if how == How::Peek { "ZRL.PEEK" } else { "ZRL.CHECK" };
        let call = zrl::check_with(word, self.key(key), self.policy.limit, &self.window);
        let call = if how == How::Force { call.force() } else { call };
        let call = if cost == 1 { call } else { call.cost(cost) };
        let call = match self.algorithm {
            Algorithm::Sliding => call,
            Algorithm::Fixed => call.fixed(),
            Algorithm::Leaky => call.leaky(),
        };
        let call = match &self.precision {
            None => call,
            Some(Precision::Exact) => call.exact(),
            Some(Precision::Of(period)) => call.precision(period.clone()),
        };
        call.query_async(&mut self.connection.clone()).await
    }

    /// Forgets the denial of the key, even after an error: the server may have carried out the command.
    async fn refund(&self, key: &str, units: u64, charged_until_ms: u64) -> Result<u64, Error> {
        if charged_until_ms == 0 || units == 0 {
            return Ok(0);
        }
        let mut connection = self.connection.clone();
        let call = zrl::refund(self.key(key), units, charged_until_ms);
        let reply = within(self.timeout, call.query_async(&mut connection)).await;
        lock(&self.denials).forget(key);
        reply
    }

    fn remember(&self, key: &str, cost: u64, check: &Check) {
        let mut denials = lock(&self.denials);
        let forgotten = denials.forgotten;
        denials.add(key, cost, check, forgotten, None);
    }

    fn decided(&self, check: Check) -> Decision {
        Decision { allowed: check.allowed, checks: vec![check], policies: Arc::clone(&self.policies), error: None }
    }

    fn answered(&self, check: Result<Check, Error>) -> Result<Decision, Error> {
        match check {
            Ok(check) => Ok(self.decided(check)),
            Err(error) => away(error, self.on_error, Arc::clone(&self.policies)),
        }
    }
}

/// If the error is temporary, decides as `on_error` says. Returns permanent errors, and with `Raise` all errors.
fn away(error: Error, on_error: OnError, policies: Arc<[Arc<Policy>]>) -> Result<Decision, Error> {
    if on_error == OnError::Raise || !error.is_temporary() {
        return Err(error);
    }
    let allowed = on_error == OnError::Allow;
    let (retry_after, reset_after) = (Some(Duration::ZERO), Duration::ZERO);
    let check = |policy: &Arc<Policy>| {
        let limit = policy.limit;
        Check { allowed, limit, remaining: 0, debt: 0, retry_after, reset_after, charged_until_ms: 0 }
    };
    Ok(Decision { allowed, checks: policies.iter().map(check).collect(), policies, error: Some(error) })
}

/// Takes units from several limits: `check_all(&[(&per_second, "ann", 1), (&per_day, "ann", 5)])`. If one limit denies,
/// takes no units. If Redis is away, the strictest `on_error` of the limiters decides. Sends the command on the
/// connection of the first limiter. In a cluster, the keys must share a slot: `"{ann}"`.
///
#[doc = example!(limiter r#"let decision = check_all(&[(&limiter, "{gil}:a", 1), (&limiter, "{gil}:b", 5)]).await?;"#)]
pub async fn check_all<C: Connection>(asks: &[(&Limiter<C>, &str, u64)]) -> Result<Decision, Error> {
    if let [(limiter, key, cost)] = asks {
        return limiter.check(key, *cost).await;
    }
    let Some((first, key, _)) = asks.first() else { return Err(Error::Argument("no limit to check".into())) };
    let policies: Arc<[_]> = asks.iter().map(|(limiter, ..)| Arc::clone(&limiter.inner.policy)).collect();
    let mut call = String::new();
    for (limiter, key, cost) in asks {
        limiter.inner.fits(*cost)?;
        call.push_str(&format!("{cost} {}\n", limiter.inner.key(key)));
    }
    for (limiter, key, _) in asks {
        if let Some(checks) = lock(&limiter.inner.denials).among(key, &call) {
            return Ok(Decision { allowed: false, checks, policies, error: None });
        }
    }
    let forgotten: Vec<_> = asks.iter().map(|(limiter, ..)| lock(&limiter.inner.denials).forgotten).collect();
    let mut connection = first.inner.connection.clone();
    let command = mcheck(asks)?;
    let reply = within(first.inner.timeout, command.query_async(&mut connection)).await;
    let Checks { allowed, checks } = match reply {
        Ok(reply) if reply.checks.len() == asks.len() => reply,
        Ok(_) => return Err(Error::Timeout(format!("the reply of ZRL.MCHECK for {key} is too short"))),
        Err(error) => {
            let on_error = asks.iter().map(|(limiter, ..)| limiter.inner.on_error).max().unwrap_or_default();
            return away(error, on_error, policies);
        }
    };
    if !allowed {
        let among = Among { call: call.into(), checks: checks.as_slice().into() };
        for ((limiter, key, cost), (check, forgotten)) in asks.iter().zip(checks.iter().zip(forgotten)) {
            lock(&limiter.inner.denials).add(key, *cost, check, forgotten, Some(among.clone()));
        }
    }
    Ok(Decision { allowed, checks, policies, error: None })
}

fn mcheck<C: Connection>(asks: &[(&Limiter<C>, &str, u64)]) -> Result<Call<zrl::MCheck, Checks>, Error> {
    let quotas = asks.iter().map(|(limiter, key, _)| {
        let Inner { policy, window, .. } = &*limiter.inner;
        (limiter.inner.key(key), policy.limit, window.clone())
    });
    let costs: Vec<_> = asks.iter().map(|(.., cost)| *cost).collect();
    let algorithms: Vec<_> = asks.iter().map(|(limiter, ..)| limiter.inner.algorithm.word()).collect();
    let call = zrl::mcheck(quotas).cost(costs).algorithms(algorithms);
    let sliding = asks.iter().filter(|(limiter, ..)| limiter.inner.algorithm == Algorithm::Sliding);
    let mut precisions = sliding.map(|(limiter, ..)| &limiter.inner.precision);
    let precision = precisions.next().cloned().flatten();
    if precisions.any(|other| *other != precision) {
        return Err(Error::Argument("all SLIDING limits of one call must have the same precision".into()));
    }
    Ok(match precision {
        None => call,
        Some(Precision::Exact) => call.exact(),
        Some(Precision::Of(period)) => call.precision(period),
    })
}

impl Algorithm {
    fn word(self) -> &'static str {
        match self {
            Self::Sliding => "SLIDING",
            Self::Fixed => "FIXED",
            Self::Leaky => "LEAKY",
        }
    }
}

/// Units that are refunded when this value is dropped.
#[must_use = "dropping a reservation refunds its units"]
pub struct Reservation<C: Connection> {
    decision: Decision,
    /// For each limit: the key, the units, and their `charged_until_ms`.
    units: Vec<(Limiter<C>, String, u64, u64)>,
}

impl<C: Connection> Reservation<C> {
    fn new(decision: Decision, asks: impl IntoIterator<Item = (Limiter<C>, String, u64)>) -> Self {
        let taken = |((limiter, key, cost), check): ((_, _, _), &Check)| (limiter, key, cost, check.charged_until_ms);
        let units =
            if decision.allowed { asks.into_iter().zip(&decision.checks).map(taken).collect() } else { Vec::new() };
        Self { decision, units }
    }

    /// Returns the decision. If it denies, no units were taken.
    pub fn decision(&self) -> &Decision {
        &self.decision
    }

    /// Keeps the units: they are not refunded.
    pub fn keep(mut self) -> Decision {
        self.units.clear();
        self.decision.clone()
    }
}

impl<C: Connection> Drop for Reservation<C> {
    fn drop(&mut self) {
        // Outside of a runtime, nothing can be sent. The units then become available when their window ends.
        let (units, Ok(runtime)) = (std::mem::take(&mut self.units), tokio::runtime::Handle::try_current()) else {
            return;
        };
        for (limiter, key, units, charged_until_ms) in units.into_iter().filter(|(.., until)| *until > 0) {
            runtime.spawn(async move { drop(limiter.refund(&key, units, charged_until_ms).await) });
        }
    }
}

/// Like [`check_all`], for a caller that may be cancelled: see [`Limiter::reserve`].
///
#[doc = example!(limiter "let asks = vec![(limiter.clone(), \"{hal}:a\".to_owned(), 1), (limiter, \"{hal}:b\".to_owned(), 5)];\nlet reservation = reserve_all(asks).await?;")]
pub async fn reserve_all<C: Connection>(asks: Vec<(Limiter<C>, String, u64)>) -> Result<Reservation<C>, Error> {
    // A task of its own, because the server may have taken the units before the caller is cancelled.
    let checked = tokio::spawn(async move {
        let all: Vec<_> = asks.iter().map(|(limiter, key, cost)| (limiter, key.as_str(), *cost)).collect();
        let decision = check_all(&all).await?;
        Ok(Reservation::new(decision, asks))
    });
    checked.await.unwrap_or_else(|_| Err(Error::Timeout("the runtime has ended".into())))
}

/// Rounds up to whole milliseconds.
fn whole_ms(duration: Duration) -> Duration {
    Duration::from_millis(u64::try_from(duration.as_nanos().div_ceil(1_000_000)).unwrap_or(u64::MAX))
}

/// Locks a mutex. A panic of another task does not spoil the data: every change is complete before the next await.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
