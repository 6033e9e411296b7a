//! Tests LEAKY against GCRA in rational arithmetic. Every level is formatted and parsed.

use super::super::{Algorithm, Assessment, Policy, Verdict};
use super::*;
use proptest::prelude::*;

const START: Millis = 1_767_225_600_000;

fn assess(limit: u64, window: Millis, now: Millis, cost: u64, stored: Option<Level>) -> LeakyCheck {
    LeakyCheck::new(
        Call { policy: Policy { algorithm: Algorithm::Leaky, limit, window, precision: None }, now, cost },
        stored,
    )
}

#[derive(Clone, Debug, Default)]
struct Bucket(Option<Vec<u8>>);

impl Bucket {
    fn level(&self) -> Option<Level> {
        self.0.as_ref().map(|text| Level::parse(text).expect("a level that was written before"))
    }

    fn check(&mut self, policy: (u64, Millis), now: Millis, cost: u64) -> Verdict {
        self.call(policy, now, cost, false)
    }

    fn call(&mut self, (limit, window): (u64, Millis), now: Millis, cost: u64, force: bool) -> Verdict {
        let assessed = assess(limit, window, now, cost, self.level());
        let taken = force || assessed.fits();
        let Assessment { verdict, update: change, .. } = if taken { assessed.charge() } else { assessed.refuse() };
        if change.is_some() {
            self.0 = change.map(written);
        }
        verdict
    }

    fn refund(&mut self, now: Millis, units: u64, until: Millis) -> u64 {
        let Some(level) = self.level() else { return 0 };
        let (units, update) = level.refund(now, units, until);
        assert_eq!(units > 0, update.is_some());
        match update {
            None => {}
            Some(Update::Remove) => self.0 = None,
            Some(change) => self.0 = Some(written(change)),
        }
        units
    }
}

fn written(change: Update) -> Vec<u8> {
    let Update::Replace { text, lifetime } = change else { panic!("{change:?}") };
    let level = Level::parse(&text).unwrap();
    assert_eq!(level.text()[..], text[..]);
    assert!(lifetime.expires_at(None) >= level.empty_at());
    text.to_vec()
}

/// The state of a bucket when it was written.
#[derive(Clone, Copy, Debug)]
struct Written {
    at: i128,
    /// The level in parts. A unit has `per` parts. The bucket drains by `limit` parts per ms.
    parts: i128,
    limit: i128,
    per: i128,
}

impl Written {
    /// Returns the level at `now`. If `now` is before the last write, returns the written level.
    fn parts(&self, now: i128) -> i128 {
        (self.parts - (now - self.at).max(0) * self.limit).max(0)
    }
}

#[derive(Clone, Debug, Default)]
struct Gcra(Option<Written>);

impl Gcra {
    fn call(&mut self, (limit, window): (u64, Millis), now: Millis, cost: u64, force: bool) -> Verdict {
        let (limit, per, at, asked) = (i128::from(limit), i128::from(window), i128::from(now), i128::from(cost));
        let was = self.0.unwrap_or(Written { at, parts: 0, limit, per });
        let held = was.parts(at);
        let fits = held + asked * was.per <= limit * was.per;
        let takes = (fits || force) && cost > 0;
        let mut after = was;
        if takes {
            after = Written { at, parts: ceil_div(held * per, was.per) + asked * per, limit, per };
        } else if at < was.at {
            after.at = at;
        }
        if takes || self.0.is_some() {
            self.0 = Some(after);
        }
        let wait = |parts: i128, rate: i128| u64::try_from(ceil_div(parts.max(0), rate)).unwrap();
        let reset_after = wait(after.parts(at), after.limit);
        Verdict {
            allowed: fits || force,
            limit: u64::try_from(limit).unwrap(),
            remaining: i64::try_from(limit - ceil_div(after.parts(at), after.per)).unwrap(),
            retry_after: match () {
                () if fits || force => Some(0),
                () if asked > limit => None,
                () => Some(wait(held - (limit - asked) * was.per, was.limit)),
            },
            reset_after,
            charged_until: if takes { now + reset_after } else { 0 },
        }
    }

    fn refund(&mut self, now: Millis, units: u64, until: Millis) -> u64 {
        let at = i128::from(now);
        let Some(was) = self.0.filter(|_| until > now) else { return 0 };
        let held = was.parts(at);
        let back = ceil_div(held.min(i128::from(until - now) * was.limit), was.per).min(i128::from(units));
        let left = (held - back * was.per).max(0);
        if back > 0 {
            self.0 = (left > 0).then_some(Written { at, parts: left, ..was });
        }
        u64::try_from(back).unwrap()
    }
}

fn ceil_div(parts: i128, by: i128) -> i128 {
    (parts + by - 1).div_euclid(by)
}

