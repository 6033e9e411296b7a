//! Tests THROTTLE with redis-cell's own cases.

use super::*;
use proptest::prelude::*;

const NOW: Nanos = 1_767_225_600_123_456_789;

/// Makes a call on a key. As in the server, the key is missing after its TTL.
fn call(key: &mut Option<Arrival>, policy: ThrottlePolicy, now: Nanos, quantity: i64) -> ThrottleVerdict {
    key.take_if(|arrival| now / MILLISECOND > Nanos::from(arrival.expires_at()));
    let (verdict, left) = throttle(policy, now, quantity, *key).unwrap();
    *key = left;
    verdict
}

fn verdict(allowed: bool, remaining: i64, retry_after: i64, reset_after: i64) -> ThrottleVerdict {
    ThrottleVerdict { allowed, remaining, retry_after, reset_after }
}

#[test]
fn a_burst_and_then_one_every_interval() {
    let (mut key, policy) = (None, ThrottlePolicy::new(4, 1, 1).unwrap());
    for n in 1..=5 {
        assert_eq!(call(&mut key, policy, NOW, 1), verdict(true, 5 - n, -1, n));
    }
    assert_eq!(call(&mut key, policy, NOW, 1), verdict(false, 0, 1, 5));
    let ms = MILLISECOND;
    assert_eq!(call(&mut key, policy, NOW + 999 * ms, 1), verdict(false, 0, 1, 5));
    assert_eq!(call(&mut key, policy, NOW + 1000 * ms, 1), verdict(true, 0, -1, 5));
    assert_eq!(call(&mut key, policy, NOW + 9000 * ms, 0), verdict(true, 5, -1, 0));
    assert_eq!(call(&mut None, policy, NOW, 6), verdict(false, 5, -1, 0), "never");
}

/// The expected replies are those of redis-cell 0.5.0 to a first call. redis-cell truncates the interval to whole µs
/// and computes in floating point.
#[test]
fn units_and_seconds_are_rounded_as_redis_cell_rounds_them() {
    for (burst, count, period, quantity, remaining, reset_after) in [
        (4, 1, 1, 1, 4, 1),
        (4, 1, 1, 5, 0, 5),
        (0, 3, 1, 1, 0, 1),
        (9, 7, 60, 4, 6, 35),
        (99, 1000, 1, 37, 63, 1),
        (999, 999, 7, 500, 500, 4),
        (15, 30, 60, 16, 0, 32),
        (50, 333, 1000, 17, 34, 52),
        (1_000_000, 1, 1, 999_999, 2, 999_999),
        (9, 10, 10, 0, 10, 0),
        (2, 1, 31_536_000, 3, 0, 94_608_000),
        (10_000, 7000, 1, 6999, 3020, 1),
        (5999, 6000, 1, 1, 6023, 0),
        (1_999_999, 2_000_000, 1, 1, 1_999_999, 0),
    ] {
        let policy = ThrottlePolicy::new(burst, count, period).unwrap();
        let (reply, left) = throttle(policy, NOW, quantity, None).unwrap();
        let case = (burst, count, period, quantity);
        assert_eq!(reply, verdict(true, remaining, -1, reset_after), "{case:?}");
        let drains = Nanos::from(policy.interval) * Nanos::from(quantity);
        let Some(arrival) = left else {
            assert_eq!(quantity, 0);
            continue;
        };
        assert_eq!(Nanos::from(arrival.nanos), NOW + drains, "{case:?}");
        assert_eq!(Nanos::from(arrival.expires_at()), (NOW + drains) / MILLISECOND, "{case:?}");
    }
    assert_eq!(throttle(ThrottlePolicy::new(3, 1, 1).unwrap(), NOW, 5, None).unwrap().0, verdict(false, 4, -1, 0));
}

#[test]
fn a_negative_quantity_gives_units_back_and_never_more_than_are_held() {
    let (mut key, policy) = (None, ThrottlePolicy::new(9, 10, 10).unwrap());
    call(&mut key, policy, NOW, 8);
    assert_eq!(call(&mut key, policy, NOW, -3), verdict(true, 5, -1, 5));
    assert_eq!(call(&mut key, policy, NOW, -9), verdict(true, 10, -1, 0));
    assert_eq!(key, None);
    assert_eq!(call(&mut key, policy, NOW, -1), verdict(true, 10, -1, 0));
}

