//! LEAKY against GCRA in rational arithmetic, every level going through its entry (member and score) and back.

use super::*;
use proptest::prelude::*;

const START: Millis = 1_767_225_600_000;

/// The key's entry.
#[derive(Clone, Debug, Default)]
struct Bucket(Option<(Member, f64)>);

impl Bucket {
    fn level(&self) -> Option<Level> {
        self.0.map(|(member, score)| Level::parse(member.as_bytes(), score).unwrap())
    }

    fn check(&mut self, capacity: u64, rate: Rate, now: Millis, cost: u64) -> Verdict {
        let assessed = assess(capacity, rate, now, cost, self.level());
        let (verdict, change) = match assessed.verdict().allowed {
            true => assessed.charge(),
            false => (assessed.verdict(), assessed.settlement()),
        };
        if let Some(change) = change {
            self.0 = Some((change.member, change.score));
        }
        verdict
    }

    fn refund(&mut self, now: Millis, units: u64, until: Millis) -> u64 {
        let Some(level) = self.level() else { return 0 };
        let (back, Rewrite { gone, put }) = level.refund(now, units, until);
        assert!(gone.iter().all(|gone| self.0.is_some_and(|(member, _)| member == *gone)));
        assert!(put.len() <= 1 && gone.len() <= 1);
        if !gone.is_empty() {
            self.0 = None;
        }
        if let [(score, member)] = put[..] {
            self.0 = Some((member, score));
        }
        back
    }
}

/// GCRA with the theoretical arrival time as the exact fraction `scaled / rate.units` ms.
#[derive(Clone, Debug, Default)]
struct Gcra(Option<(i128, Rate)>);

impl Gcra {
    fn check(&mut self, capacity: u64, rate: Rate, now: Millis, cost: u64) -> Verdict {
        let (units, per) = (i128::from(rate.units), i128::from(rate.per));
        let (base, room) = (i128::from(now) * units, i128::from(capacity) * per);
        let stored = match self.0 {
            None => 0,
            Some((scaled, same)) if same == rate => scaled,
            // Another rate: the moment carries over in whole milliseconds.
            Some((scaled, other)) => ceil_div(scaled, i128::from(other.units)) * units,
        };
        let tat = stored.clamp(base, base + room);
        let asked = tat + i128::from(cost) * per;
        let fits = cost == 0 || asked <= base + room;
        let after = if fits { asked } else { tat };
        // What is written: a charge, or a level above the room; else everything stays as it is.
        if (fits && cost > 0) || stored > base + room {
            self.0 = Some((after, rate));
        }
        let wait = |scaled: i128| u64::try_from(ceil_div((scaled - base).max(0), units)).unwrap();
        Verdict {
            allowed: fits,
            limit: capacity,
            remaining: u64::try_from((base + room - after) / per).unwrap(),
            retry_after: match fits {
                true => RetryAfter::Now,
                false if cost > capacity => RetryAfter::Never,
                false => RetryAfter::Wait(wait(asked - room)),
            },
            reset_after: wait(after),
            charged_until: if fits && cost > 0 { now + wait(after) } else { 0 },
        }
    }
}

fn per(units: u64, per: Millis) -> Rate {
    Rate { units, per }
}

#[test]
fn three_per_ten_seconds_are_three_although_ten_has_no_third() {
    let (mut bucket, rate) = (Bucket::default(), per(3, 10_000));
    for left in [2, 1, 0] {
        let verdict = bucket.check(3, rate, START, 1);
        assert_eq!((verdict.allowed, verdict.remaining), (true, left));
    }
    assert_eq!(bucket.check(3, rate, START, 1).retry_after, RetryAfter::Wait(3334));
    assert!(!bucket.check(3, rate, START + 3333, 1).allowed);
    assert!(bucket.check(3, rate, START + 3334, 1).allowed);
    assert_eq!(bucket.check(3, rate, START + 3334, 1).retry_after, RetryAfter::Wait(3333), "6667 - 3334");
}

