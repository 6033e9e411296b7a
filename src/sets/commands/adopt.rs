//! `ZEXP.ADOPT key [UNIT s | ms] [PLUS ttl] [FORCE]`
//!
//! Converts a sorted set whose scores are times into an expiring set, in place: adds the tag, the member
//! `zeitset:expiring`. With PLUS, a score is the time at which the member was added, and the member expires `ttl`
//! later.

use crate::args::{Args, flag, once};
use crate::base::time::{self, Unit};
use crate::error::Error;
use crate::server::command::{Access, Arg, Keys, Spec};
use crate::server::key::Writing;
use crate::server::{Context, Str};
use crate::sets::{ExpiringSet, MemberName};

pub const SPEC: Spec = Spec {
    name: c"ZEXP.ADOPT",
    summary: c"Converts a sorted set whose scores are times into an expiring set.",
    complexity: c"O(N log N) with N the number of members of the set; O(N) where no score has to change",
    since: c"0.1.0",
    flags: c"write deny-oom",
    keys: Keys::First(Access::Update),
    arguments: &[
        Arg::key(c"key"),
        Arg::one_of(c"unit", &[Arg::flag(c"s", c"S"), Arg::flag(c"ms", c"MS")]).after(c"UNIT").optional(),
        Arg::string(c"ttl").after(c"PLUS").optional(),
        Arg::flag(c"force", c"FORCE").optional(),
    ],
};

pub fn run<'a>(ctx: &mut Context, arguments: &'a [Str<'a>]) -> Result<(), Error> {
    let now = ctx.now();
    let mut args = Args::new(arguments);
    let key = args.string()?;
    let (mut unit, mut plus, mut force) = (None, None, false);
    while let Some(keyword) = args.trailing_keyword()? {
        match keyword.bytes() {
            b"UNIT" => match args.trailing_keyword()?.ok_or(Error::Syntax)?.bytes() {
                b"S" => once(&mut unit, Unit::Seconds)?,
                b"MS" => once(&mut unit, Unit::Milliseconds)?,
                _ => return Err(Error::Syntax),
            },
            b"PLUS" => once(&mut plus, args.duration()?)?,
            b"FORCE" => flag(&mut force)?,
            _ => return Err(Error::Syntax),
        }
    }
    let unit = unit.unwrap_or(Unit::Milliseconds);

    match ExpiringSet::<Writing>::expiring(ctx, key) {
        Ok(set) if set.is_empty() => {
            set.ctx().reply_count(0);
            return Ok(());
        }
        Ok(_) if unit == Unit::Seconds || plus.is_some() => return Err(Error::AlreadyExpiring),
        Ok(set) => {
            let (set, live) = set.live_count(now)?;
            set.commit_adopted().reply_count(live);
            return Ok(());
        }
        Err(Error::NotExpiring) => {}
        Err(other) => return Err(other),
    }
    let mut set = ExpiringSet::adopt(ctx, key)?;
    if set.members().next().is_none() {
        // A STORE command has copied only the tag. When the module removes the tag, the key is gone.
        set.ctx().reply_count(0);
        return Ok(());
    }
    let mut live = 0;
    let mut moved = Vec::new();
    for element in set.members() {
        let expiry = time::from_score(element.score, unit)
            .and_then(|at| time::after(at, plus.unwrap_or(0)))
            .ok_or(Error::ScoreNotATime)?;
        live += u64::from(expiry > now);
        if time::to_score(expiry) != element.score {
            moved.push((element.member, time::to_score(expiry)));
        }
    }
    if live == 0 && !force {
        return Err(Error::AllExpired);
    }
    for (member, score) in moved {
        set.put(MemberName::Ours(member), score);
    }
    set.commit_adopted();
    ctx.reply_count(live);
    Ok(())
}
