//! Queues as keys: the layer between the commands and the state machine ([`crate::queues::model`]).
//!
//! Commands change a queue through [`OpenQueue`]. It records the *effects* (the results of a command), replicates them
//! and sends the keyspace events. [`wire`] encodes the effects for replicas and AOF files. [`claiming`] claims jobs.
//! [`waiting`] wakes blocked clients when a job is claimable, and serves them. [`stored`] is the data type. [`totals`]
//! has the totals of all queues for INFO. [`upkeep`] checks queues that no command changes, and cleans them up.
//! [`registry`] has the names of all queues, and the times of their next checks. [`key_events`] keeps the names up to
//! date.
//!
//! An empty queue keeps its key, because the key still holds the settings, the counters and the last token. The last
//! token is needed because each new token must be higher than all earlier tokens. After an hour, the clock is far above
//! the last token. So the upkeep then deletes an empty queue, if its settings are the defaults ([`stored`]).

pub mod claiming;
pub mod commands;
pub mod key_events;
pub mod model;
mod open;
pub mod registry;
mod report;
mod stored;
pub mod totals;
pub mod upkeep;
pub mod waiting;
pub mod wire;
pub mod words;

pub use open::{OpenQueue, rejected_effects, report_rejected};
pub use report::report;
pub use stored::QueueValue;
