//! The claim: what ZQ.CLAIM takes from a queue, and its reply. The command claims at once; a client that waits claims when its turn has
//! come ([`super::waiting`]).

use super::OpenQueue;
use crate::model::queue::Claimed;
use crate::model::time::{self, Micros, Millis};
use crate::server::key::Writing;
use crate::server::{Context, Str};
use std::borrow::Cow;
use std::sync::atomic::{AtomicU64, Ordering};

/// Jobs that clients of this server have claimed, for INFO.
static CLAIMED: AtomicU64 = AtomicU64::new(0);

pub fn claims() -> u64 {
    CLAIMED.load(Ordering::Relaxed)
}

/// What a client asks for.
pub struct ClaimRequest<'w> {
    pub lease: Millis,
    /// How many jobs at most.
    pub count: u64,
    /// The name it gave; empty: none.
    pub worker: Cow<'w, [u8]>,
}

impl ClaimRequest<'_> {
    /// The same for a client that waits: it outlives its command.
    pub fn into_owned(self) -> ClaimRequest<'static> {
        ClaimRequest { worker: Cow::Owned(self.worker.into_owned()), ..self }
    }
}

/// Claims from the queue in `key`, and replies with the jobs.
pub fn claim(mut open: OpenQueue<'_, Writing>, key: Str<'_>, clock: Micros, request: &ClaimRequest<'_>) {
    let now = clock / 1000;
    let deadline = time::after_at_most(now, request.lease);
    open.change(|queue, effects| {
        let jobs = queue.claim(clock, deadline, request.count, &request.worker, |effect| effects.add(effect));
        CLAIMED.fetch_add(jobs.len() as u64, Ordering::Relaxed);
        reply_jobs(effects.ctx(), key, &jobs);
    });
    open.commit(now);
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

/// The reply if there is no job to claim.
pub fn reply_nothing(ctx: &Context) {
    ctx.reply_array(0);
}

/// Does what is in the way of a claim ([`Queue::needs_settling`](crate::model::queue::Queue::needs_settling)), so that waiting ends when
/// it should.
pub fn settle(ctx: &mut Context, key: Str<'_>, clock: Micros) {
    let now = clock / 1000;
    let Ok(mut open) = OpenQueue::<Writing>::open(ctx, key) else { return };
    if !open.queue().needs_settling(now) {
        return;
    }
    open.change(|queue, effects| {
        queue.claim(clock, now, 0, &[], |effect| effects.add(effect));
    });
    open.commit(now);
}
