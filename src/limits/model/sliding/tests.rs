//! Tests SLIDING against a simple reference: a list with the time of each unit.

use super::super::{Algorithm, Assessment, MAX_UNITS, Patch, Verdict};
use super::*;
use proptest::prelude::*;

#[derive(Clone, Debug, Default)]
struct Key(Option<Vec<u8>>);

impl Key {
    fn ring(&self) -> Option<Ring<'_>> {
        self.0.as_ref().map(|text| Ring::parse(text).expect("a ring that was written before"))
    }

    fn assess(&self, policy: Policy, now: Millis, cost: u64) -> SlidingCheck<'_> {
        SlidingCheck::parse(Call { policy, now, cost }, self.0.as_deref()).unwrap()
    }

    fn apply(&mut self, change: Update) {
        let lifetime = match change {
            Update::Replace { text, lifetime } => {
                self.0 = Some(text.to_vec());
                Some(lifetime)
            }
            Update::Overwrite { parts, lifetime } => {
                for Patch { at, bytes } in parts {
                    self.0.as_mut().unwrap()[at..at + bytes.len()].copy_from_slice(&bytes);
                }
                lifetime
            }
            Update::Remove => {
                self.0 = None;
                None
            }
        };
        // The key expires no earlier than the latest time in the string, which a linear scan finds.
        let latest = self.units().last().map_or(0, |(at, _)| *at);
        assert!(lifetime.is_none_or(|lifetime| lifetime.expires_at(None) >= latest));
    }

    fn check(&mut self, policy: Policy, now: Millis, cost: u64) -> Verdict {
        self.call(policy, now, cost, false)
    }

    fn call(&mut self, policy: Policy, now: Millis, cost: u64, force: bool) -> Verdict {
        let assessed = self.assess(policy, now, cost);
        let Assessment { verdict, update: change, .. } =
            if force || assessed.fits() { assessed.charge() } else { assessed.refuse() };
        if let Some(change) = change {
            self.apply(change);
        }
        verdict
    }

    fn refund(&mut self, now: Millis, units: u64, until: Millis) -> u64 {
        let Some(ring) = self.ring() else { return 0 };
        let (units, update) = refund(ring, now, units, until).unwrap();
        assert_eq!(units > 0, update.is_some());
        if let Some(change) = update {
            self.apply(change);
        }
        units
    }

    fn slots(&self) -> usize {
        self.ring().map_or(0, |ring| ring.len())
    }

    /// Returns the string's units, by the time at which they become available again. Omits the oldest slot. Its units
    /// cannot be computed, because the string no longer contains the total of the slot before it.
    fn units(&self) -> Vec<(Millis, u64)> {
        let Some(text) = &self.0 else { return Vec::new() };
        let number = |bytes: &[u8]| u64::from_le_bytes(bytes.try_into().unwrap());
        let slots = text[b"sliding:".len()..].chunks(16).map(|slot| (number(&slot[..8]), number(&slot[8..])));
        let mut slots: Vec<_> = slots.filter(|(at, _)| *at > 0).collect();
        slots.sort_unstable();
        for pair in slots.windows(2) {
            assert!(pair[0].0 < pair[1].0 && pair[1].1.wrapping_sub(pair[0].1) <= MAX_UNITS, "{slots:?}");
        }
        slots
            .windows(2)
            .map(|pair| (pair[1].0, pair[1].1.wrapping_sub(pair[0].1)))
            .filter(|(_, units)| *units > 0)
            .collect()
    }
}

/// The reference: a list of all taken units, with the times at which they become available again.
#[derive(Clone, Debug, Default)]
struct Reference(Vec<(Millis, u64)>);

