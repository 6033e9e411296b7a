//! State of the module that outlives a call.

use super::context::Context;
use redis_module::{RedisGILGuard, RedisLockIndicator};
use std::cell::{RefCell, RefMut};

// SAFETY: a context exists only while the server calls into the module, and the server's global lock is held then.
unsafe impl RedisLockIndicator for Context {}

/// State that only a holder of the server's lock can access. A [`Context`], or another [`RedisLockIndicator`], proves
/// that the caller holds the lock.
///
/// A borrow must end before any call that makes the server send events. The event handlers also borrow the state, and a
/// second borrow panics.
pub struct UnderLock<T>(RedisGILGuard<RefCell<T>>);

impl<T> UnderLock<T> {
    pub fn new(value: T) -> UnderLock<T> {
        UnderLock(RedisGILGuard::new(RefCell::new(value)))
    }

    pub fn with<R>(&self, holder: &impl RedisLockIndicator, use_it: impl FnOnce(&mut T) -> R) -> R {
        let guard = self.0.lock(holder);
        let mut state: RefMut<'_, T> = guard.borrow_mut();
        use_it(&mut state)
    }
}
