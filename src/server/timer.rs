//! One-shot timers of the server's event loop.
//!
//! The server keeps the timers of all modules in one list, ordered by due time on the wall clock. The server waits only
//! for the first timer in the list, and measures this wait by the monotonic clock. So after the wall clock has been set
//! forward, a new timer can fire too late. An example:
//!
//! 1. A timer is due at 12:10. At 12:00, the server begins to wait 10 minutes for this timer.
//! 2. The wall clock is set forward by an hour, to 13:00. The server still waits 10 minutes.
//! 3. A new timer with a delay of one second is due at 13:00:01. The new timer is second in the list, after the timer
//!    of 12:10.
//! 4. After the 10 minutes, the server fires both timers.
//!
//! So this module also measures the delay of each of its timers by the monotonic clock. At each cron event of the
//! server, the module calls [`Timer::catch_up`], which runs the task of an overdue timer.

use super::context::Context;
use super::panic::catch_panic;
use super::under_lock::UnderLock;
use crate::base::alarm::Alarm;
use crate::base::time::Millis;
use redis_module::raw::{RedisModuleCtx, RedisModuleTimerID};
use std::ffi::c_void;
use std::time::{Duration, Instant};

type Task = fn(&mut Context);

/// A timer with one task and one due time. While it is armed, the module cannot be unloaded.
pub struct Timer {
    task: UnderLock<Option<Task>>,
    armed: UnderLock<Option<Armed>>,
}

/// A timer that the server has not fired yet.
struct Armed {
    id: RedisModuleTimerID,
    /// The due time, by the monotonic clock.
    at: Instant,
}

impl Timer {
    pub fn new(task: Task) -> Timer {
        Timer { task: UnderLock::new(Some(task)), armed: UnderLock::new(None) }
    }

    /// Returns a timer without a task. The task is set later with [`set_task`](Timer::set_task), so the timer's file
    /// need not use the task's file.
    pub fn without_task() -> Timer {
        Timer { task: UnderLock::new(None), armed: UnderLock::new(None) }
    }

    pub fn set_task(&self, ctx: &Context, task: Task) {
        self.task.with(ctx, |it| *it = Some(task));
    }

    /// Arms the timer to run the task once after `delay` ms. If the timer is armed already, the new time replaces the
    /// old one.
    pub fn arm(&'static self, ctx: &Context, delay: Millis) {
        self.disarm(ctx);
        let at = Instant::now() + Duration::from_millis(delay);
        let delay = i64::try_from(delay).unwrap_or(i64::MAX / 2048);
        let this = std::ptr::from_ref(self).cast_mut().cast::<c_void>();
        // SAFETY: the callback lives as long as the module, and the module as long as its timers. The
        // callback gets `self`, which is static.
        let id = unsafe { api!(RedisModule_CreateTimer(ctx.as_ptr(), delay, Some(fire), this)) };
        self.armed.with(ctx, |armed| *armed = Some(Armed { id, at }));
    }

    pub fn disarm(&self, ctx: &Context) {
        if let Some(Armed { id, .. }) = self.armed.with(ctx, Option::take) {
            // SAFETY: the timer is still armed, because `fire` removes the ID of a timer that fires.
            unsafe { api!(RedisModule_StopTimer(ctx.as_ptr(), id, std::ptr::null_mut())) };
        }
    }

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

    /// Runs the task now if it is due and the server has not fired the timer.
    pub fn catch_up(&self, ctx: &mut Context) {
        let now = Instant::now();
        if self.armed.with(ctx, |armed| armed.as_ref().is_some_and(|armed| now >= armed.at)) {
            self.disarm(ctx);
            self.run(ctx);
        }
    }

    fn run(&self, ctx: &mut Context) {
        if let Some(task) = self.task.with(ctx, |task| *task) {
            // The panic hook has logged the panic, and the server must go on, so the result is ignored.
            catch_panic(|| task(ctx));
        }
    }
}

unsafe extern "C" fn fire(ctx: *mut RedisModuleCtx, timer: *mut c_void) {
    // SAFETY: the server passes a context that is valid during this call.
    let mut ctx = unsafe { Context::from_raw(ctx) };
    // SAFETY: `arm` passed this pointer, and takes static timers only.
    let timer = unsafe { &*timer.cast::<Timer>() };
    timer.armed.with(&ctx, |armed| *armed = None);
    timer.run(&mut ctx);
}