impl Reference {
    /// Compares the reference with a key. `latest` is the latest time of the clock. All units of the reference that
    /// were in use at `latest` must be in the key. All units of the key must be in the reference. Removes older units
    /// from the reference if the key has overwritten them.
    fn follow(&mut self, key: &Key, latest: Millis) {
        let sum = |units: &[(Millis, u64)]| {
            let mut sums = std::collections::BTreeMap::new();
            units.iter().filter(|(_, units)| *units > 0).for_each(|(at, units)| *sums.entry(*at).or_insert(0) += units);
            sums
        };
        let (expected, found) = (sum(&self.0), sum(&key.units()));
        for (at, units) in &found {
            assert_eq!(expected.get(at), Some(units), "{at}: {expected:?} {found:?}");
        }
        for (at, units) in &expected {
            assert!(*at <= latest || found.get(at) == Some(units), "{at}: {expected:?} {found:?}");
        }
        self.0 = found.into_iter().collect();
    }

    fn comes_back(&self, policy: Policy, now: Millis) -> Millis {
        let exact = now + policy.window;
        let is_exact = policy.limit <= 100 && self.in_use(now) <= 100;
        let precision = policy.precision.unwrap_or(if is_exact { 1 } else { policy.window.div_ceil(100) });
        if exact.is_multiple_of(precision) { exact } else { exact - exact % precision + precision }
    }

    fn in_use(&self, now: Millis) -> u64 {
        self.0.iter().filter(|(at, _)| *at > now).map(|(_, units)| units).sum()
    }

    fn refund(&mut self, now: Millis, units: u64, until: Millis) -> u64 {
        let mut left = units;
        for (_, held) in self.0.iter_mut().filter(|(at, _)| *at == until && until > now) {
            let back = left.min(*held);
            *held -= back;
            left -= back;
        }
        self.0.retain(|(_, held)| *held > 0);
        units - left
    }

    fn call(&mut self, policy: Policy, now: Millis, cost: u64, force: bool) -> Verdict {
        let until = self.comes_back(policy, now);
        for (at, _) in &mut self.0 {
            *at = (*at).min(until);
        }
        let fits = |at: Millis| self.in_use(at) + cost <= policy.limit;
        let retry_after = if cost > policy.limit {
            None
        } else if fits(now) {
            Some(0)
        } else {
            let mut moments: Vec<_> = self.0.iter().map(|(at, _)| *at).filter(|at| *at > now).collect();
            moments.sort_unstable();
            Some(moments.into_iter().find(|at| fits(*at)).unwrap() - now)
        };
        let retry_after = if force { Some(0) } else { retry_after };
        let allowed = retry_after == Some(0);
        let charged = allowed && cost > 0;
        if charged {
            self.0.push((until, cost));
        }
        Verdict {
            allowed,
            limit: policy.limit,
            remaining: policy.limit.cast_signed() - self.in_use(now).cast_signed(),
            retry_after,
            reset_after: self.0.iter().map(|(at, _)| at.saturating_sub(now)).max().unwrap_or(0),
            charged_until: if charged { until } else { 0 },
        }
    }
}

const START: Millis = 1_767_225_600_000;

fn sliding(limit: u64, window: Millis, precision: Millis) -> Policy {
    Policy { algorithm: Algorithm::Sliding, limit, window, precision: Some(precision) }
}

/// A policy with the default precision.
fn default(limit: u64, window: Millis) -> Policy {
    Policy { algorithm: Algorithm::Sliding, limit, window, precision: None }
}

#[test]
fn five_in_a_window_then_none_until_the_first_comes_back() {
    let (mut key, policy) = (Key::default(), sliding(5, 60_000, 1));
    for taken in 0..5 {
        let verdict = key.check(policy, START + taken * 1000, 1);
        assert!(verdict.allowed);
        assert_eq!(verdict.remaining, 4 - taken.cast_signed());
        assert_eq!(verdict.charged_until, START + taken * 1000 + 60_000);
    }
    let denied = key.check(policy, START + 4500, 1);
    assert_eq!((denied.allowed, denied.remaining), (false, 0));
    assert_eq!(denied.retry_after, Some(55_500));
    assert_eq!(denied.reset_after, 59_500);
    assert!(!key.check(policy, START + 59_999, 1).allowed);
    assert!(key.check(policy, START + 60_000, 1).allowed);
}

