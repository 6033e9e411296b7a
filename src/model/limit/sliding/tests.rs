//! SLIDING against a reference written straight from its definition.

use super::*;
use proptest::prelude::*;

/// A ledger in memory; entries sorted by moment, dead ones kept until they are trimmed.
#[derive(Clone, Debug, Default)]
struct Entries(Vec<Entry>);

impl Ledger for Entries {
    fn first_from(&mut self, at: Millis) -> Result<Option<Entry>, Foreign> {
        Ok(self.0.iter().find(|entry| entry.at >= at).copied())
    }

    fn last(&mut self) -> Result<Option<Entry>, Foreign> {
        Ok(self.0.last().copied())
    }

    fn some_from(&mut self, at: Millis, most: usize) -> Result<Vec<Entry>, Foreign> {
        Ok(self.0.iter().filter(|entry| entry.at >= at).take(most).copied().collect())
    }
}

impl Entries {
    fn apply(&mut self, change: Change) {
        if change.replaces {
            self.0.retain(|entry| entry.at < change.at);
        }
        assert!(self.0.last().is_none_or(|last| last.at < change.at), "entries stay in order");
        let Change { at, run, .. } = if self.0.is_empty() { change.alone() } else { change };
        self.0.push(Entry { at, run: Run::parse(run.member().as_bytes()).unwrap() });
    }

    fn check(&mut self, policy: Policy, now: Millis, cost: u64) -> Verdict {
        self.call(policy, now, cost, false)
    }

    fn call(&mut self, policy: Policy, now: Millis, cost: u64, force: bool) -> Verdict {
        let assessed = assess(policy, now, cost, self).unwrap();
        let taken = force || assessed.fits();
        let (verdict, change) = if taken { assessed.charge() } else { assessed.refuse() };
        if let Some(change) = change {
            self.apply(change);
        }
        assert_eq!(assessed.window(), policy.window);
        verdict
    }

    fn refund(&mut self, now: Millis, units: u64, until: Millis) -> u64 {
        let (back, Rewrite { gone, put }) = refund(now, units, until, self).unwrap();
        // As a sorted set does it: by member.
        let mut members: Vec<_> = self.0.iter().map(|entry| (entry.run.member(), entry.at)).collect();
        members.retain(|(member, _)| !gone.contains(member) && put.iter().all(|(_, new)| new != member));
        members.extend(put.iter().map(|&(at, member)| (member, at)));
        self.0 =
            members.iter().map(|&(member, at)| Entry { at, run: Run::parse(member.as_bytes()).unwrap() }).collect();
        self.0.sort_by_key(|entry| entry.at);
        if let [only] = &mut self.0[..] {
            only.run.start = 0;
        }
        back
    }

    fn assert_contiguous(&self) {
        for pair in self.0.windows(2) {
            assert!(pair[0].at < pair[1].at);
            assert_eq!(pair[0].run.end(), pair[1].run.start);
        }
        assert!(are_entries(self.0.iter().copied().map(Ok)));
    }
}

/// The reference: every unit taken, with the moment it comes back, and linear scans.
#[derive(Clone, Debug, Default)]
struct Reference(Vec<(Millis, u64)>);

impl Reference {
    fn comes_back(policy: Policy, now: Millis) -> Millis {
        let exact = now + policy.window;
        if exact.is_multiple_of(policy.grid) { exact } else { exact - exact % policy.grid + policy.grid }
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
        let until = Reference::comes_back(policy, now);
        for (at, _) in &mut self.0 {
            *at = (*at).min(until);
        }
        let fits = |at: Millis| cost == 0 || self.in_use(at) + cost <= policy.limit;
        let retry_after = if cost > policy.limit {
            RetryAfter::Never
        } else if fits(now) {
            RetryAfter::Now
        } else {
            let mut moments: Vec<_> = self.0.iter().map(|(at, _)| *at).filter(|at| *at > now).collect();
            moments.sort_unstable();
            RetryAfter::Wait(moments.into_iter().find(|at| fits(*at)).unwrap() - now)
        };
        let allowed = retry_after == RetryAfter::Now;
        let charged = (allowed || force) && cost > 0;
        if charged {
            self.0.push((until, cost));
        }
        Verdict {
            allowed,
            limit: policy.limit,
            remaining: policy.limit.saturating_sub(self.in_use(now)),
            retry_after,
            reset_after: self.0.iter().map(|(at, _)| at.saturating_sub(now)).max().unwrap_or(0),
            charged_until: if charged { until } else { 0 },
        }
    }
}

