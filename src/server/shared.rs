//! State of the module that outlives a call.

use super::context::Context;
use redis_module::{RedisGILGuard, RedisLockIndicator};
use std::cell::{RefCell, RefMut};

// SAFETY: the server enters the module, and thereby makes a context, only while its global lock is held.
unsafe impl RedisLockIndicator for Context {}

/// State that whoever has a [`Context`] (or another proof of being called by the server) may use, one user at a time.
///
/// A borrow must end before the server is asked to do anything that announces events: the handlers of events borrow too,
/// and a second borrow is a panic, not a race.
pub struct Shared<T>(RedisGILGuard<RefCell<T>>);

impl<T> Shared<T> {
    pub fn new(value: T) -> Shared<T> {
        Shared(RedisGILGuard::new(RefCell::new(value)))
    }

    /// Lends the state to `use_it`.
    pub fn with<R>(&self, holder: &impl RedisLockIndicator, use_it: impl FnOnce(&mut T) -> R) -> R {
        let guard = self.0.lock(holder);
        let mut state: RefMut<'_, T> = guard.borrow_mut();
        use_it(&mut state)
    }
}
