//! ZLB: leaderboards.

mod apply;
mod create;
mod effects;
mod examples;
mod hostile;
mod merge;
mod random;
mod ranks;
mod read;
mod set;
mod stored;
mod surface;
