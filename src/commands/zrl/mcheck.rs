//! `ZRL.MCHECK numkeys key [key ...] limit window [limit window ...] [COST units [units ...]] [SLIDING | FIXED | LEAKY ...]
//! [EXACT | PRECISION duration] [FORCE]`
//!
//! Several limits, all or nothing: 10 a second *and* 1,000 a day. Units are taken from every key or from none.

use super::{ALGORITHM, COST, FORCE, GRID, Options, Quota, reply};
use crate::commands::args::Args;
use crate::error::Error;
use crate::limits::{Limit, Seen, figures};
use crate::model::limit::{Assessed, Policy};
use crate::model::time::Millis;
use crate::server::command::{Access, Arg, Command, Keys, Spec};
use crate::server::events;
use crate::server::key::{Reading, Writing};
use crate::server::{Context, Str};
use hashbrown::HashSet;
use smallvec::SmallVec;

pub struct MCheck;

impl Command for MCheck {
    const SPEC: Spec = Spec {
        name: c"ZRL.MCHECK",
        summary: c"Takes units from several rate limits if they fit into all of them.",
        complexity: c"O(K log N) with K the number of keys and N the number of entries of a limit",
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

        let told = events::key_changes_told(ctx);
        let mut answers = ask(ctx, &limits, now)?;
        if events::key_changes_told(ctx) != told {
            // A key that was opened had expired, and that was announced: those who listen may have changed the keys before it. A key
            // expires once in a call.
            answers = ask(ctx, &limits, now)?;
        }
        let allowed = answers.iter().all(|(assessed, _)| assessed.fits());
        let takes = allowed || options.force;
        // One key is open at a time. Others hear of the changes when all of them are made.
        let mut news = SmallVec::<[_; 4]>::new();
        let mut verdicts = SmallVec::<[_; 4]>::new();
        for (&Asked { key, policy, .. }, (assessed, seen)) in limits.iter().zip(&answers) {
            let (verdict, change) = if takes { assessed.charge() } else { assessed.refuse() };
            if change.is_some() {
                let limit = Limit::<Writing>::reopen(ctx, key, policy.algorithm, *seen)?;
                news.push((key, limit.commit(now, change, assessed).1));
            }
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

/// What a limit said, and what was read of it.
type Answer = (Assessed, Option<Seen>);

/// Asks all limits, one after the other.
fn ask(ctx: &mut Context, limits: &[Asked<'_>], now: Millis) -> Result<SmallVec<[Answer; 4]>, Error> {
    let one = |&Asked { key, policy, cost }: &Asked<'_>| {
        let mut limit = Limit::<Reading>::open(ctx, key, policy.algorithm)?;
        Ok((limit.assess(policy, now, cost)?, limit.seen()))
    };
    limits.iter().map(one).collect()
}

/// Whether a key is named twice.
fn has_twins(keys: &[Str<'_>]) -> bool {
    match keys {
        [_] => false,
        [one, other] => one.bytes() == other.bytes(),
        many => many.iter().map(|key| key.bytes()).collect::<HashSet<_>>().len() < many.len(),
    }
}
