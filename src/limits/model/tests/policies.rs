//! Random histories of one key, in which the calls alternate between several policies. Some calls force or refund
//! units, other clients change the key's TTL, and the key moves between servers whose clocks differ.
//!
//! The tests compare the replies with a book that follows the taken units. The book knows the promises that the
//! commands make to clients, not the stored strings.

use super::super::throttle::{ThrottlePolicy, throttle};
use super::super::*;
use proptest::prelude::*;

const START: Millis = 1_767_225_600_000;

/// How much later than necessary a key may expire.
const MAX_LINGER: Millis = 25_000;

/// A key of a simulated server.
#[derive(Clone, Debug, Default)]
struct Key {
    text: Option<Vec<u8>>,
    expires_at: Option<Millis>,
}

impl Key {
    fn call(&mut self, call: Call, intent: Intent) -> Verdict {
        let Assessment { verdict, update, .. } = assess(call, intent, self.text.as_deref()).expect("a limit");
        assert!(intent != Intent::Peek || update.is_none());
        if let Some(update) = update {
            self.apply(update);
        }
        verdict
    }

    fn refund(&mut self, now: Millis, units: u64, until: Millis) -> u64 {
        let Some(text) = &self.text else { return 0 };
        let (back, update) =
            StoredLimit::parse(text).and_then(|stored| stored.refund(now, units, until)).expect("a limit");
        if let Some(update) = update {
            self.apply(update);
        }
        back
    }

    fn apply(&mut self, update: Update) {
        let lifetime = match update {
            Update::Remove => {
                *self = Key::default();
                return;
            }
            Update::Replace { text, lifetime } => {
                self.text = Some(text.to_vec());
                Some(lifetime)
            }
            Update::Overwrite { parts, lifetime } => {
                let text = self.text.as_mut().expect("a string to overwrite");
                parts.iter().for_each(|part| text[part.at..part.at + part.bytes.len()].copy_from_slice(&part.bytes));
                lifetime
            }
        };
        if let Some(lifetime) = lifetime {
            self.expires_at = Some(lifetime.expires_at(self.expires_at));
        }
    }

    /// Sets the TTL, as EXPIRE, PERSIST and RESTORE do.
    fn set_ttl(&mut self, expires_at: Option<Millis>) {
        if self.text.is_some() {
            self.expires_at = expires_at;
        }
    }

    /// Passes the time of a step, or does to the key what other clients do in this step. Calls and refunds are for the
    /// caller.
    fn live(&mut self, step: &Step, now: &mut Millis) {
        match *step {
            Step::Wait(ms) => *now += ms,
            Step::Ttl(ttl) => self.set_ttl(ttl.map(|ms| *now + ms)),
            Step::Move(ms) => {
                *now = now.saturating_add_signed(ms);
                self.expires_at = self.expires_at.map(|at| at.saturating_add_signed(ms));
            }
            Step::Call { .. } | Step::Refund { .. } => {}
        }
    }

    /// Deletes the key if its TTL has passed. Returns whether the key exists.
    fn exists(&mut self, now: Millis) -> bool {
        if self.expires_at.is_some_and(|at| at < now) {
            *self = Key::default();
        }
        self.text.is_some()
    }
}

#[derive(Clone, Debug)]
enum Step {
    Wait(u64),
    Call {
        which: prop::sample::Index,
        cost: u64,
        intent: Intent,
    },
    /// Refunds units of an earlier call.
    Refund {
        which: prop::sample::Index,
        units: u64,
    },
    /// A client changes the TTL: it ends after this time in ms, or never.
    Ttl(Option<u64>),
    /// The key moves to a server whose clock differs by this time in ms. MIGRATE sends the remaining TTL.
    Move(i64),
}

fn calls_and_waits() -> impl Strategy<Value = Step> {
    let intent = prop_oneof![8 => Just(Intent::Take), 2 => Just(Intent::Peek), 1 => Just(Intent::Force)];
    prop_oneof![
        4 => prop_oneof![4 => 0_u64..60, 2 => 0_u64..1500, 1 => 0_u64..20_000].prop_map(Step::Wait),
        8 => (any::<prop::sample::Index>(), 0_u64..9, intent)
            .prop_map(|(which, cost, intent)| Step::Call { which, cost, intent }),
        1 => (any::<prop::sample::Index>(), 0_u64..12).prop_map(|(which, units)| Step::Refund { which, units }),
    ]
}