const START: Millis = 1_767_225_600_000;

fn sliding(limit: u64, window: Millis, grid: Millis) -> Policy {
    Policy { limit, window, grid }
}

#[test]
fn five_in_a_window_then_none_until_the_first_comes_back() {
    let (mut entries, policy) = (Entries::default(), sliding(5, 60_000, 1));
    for taken in 0..5 {
        let verdict = entries.check(policy, START + taken * 1000, 1);
        assert!(verdict.allowed);
        assert_eq!(verdict.remaining, 4 - taken);
        assert_eq!(verdict.charged_until, START + taken * 1000 + 60_000);
    }
    let denied = entries.check(policy, START + 4500, 1);
    assert_eq!((denied.allowed, denied.remaining), (false, 0));
    assert_eq!(denied.retry_after, RetryAfter::Wait(55_500));
    assert_eq!(denied.reset_after, 59_500);
    assert!(!entries.check(policy, START + 59_999, 1).allowed);
    assert!(entries.check(policy, START + 60_000, 1).allowed);
}

#[test]
fn a_cost_above_the_limit_never_fits_and_a_cost_of_zero_always_does() {
    let (mut entries, policy) = (Entries::default(), sliding(3, 1000, 1));
    assert_eq!(entries.check(policy, START, 4).retry_after, RetryAfter::Never);
    assert!(entries.check(policy, START, 3).allowed);
    let free = entries.check(policy, START, 0);
    assert_eq!((free.allowed, free.remaining, free.charged_until), (true, 0, 0));
    assert!(entries.check(sliding(1, 1000, 1), START, 0).allowed, "even where more is in use than the limit");
}

#[test]
fn what_is_in_use_is_told_until_the_last_unit_is_back() {
    let (mut entries, policy) = (Entries::default(), sliding(10, 1000, 1));
    entries.check(policy, START, 3);
    entries.check(policy, START + 10, 4);
    let some = |units, next, all| Held {
        units: Some(units),
        entries: 2,
        next_back: Some(START + next),
        all_back: Some(START + all),
    };
    let none = Held { units: Some(0), entries: 2, next_back: None, all_back: None };
    for (after, expected) in [
        (10, some(7, 1000, 1010)),
        (999, some(7, 1000, 1010)),
        (1000, some(4, 1010, 1010)),
        (1009, some(4, 1010, 1010)),
        (1010, none),
        (1011, none),
    ] {
        assert_eq!(held(START + after, 2, &mut entries), Ok(expected), "{after} ms later");
    }
    assert_eq!(held(START, 2, &mut Entries::default()), Ok(none));
}

/// Memory is bounded by this, whatever the limit.
#[test]
fn no_more_entries_are_live_than_units_are_held_or_the_grid_has_places() {
    let live = |limit, window, grid, cost| {
        assess(sliding(limit, window, grid), START, cost, &mut Entries::default()).unwrap().live_entries()
    };
    assert_eq!((live(10, 60_000, 1, 0), live(10, 60_000, 1, 1), live(10, 60_000, 1, 7)), (0, 1, 7));
    assert_eq!((live(1_000_000, 60_000, 600, 99), live(1_000_000, 60_000, 600, 1_000_000)), (99, 102));
}

#[test]
fn the_numbers_of_an_entry_that_is_alone_begin_at_zero() {
    let change = Change { replaces: true, at: START, run: Run { start: 17, units: 4 } };
    assert_eq!(change.alone(), Change { replaces: true, at: START, run: Run { start: 0, units: 4 } });
}

