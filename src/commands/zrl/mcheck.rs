//! `ZRL.MCHECK numkeys key [key ...] limit window [limit window ...] [COST units [units ...]] [SLIDING | FIXED | LEAKY ...]
//! [EXACT | PRECISION duration] [FORCE]`
//!
//! Checks several limits, all or nothing: 10 a second *and* 1,000 a day. Takes units from every key or from none. With FORCE, takes them
//! from every key.

use super::{ALGORITHM, COST, FORCE, GRID, Options, Quota, Request, reply};
use crate::commands::args::Args;
use crate::error::Error;
use crate::limits::{Limit, stats};
use crate::model::limit::{Assessed, Update, Verdict};
use crate::model::time::Millis;
use crate::server::command::{Access, Arg, Keys, Spec};
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

    let mut assessments = assess_all(ctx, &limits, now)?;
    if assessments.iter().any(|assessment| assessment.was_missing) {
        // Opening a key may have made the server delete an expired key. Listeners of that event may have changed keys that were assessed
        // before. A key expires at most once during a command, so a second pass is enough.
        assessments = assess_all(ctx, &limits, now)?;
    }
    let fits = assessments.iter().all(|assessment| assessment.fits);
    let takes = fits || force;
    // One key is open at a time. Events are sent after all changes.
    let mut events = SmallVec::<[_; 4]>::new();
    let mut verdicts = SmallVec::<[_; 4]>::new();
    for (&Request { key, policy, cost, .. }, assessment) in limits.iter().zip(assessments) {
        // Nothing has changed since the keys were assessed, so none of this fails.
        let (verdict, change) = if takes || !assessment.fits {
            assessment.decided
        } else {
            Limit::<Writing>::open(ctx, key)?.assess(policy, now, cost, |limit| limit.refuse())?
        };
        verdicts.push(verdict);
        if change.is_some() {
            events.push((key, Limit::open(ctx, key)?.commit(change).1));
        }
    }
    if takes {
        stats::count_taken(limits.iter().fold(0, |sum, request| request.cost.saturating_add(sum)), fits);
    } else {
        let denied = limits.iter().zip(&verdicts).filter(|(_, verdict)| !verdict.allowed);
        stats::count_denied(ctx, denied.map(|(request, _)| request.key), now);
    }
    for (key, events) in events {
        events.send(ctx, key);
    }
    ctx.reply_array(1 + verdicts.len());
    ctx.reply_bool(takes);
    verdicts.iter().for_each(|verdict| reply(ctx, verdict));
    Ok(())
}

/// The assessment of one limit, independent of the others.
struct Assessment {
    was_missing: bool,
    fits: bool,
    decided: (Verdict, Option<Update>),
}

/// Assesses all limits in order. Changes nothing.
fn assess_all(ctx: &mut Context, limits: &[Request<'_>], now: Millis) -> Result<SmallVec<[Assessment; 4]>, Error> {
    let assess = |&Request { key, policy, cost, force }: &Request<'_>| {
        // Open for writing, because opening a missing key for reading sends an event.
        let mut limit = Limit::<Writing>::open(ctx, key)?;
        let was_missing = limit.is_missing();
        let decide = |assessed: &dyn Assessed| Assessment {
            was_missing,
            fits: assessed.fits(),
            decided: assessed.decide(force),
        };
        limit.assess(policy, now, cost, decide)
    };
    limits.iter().map(assess).collect()
}

/// Whether two keys are equal.
fn has_twins(keys: &[Str<'_>]) -> bool {
    match keys {
        [_] => false,
        [one, other] => one.bytes() == other.bytes(),
        many => many.iter().map(|key| key.bytes()).collect::<HashSet<_>>().len() < many.len(),
    }
}
