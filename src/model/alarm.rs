//! What a model ([`waiting`](super::waiting), [`tracking`](super::tracking)) requests for its timer.

use super::time::Millis;

/// A request for a timer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Alarm {
    AsItIs,
    /// Arms the timer for this many ms from now, replacing its due time.
    In(Millis),
    Off,
}