#[test]
fn units_of_one_millisecond_share_an_entry() {
    let (mut entries, policy) = (Entries::default(), sliding(10, 1000, 1));
    entries.check(policy, START, 1);
    assert_eq!(entries.0[0].run.member().as_bytes(), b"0");
    entries.check(policy, START, 3);
    assert_eq!(entries.0.len(), 1);
    assert_eq!(entries.0[0].run.member().as_bytes(), b"0:4");
    entries.check(policy, START + 1, 1);
    assert_eq!(entries.0[1].run.member().as_bytes(), b"4");
}

#[test]
fn the_default_grid_bounds_the_entries_and_the_delay() {
    for limit in [101, 1000, 1_000_000, MAX_UNITS] {
        for window in [1, 99, 150, 1000, 60_000, 86_400_000, 60_000_000_000] {
            let grid = Policy::default_grid(limit, window);
            let policy = sliding(limit, window, grid);
            assert!(policy.most_entries(u64::MAX) <= 102, "{window}");
            assert!((grid - 1) * 100 <= window, "at most 1 % late: {window}");
        }
    }
    assert_eq!(Policy::default_grid(100, 86_400_000), 1);
}

#[test]
fn a_shorter_window_lets_go_in_time_even_when_the_call_is_denied() {
    let (mut entries, long, short) = (Entries::default(), sliding(3, 60_000, 1), sliding(3, 5000, 1));
    for after in [0, 10, 20] {
        entries.check(long, START + after, 1);
    }
    let denied = entries.check(short, START + 30, 1);
    assert_eq!(denied.retry_after, RetryAfter::Wait(5000));
    assert_eq!(denied.reset_after, 5000);
    assert_eq!(entries.0, [Entry { at: START + 5030, run: Run { start: 0, units: 3 } }]);
    assert_eq!(entries.check(short, START + 31, 1).retry_after, RetryAfter::Wait(4999), "settled once, not again");
    assert!(entries.check(short, START + 5030, 3).allowed);
}

#[test]
fn a_clock_that_steps_back_forgets_nothing_and_holds_nothing_longer_than_the_window() {
    let (mut entries, policy) = (Entries::default(), sliding(2, 1000, 1));
    entries.check(policy, START, 2);
    let denied = entries.check(policy, START - 600_000, 1);
    assert_eq!(denied.retry_after, RetryAfter::Wait(1000));
    assert!(entries.check(policy, START - 600_000 + 1000, 2).allowed);
}

#[test]
fn unit_numbers_wrap_around_without_a_trace() {
    let policy = sliding(MAX_UNITS, 1000, 1);
    let mut entries = Entries(vec![Entry { at: START + 500, run: Run { start: u64::MAX - 1, units: 2 } }]);
    let verdict = entries.check(policy, START, MAX_UNITS - 2);
    assert_eq!((verdict.allowed, verdict.remaining), (true, 0));
    assert_eq!(entries.0[1].run.start, 0);
    assert_eq!(entries.check(policy, START + 1, 1).retry_after, RetryAfter::Wait(499));
}

#[test]
fn the_largest_numbers_overflow_nowhere() {
    let policy = sliding(MAX_UNITS, time::MAX - START, 1);
    let mut entries = Entries::default();
    assert_eq!(entries.check(policy, START, MAX_UNITS).charged_until, time::MAX);
    assert!(!entries.check(policy, START, MAX_UNITS).allowed);
    let grid = time::MAX - START;
    assert_eq!(entries.check(sliding(MAX_UNITS, grid, grid), START, 1).retry_after, RetryAfter::Wait(grid));
    let forced = entries.call(policy, START, MAX_UNITS, true);
    assert_eq!((forced.allowed, forced.remaining, forced.charged_until), (false, 0, time::MAX));
}

