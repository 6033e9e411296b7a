//! `ZRL.MCHECK numkeys key [key ...] limit window [limit window ...] [COST units [units ...]]
//! [SLIDING | FIXED | LEAKY ...] [EXACT | PRECISION duration] [FORCE]`
//!
//! Checks several limits at once, such as 10 a second *and* 1,000 a day. Takes units from all keys or from none. With
//! FORCE, always takes units from all keys.

use super::{ALGORITHM, COST, FORCE, Options, PRECISION, Quota, reply};
use crate::args::Args;
use crate::error::Error;
use crate::limits::model::{Assessment, Call, Intent};
use crate::limits::{Limit, stats};
use crate::server::command::{Access, Arg, Keys, Spec};
use crate::server::context::PendingEvents;
use crate::server::key::Writing;
use crate::server::{Context, Str};
use hashbrown::HashSet;
use smallvec::SmallVec;

pub const SPEC: Spec = Spec {
    name: c"ZRL.MCHECK",
    summary: c"Takes units from several rate limits if they fit into all of them.",
    complexity: c"O(K log N) with K the number of keys and N the number of slots in use of a limit",
    since: c"0.1.0",
    flags: c"write deny-oom fast",
    keys: Keys::Counted(Access::Exchange),
    arguments: &[
        Arg::integer(c"numkeys"),
        Arg::key(c"key").multiple(),
        Arg::block(c"quota", &[Arg::integer(c"limit"), Arg::string(c"window")]).multiple(),
        COST.multiple(),
        ALGORITHM.multiple(),
        PRECISION,
        FORCE,
    ],
};

pub fn run<'a>(ctx: &mut Context, arguments: &'a [Str<'a>]) -> Result<(), Error> {
    let now = ctx.now();
    let mut args = Args::new(arguments);
    let keys = args.keys(2, 0)?;
    let quotas = keys.iter().map(|_| Quota::parse(&mut args)).collect::<Result<SmallVec<[_; 4]>, _>>()?;
    let options = Options::parse(&mut args, keys.len())?;
    let call = |(at, quota)| options.call(at, quota, now);
    let calls = quotas.into_iter().enumerate().map(call).collect::<Result<SmallVec<[Call; 4]>, Error>>()?;
    if has_twins(keys) {
        return Err(Error::KeyNamedTwice);
    }

    let mut assessments = SmallVec::new();
    if assess_all(ctx, keys, &calls, options.intent, &mut assessments)? {
        // When the command opens an expired key, the server deletes the key and sends an event. Listeners of this event
        // may have changed keys that were assessed before. A key expires at most once during a command, so a second
        // pass is enough.
        assessments.clear();
        assess_all(ctx, keys, &calls, options.intent, &mut assessments)?;
    }
    let fits = assessments.iter().all(|assessment| assessment.fits);
    let takes = fits || options.intent == Intent::Force;
    // Listeners of events may change keys, so events are sent after all changes.
    let mut events = SmallVec::<[PendingEvents; 2]>::new();
    for ((&key, &call), assessment) in keys.iter().zip(&calls).zip(&mut assessments) {
        // No key has changed since its assessment, so these calls do not fail.
        if !takes && assessment.fits {
            *assessment = Limit::<Writing>::open(ctx, key)?.assess(call, Intent::Refuse)?;
        }
        let update = assessment.update.take();
        events.push(if update.is_some() { Limit::open(ctx, key)?.commit(update).1 } else { PendingEvents::default() });
    }
    if takes {
        stats::count_taken(calls.iter().fold(0, |sum, call| call.cost.saturating_add(sum)), fits);
    } else {
        let denied = keys.iter().zip(&assessments).filter(|(_, assessment)| !assessment.verdict.allowed);
        stats::count_denied(ctx, denied.map(|(&key, _)| key), now);
    }
    for (&key, events) in keys.iter().zip(events) {
        events.send(ctx, key);
    }
    ctx.reply_array(1 + assessments.len());
    ctx.reply_bool(takes);
    assessments.iter().for_each(|assessment| reply(ctx, &assessment.verdict));
    Ok(())
}

/// Assesses each limit alone, in order. Changes nothing. Returns whether any key was missing.
fn assess_all(
    ctx: &mut Context,
    keys: &[Str<'_>],
    calls: &[Call],
    intent: Intent,
    assessments: &mut SmallVec<[Assessment; 2]>,
) -> Result<bool, Error> {
    let mut is_any_missing = false;
    for (&key, &call) in keys.iter().zip(calls) {
        // Opens the key for writing, because opening a missing key for reading sends an event.
        let mut limit = Limit::<Writing>::open(ctx, key)?;
        is_any_missing |= limit.is_missing();
        assessments.push(limit.assess(call, intent)?);
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
