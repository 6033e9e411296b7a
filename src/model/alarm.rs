//! What a model that says when to look next ([`waiting`](super::waiting), [`tracking`](super::tracking)) wants done with its timer.

use super::time::Millis;

/// What is to be done with a timer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Alarm {
    AsItIs,
    /// To be armed: in that many ms, whatever it was armed for before.
    In(Millis),
    Off,
}