#[test]
fn a_debt_is_paid_before_anything_is_free() {
    let (mut entries, policy) = (Entries::default(), sliding(5, 1000, 1));
    entries.check(policy, START, 4);
    let forced = entries.call(policy, START + 100, 9, true);
    assert_eq!((forced.allowed, forced.retry_after), (false, RetryAfter::Never), "as without FORCE");
    assert_eq!((forced.remaining, forced.charged_until), (0, START + 1100));
    let forced = entries.call(policy, START + 200, 2, true);
    assert_eq!(
        (forced.allowed, forced.retry_after, forced.charged_until),
        (false, RetryAfter::Wait(900), START + 1200)
    );
    assert_eq!(entries.check(policy, START + 1000, 1).retry_after, RetryAfter::Wait(100));
    assert_eq!(entries.check(policy, START + 1100, 1).remaining, 2);
}

/// It says how long the units are held as things are, not as a call that takes would settle them.
#[test]
fn peek_names_a_wait_that_comes_true_after_the_window_shrank() {
    let (mut entries, long, short) = (Entries::default(), sliding(3, 60_000, 1), sliding(3, 5000, 1));
    entries.check(long, START, 3);
    let peeked = assess(short, START, 1, &mut entries).unwrap().peek();
    assert_eq!((peeked.retry_after, peeked.reset_after), (RetryAfter::Wait(60_000), 60_000));
    assert!(!assess(short, START + 5000, 1, &mut entries).unwrap().peek().allowed);
    assert!(!entries.clone().check(short, START + 59_999, 1).allowed);
    assert!(entries.check(short, START + 60_000, 1).allowed);
}

#[test]
fn only_canonical_members_are_taken_for_entries() {
    for good in ["0", "17", "18446744073709551615", "5:2", "0:9007199254740991"] {
        let run = Run::parse(good.as_bytes()).unwrap();
        assert_eq!(run.member().as_bytes(), good.as_bytes());
    }
    for bad in [
        "",
        ":",
        "a",
        "01",
        "-1",
        "+1",
        "1:",
        ":1",
        "1:1",
        "1:0",
        "1:02",
        "1:2:3",
        "1 ",
        "18446744073709551616",
        "0:9007199254740992",
        "1:5/60000",
    ] {
        assert_eq!(Run::parse(bad.as_bytes()), Err(Foreign), "{bad:?}");
    }
}

/// A call: ms since the last one (negative: the clock steps back), cost, and which of the policies applies.
type Call = (i64, u64, prop::sample::Index);

fn calls(costs: impl Strategy<Value = u64>) -> impl Strategy<Value = Vec<Call>> {
    let step = prop_oneof![4 => Just(0), 8 => 0_i64..40, 2 => 0_i64..2000, 1 => -300_i64..0];
    prop::collection::vec((step, costs, any::<prop::sample::Index>()), 1..200)
}

