//! Queues in the server: what stands between the commands and the state machine ([`crate::model::queue`]).
//!
//! [`OpenQueue`] is the one place that changes a queue: it takes down the effects of every change, replicates them, and
//! announces them. [`wire`] gives effects the form in which they go to replicas and into AOF files. [`claiming`] is
//! the claim. [`waiting`] knows which keys clients wait for, and wakes those clients when the clock makes a job claimable. [`stored`] is
//! the data type. [`totals`] adds all queues up for INFO, [`names`] knows their names, and when to look at each. [`upkeep`] does what is due in queues that nobody
//! touches.
//!
//! A queue is there from the first push (or ZQ.CONFIG) until its key goes (DEL, EXPIRE, ...), also while it holds no job: it
//! keeps its settings, its counters, and the count of its tokens, which have to go on growing.

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