#[test]
fn the_member_stays_while_the_bucket_is_not_empty_so_a_take_is_one_zadd() {
    let (mut bucket, rate) = (Bucket::default(), per(7, 1000));
    bucket.check(7, rate, START, 1);
    let (member, _) = bucket.0.unwrap();
    assert_eq!(member.as_bytes(), b"1767225600000:7/1000");
    for after in 1..100 {
        bucket.check(7, rate, START + after * 140, 1);
    }
    assert_eq!(bucket.0.unwrap().0, member);
    assert_eq!(bucket.level().unwrap().taken, 100);
}

#[test]
fn only_canonical_members_are_taken_for_levels() {
    assert!(Level::parse(b"1767225600000:5/60000", 1.0).is_ok());
    for bad in
        ["", "5", "5:2", "1:2/", "1:/2", ":1/2", "1:0/5", "1:5/0", "01:5/6", "1:5/6/7", "1:5/9007199254740992", "x:1/1"]
    {
        assert_eq!(Level::parse(bad.as_bytes(), 1.0), Err(Foreign), "{bad:?}");
    }
}

#[test]
fn the_largest_numbers_overflow_nowhere() {
    let mut bucket = Bucket::default();
    let rate = per(MAX_UNITS, time::MAX - START);
    let verdict = bucket.check(MAX_UNITS, rate, START, MAX_UNITS);
    assert_eq!((verdict.allowed, verdict.remaining, verdict.charged_until), (true, 0, time::MAX));
    assert!(!bucket.check(MAX_UNITS, rate, START, 1).allowed);
    for score in [f64::MAX, f64::INFINITY, f64::NAN, -1e300, 1e-300] {
        for member in ["0:9007199254740991/1", "9007199254740991:1/9007199254740991"] {
            let level = Level::parse(member.as_bytes(), score).unwrap();
            let _ = assess(MAX_UNITS, rate, START, MAX_UNITS, Some(level)).charge();
            let _ = assess(1, per(1, 1), START, 1, Some(level)).charge();
            let _ = level.refund(START, MAX_UNITS, time::MAX);
        }
    }
}

#[test]
fn a_refund_gives_back_what_is_held_and_no_more() {
    let (mut bucket, rate) = (Bucket::default(), per(10, 1000));
    let until = bucket.check(10, rate, START, 6).charged_until;
    assert_eq!(until, START + 600);
    assert_eq!(bucket.refund(START, 2, until), 2);
    assert_eq!(bucket.check(10, rate, START, 0).remaining, 6);
    assert_eq!(bucket.refund(START, 1, until), 0, "nobody was charged until then: the level is lower now");
    assert_eq!(bucket.refund(START, 99, START + 400), 4);
    assert_eq!(bucket.0, None, "an empty bucket has no entry");
    assert_eq!(bucket.refund(START, 1, START + 400), 0);
    let until = bucket.check(10, rate, START, 5).charged_until;
    assert_eq!(bucket.refund(until, 5, until), 0, "they have come back by themselves");
}

