//! Tests FIXED against a model that tracks each unit. Between two calls, the test formats and parses the stored count,
//! as a server would.

use super::super::{Algorithm, Assessment, Policy, Verdict};
use super::*;
use proptest::prelude::*;

const START: Millis = 1_767_225_600_000;

fn assess(limit: u64, window: Millis, now: Millis, cost: u64, stored: Option<Count>) -> FixedCheck {
    FixedCheck::new(
        Call { policy: Policy { algorithm: Algorithm::Fixed, limit, window, precision: None }, now, cost },
        stored,
    )
}

#[derive(Clone, Debug, Default)]
struct Key(Option<Vec<u8>>);

impl Key {
    fn count(&self) -> Option<Count> {
        self.0.as_ref().map(|text| Count::parse(text).expect("a count that was written before"))
    }

    fn call(&mut self, (limit, window): (u64, Millis), now: Millis, cost: u64, force: bool) -> Verdict {
        let assessed = assess(limit, window, now, cost, self.count());
        let taken = force || assessed.fits();
        let Assessment { verdict, update: change, .. } = if taken { assessed.charge() } else { assessed.refuse() };
        if let Some(text) = change.map(|change| written(self.0.as_deref(), change)) {
            assert!(taken || self.0.as_ref() != Some(&text), "a call that is denied writes only what is new");
            self.0 = Some(text);
        }
        verdict
    }

    fn refund(&mut self, now: Millis, units: u64, until: Millis) -> u64 {
        let Some(count) = self.count() else { return 0 };
        let (units, update) = count.refund(now, units, until);
        assert_eq!(units > 0, update.is_some());
        match update {
            None => {}
            Some(Update::Remove) => self.0 = None,
            Some(change) => self.0 = Some(written(None, change)),
        }
        units
    }
}

/// Returns the key's string after a change. Panics unless the key expires at the end of the window.
fn written(before: Option<&[u8]>, change: Update) -> Vec<u8> {
    let (text, lifetime) = match change {
        Update::Replace { text, lifetime } => (text.to_vec(), lifetime),
        Update::Overwrite { parts, lifetime } => {
            let [Patch { at, bytes }] = &parts[..] else { panic!("{parts:?}") };
            let mut text = before.unwrap().to_vec();
            text[*at..].copy_from_slice(bytes);
            (text, lifetime.expect("every change corrects the TTL"))
        }
        Update::Remove => panic!("a call removes no key"),
    };
    let count = Count::parse(&text).unwrap();
    assert_eq!(count.text()[..], text[..]);
    assert_eq!(lifetime.expires_at(None), count.end);
    text
}

/// The times at which the units become available again.
#[derive(Default)]
struct Units(Vec<Millis>);

impl Units {
    fn call(&mut self, (limit, window): (u64, Millis), now: Millis, cost: u64, force: bool) -> Verdict {
        let end = (now / window + 1) * window;
        let live = |units: &[Millis]| units.iter().filter(|&&back| back > now).copied().collect::<Vec<_>>();
        let used = live(&self.0).len() as u64;
        let fits = used + cost <= limit;
        let taken = (fits || force) && cost > 0;
        let latest = live(&self.0).iter().max().map(|back| end.min(*back));
        // Units are held at most until the end of the window. A call that takes units moves all units to that end.
        // Until a call takes units, expired units are kept, because the clock may step back.
        if taken {
            self.0.retain(|&back| back > now);
        }
        self.0.iter_mut().filter(|back| **back > now).for_each(|back| *back = if taken { end } else { end.min(*back) });
        let retry_after = match latest {
            _ if fits => Some(0),
            _ if cost > limit => None,
            _ => Some(latest.unwrap_or(now) - now),
        };
        if taken {
            self.0.extend((0..cost).map(|_| end));
        }
        Verdict {
            allowed: fits || force,
            limit,
            remaining: limit.cast_signed() - live(&self.0).len() as i64,
            retry_after: if force { Some(0) } else { retry_after },
            reset_after: live(&self.0).iter().max().map_or(0, |back| back - now),
            charged_until: if taken { end } else { 0 },
        }
    }

