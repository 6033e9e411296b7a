//! `ZRL.MCHECK numkeys key [key ...] limit window [limit window ...] [COST units [units ...]] [SLIDING | FIXED | LEAKY ...]
//! [EXACT | PRECISION duration] [FORCE]`
//!
//! Checks several limits at once, such as 10 a second *and* 1,000 a day. Takes units from all keys or from none. With
//! FORCE, always takes units from all keys.

use super::{ALGORITHM, COST, FORCE, GRID, Options, Quota, Request, reply};
use crate::commands::args::Args;
use crate::error::Error;
use crate::limits::{Limit, stats};
use crate::model::limit::{Update, Verdict};
use crate::model::time::Millis;
use crate::server::command::{Access, Arg, Keys, Spec};
use crate::server::context::PendingEvents;
use crate::server::key::Writing;
use crate::server::{Context, Str};
use hashbrown::HashSet;
use smallvec::SmallVec;

pub const SPEC: Spec = Spec {
    name: c"ZRL.MCHECK",
    summary: c"Takes units from several rate limits if they fit into all of them.",
    complexity: c"O(K log N) with K the number of keys and N the slots in use of a limit",
    since: c"0.1.0",
    flags: c"write deny-oom fast",
    keys: Keys::Counted(Access::Exchange),
    arguments: &[
        Arg::integer(c"numkeys"),
        Arg::key(c"key").multiple(),
        Arg::block(c"quota", &[Arg::integer(c"limit"), Arg::string(c"window")]).multiple(),
        COST.multiple(),
        ALGORITHM.multiple(),
        GRID,
        FORCE,
    ],
};

pub fn run<'a>(ctx: &mut Context, arguments: &'a [Str<'a>]) -> Result<(), Error> {
    let now = ctx.now();
    let mut args = Args::new(arguments);
    let keys = args.keys(2, 0)?;
    let quotas = keys.iter().map(|_| Quota::parse(&mut args)).collect::<Result<SmallVec<[_; 4]>, _>>()?;
    let options = Options::parse(&mut args, keys.len())?;
    let force = options.force;
    let request = |(at, (&key, quota))| {
        Ok(Request { key, policy: options.policy(at, quota, now)?, cost: options.cost(at), force })
    };
    let limits =
        keys.iter().zip(quotas).enumerate().map(request).collect::<Result<SmallVec<[Request<'a>; 4]>, Error>>()?;
    if has_twins(keys) {
        return Err(Error::KeyNamedTwice);
    }

    let mut assessments = SmallVec::<[Assessment; 2]>::new();
    if assess_all(ctx, &limits, now, &mut assessments)? {
        // The server may have deleted an expired key when the key was opened. Listeners of that event may have changed
        // keys that were assessed before. A key expires at most once during a command, so a second pass is enough.
        assessments.clear();
        assess_all(ctx, &limits, now, &mut assessments)?;
    }
    let fits = assessments.iter().all(|assessment| assessment.fits);
    let takes = fits || force;
    // Only one key is open at a time. Events are sent after all changes.
    for (&Request { key, policy, cost, .. }, assessment) in limits.iter().zip(&mut assessments) {
        // No key has changed since its assessment, so these calls do not fail.
        if !takes && assessment.fits {
            (assessment.verdict, assessment.change) =
                Limit::<Writing>::open(ctx, key)?.assess(policy, now, cost, |limit| limit.refuse())?;
        }
        if let Some(change) = assessment.change.take() {
            assessment.events = Limit::open(ctx, key)?.commit(Some(change)).1;
        }
    }
    if takes {
        stats::count_taken(limits.iter().fold(0, |sum, limit| limit.cost.saturating_add(sum)), fits);
    } else {
        let denied = limits.iter().zip(&assessments).filter(|(_, assessment)| !assessment.verdict.allowed);
        stats::count_denied(ctx, denied.map(|(limit, _)| limit.key), now);
    }
    for (limit, assessment) in limits.iter().zip(&mut assessments) {
        std::mem::take(&mut assessment.events).send(ctx, limit.key);
    }
    ctx.reply_array(1 + assessments.len());
    ctx.reply_bool(takes);
    assessments.iter().for_each(|assessment| reply(ctx, &assessment.verdict));
    Ok(())
}

/// The assessment of one limit. First, the command assesses each limit alone. If this limit allows the call but another
/// limit denies it, the command replaces `verdict` and `change` by the result of `refuse`.
struct Assessment {
    fits: bool,
    verdict: Verdict,
    change: Option<Update>,
    events: PendingEvents,
}

/// Assesses all limits in order. Changes nothing. Returns whether a key was missing.
fn assess_all(
    ctx: &mut Context,
    limits: &[Request<'_>],
    now: Millis,
    assessments: &mut SmallVec<[Assessment; 2]>,
) -> Result<bool, Error> {
    let mut is_any_missing = false;
    for &Request { key, policy, cost, force } in limits {
        // Opens the key for writing, because opening a missing key for reading sends an event.
        let mut limit = Limit::<Writing>::open(ctx, key)?;
        is_any_missing |= limit.is_missing();
        limit.assess(policy, now, cost, |assessed| {
            let (verdict, change) = assessed.decide(force);
            assessments.push(Assessment { fits: assessed.fits(), verdict, change, events: PendingEvents::default() });
        })?;
    }
    Ok(is_any_missing)
}

fn has_twins(keys: &[Str<'_>]) -> bool {
    match keys {
        [_] => false,
        [one, other] => one.bytes() == other.bytes(),
        many => many.iter().map(|key| key.bytes()).collect::<HashSet<_>>().len() < many.len(),
    }
}
