//! What INFO says about rate limits.

use super::stats;
use crate::server::info::Info;
use std::sync::atomic::Ordering;

pub fn report(info: Info<'_>) {
    info.field(c"checks_allowed", stats::ALLOWED.load(Ordering::Relaxed));
    info.field(c"checks_forced", stats::FORCED.load(Ordering::Relaxed));
    info.field(c"checks_denied", stats::DENIED.load(Ordering::Relaxed));
    info.field(c"units_taken", stats::UNITS.load(Ordering::Relaxed));
}
