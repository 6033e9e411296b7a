//! The module's settings (in redis.conf after `loadmodule`, and by CONFIG SET), and its version.

use crate::server::setting::{Flag, Number, Setting};
use std::ffi::{CStr, c_int};
use std::time::Duration;

/// Declares the settings, and the list of them that the server is told.
macro_rules! settings {
    ($($(#[$doc:meta])* pub static $name:ident: $kind:ty = $setting:expr;)*) => {
        $($(#[$doc])* pub static $name: $kind = $setting;)*

        /// All of them.
        pub static SETTINGS: &[&dyn Setting] = &[$(&$name),*];
    };
}

// Name, default, range. `redis.conf.example` and docs/observability.md explain them; tests/docs/observability.rs compares both
// with the server.
settings! {
    /// Whether expired members are deleted in the background. Without it they still expire at once for all ZEXP commands, but keep
    /// their memory until their key goes.
    pub static SWEEP: Flag = Flag::new("sweep", true);

    /// The longest stretch for which the sweeper holds up clients.
    pub static SWEEP_SLICE: Number<Duration> = Number::micros("sweep-slice-us", 500, 50..=100_000);

    /// The percentage of one core that catching up may take.
    pub static SWEEP_MAX_DUTY: Number<u32> = Number::percent("sweep-max-duty", 25, 1..=90);

    /// Whether a message tells of each member that was swept.
    pub static ANNOUNCE_MEMBERS: Flag = Flag::new("announce-members", false);
}

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