    fn refund(&mut self, now: Millis, units: u64, until: Millis) -> u64 {
        let before = self.0.len();
        let mut left = units;
        self.0.retain(|&back| {
            let goes = back == until && until > now && left > 0;
            left -= u64::from(goes);
            !goes
        });
        (before - self.0.len()) as u64
    }
}

#[test]
fn only_what_is_written_is_taken_for_a_count() {
    assert_eq!(Count::parse(b"fixed:1767225660000:5"), Ok(Count { end: 1_767_225_660_000, units: 5 }));
    for bad in [
        "",
        "5",
        "fixed",
        "fixed:",
        "fixed:5",
        "fixed:5:",
        "fixed::5",
        "fixed:5:0",
        "fixed:05:1",
        "fixed:5:+1",
        "fixed:5:1:1",
        "fixed:5:9007199254740992",
        "fixed:9007199254740992:1",
        "Fixed:5:1",
        " fixed:5:1",
        "fixed:5:1 ",
        "leaky:5:1",
    ] {
        assert_eq!(Count::parse(bad.as_bytes()), Err(NotThisFormat), "{bad}");
    }
}

#[test]
fn the_largest_numbers_overflow_nowhere() {
    let mut key = Key::default();
    let policy = (MAX_UNITS, time::MAX - START);
    let verdict = key.call(policy, START, MAX_UNITS, false);
    assert_eq!((verdict.allowed, verdict.remaining), (true, 0));
    let verdict = key.call(policy, START, MAX_UNITS, true);
    assert_eq!((verdict.allowed, verdict.remaining), (true, 0), "as many as are counted");
    assert_eq!(key.count().map(|count| count.units), Some(MAX_UNITS));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    /// Compares all replies with a model that stores each unit. The policies change, some calls force or refund units,
    /// and the clock steps in both directions.
    #[test]
    fn every_reply_is_that_of_units_followed_one_by_one(
        policies in prop::collection::vec((1_u64..20, prop_oneof![1_u64..50, 100_u64..2000]), 1..4),
        calls in prop::collection::vec(
            (prop_oneof![4 => Just(0), 8 => 0_i64..100, 1 => 0_i64..5000, 1 => -3000_i64..0], 0_u64..9,
             any::<prop::sample::Index>(), 0_u8..12),
            1..120,
        ),
    ) {
        let (mut key, mut units, mut now, mut charged) = (Key::default(), Units::default(), START, START);
        for (step, cost, which, kind) in calls {
            now = now.checked_add_signed(step).unwrap();
            if kind < 2 {
                prop_assert_eq!(key.refund(now, cost, charged), units.refund(now, cost, charged));
                continue;
            }
            let verdict = key.call(*which.get(&policies), now, cost, kind == 2);
            prop_assert_eq!(verdict, units.call(*which.get(&policies), now, cost, kind == 2));
            charged = verdict.charged_until.max(charged);
        }
    }

    /// The wait that a peek or a denied call returns is exact, even if the window has another length than before.
    #[test]
    fn a_call_after_the_reported_wait_is_allowed(
        limit in 1_u64..10, windows in (1_u64..2000, 1_u64..2000), used in 1_u64..10, cost in 1_u64..10, later in 0_u64..3000,
    ) {
        let mut key = Key::default();
        key.call((limit, windows.0), START, used.min(limit), false);
        let (policy, now) = ((limit, windows.1), START + later);
        let peeked = assess(limit, windows.1, now, cost, key.count()).peek();
        if let Some(wait @ 1..) = peeked.retry_after {
            prop_assert!(!key.clone().call(policy, now + wait - 1, cost, false).allowed);
            prop_assert!(key.clone().call(policy, now + wait, cost, false).allowed);
        }
        if let Some(wait @ 1..) = key.call(policy, now, cost, false).retry_after {
            prop_assert!(!key.clone().call(policy, now + wait - 1, cost, false).allowed);
            prop_assert!(key.call(policy, now + wait, cost, false).allowed);
        }
    }
}
