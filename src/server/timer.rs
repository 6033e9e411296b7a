//! One-shot timers of the server's event loop.
//!
//! The server keeps the timers of all modules in one list, by the wall clock, and waits for the first of them by the monotonic clock. When
//! the wall clock is set forward, a timer of another module may stay the first of the list, and the server goes on waiting for as
//! long as that one had left: ours do not fire until then. So the server's housekeeping looks whether they should have
//! ([`Timer::is_overdue`]), and does what they would have done.

use super::context::Context;
use super::panic::survive;
use crate::model::time::Millis;
use redis_module::raw::{RedisModuleCtx, RedisModuleTimerID};
use std::ffi::c_void;
use std::ptr::null_mut;
use std::time::{Duration, Instant};

/// What a timer does.
pub trait Task {
    fn run(ctx: &mut Context);
}

/// An armed timer. An armed timer keeps the module from being unloaded.
#[derive(Debug, PartialEq, Eq)]
pub struct Timer {
    id: RedisModuleTimerID,
    /// When it fires, by the monotonic clock.
    at: Instant,
}

impl Timer {
    /// Runs the task once, after `delay` ms.
    pub fn arm<T: Task>(ctx: &Context, delay: Millis) -> Timer {
        let at = Instant::now() + Duration::from_millis(delay);
        let delay = i64::try_from(delay).unwrap_or(i64::MAX / 2048);
        // SAFETY: the callback lives as long as the module, and the module as long as its timers.
        let id = unsafe { api!(RedisModule_CreateTimer(ctx.as_ptr(), delay, Some(fire::<T>), null_mut())) };
        Timer { id, at }
    }

    /// Disarms it. Not to be called for a timer that has fired, or fires right now.
    pub fn stop(self, ctx: &Context) {
        // SAFETY: the timer is armed: whoever runs its task gives it up first.
        unsafe { api!(RedisModule_StopTimer(ctx.as_ptr(), self.id, null_mut())) };
    }

    /// Whether its moment has come, and it has not fired.
    pub fn is_overdue(&self) -> bool {
        Instant::now() >= self.at
    }

    /// Runs the task now, and not when the timer fires.
    pub fn run<T: Task>(self, ctx: &mut Context) {
        self.stop(ctx);
        survive(|| T::run(ctx));
    }
}

unsafe extern "C" fn fire<T: Task>(ctx: *mut RedisModuleCtx, _data: *mut c_void) {
    // SAFETY: the server passes a context that lasts as long as this call.
    let mut ctx = unsafe { Context::from_raw(ctx) };
    // The panic hook has logged it; the server must not end for a defect of the module.
    survive(|| T::run(&mut ctx));
}
