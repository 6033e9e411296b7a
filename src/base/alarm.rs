//! Requests to arm or disarm the server's timer. Code that does not call the server, for example the model of the
//! waiting clients, returns such a request to its caller.

use super::time::Millis;

/// The longest delay of a timer, in ms. For work that is due later, no timer is armed yet: the server's cron runs at
/// least once a second, and arms the timer when the time is near.
pub const HORIZON: Millis = 1500;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Alarm {
    AsItIs,
    /// Arms the timer to fire in this many ms, even if it is already armed.
    In(Millis),
    Off,
}