/// Steps, and events in the key's life.
fn lives() -> impl Strategy<Value = Step> {
    prop_oneof![
        12 => calls_and_waits(),
        1 => proptest::option::weighted(0.7, prop_oneof![1_u64..50, 1_u64..5000, 1_u64..100_000]).prop_map(Step::Ttl),
        1 => prop_oneof![-60_000_i64..=60_000, -50_i64..50].prop_map(Step::Move),
    ]
}

fn policies(algorithm: Algorithm) -> impl Strategy<Value = Vec<Policy>> {
    let window = prop_oneof![Just(1000), 1_u64..3000, 3_000_u64..40_000];
    let policy = (1_u64..40, window, 0_u64..12).prop_map(move |(limit, window, grid)| Policy {
        algorithm,
        limit,
        window,
        // Most limits are exact.
        precision: Some(if grid < 3 { window.div_ceil(grid + 3) } else { 1 }),
    });
    prop::collection::vec(policy, 2..=4)
}

fn time_back(policy: Policy, now: Millis) -> Millis {
    match policy.algorithm {
        Algorithm::Fixed => (now / policy.window + 1) * policy.window,
        _ => (now + policy.window).next_multiple_of(policy.precision.expect("a precision")),
    }
}

/// Units that one call took from a SLIDING or FIXED limit.
#[derive(Clone, Debug)]
struct Taken {
    units: u64,
    /// The time at which the units become available again.
    back: Millis,
    /// Whether the clock has reached `back`. If the clock steps back after that, the units may or may not count again.
    has_come_back: bool,
}

#[derive(Clone, Debug, Default)]
struct Book(Vec<Taken>);

impl Book {
    fn look(&mut self, now: Millis) {
        self.0.iter_mut().for_each(|taken| taken.has_come_back |= taken.back <= now);
    }

    /// Returns the units in use, as pairs of units and the time at which they become available again.
    fn in_use(&self, now: Millis, latest: Millis, with_doubtful: bool) -> Vec<(u64, Millis)> {
        let counts = |taken: &&Taken| taken.back > now && (with_doubtful || !taken.has_come_back);
        self.0.iter().filter(counts).map(|taken| (taken.units, taken.back.min(latest))).collect()
    }

    /// After a call with another window, no unit is in use for longer than this window.
    fn settle(&mut self, until: Millis) {
        self.0.iter_mut().for_each(|taken| taken.back = taken.back.min(until));
    }

    fn take(&mut self, policy: Policy, now: Millis, units: u64) {
        let back = time_back(policy, now);
        if policy.algorithm == Algorithm::Fixed {
            self.0.iter_mut().filter(|taken| taken.back > now).for_each(|taken| taken.back = back);
        }
        self.0.push(Taken { units, back, has_come_back: false });
    }

    fn refund(&mut self, now: Millis, units: u64, until: Millis) -> u64 {
        let mut left = units;
        for doubtful in [false, true] {
            let here = |taken: &&mut Taken| taken.back == until && until > now && taken.has_come_back == doubtful;
            for taken in self.0.iter_mut().filter(here) {
                let back = left.min(taken.units);
                taken.units -= back;
                left -= back;
            }
        }
        units - left
    }
}

/// Returns the free units, the wait until `cost` fits (`None`: never), and the wait until nothing is in use.
fn promised(in_use: &[(u64, Millis)], limit: u64, cost: u64, now: Millis) -> (i64, Option<Millis>, Millis) {
    let used_at = |at: Millis| in_use.iter().filter(|(_, back)| *back > at).map(|(units, _)| units).sum::<u64>();
    let mut times: Vec<_> = in_use.iter().map(|(_, back)| *back).chain([now]).collect();
    times.sort_unstable();
    let free = times.iter().find(|at| used_at(**at) + cost <= limit).map(|at| at - now);
    let last = in_use.iter().filter(|(units, _)| *units > 0).map(|(_, back)| back - now).max();
    (limit.cast_signed() - used_at(now).cast_signed(), free, last.unwrap_or(0))
}