fn policies() -> impl Strategy<Value = Vec<Policy>> {
    let policy = (1_u64..40, 1_u64..800, any::<bool>())
        .prop_map(|(limit, window, coarse)| sliding(limit, window, if coarse { window.div_ceil(7) } else { 1 }));
    prop::collection::vec(policy, 1..4)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    /// Every field of every reply, with costs, with limits and windows that change on the live key, and with a clock
    /// that stands still and steps back.
    #[test]
    fn every_reply_equals_the_reference(policies in policies(), calls in calls(0_u64..12), forced in prop::collection::vec(0_u8..10, 200)) {
        let (mut entries, mut reference, mut now) = (Entries::default(), Reference::default(), START);
        for ((step, cost, which), force) in calls.into_iter().zip(forced) {
            now = now.checked_add_signed(step).unwrap();
            let policy = *which.get(&policies);
            let before = entries.clone();
            let verdict = entries.call(policy, now, cost, force == 0);
            prop_assert_eq!(verdict, reference.call(policy, now, cost, force == 0));
            entries.assert_contiguous();
            // Asking again changes nothing but what the charge itself did: a denied call settles at most once.
            let again = assess(policy, now, u64::MAX, &mut entries).unwrap();
            prop_assert_eq!(again.refuse().1, None, "{:?} -> {:?}", before, entries);
        }
    }

    /// Refunds of what calls took, some of them of more, or for a second time, or of what has come back already, between
    /// other calls.
    #[test]
    fn refunds_give_back_exactly_what_is_held_there(
        policies in policies(), calls in calls(0_u64..12),
        refunds in prop::collection::vec((0_u64..15, any::<prop::sample::Index>()), 200),
    ) {
        let (mut entries, mut reference, mut now) = (Entries::default(), Reference::default(), START);
        let mut charged = vec![START];
        for ((step, cost, which), (units, of)) in calls.into_iter().zip(refunds) {
            now = now.checked_add_signed(step).unwrap();
            let policy = *which.get(&policies);
            let verdict = entries.check(policy, now, cost);
            prop_assert_eq!(verdict, reference.call(policy, now, cost, false));
            charged.push(verdict.charged_until);
            let until = *of.get(&charged);
            prop_assert_eq!(entries.refund(now, units, until), reference.refund(now, units, until));
            entries.assert_contiguous();
        }
    }

    /// The promise of SLIDING on any trace of a clock that does not step back: no trailing window, ending anywhere,
    /// holds more than the limit.
    #[test]
    fn no_trailing_window_ever_holds_more_than_the_limit(
        limit in 1_u64..30, window in 1_u64..500, coarse in any::<bool>(), calls in calls(1_u64..5),
    ) {
        let policy = sliding(limit, window, if coarse { window.div_ceil(10) } else { 1 });
        let (mut entries, mut now, mut taken) = (Entries::default(), START, Vec::new());
        for (step, cost, _) in calls {
            now += step.unsigned_abs();
            if entries.check(policy, now, cost).allowed {
                taken.push((now, cost));
            }
        }
        for &(end, _) in &taken {
            let held: u64 = taken.iter().filter(|(at, _)| *at <= end && at + window > end).map(|(_, cost)| cost).sum();
            prop_assert!(held <= limit);
        }
    }

    /// Whoever waits `retry_after` succeeds, and a millisecond less is not enough.
    #[test]
    fn retry_after_is_sufficient_and_minimal(policies in policies(), calls in calls(1_u64..12), cost in 1_u64..40) {
        let (mut entries, mut now, policy) = (Entries::default(), START, policies[0]);
        for (step, cost, which) in calls {
            now = now.checked_add_signed(step).unwrap();
            entries.check(*which.get(&policies), now, cost);
        }
        if let RetryAfter::Wait(wait) = entries.check(policy, now, cost).retry_after {
            prop_assert!(wait > 0 && wait <= Reference::comes_back(policy, now) - now);
            prop_assert!(!entries.clone().check(policy, now + wait - 1, cost).allowed);
            prop_assert!(entries.check(policy, now + wait, cost).allowed);
        }
    }

    #[test]
    fn no_member_makes_the_parser_panic(member in prop::collection::vec(any::<u8>(), 0..60)) {
        if let Ok(run) = Run::parse(&member) {
            let written = run.member();
            prop_assert_eq!(written.as_bytes(), &member[..]);
        }
    }
}

/// Numbers of a hostile entry: small ones, and those at the end of what is taken.
fn hostile() -> impl Strategy<Value = u64> {
    prop_oneof![0_u64..5, 1_767_225_600_000_u64..1_767_225_600_005, MAX_UNITS - 2..MAX_UNITS + 2, any::<u64>()]
}

proptest! {
    #![proptest_config(crate::model::fuzzing())]

    #[test]
    fn a_member_is_what_would_be_written_for_it_and_nothing_else(text in crate::model::any_text()) {
        if let Ok(run) = Run::parse(&text) {
            let member = run.member();
            prop_assert_eq!(member.as_bytes(), text);
        }
    }

    /// In any order, with gaps, beyond all bounds.
    #[test]
    fn hostile_entries_are_refused_or_counted_as_they_are(
        entries in prop::collection::vec(prop::array::uniform3(hostile()), 0..5),
        limit in prop_oneof![1_u64..5, 1..=MAX_UNITS],
        window in prop_oneof![1_u64..5, 1..=time::MAX - 1_767_225_600_005],
        cost in prop_oneof![0_u64..5, 0..=MAX_UNITS],
        grid in prop_oneof![1_u64..5, 1_u64..1_000_000_000],
    ) {
        let now = 1_767_225_600_000;
        let entry = |[at, start, units]: [u64; 3]| {
            let run = Run::parse(format!("{start}:{units}").as_bytes()).or(Run::parse(start.to_string().as_bytes()));
            Some(Entry { at: at.min(time::MAX), run: run.ok()? })
        };
        let mut entries = Entries(entries.into_iter().filter_map(entry).collect());
        let policy = Policy { limit, window, grid: grid.min(window) };
        if let Ok(assessed) = assess(policy, now, cost, &mut entries) {
            prop_assert!(assessed.peek().remaining <= limit);
            assessed.refuse();
            let (_, change) = assessed.charge();
            prop_assert!(change.is_none_or(|change| change.at <= time::MAX && change.run.units <= MAX_UNITS));
            assessed.live_entries();
        }
        let _ = held(now, 1, &mut entries);
        let _ = refund(now, cost.max(1), now + window, &mut entries);
    }
}