#[test]
fn the_default_grid_bounds_the_slots_and_the_delay() {
    for limit in [101, 1000, 1_000_000, MAX_UNITS] {
        for window in [1, 99, 150, 1000, 60_000, 86_400_000, 60_000_000_000] {
            let policy = default(limit, window);
            let precision = policy.precision_at(0);
            let live = usize::try_from(limit.min(window / precision + 1)).unwrap();
            assert!(policy.room_for(live + 2, 0) <= 104, "{window}");
            assert!((precision - 1) * 100 <= window, "at most 1 % late: {window}");
        }
    }
    assert_eq!(default(100, 86_400_000).precision_at(100), 1);
}

/// A service watches a limit before it enforces it (FORCE).
#[test]
fn forced_calls_of_a_small_limit_leave_a_bounded_number_of_slots() {
    let (mut key, policy) = (Key::default(), default(10, 86_400_000));
    for call in 0..20_000 {
        assert!(key.call(policy, START + call * 10, 1, true).allowed);
        assert!(key.slots() <= 408, "{} slots after {call} calls", key.slots());
    }
    let usage = usage(key.ring().unwrap(), START + 200_000).unwrap();
    assert!(usage.units == Some(20_000) && usage.slots <= 202, "{usage:?}");
}

/// One process of a service has a limit of 100 or less, another has a higher limit.
#[test]
fn denied_calls_of_a_lower_limit_add_no_slots() {
    let (mut key, high, low) = (Key::default(), default(1_000_000, 86_400_000), default(100, 86_400_000));
    key.check(high, START, 1000);
    for call in 0..20_000 {
        let before = key.0.clone();
        assert!(!key.check(low, START + call * 10, 1).allowed);
        assert!(call == 0 || key.0 == before, "a denied call writes");
        key.check(high, START + call * 10 + 5, 1);
        assert!(key.slots() <= 104, "{} slots after {call} calls", key.slots());
    }
}

#[test]
fn the_largest_numbers_overflow_nowhere() {
    let policy = sliding(MAX_UNITS, time::MAX - START, 1);
    let mut key = Key::default();
    assert_eq!(key.check(policy, START, MAX_UNITS).charged_until, time::MAX);
    assert!(!key.check(policy, START, MAX_UNITS).allowed);
    let precision = time::MAX - START;
    assert_eq!(key.check(sliding(MAX_UNITS, precision, precision), START, 1).retry_after, Some(precision));
    let forced = key.call(policy, START, MAX_UNITS, true);
    assert_eq!(
        (forced.allowed, forced.remaining, forced.charged_until),
        (true, 0, time::MAX),
        "as many as are counted"
    );
}

/// A peek changes no stored unit. So the wait in its reply depends on the window of the stored units, even if the peek
/// has a shorter window.
#[test]
fn peek_names_a_wait_that_comes_true_after_the_window_shrank() {
    let (mut key, long, short) = (Key::default(), sliding(3, 60_000, 1), sliding(3, 5000, 1));
    key.check(long, START, 3);
    let peeked = key.assess(short, START, 1).peek();
    assert_eq!((peeked.retry_after, peeked.reset_after), (Some(60_000), 60_000));
    assert!(!key.assess(short, START + 5000, 1).peek().allowed);
    assert!(!key.clone().check(short, START + 59_999, 1).allowed);
    assert!(key.check(short, START + 60_000, 1).allowed);
}

/// A call: ms since the previous call (negative if the clock steps back), cost, and the index of the policy.
type Step = (i64, u64, prop::sample::Index);

fn calls(costs: impl Strategy<Value = u64>) -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![4 => Just(0), 8 => 0_i64..40, 2 => 0_i64..2000, 1 => -300_i64..0];
    prop::collection::vec((step, costs, any::<prop::sample::Index>()), 1..200)
}