fn rates() -> impl Strategy<Value = (u64, Rate)> {
    (1_u64..50, 1_u64..50, 1_u64..3000).prop_map(|(capacity, units, per)| (capacity, Rate { units, per }))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    /// Every field of every reply, with costs, rates and capacities that change, and a clock that steps back.
    #[test]
    fn every_reply_equals_gcra_in_rational_arithmetic(
        policies in prop::collection::vec(rates(), 1..4),
        calls in prop::collection::vec(
            (prop_oneof![3 => Just(0), 8 => 0_i64..200, 1 => 0_i64..20_000, 1 => -500_i64..0], 0_u64..9, any::<prop::sample::Index>()),
            1..150,
        ),
    ) {
        let (mut bucket, mut gcra, mut now) = (Bucket::default(), Gcra::default(), START);
        for (step, cost, which) in calls {
            now = now.checked_add_signed(step).unwrap();
            let (capacity, rate) = *which.get(&policies);
            prop_assert_eq!(bucket.check(capacity, rate, now, cost), gcra.check(capacity, rate, now, cost));
        }
    }

    #[test]
    fn retry_after_is_sufficient_and_minimal((capacity, rate) in rates(), costs in prop::collection::vec(1_u64..9, 1..60), cost in 1_u64..40) {
        let (mut bucket, mut now) = (Bucket::default(), START);
        for cost in costs {
            bucket.check(capacity, rate, now, cost);
            now += cost * 7;
        }
        if let RetryAfter::Wait(wait) = bucket.check(capacity, rate, now, cost).retry_after {
            prop_assert!(!bucket.clone().check(capacity, rate, now + wait - 1, cost).allowed);
            prop_assert!(bucket.check(capacity, rate, now + wait, cost).allowed);
        }
    }

    /// However many units were taken since the bucket was last empty, the score gives their number back.
    #[test]
    fn a_level_survives_its_entry(since in START - 1_000_000_000..START, taken in 0_u64..1_000_000_000, units in 1_u64..1000, per_ in 1000_u64..1_000_000) {
        let level = Level { since, taken, rate: per(units, per_) };
        prop_assert_eq!(Level::parse(level.member().as_bytes(), level.score()), Ok(level));
    }

    /// A refund of what a call took puts the bucket back to where it was without that call, if time stands still.
    #[test]
    fn a_refund_undoes_its_charge((capacity, rate) in rates(), costs in prop::collection::vec(1_u64..9, 1..30), cost in 1_u64..20) {
        let (mut bucket, mut now) = (Bucket::default(), START);
        for cost in costs {
            bucket.check(capacity, rate, now, cost);
            now += cost * 3;
        }
        let before = bucket.check(capacity, rate, now, 0);
        let charged = bucket.check(capacity, rate, now, cost);
        if charged.allowed {
            prop_assert_eq!(bucket.refund(now, cost, charged.charged_until), cost);
            let after = bucket.check(capacity, rate, now, 0);
            prop_assert_eq!((after.remaining, after.reset_after), (before.remaining, before.reset_after));
        }
    }

    #[test]
    fn no_member_makes_the_parser_panic(member in prop::collection::vec(any::<u8>(), 0..60), score in any::<f64>()) {
        let _ = Level::parse(&member, score);
    }
}

/// Numbers of a hostile entry: small ones, and those at the end of what is taken.
fn hostile() -> impl Strategy<Value = u64> {
    prop_oneof![0_u64..5, START - 5..START + 5, MAX_UNITS - 2..MAX_UNITS + 2, any::<u64>()]
}

proptest! {
    #![proptest_config(crate::model::fuzzing())]

    #[test]
    fn a_hostile_entry_is_refused_or_a_level_like_others(
        member in prop::array::uniform3(hostile()),
        score in prop_oneof![any::<f64>(), hostile().prop_map(|score| score as f64)],
        capacity in 1..=MAX_UNITS,
        rate in (1..=MAX_UNITS, 1..=time::MAX - START),
        cost in prop_oneof![0_u64..5, 0..=MAX_UNITS],
        (units, until) in (1..=MAX_UNITS, 0..=time::MAX),
    ) {
        let [since, level_units, level_per] = member;
        let member = format!("{since}:{level_units}/{level_per}");
        if let Ok(level) = Level::parse(member.as_bytes(), score) {
            let assessed = assess(capacity, per(rate.0, rate.1), START, cost, Some(level));
            let verdict = assessed.verdict();
            prop_assert!(verdict.remaining <= capacity);
            if verdict.allowed {
                let (_, change) = assessed.charge();
                prop_assert!(change.is_none_or(|change| time::ceil_score(change.score).is_some()));
            }
            assessed.settlement();
            prop_assert!(level.refund(START, units, until).0 <= units);
        }
    }
}
