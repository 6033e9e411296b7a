//! Utilities for the tests and the benchmarks: servers, clients, and checks of what a call did.
//!
//! - `Server`: a redis-server for a test, checked for crashes when the test ends.
//! - `Clock`: the wall clock and monotonic clock of servers, moved by the test.
//! - `Lossy`: a server that loses its latest writes.
//! - `Cluster`: three masters with a replica each, and clients that follow redirections.
//! - `Client`: a connection. Tests write commands as lines and replies in the notation of `reply::show`.
//! - `Trace`: the state of a key and of the server, to show that a call changed nothing.
//! - `Witness`: the observers of a key. They must agree whether a call changed the key.
//! - `Dataset`: all data of a server, for comparisons.
//! - `assert_agree`: checks that a master, its replicas, and a server that loads its AOF have equal data.
//! - `Traffic`: random commands of all families.
//! - `Stream`: the replication stream, command by command.
//! - `Postgres`: a PostgreSQL server, if one is installed.
//! - `Page`: a page of the documentation, whose sessions in redis-cli (`Cli`) can be run again.

mod agreement;
mod alike;
mod backlog;
mod built;
mod cli;
mod client;
mod clock;
mod cluster;
mod dataset;
pub mod effects;
mod expiring;
mod folder;
mod jobs;
mod loss;
mod page;
mod patience;
mod payload;
mod postgres;
mod program;
mod reply;
mod server;
mod signal;
mod stream;
mod tables;
mod traffic;
mod verdict;
mod witness;

pub use agreement::assert_agree;
pub use alike::Alike;
pub use backlog::{at_full_speed, backlog, begin_draining, drained, draining};
pub use built::{module, program, root};
pub use cli::Cli;
pub use client::{Client, command};
pub use clock::Clock;
pub use cluster::{AtomicMigration, Cluster, ClusterClient};
pub use dataset::{Dataset, assert_same_data};
pub use expiring::{FAR, NEVER, TAG, after_scan, assert_drained, assert_tagged, card, pairs, plant};
pub use jobs::Job;
pub use loss::{LOSSES, Loss, Lossy};
pub use page::{Page, writes};
pub use patience::{PATIENCE, eventually};
pub use payload::{Payload, crc64};
pub use postgres::Postgres;
pub use program::Program;
pub use reply::{show, show_bytes};
pub use server::{Builder, Server, free_port, start, start_keeping_aof, start_pair, start_with_clock};
pub use signal::{Signal, signal, signal_group, signal_pid};
pub use stream::Stream;
pub use tables::{blocks, cells, code};
pub use traffic::{SETS, Traffic};
pub use verdict::Verdict;
pub use witness::{Trace, Witness};

/// The macro [`cmd!`] needs this name.
#[doc(hidden)]
pub use redis;
