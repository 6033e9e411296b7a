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

/// Changes the queue as a claim would, but takes no job. So the queue shows whether a claim gets a job
/// ([`Queue::prepare_claim`](crate::queues::model::Queue::prepare_claim)).
pub fn prepare_claim(ctx: &mut Context, key: Str<'_>, now: Millis) {
    // If the key has another type, there is nothing to do.
    let _ = OpenQueue::edit(ctx, key, now, |queue, effects| queue.prepare_claim(now, |effect| effects.add(effect)));
}
