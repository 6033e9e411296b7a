//! The client of Zeitset, a Redis module for sets whose members expire, rate
//! limits, queues and leaderboards. This crate works with connections of the crate [`redis`].
//!
//! | feature | what |
//! |---|---|
//! | none | typed commands ([`zexp`], [`zrl`], [`zq`], [`zlb`]) for blocking connections |
//! | `async` | typed commands for asynchronous connections on tokio |
//! | `limiter` | [`Limiter`]: limits that all processes share, with time limits, remembered denials, and units taken in advance |
//! | `tower` | [`tower::LimitLayer`]: limits in front of axum, hyper and tonic. `axum`: the layer finds the client's address |
//! | `queue` | [`Queue`]: pushes jobs with payloads of serde |
//! | `worker` | [`Worker`]: runs an async function for each job; [`Cron`]: recurring jobs |
//! | `tracing` | spans for pushes and handlers |
//! | `cluster`, `tls` | the features of these names of the crate `redis` |
//!
//! ```
//! # fn main() -> Result<(), zeitset_client::Error> {
//! # let Some(url) = std::env::var("ZEITSET_URL").ok() else { return Ok(()) };
//! let mut redis = redis::Client::open(url)?.get_connection()?;
//! let check = zeitset_client::zrl::check("search:ann", 5, "1m").query(&mut redis)?;
//! println!("{}, {} remaining", if check.allowed { "allowed" } else { "denied" }, check.remaining);
//! # Ok(())
//! # }
//! ```
//!
//! The examples of this documentation run if the environment variable `ZEITSET_URL` names a server with the module.

#[macro_use]
mod macros;

#[cfg(feature = "queue")]
mod codec;
mod commands;
mod error;
#[cfg(feature = "tower")]
mod identity;
#[cfg(feature = "limiter")]
mod limiter;
#[cfg(any(feature = "limiter", feature = "worker"))]
mod patience;
#[cfg(feature = "queue")]
mod queue;
#[cfg(any(feature = "limiter", feature = "queue"))]
mod random;
#[cfg(feature = "queue")]
mod shards;
#[cfg(feature = "tracing")]
mod spans;
mod time;
#[cfg(feature = "tower")]
pub mod tower;
#[cfg(feature = "worker")]
mod worker;

#[cfg(feature = "queue")]
pub use codec::{Decode, Encode, Raw};
pub use commands::{Call, zexp, zlb, zq, zrl};
pub use error::{Code, Error};
#[cfg(feature = "limiter")]
pub use limiter::{
    Algorithm, AtMostOnce, Connection, Decision, Limiter, LimiterBuilder, OnError, Policy, Precision, Reservation,
    check_all, reserve_all,
};
#[cfg(feature = "queue")]
pub use queue::{Push, Queue, Undecodable, WithPayload};
pub use time::{Moment, Period};
#[cfg(feature = "worker")]
pub use worker::{Cancelled, Cron, Discard, Ended, Event, Job, JobInfo, Place, Retry, State, Worker, WorkerHandle};

/// Runs the examples of the README.
#[cfg(all(doctest, feature = "worker", feature = "axum"))]
#[doc = include_str!("../README.md")]
struct Readme;
