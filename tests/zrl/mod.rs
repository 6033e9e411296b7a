//! ZRL: rate limits, command by command and algorithm by algorithm.

mod cell;
mod check;
mod errors;
mod fixed;
mod force;
mod foreign;
mod info;
mod layout;
mod leaky;
mod mcheck;
mod policy;
mod refund;
mod strings;
mod throttle;
mod top;