fn assert_ttl_is_right(key: &Key, last: Millis) {
    let ttl = key.expires_at.expect("a TTL");
    assert!(
        (last..=last + MAX_LINGER).contains(&ttl),
        "the key expires {} ms after",
        ttl.cast_signed() - last.cast_signed()
    );
}

/// Runs a history of a SLIDING or FIXED limit.
fn follow_units(policies: &[Policy], steps: Vec<Step>) {
    let (mut key, mut book, mut now, mut latest) = (Key::default(), Book::default(), START, START);
    let mut charges = vec![START];
    for step in steps {
        if !key.exists(now) {
            book = Book::default();
        }
        book.look(now);
        key.live(&step, &mut now);
        match step {
            Step::Refund { which, units } => {
                let until = *which.get(&charges);
                let certain: u64 = book
                    .0
                    .iter()
                    .filter(|taken| taken.back == until && !taken.has_come_back)
                    .map(|taken| taken.units)
                    .sum();
                let back = key.refund(now, units, until);
                assert!(back >= units.min(certain));
                assert_eq!(book.refund(now, back, until), back, "more units than are held there");
            }
            Step::Call { which, cost, intent } => {
                let policy = *which.get(policies);
                let (limit, until) = (policy.limit, time_back(policy, now));
                let before = key.clone();
                let verdict = key.call(Call { policy, now, cost }, intent);
                let is_peek = intent == Intent::Peek;
                let is_forced = intent == Intent::Force;
                if !is_peek {
                    book.settle(until);
                }
                // After a step back, a peek may tell the waits that a call would tell.
                let horizons = if is_peek && now < latest { vec![until, Millis::MAX] } else { vec![Millis::MAX] };
                let (mut candidates, mut free) = (Vec::new(), Vec::new());
                for (horizon, with_doubtful) in horizons.into_iter().flat_map(|at| [(at, false), (at, true)]) {
                    let held = promised(&book.in_use(now, horizon, with_doubtful), limit, cost, now);
                    free.push(held.0);
                    let takes = (held.1 == Some(0) || is_forced) && !is_peek;
                    if takes && cost > 0 {
                        let mut after = book.clone();
                        after.take(policy, now, cost);
                        let then = promised(&after.in_use(now, horizon, with_doubtful), limit, 0, now);
                        candidates.push((true, then.0, Some(0), then.2, until));
                    } else {
                        let fits = held.1 == Some(0) || takes;
                        candidates.push((fits, held.0, if takes { Some(0) } else { held.1 }, held.2, 0));
                    }
                }
                assert_eq!(verdict.limit, limit);
                let told = (
                    verdict.allowed,
                    verdict.remaining,
                    verdict.retry_after,
                    verdict.reset_after,
                    verdict.charged_until,
                );
                // Between the count without and with the doubtful units, any count is right.
                let is_doubtful = book.0.iter().any(|taken| taken.has_come_back && taken.back > now);
                if is_doubtful {
                    let taken = if verdict.charged_until > 0 { cost.cast_signed() } else { 0 };
                    let (least, most) = (free.iter().min().expect("some"), free.iter().max().expect("some"));
                    assert!((least..=most).contains(&&(verdict.remaining + taken)), "{told:?}, free: {free:?}");
                } else {
                    assert!(candidates.contains(&told), "{told:?}, promised {candidates:?}");
                }
                if verdict.charged_until > 0 {
                    assert_eq!(verdict.charged_until, until);
                    charges.push(until);
                    book.take(policy, now, cost);
                    assert_ttl_is_right(&key, until);
                } else if !is_peek {
                    // The same call again writes nothing.
                    let settled = key.clone();
                    let _ = key.call(Call { policy, now, cost }, if cost == 0 { intent } else { Intent::Refuse });
                    assert_eq!((&key.text, key.expires_at), (&settled.text, settled.expires_at));
                    if before.text != key.text {
                        assert_ttl_is_right(&key, now + verdict.reset_after);
                    }
                }
            }
            _ => {}
        }
        latest = latest.max(now);
    }
}

/// A fraction of two integers. The denominator is positive.
#[derive(Clone, Copy, Debug)]
struct Fraction(i128, i128);

impl Fraction {
    fn of(top: i128, bottom: i128) -> Fraction {
        let (mut a, mut b) = (top.unsigned_abs(), bottom.unsigned_abs());
        while b > 0 {
            (a, b) = (b, a % b);
        }
        let common = a.max(1).cast_signed();
        Fraction(top / common, bottom / common)
    }

