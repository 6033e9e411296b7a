//! The module's settings (in redis.conf after `loadmodule`, and by CONFIG SET), and its version.

use crate::server::{Context, setting};
use std::ffi::{CStr, c_int};
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::time::Duration;

/// `zeitset.sweep yes|no`: whether expired members are deleted in the background. Without it they still expire at once
/// for all ZEXP commands, but keep their memory until their key goes.
pub static SWEEP: AtomicBool = AtomicBool::new(true);

/// `zeitset.sweep-slice-us`: the longest stretch, in µs, for which the sweeper holds up clients.
pub static SWEEP_SLICE_US: AtomicI64 = AtomicI64::new(SLICE_US.default);

/// `zeitset.sweep-max-duty`: the percentage of one core that catching up may take.
pub static SWEEP_MAX_DUTY: AtomicI64 = AtomicI64::new(DUTY.default);

/// `zeitset.announce-members yes|no`: whether a message tells of each member that was swept.
pub static ANNOUNCE_MEMBERS: AtomicBool = AtomicBool::new(false);

/// The range of a setting.
pub struct Range {
    pub default: i64,
    pub min: i64,
    pub max: i64,
}

pub const SLICE_US: Range = Range { default: 500, min: 50, max: 100_000 };
pub const DUTY: Range = Range { default: 25, min: 1, max: 90 };

/// The version that Cargo.toml says.
pub const VERSION: &CStr = match CStr::from_bytes_with_nul(concat!(env!("CARGO_PKG_VERSION"), "\0").as_bytes()) {
    Ok(version) => version,
    Err(_) => panic!("a version holds no NUL"),
};

/// As MODULE LIST shows it: 10000 × major + 100 × minor + patch.
pub const VERSION_NUMBER: c_int = 10_000 * number(env!("CARGO_PKG_VERSION_MAJOR"))
    + 100 * number(env!("CARGO_PKG_VERSION_MINOR"))
    + number(env!("CARGO_PKG_VERSION_PATCH"));

const fn number(text: &str) -> c_int {
    match c_int::from_str_radix(text, 10) {
        Ok(number) => number,
        Err(_) => panic!("part of a version is no number"),
    }
}

/// Makes the settings known to the server, and sets them to what redis.conf says.
pub fn register(ctx: &Context) {
    let in_range = |range: &Range| (range.min, range.max);
    setting::number(ctx, "sweep-slice-us", &SWEEP_SLICE_US, SLICE_US.default, in_range(&SLICE_US));
    setting::number(ctx, "sweep-max-duty", &SWEEP_MAX_DUTY, DUTY.default, in_range(&DUTY));
    setting::flag(ctx, "sweep", &SWEEP, true);
    setting::flag(ctx, "announce-members", &ANNOUNCE_MEMBERS, false);
    setting::apply(ctx);
}

pub fn sweeps() -> bool {
    SWEEP.load(Ordering::Relaxed)
}

pub fn announces_members() -> bool {
    ANNOUNCE_MEMBERS.load(Ordering::Relaxed)
}

pub fn slice() -> Duration {
    Duration::from_micros(SWEEP_SLICE_US.load(Ordering::Relaxed).unsigned_abs())
}

/// Percent.
pub fn max_duty() -> u32 {
    u32::try_from(SWEEP_MAX_DUTY.load(Ordering::Relaxed)).unwrap_or(1).max(1)
}
