//! The timer requests of the models [`waiting`](super::waiting) and [`tracking`](super::tracking).

use super::time::Millis;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Alarm {
    AsItIs,
    /// Arms the timer for this many ms from now, replacing its due time.
    In(Millis),
    Off,
}
