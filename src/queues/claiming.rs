//! Claims jobs for ZQ.CLAIM and for blocked clients ([`super::waiting`]).

use super::OpenQueue;
use crate::base::time::{self, Micros, Millis};
use crate::queues::model::Claimed;
use crate::server::key::Writing;
use crate::server::{Context, Str};
use std::sync::atomic::{AtomicU64, Ordering};

/// The number of jobs that clients of this server claimed, for INFO.
static CLAIMED: AtomicU64 = AtomicU64::new(0);

pub fn claims() -> u64 {
    CLAIMED.load(Ordering::Relaxed)
}

pub struct ClaimRequest {
    pub lease: Millis,
    pub count: u64,
    /// The worker's name. Empty if the client gave none.
    pub worker: Vec<u8>,
}

/// Claims jobs from the queue in `key`. If there are jobs, replies with them and returns true. Otherwise, sends no
/// reply and returns false.
pub fn claim(mut open: OpenQueue<'_, Writing>, key: Str<'_>, clock: Micros, request: &ClaimRequest) -> bool {
    let now = clock / 1000;
    let deadline = time::after_at_most(now, request.lease);
    let has_claimed = open.change(|queue, effects| {
        let jobs = queue.claim(clock, deadline, request.count, &request.worker, |effect| effects.add(effect));
        CLAIMED.fetch_add(jobs.len() as u64, Ordering::Relaxed);
        if !jobs.is_empty() {
            reply_jobs(effects.ctx(), key, &jobs);
        }
        !jobs.is_empty()
    });
    open.commit(now);
    has_claimed
}

fn reply_jobs(ctx: &Context, key: Str<'_>, jobs: &[Claimed<'_>]) {
    ctx.reply_array(jobs.len());
    for job in jobs {
        ctx.reply_array(6);
        ctx.reply_string(key);
        ctx.reply_bytes(job.id);
        ctx.reply_count(job.token);
        ctx.reply_count(job.attempt.into());
        ctx.reply_count(job.deadline);
        ctx.reply_bytes(job.payload);
    }
}

pub fn reply_nothing(ctx: &Context) {
    ctx.reply_array(0);
}

/// Lets units of RATE and GROUPRATE become available again within one window from now. If the clock was set back, they
/// would otherwise stay taken for longer. The function makes a claim for 0 jobs, which limits this time: see
/// [`Queue::needs_settling`](crate::queues::model::Queue::needs_settling).
pub fn settle_rates(ctx: &mut Context, key: Str<'_>, clock: Micros) {
    let now = clock / 1000;
    // If the key has another type, there is nothing to do.
    let _ = OpenQueue::edit(ctx, key, now, |queue, effects| {
        queue.claim(clock, now, 0, &[], |effect| effects.add(effect));
    });
}
