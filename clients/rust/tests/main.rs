//! Tests of the client crate against real servers with the module.

mod chaos;
mod commands;
mod documentation;
mod limiter;
mod limiter_cases;
mod limiter_model;
mod queue;
mod support;
mod tower;
mod worker;
