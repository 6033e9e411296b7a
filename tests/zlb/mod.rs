//! ZLB: leaderboards.

mod apply;
mod create;
mod effects;
mod hostile;
mod merge;
mod read;
mod set;
mod stored;
