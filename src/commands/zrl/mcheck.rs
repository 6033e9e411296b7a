//! `ZRL.MCHECK numkeys key [key ...] limit window [limit window ...] [COST units [units ...]] [SLIDING | FIXED | LEAKY ...]
//! [EXACT | PRECISION duration] [FORCE]`
//!
//! Several limits, all or nothing: 10 a second *and* 1,000 a day. Units are taken from every key or from none.

use super::{ALGORITHM, COST, FORCE, GRID, Options, Quota, reply};
use crate::commands::args::Args;
use crate::error::Error;
use crate::limits::{Limit, figures};
use crate::model::limit::{Assessed, Policy};
use crate::model::time::Millis;
use crate::server::command::{Access, Arg, Command, Keys, Spec};
use crate::server::key::Writing;
use crate::server::{Context, Str};
use hashbrown::HashSet;
use smallvec::SmallVec;

pub struct MCheck;

impl Command for MCheck {
    const SPEC: Spec = Spec {
        name: c"ZRL.MCHECK",
        summary: c"Takes units from several rate limits if they fit into all of them.",
        complexity: c"O(K log N) with K the number of keys and N the slots in use of a limit",
        since: c"0.1.0",
        flags: c"write deny-oom fast",
        arity: -5,
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

    fn run<'a>(ctx: &mut Context, arguments: &'a [Str<'a>]) -> Result<(), Error> {
        let now = ctx.now();
        let mut args = Args::new(arguments);
        let keys = args.keys()?;
        let quotas = keys.iter().map(|_| Quota::parse(&mut args)).collect::<Result<SmallVec<[_; 4]>, _>>()?;
        let options = Options::parse(&mut args, keys.len())?;
        let asked =
            |(at, (&key, quota))| Ok(Asked { key, policy: options.policy(at, quota, now)?, cost: options.cost(at) });
        let limits =
            keys.iter().zip(quotas).enumerate().map(asked).collect::<Result<SmallVec<[Asked<'a>; 4]>, Error>>()?;
        if has_twins(keys) {
            return Err(Error::KeyNamedTwice);
        }

        let mut answer = ask(ctx, &limits, now)?;
        if answer.has_missing {
            // The server may have removed a key that had expired when it was opened. The code of those who subscribed to that event may have
            // changed the keys before it. Within a command, a key expires once.
            answer = ask(ctx, &limits, now)?;
        }
        let allowed = answer.fits;
        let takes = allowed || options.force;
        // One key is open at a time. The events are sent when all changes are made.
        let mut news = SmallVec::<[_; 4]>::new();
        let mut verdicts = SmallVec::<[_; 4]>::new();
        for &Asked { key, policy, cost } in &limits {
            // Nothing has happened since the keys were asked, so none of this fails.
            let mut limit = Limit::<Writing>::open(ctx, key)?;
            let decide = |assessed: &Assessed<'_>| if takes { assessed.charge() } else { assessed.refuse() };
            let (verdict, change) = limit.assess(policy, now, cost, decide)?;
            news.push((key, limit.commit(change).1));
            verdicts.push(verdict);
        }
        if takes {
            figures::count_units(limits.iter().fold(0, |sum, asked| asked.cost.saturating_add(sum)));
        }
        match allowed {
            true => figures::count_allowed(),
            false => {
                let denied = limits.iter().zip(&verdicts).filter(|(_, verdict)| !verdict.allowed);
                figures::count_denied(ctx, denied.map(|(asked, _)| asked.key), now);
            }
        }
        for (key, news) in news {
            news.announce(ctx, key);
        }
        ctx.reply_array(1 + verdicts.len());
        ctx.reply_bool(allowed);
        verdicts.iter().for_each(|verdict| reply(ctx, verdict));
        Ok(())
    }
}

/// What is asked of a key.
struct Asked<'a> {
    key: Str<'a>,
    policy: Policy,
    cost: u64,
}

/// What all limits together say.
struct Answer {
    fits: bool,
    has_missing: bool,
}

/// Asks all limits, one after the other.
fn ask(ctx: &mut Context, limits: &[Asked<'_>], now: Millis) -> Result<Answer, Error> {
    let mut answer = Answer { fits: true, has_missing: false };
    for &Asked { key, policy, cost } in limits {
        // Open for writing: looking for a missing key to read it is an event, too.
        let mut limit = Limit::<Writing>::open(ctx, key)?;
        answer.has_missing |= limit.is_missing();
        answer.fits &= limit.assess(policy, now, cost, |assessed| assessed.fits())?;
    }
    Ok(answer)
}

/// Whether a key is named twice.
fn has_twins(keys: &[Str<'_>]) -> bool {
    match keys {
        [_] => false,
        [one, other] => one.bytes() == other.bytes(),
        many => many.iter().map(|key| key.bytes()).collect::<HashSet<_>>().len() < many.len(),
    }
}