fn policies() -> impl Strategy<Value = Vec<Policy>> {
    let limits = prop_oneof![4 => 1_u64..40, 1 => 90_u64..300];
    let windows = prop_oneof![4 => 1_u64..800, 1 => 800_u64..20_000];
    let policy = (limits, windows, 0..3).prop_map(|(limit, window, kind)| match kind {
        0 => sliding(limit, window, window.div_ceil(7)),
        1 => sliding(limit, window, 1),
        _ => default(limit, window),
    });
    prop::collection::vec(policy, 1..4)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    /// Compares every field of every reply, with changing costs, limits and windows, and with a clock that stands still
    /// or steps back.
    #[test]
    fn every_reply_equals_the_reference(policies in policies(), calls in calls(0_u64..12), forced in prop::collection::vec(0_u8..10, 200)) {
        let (mut key, mut reference, mut now, mut latest) = (Key::default(), Reference::default(), START, START);
        for ((step, cost, which), force) in calls.into_iter().zip(forced) {
            now = now.checked_add_signed(step).unwrap();
            let policy = *which.get(&policies);
            latest = latest.max(now);
            let verdict = key.call(policy, now, cost, force == 0);
            prop_assert_eq!(verdict, reference.call(policy, now, cost, force == 0));
            reference.follow(&key, latest);
            // A denied call applies a changed policy. A second denied call makes no further change.
            prop_assert_eq!(key.assess(policy, now, u64::MAX).refuse().update, None);
        }
    }

    /// Refunds units of earlier calls between other calls. Some refunds ask for too many units, repeat an earlier
    /// refund, or come after the units have become available again.
    #[test]
    fn refunds_give_back_exactly_what_is_held_there(
        policies in policies(), calls in calls(0_u64..12),
        refunds in prop::collection::vec((0_u64..15, any::<prop::sample::Index>()), 200),
    ) {
        let (mut key, mut reference, mut now, mut latest) = (Key::default(), Reference::default(), START, START);
        let mut charged = vec![START];
        for ((step, cost, which), (units, of)) in calls.into_iter().zip(refunds) {
            now = now.checked_add_signed(step).unwrap();
            latest = latest.max(now);
            let policy = *which.get(&policies);
            let verdict = key.check(policy, now, cost);
            prop_assert_eq!(verdict, reference.call(policy, now, cost, false));
            charged.push(verdict.charged_until);
            let until = *of.get(&charged);
            prop_assert_eq!(key.refund(now, units, until), reference.refund(now, units, until));
            reference.follow(&key, latest);
        }
    }

    /// If the clock does not step back, no trailing window has more units than the limit.
    #[test]
    fn no_trailing_window_ever_holds_more_than_the_limit(
        limit in 1_u64..30, window in 1_u64..500, coarse in any::<bool>(), calls in calls(1_u64..5),
    ) {
        let policy = sliding(limit, window, if coarse { window.div_ceil(10) } else { 1 });
        let (mut key, mut now, mut taken) = (Key::default(), START, Vec::new());
        for (step, cost, _) in calls {
            now += step.unsigned_abs();
            if key.check(policy, now, cost).allowed {
                taken.push((now, cost));
            }
        }
        for &(end, _) in &taken {
            let held: u64 = taken.iter().filter(|(at, _)| *at <= end && at + window > end).map(|(_, cost)| cost).sum();
            prop_assert!(held <= limit);
        }
    }

    /// A call after `retry_after` succeeds, and a call one millisecond earlier does not.
    #[test]
    fn retry_after_is_sufficient_and_minimal(policies in policies(), calls in calls(1_u64..12), cost in 1_u64..40) {
        let (mut key, mut now, policy) = (Key::default(), START, policies[0]);
        for (step, cost, which) in calls {
            now = now.checked_add_signed(step).unwrap();
            key.check(*which.get(&policies), now, cost);
        }
        let latest = Reference(key.units()).comes_back(policy, now);
        if let Some(wait @ 1..) = key.check(policy, now, cost).retry_after {
            prop_assert!(wait > 0 && wait <= latest - now);
            prop_assert!(!key.clone().check(policy, now + wait - 1, cost).allowed);
            prop_assert!(key.check(policy, now + wait, cost).allowed);
        }
    }

    /// Rings grow, wrap around and shrink, with costs of any size and thousands of calls of one policy.
    #[test]
    fn a_long_history_of_one_policy_equals_the_reference(
        limit in prop_oneof![1_u64..200, 1..=MAX_UNITS], window in 1_u64..400,
        coarse in any::<bool>(), bursts in prop::collection::vec((0_u64..600, 1_usize..150, 0_u64..4), 1..12),
        share in 1_u64..50,
    ) {
        let policy = sliding(limit, window, if coarse { window.div_ceil(100) } else { 1 });
        let (mut key, mut reference, mut now) = (Key::default(), Reference::default(), START);
        for (pause, calls, step) in bursts {
            now += pause;
            for _ in 0..calls {
                now += step;
                let cost = (limit / share).max(1);
                prop_assert_eq!(key.check(policy, now, cost), reference.call(policy, now, cost, false));
                reference.follow(&key, now);
                let live = key.units().iter().filter(|(at, _)| *at > now).count();
                prop_assert!(key.slots() <= SMALL.max(4 * (live + 3)), "{} slots for {live}", key.slots());
            }
        }
    }
}