    fn plus(self, other: Fraction) -> Fraction {
        Fraction::of(self.0 * other.1 + other.0 * self.1, self.1 * other.1)
    }

    fn minus(self, other: Fraction) -> Fraction {
        self.plus(Fraction(-other.0, other.1))
    }

    fn times(self, other: Fraction) -> Fraction {
        Fraction::of(self.0 * other.0, self.1 * other.1)
    }

    fn at_least_0(self) -> Fraction {
        if self.0 < 0 { Fraction(0, 1) } else { self }
    }

    fn ceil(self) -> i128 {
        self.0.div_euclid(self.1) + i128::from(self.0.rem_euclid(self.1) > 0)
    }
}

fn whole(number: u64) -> Fraction {
    Fraction(number.into(), 1)
}

/// The level of a LEAKY limit. It drains at the rate of the last call that took units.
#[derive(Clone, Copy, Debug)]
struct Bucket {
    level: Fraction,
    at: Millis,
    /// Units per ms.
    rate: Fraction,
    /// The largest sum of the fractions that the module may have rounded up.
    rounded: Fraction,
}

impl Bucket {
    /// Returns the bucket at `now`. If the clock has stepped back, the level is that of the last change.
    fn seen_at(self, now: Millis) -> Bucket {
        let drained = self.rate.times(whole(now.saturating_sub(self.at)));
        let level = self.level.minus(drained).at_least_0();
        let rounded =
            if self.level.plus(self.rounded).minus(drained).at_least_0().0 == 0 { whole(0) } else { self.rounded };
        Bucket { level, at: now, rounded, ..self }
    }

    /// Returns the wait until the level has sunk to `target`, without and with the rounded fractions.
    fn waits(self, target: Fraction) -> [Millis; 2] {
        [self.level, self.level.plus(self.rounded)].map(|level| {
            let excess = level.minus(target).at_least_0();
            let wait = excess.times(Fraction(self.rate.1, self.rate.0)).ceil();
            u64::try_from(wait).expect("a wait")
        })
    }
}