#[test]
fn a_level_is_a_short_text() {
    let mut bucket = Bucket::default();
    bucket.check((100, 60_000), START, 1);
    assert_eq!(bucket.0.as_deref().unwrap(), b"leaky:1767225600600:100/60000!1767225600000");
    let mut thirds = Bucket::default();
    thirds.check((3, 10_000), START, 1);
    assert_eq!(thirds.0.as_deref().unwrap(), b"leaky:1767225603333+1:3/10000!1767225600000");
    thirds.call((3, 10_000), START + 1, 3, true);
    assert_eq!(thirds.0.as_deref().unwrap(), b"leaky:1767225613333+1:3/10000!1767225600001");
}

#[test]
fn only_what_is_written_is_taken_for_a_level() {
    assert!(Level::parse(b"leaky:1767225600000:5/60000!1767225600000").is_ok());
    for bad in [
        "",
        "5",
        "leaky",
        "leaky:",
        "leaky:5",
        "leaky:5:2",
        "leaky:5:2/",
        "leaky:5:/2",
        "leaky::1/2!1",
        "leaky:1:0/5!1",
        "leaky:1:5/0!1",
        "leaky:01:5/6!1",
        "leaky:1:5/6/7!1",
        "leaky:1+5:5/6!1",
        "leaky:1+0:5/6!1",
        "leaky:1+:5/6!1",
        "leaky:1:5/6",
        "leaky:1:5/6!",
        "leaky:1:5/6!9007199254740992",
        "leaky:1:5/6!x",
        "leaky:1:5/9007199254740992!1",
        "leaky:1:9007199254740992/5!1",
        "leaky:9007199254740992:5/5!1",
        "Leaky:1:5/6!1",
        "fixed:1:5/6!1",
    ] {
        assert_eq!(Level::parse(bad.as_bytes()), Err(NotThisFormat), "{bad:?}");
    }
}

#[test]
fn the_largest_numbers_overflow_nowhere() {
    let mut bucket = Bucket::default();
    let policy = (MAX_UNITS, time::MAX - START);
    let verdict = bucket.check(policy, START, MAX_UNITS);
    assert_eq!((verdict.allowed, verdict.remaining, verdict.charged_until), (true, 0, time::MAX));
    assert!(!bucket.check(policy, START, 1).allowed);
    let forced = bucket.call(policy, START, MAX_UNITS, true);
    assert_eq!((forced.allowed, forced.remaining, forced.charged_until), (true, 0, time::MAX));
    let mut small = Bucket::default();
    let forced = small.call((1, time::MAX - START), START, MAX_UNITS, true);
    assert_eq!((forced.retry_after, forced.charged_until), (Some(0), time::MAX));
    assert!(small.refund(START, MAX_UNITS, time::MAX) >= 1);
}

#[test]
fn units_stay_units_when_the_policy_changes() {
    const HOUR: Millis = 3_600_000;
    for (before, after, free) in [
        ((10, HOUR), (1000, HOUR), 990),
        ((10, 60_000), (10, HOUR), 0),
        ((10, HOUR), (10, 60_000), 0),
        ((1000, HOUR), (10, HOUR), -990),
        ((10, HOUR), (20, 60_000), 10),
    ] {
        let mut bucket = Bucket::default();
        bucket.check(before, START, before.0);
        assert_eq!(assess(after.0, after.1, START, 0, bucket.level()).peek().remaining, free, "{before:?} {after:?}");
        assert_eq!(bucket.check(after, START, 0).remaining, free, "{before:?} {after:?}");
    }
}

#[test]
fn a_clock_that_steps_back_finds_the_bucket_as_full_as_it_was() {
    let (mut bucket, policy) = (Bucket::default(), (100, 60_000));
    bucket.check(policy, START, 1);
    let now = START - 3_600_000;
    let peeked = assess(policy.0, policy.1, now, 100, bucket.level()).peek();
    assert_eq!((peeked.remaining, peeked.retry_after, peeked.reset_after), (99, Some(600), 600));
    assert_eq!(bucket.clone().check(policy, now, 100), peeked);
    assert_eq!(bucket.level().unwrap().usage(now).units, Some(1));
    assert_eq!(bucket.check(policy, now, 1).remaining, 98);
    assert_eq!(bucket.check(policy, now + 1200, 0).remaining, 100);
}

/// A denied call with a lower limit changes nothing, so no units become free.
#[test]
fn a_lower_limit_gives_no_units_away() {
    let (mut bucket, old, new) = (Bucket::default(), (10, 60_000), (2, 60_000));
    bucket.check(old, START, 10);
    let before = bucket.0.clone();
    let denied = bucket.check(new, START, 1);
    assert_eq!((denied.allowed, denied.remaining, denied.retry_after), (false, -8, Some(54_000)));
    assert_eq!(bucket.0, before);
    assert_eq!(bucket.check(old, START, 0).remaining, 0);
    // Old and new processes call at the same time, for ten seconds.
    let (mut bucket, mut admitted) = (Bucket::default(), 0);
    for now in START..START + 10_000 {
        for policy in [(100, 10_000), (10, 10_000)] {
            admitted += u64::from(bucket.check(policy, now, 1).allowed);
        }
    }
    assert!(admitted <= 200, "{admitted}");
}