#[test]
fn what_is_in_use_is_told_until_the_last_unit_is_back() {
    let (mut key, policy) = (Key::default(), sliding(10, 1000, 1));
    key.check(policy, START, 3);
    key.check(policy, START + 10, 4);
    let some = |units, slots, next, all| LimitUsage {
        units: Some(units),
        slots,
        next_available: Some(START + next),
        all_available: Some(START + all),
    };
    let none = LimitUsage { units: Some(0), slots: 0, next_available: None, all_available: None };
    let held_at = |key: &Key, after| usage(key.ring().unwrap(), START + after).unwrap();
    for (after, expected) in [
        (10, some(7, 2, 1000, 1010)),
        (999, some(7, 2, 1000, 1010)),
        (1000, some(4, 1, 1010, 1010)),
        (1009, some(4, 1, 1010, 1010)),
        (1010, none),
        (1011, none),
    ] {
        assert_eq!(held_at(&key, after), expected, "{after} ms later");
    }
    key.refund(START + 10, 4, START + 1010);
    assert_eq!(held_at(&key, 10), some(3, 1, 1000, 1000), "a slot without units is none");

    let mut key = Key::default();
    (0..5).for_each(|n| _ = key.check(policy, START + n, 1));
    for (refunded, slots) in [(2, 4), (3, 3), (2, 3)] {
        key.refund(START + 5, 1, START + 1000 + refunded);
        assert_eq!(held_at(&key, 5), some(slots, slots, 1000, 1004), "a slot without units between others is none");
    }
}

/// The slots of refunded units are free, so the ring does not grow.
#[test]
fn calls_that_refund_their_units_need_no_more_slots() {
    let (mut key, policy) = (Key::default(), sliding(100, 60_000, 1));
    key.check(policy, START, 1);
    for n in 1..1000 {
        let verdict = key.check(policy, START + n, 1);
        assert_eq!((verdict.remaining, key.refund(START + n, 1, verdict.charged_until)), (98, 1));
    }
    assert_eq!(key.slots(), 4);
}

#[test]
fn peek_tells_what_a_call_tells_after_the_clock_has_stepped_back() {
    const DAY: Millis = 86_400_000;
    let (mut key, policy) = (Key::default(), sliding(3, 1000, 1));
    for n in 0..20 {
        key.check(policy, START + 300 * n, 1);
        let now = START + 300 * n - DAY;
        let (peeked, told) = (key.assess(policy, now, 3).peek(), key.clone().check(policy, now, 3));
        assert_eq!(peeked, told);
        assert_eq!(told.retry_after, Some(1000));
    }
}

#[test]
fn a_new_slot_replaces_one_that_has_expired_and_is_one_write() {
    let (mut key, policy) = (Key::default(), sliding(100, 1000, 1));
    for n in 0..10_000 {
        let change = key.assess(policy, START + 50 * n, 1).charge().update.unwrap();
        let is_in_place =
            matches!(&change, Update::Overwrite { parts, .. } if parts.len() == 1 && parts[0].bytes.len() == 16);
        assert!(is_in_place || n < 40, "{n}: {change:?}");
        key.apply(change);
    }
    assert!(key.slots() <= 64, "{}", key.slots());
}