/// However many entries there are, a call reads a thousand of them to know that they are a limit's.
#[test]
fn a_large_set_is_known_by_some_of_its_entries() {
    const ENTRIES: u64 = 300_000;
    let entry = |n: u64| {
        // Numbers wrap around on the way.
        let start = (2 * n).wrapping_sub(1000);
        Entry { at: 1_000_000 + n * 3 + n % 2, run: Run { start, units: 2 } }
    };
    let all: Vec<Entry> = (0..ENTRIES).map(entry).collect();
    let believed = |all: &[Entry]| {
        let mut read = 0;
        let is_believed = are_entries_here_and_there(*all.last().unwrap(), |at, most| {
            let from = all.partition_point(|entry| entry.at < at);
            let some = &all[from..all.len().min(from + most)];
            read += some.len();
            if some.iter().any(|entry| entry.run.units == 0) { Err(Foreign) } else { Ok(some.to_vec()) }
        });
        assert!(read <= 1100, "{read}");
        is_believed
    };
    assert!(believed(&all));
    let changed = |change: &dyn Fn(usize, &mut Entry)| {
        let mut all = all.clone();
        all.iter_mut().enumerate().for_each(|(n, entry)| change(n, entry));
        believed(&all)
    };
    assert!(!changed(&|n, entry| entry.run.start = n as u64 * 17), "numbers not in a row");
    assert!(
        !changed(&|n, entry| entry.run.start = entry.run.start.wrapping_sub(if n > 200_000 { 100_000 } else { 0 })),
        "behind those before"
    );
    assert!(!changed(&|n, entry| entry.at -= (entry.at - 1_000_000) % 6 * u64::from(n > 1000)), "two at a moment");
    assert!(!changed(&|n, entry| entry.run.units = if n == 0 { 0 } else { 2 }), "not an entry");
    let log: Vec<_> =
        (0..ENTRIES).map(|n| Entry { at: 1_000_000 + n, run: Run { start: 1_000_000 + n, units: 1 } }).collect();
    assert!(!believed(&log), "a log by hand");
    let last_alone = changed(&|n, entry| entry.run.start = if n as u64 == ENTRIES - 1 { 0 } else { entry.run.start });
    assert!(!last_alone, "the last is numbered below the first");
}

/// A refund numbers again what comes back later: no more of that than a call may take.
#[test]
fn a_refund_renumbers_ten_thousand_entries_and_no_more() {
    let later = |count: u64| {
        let entry = |n: u64| Entry { at: 1000 + n, run: Run { start: n, units: 1 } };
        Entries((0..=count).map(entry).collect())
    };
    let most = MOST_RENUMBERED as u64;
    let (back, rewrite) = refund(0, 1, 1000, &mut later(most)).unwrap();
    assert_eq!((back, rewrite.put.len()), (1, MOST_RENUMBERED));
    assert_eq!(refund(0, 1, 1000, &mut later(most + 1)), Err(Unable::TooManyLater));
    assert_eq!(refund(0, 1, 1001, &mut later(most + 1)).map(|(back, _)| back), Ok(1), "a later one");
    assert_eq!(refund(0, 1, 999, &mut later(most + 1)).map(|(back, _)| back), Ok(0), "nothing is held there");
}