fn policies() -> impl Strategy<Value = (u64, Millis)> {
    // Some policies differ only in their limits.
    (1_u64..50, prop_oneof![Just(1000), 1_u64..3000])
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    /// Policies change, units are forced and refunded, and the clock steps in both directions.
    #[test]
    fn every_reply_equals_gcra_in_rational_arithmetic(
        policies in prop::collection::vec(policies(), 1..4),
        calls in prop::collection::vec(
            (prop_oneof![3 => Just(0), 8 => 0_i64..200, 1 => 0_i64..20_000, 1 => -500_i64..0], 0_u64..9,
             any::<prop::sample::Index>(), 0_u8..12),
            1..150,
        ),
    ) {
        let (mut bucket, mut gcra, mut now, mut charged) = (Bucket::default(), Gcra::default(), START, START);
        for (step, cost, which, kind) in calls {
            now = now.checked_add_signed(step).unwrap();
            if kind < 2 {
                prop_assert_eq!(bucket.refund(now, cost, charged), gcra.refund(now, cost, charged));
                continue;
            }
            let policy = *which.get(&policies);
            let verdict = bucket.call(policy, now, cost, kind == 2);
            prop_assert_eq!(verdict, gcra.call(policy, now, cost, kind == 2));
            charged = verdict.charged_until.max(charged);
        }
    }

    /// Tests the waits that a refused call and a peek return, also after the policy has changed.
    #[test]
    fn retry_after_is_sufficient_and_minimal(
        before in policies(), policy in policies(), costs in prop::collection::vec(1_u64..9, 1..60), cost in 1_u64..40,
        is_changed in any::<bool>(),
    ) {
        let (mut bucket, mut now) = (Bucket::default(), START);
        for cost in costs {
            bucket.check(before, now, cost);
            now += cost * 7;
        }
        let policy = if is_changed { policy } else { before };
        if let Some(wait @ 1..) = assess(policy.0, policy.1, now, cost, bucket.level()).peek().retry_after {
            prop_assert!(!bucket.clone().check(policy, now + wait - 1, cost).allowed);
            prop_assert!(bucket.clone().check(policy, now + wait, cost).allowed);
        }
        if let Some(wait @ 1..) = bucket.check(policy, now, cost).retry_after {
            prop_assert!(!bucket.clone().check(policy, now + wait - 1, cost).allowed);
            prop_assert!(bucket.check(policy, now + wait, cost).allowed);
        }
    }

    #[test]
    fn what_is_in_use_is_the_rest_of_what_is_free(policy in policies(), costs in prop::collection::vec((1_u64..9, 0_u64..90), 1..20)) {
        let (mut bucket, mut now) = (Bucket::default(), START);
        for (cost, step) in costs {
            bucket.check(policy, now, cost);
            now += step;
            let free = assess(policy.0, policy.1, now, 0, bucket.level()).peek().remaining;
            let held = bucket.level().map_or(LimitUsage::default(), |level| level.usage(now));
            prop_assert_eq!(held.units.unwrap_or(0).cast_signed() + free, policy.0.cast_signed());
            if let Some(next) = held.next_available {
                let at = |now| assess(policy.0, policy.1, now, 0, bucket.level()).peek().remaining;
                prop_assert!(at(next - 1) == free && at(next) > free);
            }
        }
    }
}

/// Returns numbers for forged strings: small numbers, numbers near the clock or near `MAX_UNITS`, and random numbers.
fn hostile() -> impl Strategy<Value = u64> {
    prop_oneof![0_u64..5, START - 5..START + 5, MAX_UNITS - 2..MAX_UNITS + 2, any::<u64>()]
}

proptest! {
    #![proptest_config(crate::base::fuzzing())]

    #[test]
    fn a_hostile_text_is_refused_or_a_level_like_others(
        [at, part, its_limit, its_window, since] in prop::array::uniform5(hostile()),
        limit in 1..=MAX_UNITS,
        window in 1..=time::MAX - START,
        cost in prop_oneof![0_u64..5, 0..=MAX_UNITS],
        (units, until) in (1..=MAX_UNITS, 0..=time::MAX),
    ) {
        for text in [
            format!("leaky:{at}:{its_limit}/{its_window}!{since}"),
            format!("leaky:{at}+{part}:{its_limit}/{its_window}!{since}"),
        ] {
            let Ok(level) = Level::parse(text.as_bytes()) else { continue };
            let again = level.text();
            prop_assert_eq!(&again[..], text.as_bytes());
            let assessed = assess(limit, window, START, cost, Some(level));
            prop_assert!(assessed.peek().remaining <= limit.cast_signed());
            assessed.refuse();
            let change = assessed.charge().update;
            prop_assert!(change.map(written).is_none_or(|text| Level::parse(&text).unwrap().empty_at() <= time::MAX));
            prop_assert!(level.refund(START, units, until).0 <= units);
            level.usage(START);
        }
    }
}