#[test]
fn a_ring_doubles_while_nothing_has_expired_and_stops_at_what_the_limit_can_fill() {
    let (mut key, policy) = (Key::default(), sliding(100, 60_000, 1));
    let mut lengths = Vec::new();
    for n in 0..100 {
        assert!(key.check(policy, START + n, 1).allowed);
        lengths.push(key.slots());
    }
    lengths.dedup();
    assert_eq!(lengths, [4, 10, 22, 46, 94, 102]);
    key.check(policy, START + 120_000, 1);
    assert_eq!(key.slots(), 4, "all has expired");
}

/// A ring of the maximum length may keep its newest units in use for longer than a window. But no call ever exceeds the
/// limit.
#[test]
fn the_longest_ring_never_admits_too_much() {
    let (mut key, policy) = (Key::default(), sliding(MAX_UNITS, 10_000, 1));
    for n in 0..2000 {
        let verdict = key.check(policy, START + n, 1);
        assert_eq!((verdict.remaining, verdict.charged_until), ((MAX_UNITS - n - 1).cast_signed(), START + n + 10_000));
    }
    assert_eq!(key.slots(), MAX_SLOTS);
    assert_eq!(key.check(policy, START + 11_998, 0).remaining, MAX_UNITS.cast_signed() - 2000 + MAX_SLOTS as i64 - 2);
    assert_eq!(key.check(policy, START + 11_999, 0).remaining, MAX_UNITS.cast_signed());
}

#[test]
fn unit_numbers_wrap_around_without_a_trace() {
    let policy = sliding(MAX_UNITS, 1000, 1);
    let mut key = Key::default();
    for n in 0..5000 {
        assert!(key.check(policy, START + 1000 * n, MAX_UNITS).allowed);
        assert_eq!(key.check(policy, START + 1000 * n + 1, 1).retry_after, Some(999));
    }
}

/// Returns numbers for slots of a forged string: small numbers, numbers near the clock and near `MAX_UNITS`, and random
/// numbers.
fn hostile() -> impl Strategy<Value = u64> {
    prop_oneof![0_u64..5, START - 5..START + 5, MAX_UNITS - 2..MAX_UNITS + 2, any::<u64>()]
}

proptest! {
    #![proptest_config(crate::base::fuzzing())]

    /// Forged limits have slots in any order and times out of range. Their last bytes can be missing.
    #[test]
    fn hostile_slots_are_refused_or_counted_within_bounds(
        slots in prop::collection::vec((hostile(), hostile()), 0..7),
        cut in 0_usize..24,
        limit in prop_oneof![1_u64..5, 1..=MAX_UNITS],
        window in prop_oneof![1_u64..5, 1..=time::MAX - START - 5],
        cost in prop_oneof![0_u64..5, 0..=MAX_UNITS],
        precision in prop_oneof![1_u64..5, 1_u64..1_000_000_000],
    ) {
        let mut text = b"sliding:".to_vec();
        slots.iter().for_each(|(at, taken)| text.extend([at.to_le_bytes(), taken.to_le_bytes()].concat()));
        text.truncate(text.len() - cut.saturating_sub(16).min(text.len()));
        let Ok(ring) = Ring::parse(&text) else { return Ok(()) };
        prop_assert!(text.len() % 16 == 8 && ring.len() >= 2);
        let policy = sliding(limit, window, precision.min(window));
        if let Ok(assessed) = SlidingCheck::parse(Call { policy, now: START, cost }, Some(&text)) {
            prop_assert!(assessed.peek().remaining <= limit.cast_signed());
            for Assessment { verdict, update: change, .. } in [assessed.refuse(), assessed.charge()] {
                prop_assert!(verdict.remaining <= limit.cast_signed() && verdict.charged_until <= time::MAX);
                match change {
                    None | Some(Update::Remove) => {}
                    Some(Update::Replace { text, .. }) => prop_assert!(text.len() <= 8 + 16 * 2 * (slots.len() + 3)),
                    Some(Update::Overwrite { parts, .. }) => {
                        prop_assert!(parts.iter().all(|part| part.at + part.bytes.len() <= text.len()));
                    }
                }
            }
        }
        let _ = usage(ring, START);
        if let Ok((back, _)) = refund(ring, START, cost.max(1), START + window) {
            prop_assert!(back <= cost.max(1));
        }
    }
}
