//! ZRL: rate limits, command by command and algorithm by algorithm.

mod cell;
mod check;
mod errors;
mod force;
mod info;
mod mcheck;
mod policy;
mod refund;
mod strings;
mod throttle;
mod top;
