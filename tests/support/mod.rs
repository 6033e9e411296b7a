//! What the tests stand on: servers, clients, and ways to look closely at what a call did.
//!
//! - `Server`: a redis-server of the test's own, checked for crashes when the test ends.
//! - `Clock`: wall clock and monotonic clock of servers, moved by the test.
//! - `Lossy`: a server that loses its latest writes.
//! - `Cluster`: three masters with a replica each, and clients that follow redirections.
//! - `Client`: one connection. Tests write commands as lines and replies in the notation of `reply::show`.
//! - `Trace`: all that a call which changes nothing must leave as it was.
//! - `Dataset`: all that a server holds, to be compared with what another one holds.
//! - `assert_agree`: a master, its replicas, and a server that starts from its AOF hold the same.
//! - `Traffic`: random commands of all families.
//! - `Stream`: the replication stream, command by command.
//! - `Postgres`: a PostgreSQL, where one is installed.
//! - `Page`: a page of the documentation, whose sessions in redis-cli (`Cli`) can be run again.

mod agreement;
mod alike;
mod backlog;
mod cli;
mod client;
mod clock;
mod cluster;
mod dataset;
mod expiring;
mod loss;
mod page;
mod payload;
mod postgres;
mod program;
mod reply;
mod server;
mod stream;
mod trace;
mod traffic;
mod verdict;

pub use agreement::assert_agree;
pub use alike::Alike;
pub use backlog::{amid_backlog, at_full_speed, backlog};
pub use cli::Cli;
pub use client::Client;
pub(crate) use client::cmd;
pub use clock::Clock;
pub use cluster::{Cluster, ClusterClient, WholeMoves};
pub use dataset::{Dataset, assert_same_data};
pub use expiring::{FAR, GRACE_MS, NEVER, after_patrol, assert_healed, assert_marked, assert_swept, pairs, plant};
pub use loss::{LOSSES, Loss, Lossy};
pub use page::{Page, writes};
pub use payload::{Payload, crc64};
pub use postgres::Postgres;
pub use program::Program;
pub use reply::{show, show_bytes};
pub use server::{Builder, Server, example, module};
pub use stream::Stream;
pub use trace::Trace;
pub use traffic::{SETS, Traffic};
pub use verdict::Verdict;

use std::time::{Duration, Instant};

/// How long things may take that take milliseconds on an idle machine. Only a hang is meant to run into it.
pub const PATIENCE: Duration = Duration::from_secs(20);

/// Polls until `condition` holds; panics with `what` when `timeout` has passed.
#[track_caller]
pub fn eventually(timeout: Duration, what: &str, mut condition: impl FnMut() -> bool) {
    let start = Instant::now();
    while !condition() {
        assert!(start.elapsed() < timeout, "not within {timeout:?}: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// A server with the module that keeps an AOF from its start, and a client of it: for tests that end with `assert_agree`.
pub fn start_keeping_aof() -> (Server, Client) {
    let server = Server::builder().keeping_aof().start();
    let client = server.client();
    (server, client)
}

/// A server with the module, and a client of it: what most tests begin with.
pub fn start() -> (Server, Client) {
    let server = Server::start();
    let client = server.client();
    (server, client)
}
