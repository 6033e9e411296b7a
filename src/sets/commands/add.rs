//! `ZEXP.ADD key [NX | XX] [GT | LT] [CH] [CAP count] [AT] ttl member [ttl member ...]`
//!
//! With CAP, if new members would bring the number of live members above `count`, the command changes nothing and
//! returns null. Use CAP for semaphores with leases, or for rules such as "at most three codes in five minutes".

use super::plan::Plan;
use super::{AT, COMPARISON, allows, expiry};
use crate::args::CONDITION;
use crate::args::{Args, flag, once};
use crate::base::time::Millis;
use crate::error::Error;
use crate::server::command::{Access, Arg, Keys, Spec};
use crate::server::key::Writing;
use crate::server::{Context, Str};
use crate::sets::ExpiringSet;
use smallvec::SmallVec;
use std::cmp::Ordering;

#[derive(Default)]
struct AddOptions {
    /// Whether the member must be live (XX), or must not be live (NX).
    must_live: Option<bool>,
    comparison: Option<Ordering>,
    counts_changed: bool,
    cap: Option<u64>,
    is_instant: bool,
}

impl AddOptions {
    fn parse(args: &mut Args<'_>) -> Result<AddOptions, Error> {
        let mut options = AddOptions::default();
        while let Some(keyword) = args.leading_keyword() {
            match keyword.bytes() {
                b"NX" => once(&mut options.must_live, false)?,
                b"XX" => once(&mut options.must_live, true)?,
                b"GT" => once(&mut options.comparison, Ordering::Greater)?,
                b"LT" => once(&mut options.comparison, Ordering::Less)?,
                b"CH" => flag(&mut options.counts_changed)?,
                b"CAP" => once(&mut options.cap, args.count()?)?,
                b"AT" => flag(&mut options.is_instant)?,
                _ => return Err(Error::Syntax),
            }
        }
        // NX sets only new members. New members have no expiry that GT or LT could compare.
        if options.must_live == Some(false) && options.comparison.is_some() {
            return Err(Error::Syntax);
        }
        Ok(options)
    }

    /// Returns a member's expiry after the command: `new` if the options allow the change, otherwise `current`. `None`
    /// means that the member is absent or expired.
    fn decide(&self, current: Option<Millis>, new: Millis, now: Millis) -> Option<Millis> {
        let passes = self.must_live.is_none_or(|must_live| must_live == current.is_some())
            && current.is_none_or(|current| allows(self.comparison, new, current));
        if passes { Some(new).filter(|&new| new > now) } else { current }
    }
}

pub const SPEC: Spec = Spec {
    name: c"ZEXP.ADD",
    summary: c"Adds members with an expiry to an expiring set, or updates their expiry.",
    complexity: c"O(log N) for each member, with N the number of members of the set",
    since: c"0.1.0",
    flags: c"write deny-oom fast",
    keys: Keys::First(Access::Insert),
    arguments: &[
        Arg::key(c"key"),
        CONDITION,
        COMPARISON,
        Arg::flag(c"change", c"CH").optional(),
        Arg::integer(c"count").after(c"CAP").optional(),
        AT,
        Arg::block(c"data", &[Arg::string(c"ttl"), Arg::string(c"member")]).multiple(),
    ],
};

pub fn run<'a>(ctx: &mut Context, arguments: &'a [Str<'a>]) -> Result<(), Error> {
    let now = ctx.now();
    let mut args = Args::new(arguments);
    let key = args.string()?;
    let options = AddOptions::parse(&mut args)?;
    let mut members = SmallVec::<[_; 1]>::new();
    while members.is_empty() || !args.is_empty() {
        let expiry = expiry(&mut args, options.is_instant, now)?;
        members.push((expiry, args.string().map_err(|_| Error::Syntax)?));
    }

    let mut set = ExpiringSet::<Writing>::expiring(ctx, key)?;
    let mut plan = Plan::new();
    for (expiry, member) in members {
        plan.decide(&set, now, member, |current| (options.decide(current, expiry, now), ()))?;
    }
    let counts = plan.counts();
    if let Some(cap) = options.cap.filter(|_| counts.added > 0) {
        let live;
        (set, live) = set.live_count(now)?;
        // RESTORE accepts sets whose members are out of order. In such a set, `counts.removed` may exceed `live`.
        if live.saturating_sub(counts.removed).saturating_add(counts.added) > cap {
            set.commit();
            ctx.reply_null();
            return Ok(());
        }
    }
    plan.carry_out(set);
    let changed = if options.counts_changed { counts.moved + counts.removed } else { 0 };
    ctx.reply_count(counts.added + changed);
    Ok(())
}
