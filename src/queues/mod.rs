//! Queues as keys: the layer between the commands and the state machine ([`crate::model::queue`]).
//!
//! All changes of a queue use [`OpenQueue`], which records the effects, replicates them and sends the keyspace events.
//! [`wire`] encodes effects for replicas and AOF files. [`claiming`] is the claim. [`waiting`] wakes blocked clients
//! when a job is claimable. [`stored`] is the data type. [`totals`] has the totals of all queues for INFO. [`names`]
//! lists the queues, with the time of the next check of each queue. [`upkeep`] cleans up queues that no command
//! changes.
//!
//! A queue exists from its first push (or ZQ.CONFIG) until its key is removed (DEL, EXPIRE, ...). An empty queue keeps
//! its key, because the queue holds the settings, the counters and the last token. A new token must be higher than all
//! earlier ones.

pub mod claiming;
pub mod names;
mod open;
mod stored;
pub mod totals;
pub mod upkeep;
pub mod waiting;
pub mod wire;

pub use open::{OpenQueue, rejected_effects, report_rejected};
pub use stored::Stored;
