//! The timer requests of a model.

use super::time::Millis;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Alarm {
    AsItIs,
    /// Arms the timer to fire in this many ms, even if it is already armed.
    In(Millis),
    Off,
}