#[test]
fn rates_above_a_thousand_a_second_need_no_burst() {
    let (mut key, policy) = (None, ThrottlePolicy::new(0, 5000, 1).unwrap());
    let mut allowed = 0;
    for tick in 0..1000 {
        allowed += i32::from(call(&mut key, policy, NOW + tick * MILLISECOND / 10, 1).allowed);
    }
    assert_eq!(allowed, 500, "one in 200 µs");
}

#[test]
fn numbers_out_of_range_are_errors() {
    for (burst, count, period) in [
        (-1, 1, 1),
        (0, 0, 1),
        (0, 1, 0),
        (0, -1, 1),
        (0, 1, -1),
        (i64::MAX, 1, 1),
        (i64::MAX - 1, 1, 1),
        (0, i64::MAX, 1),
        (9, 1, i64::MAX),
        (0, 2_000_000_000, 1),
    ] {
        assert_eq!(ThrottlePolicy::new(burst, count, period), Err(OutOfRange), "{burst} {count} {period}");
    }
    let policy = ThrottlePolicy::new(5, 1, 60).unwrap();
    assert_eq!(throttle(policy, NOW, i64::MAX, None), Err(OutOfRange));
    assert_eq!(throttle(policy, NOW, i64::MIN, None), Err(OutOfRange));
}

/// The TTL does not matter, because other clients may change it.
#[test]
fn only_large_numbers_are_arrival_times() {
    let text = NOW.to_string();
    assert!(Arrival::parse(text.as_bytes()).is_ok());
    for text in [
        "",
        "42",
        "1767225600",
        "1767225600123",
        "999999999999999999",
        "01767225600123456789",
        "-1767225600123456789",
        "1767225600123456789 ",
        "99999999999999999999",
    ] {
        assert_eq!(Arrival::parse(text.as_bytes()), Err(NotThisFormat), "{text}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(5000))]

    /// Makes calls around the time at which the key expires. Each reply must be the same as if the key never expired.
    #[test]
    fn a_key_does_not_end_before_its_arrival_time(
        (burst, count) in (0_i64..4, 1_i64..20_000),
        steps in prop::collection::vec(0_i128..600_000, 1..200),
    ) {
        let (policy, mut now) = (ThrottlePolicy::new(burst, count, 1).unwrap(), NOW);
        let (mut key, mut arrival) = (None, 0);
        for step in steps {
            now += step;
            let asked = now.max(arrival) + Nanos::from(policy.interval);
            let allowed = asked - now <= Nanos::from(policy.tolerance);
            prop_assert_eq!(call(&mut key, policy, now, 1).allowed, allowed);
            if allowed {
                arrival = asked;
            }
        }
    }

    /// As in redis-cell, the reported wait ignores a remainder below a millisecond. So a call succeeds one millisecond
    /// after the reported wait. No bucket admits more than its burst and its rate allow.
    #[test]
    fn the_rate_is_kept_and_waits_are_true(
        (burst, count, period) in (0_i64..20, 1_i64..5000, 1_i64..100),
        calls in prop::collection::vec((0_i128..2_000_000_000, 1_i64..9), 1..60),
    ) {
        let (mut key, mut now, policy) = (None, NOW, ThrottlePolicy::new(burst, count, period).unwrap());
        let mut taken = 0;
        for (step, quantity) in calls {
            now += step;
            let verdict = call(&mut key, policy, now, quantity);
            if verdict.allowed {
                taken += quantity;
            } else if verdict.retry_after >= 0 {
                let then = now + Nanos::from(verdict.retry_after) * SECOND + MILLISECOND;
                prop_assert!(call(&mut key.clone(), policy, then, quantity).allowed);
            }
            let most = i128::from(policy.limit) + (now - NOW) / i128::from(policy.interval);
            prop_assert!(i128::from(taken) <= most, "{} of {}", taken, most);
        }
    }

    #[test]
    fn no_numbers_make_it_panic(
        numbers in prop::array::uniform3(prop_oneof![-2_i64..5, any::<i64>()]), quantity in any::<i64>(),
        stored in proptest::option::of(any::<u64>()),
    ) {
        if let Ok(policy) = ThrottlePolicy::new(numbers[0], numbers[1], numbers[2]) {
            let stored = stored.map(|nanos| Arrival { nanos });
            let _ = throttle(policy, NOW, quantity, stored);
        }
    }
}
