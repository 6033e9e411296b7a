//! The integration tests: real servers, the built module, and COMMANDS.md read as a client would read it.
//!
//! One binary, one module for each concern. Every test starts a server of its own (`testkit::Server`), so tests run in
//! parallel and in any order. `make test` runs them all; `cargo test --test integration zrl_` those of one concern.

use testkit as support;

mod access;
mod announcing;
mod architecture;
mod clock;
mod cluster;
mod cluster_down;
mod cluster_faults;
mod cluster_moves;
mod defrag;
mod docs_commands;
mod docs_observability;
mod docs_sessions;
mod docs_timers;
mod examples;
mod failover;
mod formats;
mod fuzz;
mod healing;
mod idle;
mod instants;
mod keyspace;
mod losses;
mod memory;
mod neighbour;
mod package;
mod panics;
mod persistence;
mod plain_data;
mod replication;
mod soak;
mod surface;
mod swapdb;
mod sweeping;
mod sweeping_large;
mod sweeping_unknown;
mod torture;
mod unload;
mod versions;

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

mod zlb_apply;
mod zlb_create;
mod zlb_effects;
mod zlb_examples;
mod zlb_hostile;
mod zlb_merge;
mod zlb_random;
mod zlb_ranks;
mod zlb_read;
mod zlb_set;
mod zlb_stored;
mod zlb_surface;

mod zrl_cell;
mod zrl_check;
mod zrl_errors;
mod zrl_fixed;
mod zrl_force;
mod zrl_foreign;
mod zrl_info;
mod zrl_layout;
mod zrl_leaky;
mod zrl_mcheck;
mod zrl_policy;
mod zrl_refund;
mod zrl_strings;
mod zrl_throttle;
mod zrl_top;

mod zq_all;
mod zq_blocking;
mod zq_clock;
mod zq_commands;
mod zq_full;
mod zq_groups;
mod zq_lease_ends;
mod zq_leases;
mod zq_operating;
mod zq_persistence;
mod zq_refused;
mod zq_repeated;
mod zq_replication;
mod zq_tokens;
mod zq_upkeep;
