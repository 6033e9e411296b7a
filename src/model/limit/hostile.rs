//! For the tests of every algorithm: numbers that hostile entries are made of, and what must hold whatever they are.

use super::{Assessed, MAX_UNITS};
use crate::model::time::{self, Millis};
use proptest::prelude::*;

/// The moment at which hostile limits are asked.
pub const NOW: Millis = 1_767_225_600_000;

/// Small numbers, those around [`NOW`], those at the end of what is taken, and any.
pub fn number() -> impl Strategy<Value = u64> {
    prop_oneof![0_u64..5, NOW - 5..NOW + 5, MAX_UNITS - 2..MAX_UNITS + 2, any::<u64>()]
}

/// What a limit of `limit` units says is possible, and so is what it would write.
pub fn check(assessed: &Assessed, limit: u64) {
    let verdict = assessed.verdict();
    assert!(verdict.remaining <= limit, "{verdict:?}");
    if verdict.allowed {
        let (_, change) = assessed.charge();
        assert!(change.is_none_or(|change| time::ceil_score(change.score).is_some()), "{verdict:?}");
    }
    assessed.settlement();
    assessed.live_entries();
}
