//! `ZRL.MCHECK numkeys key [key ...] limit window [limit window ...] [COST units [units ...]]
//! [SLIDING | FIXED | LEAKY ...] [EXACT | PRECISION duration] [FORCE]`
//!
//! Checks several limits at once, such as 10 a second *and* 1,000 a day. Takes units from all keys or from none. With
//! FORCE, always takes units from all keys.

use super::{ALGORITHM, COST, FORCE, Options, PRECISION, Quota, reply};
use crate::args::Args;
use crate::error::Error;
use crate::limits::model::{Assessment, Call, Intent, Verdict};
use crate::limits::{Limit, stats};
use crate::server::command::{Access, Arg, Keys, Spec};
use crate::server::context::PendingEvents;
use crate::server::{Context, Str};
use hashbrown::HashSet;
use smallvec::SmallVec;
use std::mem;

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
    let mut parts = SmallVec::<[Part<'_>; 2]>::new();
    for (at, (&key, quota)) in keys.iter().zip(quotas).enumerate() {
        parts.push(Part::new(key, options.call(at, quota, now)?));
    }
    if has_duplicates(keys) {
        return Err(Error::KeyNamedTwice);
    }

    let mut taken = take_all(ctx, &mut parts, options.intent);
    if !matches!(taken, Ok(true)) {
        for part in &mut parts {
            // An error does not keep the other limits from getting their units back.
            let undone = part.give_back(ctx);
            taken = taken.and_then(|_| undone.map(|()| false));
        }
        if taken.is_ok() {
            taken = parts.iter_mut().try_for_each(|part| part.settle(ctx)).map(|()| false);
        }
    }
    // Listeners of events may change keys, so the command sends the events after all changes.
    for part in &mut parts {
        mem::take(&mut part.events).send(ctx, part.key);
    }
    let takes = taken?;
    if takes {
        let units = parts.iter().fold(0, |sum, part| part.call.cost.saturating_add(sum));
        stats::count_taken(units, parts.iter().all(|part| part.fits));
    } else {
        stats::count_denied(ctx, parts.iter().filter(|part| !part.verdict.allowed).map(|part| part.key), now);
    }
    ctx.reply_array(1 + parts.len());
    ctx.reply_bool(takes);
    parts.iter().for_each(|part| reply(ctx, &part.verdict));
    Ok(())
}

/// One of the limits that a ZRL.MCHECK call checks.
///
/// Code of other modules can run when the command opens a key that has expired, and *while* it writes a key: if a write
/// creates the key or replaces its string, the server sends the event `new` at once. So each change is computed and
/// written while its key is open. A change that was computed earlier is never written.
struct Part<'a> {
    key: Str<'a>,
    call: Call,
    /// Whether the call's units fitted into this limit when the limit was last assessed.
    fits: bool,
    verdict: Verdict,
    is_taken: bool,
    /// Whether the limit must be changed even if the call is denied: see [`settle`](Part::settle).
    is_unsettled: bool,
    events: PendingEvents,
}

impl<'a> Part<'a> {
    fn new(key: Str<'a>, call: Call) -> Part<'a> {
        let (verdict, events) = (Verdict::default(), PendingEvents::default());
        Part { key, call, fits: false, verdict, is_taken: false, is_unsettled: false, events }
    }

    /// Opens the key, and checks whether the units fit into the limit. Takes the units if `intent` is
    /// [`Intent::Force`], or if they fit and `intent` is [`Intent::Take`]. Returns whether the key was missing.
    fn assess(&mut self, ctx: &mut Context, intent: Intent) -> Result<bool, Error> {
        // Opens the key for writing, because opening a missing key for reading sends an event.
        let mut limit = Limit::open(ctx, self.key)?;
        let is_missing = limit.is_missing();
        let Assessment { fits, verdict, update } = limit.assess(self.call, intent)?;
        (self.fits, self.verdict) = (fits, verdict);
        self.is_taken = intent == Intent::Force || fits && intent == Intent::Take;
        self.is_unsettled = !self.is_taken && update.is_some();
        if self.is_taken {
            self.events.append(limit.commit(update).1);
        }
        Ok(is_missing)
    }

    /// Stores the change that even a denied call makes, if any. If the window has become shorter or the clock has
    /// stepped back, this change shortens the times for which units stay in use.
    fn settle(&mut self, ctx: &mut Context) -> Result<(), Error> {
        if self.is_unsettled {
            let mut limit = Limit::open(ctx, self.key)?;
            let update = limit.assess(self.call, Intent::Refuse)?.update;
            self.events.append(limit.commit(update).1);
        }
        Ok(())
    }

    /// Refunds the units if they were taken, and assesses the limit again. If another module has deleted the limit
    /// since, there is nothing to refund. If the key now holds another kind of value, returns an error.
    fn give_back(&mut self, ctx: &mut Context) -> Result<(), Error> {
        if mem::take(&mut self.is_taken) {
            let (Call { now, cost, .. }, until) = (self.call, self.verdict.charged_until);
            let mut limit = Limit::open(ctx, self.key)?;
            let (_, update) = limit.stored()?.map_or(Ok((0, None)), |stored| stored.refund(now, cost, until))?;
            self.events.append(limit.commit(update).1);
            self.assess(ctx, Intent::Refuse)?;
        }
        Ok(())
    }
}

/// Takes the units from all limits if they fit into all, or if `intent` is [`Intent::Force`]. Returns whether the units
/// were taken. If another module changes a key during this call, the result can be false or an error although units
/// were taken from some of the limits.
fn take_all(ctx: &mut Context, parts: &mut [Part<'_>], intent: Intent) -> Result<bool, Error> {
    let Some((last, others)) = parts.split_last_mut() else { return Ok(false) };
    let mut is_second = false;
    loop {
        let (mut fit, mut is_any_missing) = (true, false);
        for part in &mut *others {
            is_any_missing |= part.assess(ctx, Intent::Refuse)?;
            fit &= part.fits;
        }
        // All others have been assessed, so the last key need not be opened twice.
        is_any_missing |= last.assess(ctx, if fit || intent == Intent::Force { intent } else { Intent::Refuse })?;
        if last.is_taken {
            break;
        }
        // If one of the keys has just expired, a listener of that event may have changed a limit that this loop has
        // already assessed. So the loop assesses all limits once more, but only once: a key expires at most once during
        // a command.
        if is_second || !is_any_missing {
            return Ok(false);
        }
        is_second = true;
    }
    for part in others {
        part.assess(ctx, intent)?;
        if !part.is_taken {
            return Ok(false);
        }
    }
    Ok(true)
}

fn has_duplicates(keys: &[Str<'_>]) -> bool {
    match keys {
        [_] => false,
        [one, other] => one.bytes() == other.bytes(),
        many => many.iter().map(|key| key.bytes()).collect::<HashSet<_>>().len() < many.len(),
    }
}
