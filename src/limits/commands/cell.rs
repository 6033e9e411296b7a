//! `CL.THROTTLE key max_burst count period [quantity]`
//!
//! ZRL.THROTTLE under redis-cell's name. The command exists only with `loadmodule ... cell`.

pub use super::throttle::run;
use crate::server::command::Spec;

pub const SPEC: Spec = Spec { name: c"CL.THROTTLE", since: c"0.2.0", ..super::throttle::SPEC };
