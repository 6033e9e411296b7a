//! The settings of active expiry, in redis.conf and CONFIG SET.
//!
//! Each setting has a name, a default and, for numbers, a range. `redis.conf.example` and docs/observability.md explain
//! the settings. tests/docs/observability.rs compares both files with the server.

use crate::server::setting::{Flag, Number};

/// Whether the sweeper deletes expired members. If the setting is off, ZEXP commands still ignore expired members, but
/// these members use memory until the key is deleted.
pub static SWEEP: Flag = Flag::new("sweep", true);

/// The maximum time in µs for which one run of the sweeper (a slice) blocks clients.
pub static SWEEP_SLICE_US: Number = Number::new("sweep-slice-us", 500, 50..=100_000);

/// The maximum share of one core for the sweeper, in percent.
pub static SWEEP_MAX_DUTY: Number = Number::new("sweep-max-duty", 25, 1..=90);

/// Whether the sweeper publishes a message for each deleted member.
pub static ANNOUNCE_MEMBERS: Flag = Flag::new("announce-members", false);

pub static FLAGS: [&Flag; 2] = [&SWEEP, &ANNOUNCE_MEMBERS];

pub static NUMBERS: [&Number; 2] = [&SWEEP_SLICE_US, &SWEEP_MAX_DUTY];
