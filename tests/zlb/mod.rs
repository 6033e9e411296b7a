//! ZLB: leaderboards.

mod apply;
mod create;
mod effects;
mod merge;
mod read;
mod set;
mod stored;
