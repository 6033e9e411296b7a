//! The integration tests: real servers, the built module, and COMMANDS.md read as a client would read it.
//!
//! One binary, one module for each concern. Every test starts a server of its own (`support::Server`), so tests run in
//! parallel and in any order. `make test` runs them all; `cargo test --test integration zrl_` those of one concern.

mod support;

mod access;
mod cluster;
mod cluster_faults;
mod docs_commands;
mod docs_observability;
mod docs_sessions;
mod docs_timers;
mod examples;
mod failover;
mod fuzz;
mod healing;
mod keyspace;
mod memory;
mod package;
mod panics;
mod persistence;
mod plain_data;
mod replication;
mod soak;
mod surface;
mod sweeping;
mod sweeping_large;
mod top;
mod unload;

mod zexp_add;
mod zexp_adopt;
mod zexp_cap;
mod zexp_data;
mod zexp_errors;
mod zexp_expire;
mod zexp_marker;
mod zexp_pop;
mod zexp_read;
mod zexp_transparent;

mod zlb_create;
mod zlb_effects;
mod zlb_examples;
mod zlb_hostile;
mod zlb_random;
mod zlb_read;
mod zlb_set;
mod zlb_stored;
mod zlb_surface;

mod zrl_check;
mod zrl_errors;
mod zrl_fixed;
mod zrl_layout;
mod zrl_leaky;
mod zrl_mcheck;
mod zrl_policy;
mod zrl_refund;
mod zrl_throttle;

mod zq_blocking;
mod zq_commands;
mod zq_leases;
mod zq_persistence;
mod zq_replication;
