//! One-shot timers of the server's event loop.

use super::context::Context;
use super::panic::survive;
use crate::model::time::Millis;
use redis_module::raw::{RedisModuleCtx, RedisModuleTimerID};
use std::ffi::c_void;
use std::ptr::null_mut;

/// What a timer does.
pub trait Task {
    fn run(ctx: &mut Context);
}

/// An armed timer. An armed timer keeps the module from being unloaded.
#[derive(Debug, PartialEq, Eq)]
pub struct Timer(RedisModuleTimerID);

impl Timer {
    /// Runs the task once, after `delay` ms.
    pub fn arm<T: Task>(ctx: &Context, delay: Millis) -> Timer {
        let delay = i64::try_from(delay).unwrap_or(i64::MAX / 2048);
        // SAFETY: the callback lives as long as the module, and the module as long as its timers.
        Timer(unsafe { api!(RedisModule_CreateTimer(ctx.as_ptr(), delay, Some(fire::<T>), null_mut())) })
    }

    /// Disarms it. Not to be called for a timer that has fired, or fires right now.
    pub fn stop(self, ctx: &Context) {
        // SAFETY: the timer is armed: whoever runs its task gives it up first.
        unsafe { api!(RedisModule_StopTimer(ctx.as_ptr(), self.0, null_mut())) };
    }
}

unsafe extern "C" fn fire<T: Task>(ctx: *mut RedisModuleCtx, _data: *mut c_void) {
    // SAFETY: the server passes a context that lasts as long as this call.
    let mut ctx = unsafe { Context::from_raw(ctx) };
    // The panic hook has logged it; the server must not end for a defect of ours.
    survive(|| T::run(&mut ctx));
}