fn follow_bucket(policies: &[Policy], steps: Vec<Step>) {
    let (mut key, mut bucket, mut now) = (Key::default(), None::<Bucket>, START);
    let mut charges = vec![START];
    for step in steps {
        if !key.exists(now) {
            bucket = None;
        }
        key.live(&step, &mut now);
        match step {
            Step::Refund { which, units } => {
                let until = *which.get(&charges);
                let back = key.refund(now, units, until);
                let Some(seen) = bucket.map(|bucket| bucket.seen_at(now)) else {
                    assert_eq!(back, 0);
                    continue;
                };
                let ahead = seen.rate.times(whole(until.saturating_sub(now)));
                let held = [seen.level, seen.level.plus(seen.rounded)]
                    .map(|level| ahead.ceil().min(level.ceil()).min(units.into()));
                assert!((held[0]..=held[1]).contains(&back.into()), "{back} of {held:?}");
                if back > 0 {
                    bucket = Some(Bucket { level: seen.level.minus(whole(back)).at_least_0(), ..seen });
                }
            }
            Step::Call { which, cost, intent } => {
                let policy @ Policy { limit, window, .. } = *which.get(policies);
                let rate = Fraction::of(limit.into(), window.into());
                let seen = bucket
                    .map_or(Bucket { level: whole(0), at: now, rate, rounded: whole(0) }, |bucket| bucket.seen_at(now));
                let before = key.clone();
                let verdict = key.call(Call { policy, now, cost }, intent);
                let remaining = |level: Fraction| i64::try_from(i128::from(limit) - level.ceil()).expect("few");
                let between = |told: i64, low: i64, high: i64| {
                    assert!((low..=high).contains(&told), "{told}, not {low} to {high}: {seen:?}")
                };

                // The module never counts less than the exact level. It may count the rounded fractions, too.
                let waits = limit.checked_sub(cost).map(|target| seen.waits(whole(target)));
                match waits {
                    None => assert!(!verdict.allowed || intent == Intent::Force),
                    Some([at_least, at_most]) => {
                        assert!(
                            !verdict.allowed || at_least == 0 || intent == Intent::Force,
                            "a unit too many: {seen:?}"
                        );
                        assert!(verdict.allowed || at_most > 0, "a unit too few: {seen:?}");
                        if !verdict.allowed {
                            between(
                                verdict.retry_after.expect("a wait").cast_signed(),
                                at_least.cast_signed(),
                                at_most.cast_signed(),
                            );
                        }
                    }
                }
                assert_eq!(verdict.retry_after.is_none(), cost > limit && intent != Intent::Force);
                let takes = verdict.allowed && cost > 0 && intent != Intent::Peek;
                assert_eq!(takes, verdict.charged_until > 0);
                let mut after = seen;
                if takes {
                    let rounded = seen.rounded.plus(Fraction::of(1, window.into()));
                    after = Bucket { level: seen.level.plus(whole(cost)), at: now, rate, rounded };
                }
                between(verdict.remaining, remaining(after.level.plus(after.rounded)), remaining(after.level));
                let [at_least, at_most] = after.waits(whole(0));
                between(verdict.reset_after.cast_signed(), at_least.cast_signed(), at_most.cast_signed());
                if takes {
                    assert_eq!(verdict.charged_until, now + verdict.reset_after);
                    assert_ttl_is_right(&key, verdict.charged_until);
                    charges.push(verdict.charged_until);
                    bucket = Some(after);
                } else if bucket.is_some_and(|bucket| now < bucket.at) && intent != Intent::Peek {
                    // The clock has stepped back. From this call on, the bucket drains again.
                    bucket = Some(seen);
                } else {
                    assert_eq!(
                        (&key.text, key.expires_at),
                        (&before.text, before.expires_at),
                        "a denied call changes nothing"
                    );
                }
            }
            _ => {}
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1500))]

    #[test]
    fn sliding_units_are_held_as_promised_whatever_policies_and_life(
        policies in policies(Algorithm::Sliding), steps in prop::collection::vec(lives(), 1..90),
    ) {
        follow_units(&policies, steps);
    }

    #[test]
    fn fixed_units_are_held_as_promised_whatever_policies_and_life(
        policies in policies(Algorithm::Fixed), steps in prop::collection::vec(lives(), 1..90),
    ) {
        follow_units(&policies, steps);
    }

    #[test]
    fn leaky_units_stay_units_whatever_policies_and_life(
        policies in policies(Algorithm::Leaky), steps in prop::collection::vec(lives(), 1..90),
    ) {
        follow_bucket(&policies, steps);
    }

    /// Strict. A unit is certainly in use if no call since it was taken, not even a denied one, would have made it
    /// available by now. These units and the cost of an allowed call are never more than the call's limit.
    #[test]
    fn no_change_of_policy_admits_a_unit_too_many(
        (policies, steps) in prop_oneof![Just(Algorithm::Sliding), Just(Algorithm::Fixed)]
            .prop_flat_map(|algorithm| (policies(algorithm), prop::collection::vec(calls_and_waits(), 1..150))),
    ) {
        let (mut key, mut now) = (Key::default(), START);
        // The units, the time at which they were charged, and the earliest time at which they may be available again.
        let mut taken: Vec<(u64, Millis, Millis)> = Vec::new();
        for step in steps {
            key.exists(now);
            match step {
                Step::Wait(ms) => now += ms,
                Step::Refund { which, units } if !taken.is_empty() => {
                    let until = which.get(&taken).1;
                    let mut back = key.refund(now, units, until);
                    // The refunded units may be those of any call, so the test subtracts them from those that are in use
                    // for longest.
                    taken.sort_unstable_by_key(|(.., earliest)| std::cmp::Reverse(*earliest));
                    for (units, ..) in &mut taken {
                        let here = back.min(*units);
                        *units -= here;
                        back -= here;
                    }
                }
                Step::Call { which, cost, intent } if intent != Intent::Peek => {
                    let policy = *which.get(&policies);
                    let until = time_back(policy, now);
                    taken.iter_mut().for_each(|(_, _, earliest)| *earliest = until.min(*earliest));
                    let verdict = key.call(Call { policy, now, cost }, intent);
                    if verdict.charged_until > 0 {
                        let certain: u64 = taken.iter().filter(|(.., earliest)| *earliest > now).map(|(units, ..)| units).sum();
                        prop_assert!(intent == Intent::Force || certain + cost <= policy.limit, "{certain} + {cost} of {policy:?}");
                        taken.push((cost, verdict.charged_until, until));
                    }
                }
                _ => {}
            }
        }
    }

    /// Honest. A call succeeds after the wait that a peek or a denied call has told, and not a millisecond earlier.
    #[test]
    fn waits_are_sufficient_and_minimal_after_any_change_of_policy(
        (policies, steps) in prop_oneof![Just(Algorithm::Sliding), Just(Algorithm::Fixed), Just(Algorithm::Leaky)]
            .prop_flat_map(|algorithm| (policies(algorithm), prop::collection::vec(calls_and_waits(), 1..60))),
        cost in 0_u64..40,
    ) {
        let (mut key, mut now, policy) = (Key::default(), START, policies[0]);
        for step in steps {
            key.exists(now);
            match step {
                Step::Wait(ms) => now += ms,
                Step::Call { which, cost, intent } => _ = key.call(Call { policy: *which.get(&policies), now, cost }, intent),
                _ => {}
            }
        }
        for intent in [Intent::Peek, Intent::Take] {
            key.exists(now);
            let told = key.call(Call { policy, now, cost }, intent);
            let succeeds = |wait: Millis| {
                let (mut key, now) = (key.clone(), now + wait);
                key.exists(now);
                key.call(Call { policy, now, cost }, Intent::Take).allowed
            };
            if let Some(wait @ 1..) = told.retry_after {
                prop_assert!(succeeds(wait), "{intent:?}: {told:?}");
                prop_assert!(!succeeds(wait - 1), "{intent:?}: {told:?}");
            }
            let is_free = |wait: Millis| {
                let (mut key, now) = (key.clone(), now + wait);
                key.exists(now);
                key.call(Call { policy, now, cost: 0 }, Intent::Peek).remaining == policy.limit.cast_signed()
            };
            prop_assert!(is_free(told.reset_after) && (told.reset_after == 0 || !is_free(told.reset_after - 1)), "{told:?}");
        }
    }

    /// THROTTLE counts time, not units. So after a change of the policy, the arrival time stays.
    #[test]
    fn throttle_replies_as_redis_cell_whatever_policies_and_life(
        policies in prop::collection::vec((0_i64..20, 1_i64..4000, 1_i64..60), 2..=4),
        steps in prop::collection::vec(lives(), 1..90),
    ) {
        const MS: i128 = 1_000_000;
        let (mut key, mut arrival, mut now) = (Key::default(), None::<i128>, START);
        for step in steps {
            if !key.exists(now) {
                arrival = None;
            }
            key.live(&step, &mut now);
            if let Step::Call { which, cost, .. } = step {
                let (burst, count, period) = *which.get(&policies);
                let (nanos, quantity) = (i128::from(now) * MS, cost.cast_signed());
                let policy = ThrottlePolicy::new(burst, count, period).expect("in range");
                let stored = key.text.as_ref().map(|text| match StoredLimit::parse(text) {
                    Ok(StoredLimit::Throttle(arrival)) => arrival,
                    other => panic!("{other:?}"),
                });
                let (reply, left) = throttle(policy, nanos, quantity, stored).expect("in range");
                if left != stored {
                    key.apply(left.map_or(Update::Remove, throttle::Arrival::update));
                }
                // redis-cell computes the interval in floating point.
                let interval = ((i128::from(period) * 1_000_000_000) as f64 / count as f64) as i128;
                let (tolerance, increment) = (interval * i128::from(burst + 1), interval * i128::from(quantity));
                let next = nanos.max(arrival.unwrap_or(nanos)) + increment;
                prop_assert_eq!(reply.allowed, next - tolerance <= nanos);
                if reply.allowed && quantity > 0 {
                    arrival = Some(next);
                    let ttl = key.expires_at.expect("a TTL");
                    prop_assert_eq!(i128::from(ttl), next / MS);
                } else if !reply.allowed && increment <= tolerance {
                    let wait = next - tolerance - nanos;
                    let seconds = wait / (1000 * MS) + i128::from(wait % (1000 * MS) >= MS);
                    prop_assert_eq!(i128::from(reply.retry_after), seconds);
                }
            }
        }
    }
}
