//! The timer requests of a model.

use super::time::Millis;

/// The maximum delay for which a model arms the timer, in ms. The server's cron runs at least once a second, and finds
/// what is due later.
pub const HORIZON: Millis = 1500;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Alarm {
    AsItIs,
    /// Arms the timer to fire in this many ms, even if it is already armed.
    In(Millis),
    Off,
}
