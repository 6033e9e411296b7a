//! The module's settings: in redis.conf after `loadmodule`, and by CONFIG SET.

use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::time::Duration;

/// `zeitset.sweep yes|no`: whether expired members are deleted in the background. Without it they still expire at once
/// for all ZEXP commands, but keep their memory until their key goes.
pub static SWEEP: AtomicBool = AtomicBool::new(true);

/// `zeitset.sweep-slice-us`: the longest stretch, in µs, for which the sweeper holds up clients.
pub static SWEEP_SLICE_US: AtomicI64 = AtomicI64::new(SLICE_US.default);

/// `zeitset.sweep-max-duty`: the percentage of one core that catching up may take.
pub static SWEEP_MAX_DUTY: AtomicI64 = AtomicI64::new(DUTY.default);

/// The range of a setting.
pub struct Range {
    pub default: i64,
    pub min: i64,
    pub max: i64,
}

pub const SLICE_US: Range = Range { default: 500, min: 50, max: 100_000 };
pub const DUTY: Range = Range { default: 25, min: 1, max: 90 };

pub fn sweeps() -> bool {
    SWEEP.load(Ordering::Relaxed)
}

pub fn slice() -> Duration {
    Duration::from_micros(SWEEP_SLICE_US.load(Ordering::Relaxed).unsigned_abs())
}

/// Percent.
pub fn max_duty() -> u32 {
    u32::try_from(SWEEP_MAX_DUTY.load(Ordering::Relaxed)).unwrap_or(1).max(1)
}
