//! One-shot timers of the server's event loop.
//!
//! The server keeps the timers of all modules in one list, by the wall clock, and waits for the first of them by the monotonic clock. When
//! the wall clock is set forward, a timer of another module may stay the first of the list, and the server goes on waiting for as
//! long as that one had left: ours do not fire until then. So the server's housekeeping looks whether they should have
//! ([`Timer::catch_up`]), and does what they would have done.

use super::context::Context;
use super::panic::survive;
use super::shared::Shared;
use crate::model::alarm::Alarm;
use crate::model::time::Millis;
use redis_module::raw::{RedisModuleCtx, RedisModuleTimerID};
use std::ffi::c_void;
use std::time::{Duration, Instant};

/// A timer with one task, armed for one moment at a time. While it is armed, the module cannot be unloaded.
pub struct Timer {
    task: fn(&mut Context),
    armed: Shared<Option<Armed>>,
}

/// The server has this timer, and has not fired it.
struct Armed {
    id: RedisModuleTimerID,
    /// When it fires, by the monotonic clock.
    at: Instant,
}

impl Timer {
    pub fn new(task: fn(&mut Context)) -> Timer {
        Timer { task, armed: Shared::new(None) }
    }

    /// Runs the task once, after `delay` ms, instead of at the moment that it was armed for before.
    pub fn arm(&'static self, ctx: &Context, delay: Millis) {
        self.disarm(ctx);
        let at = Instant::now() + Duration::from_millis(delay);
        let delay = i64::try_from(delay).unwrap_or(i64::MAX / 2048);
        let this = std::ptr::from_ref(self).cast_mut().cast::<c_void>();
        // SAFETY: the callback lives as long as the module, and the module as long as its timers. It is given `self`, which is static.
        let id = unsafe { api!(RedisModule_CreateTimer(ctx.as_ptr(), delay, Some(fire), this)) };
        self.armed.with(ctx, |armed| *armed = Some(Armed { id, at }));
    }

    pub fn disarm(&self, ctx: &Context) {
        if let Some(Armed { id, .. }) = self.armed.with(ctx, Option::take) {
            // SAFETY: the timer is armed: it is taken out before its task runs.
            unsafe { api!(RedisModule_StopTimer(ctx.as_ptr(), id, std::ptr::null_mut())) };
        }
    }

    /// Does what a model says.
    pub fn set(&'static self, ctx: &Context, alarm: Alarm) {
        match alarm {
            Alarm::AsItIs => {}
            Alarm::In(delay) => self.arm(ctx, delay),
            Alarm::Off => self.disarm(ctx),
        }
    }

    pub fn is_armed(&self, ctx: &Context) -> bool {
        self.armed.with(ctx, |armed| armed.is_some())
    }

    /// Runs the task now if its moment has come and the server has not fired the timer.
    pub fn catch_up(&self, ctx: &mut Context) {
        let now = Instant::now();
        if self.armed.with(ctx, |armed| armed.as_ref().is_some_and(|armed| now >= armed.at)) {
            self.disarm(ctx);
            self.run(ctx);
        }
    }

    fn run(&self, ctx: &mut Context) {
        // The panic hook has logged it; the server must not end for a defect of the module.
        survive(|| (self.task)(ctx));
    }
}

unsafe extern "C" fn fire(ctx: *mut RedisModuleCtx, timer: *mut c_void) {
    // SAFETY: the server passes a context that lasts as long as this call.
    let mut ctx = unsafe { Context::from_raw(ctx) };
    // SAFETY: it was given by `arm`, which is called on static timers only.
    let timer = unsafe { &*timer.cast::<Timer>() };
    timer.armed.with(&ctx, |armed| *armed = None);
    timer.run(&mut ctx);
}
