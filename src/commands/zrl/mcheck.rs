//! `ZRL.MCHECK numkeys key [key ...] limit window [limit window ...] [COST units] [SLIDING | FIXED | LEAKY]
//! [EXACT | PRECISION duration]`
//!
//! Several limits, all or nothing: so many a second *and* so many a day. Units are taken from every key or from none.

use super::{OPTIONS, Options, Quota, charge, refuse, reply};
use crate::commands::args::Args;
use crate::error::Error;
use crate::expiring::limit::{self, LimitSet};
use crate::model::limit::{Assessed, assess};
use crate::server::command::{Access, Arg, Command, Keys, Spec};
use crate::server::key::Mode;
use crate::server::{Context, Str};
use hashbrown::HashSet;

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
            OPTIONS[0],
            OPTIONS[1],
            OPTIONS[2],
        ],
    };

    fn run<'a>(ctx: Context<'a>, arguments: &'a [Str<'a>]) -> Result<(), Error> {
        let now = ctx.now();
        let mut args = Args::new(arguments);
        let keys = args.keys()?;
        let quotas = keys.iter().map(|_| Quota::parse(&mut args)).collect::<Result<Vec<_>, _>>()?;
        let options = Options::parse(&mut args)?;
        let policies = quotas.into_iter().map(|quota| options.policy(quota, now)).collect::<Result<Vec<_>, _>>()?;
        let different: HashSet<&[u8]> = keys.iter().map(|key| key.bytes()).collect();
        if different.len() < keys.len() {
            return Err(Error::KeyNamedTwice);
        }

        let mut limits: Vec<(LimitSet<'a>, Assessed)> = Vec::with_capacity(keys.len());
        for (&key, policy) in keys.iter().zip(policies) {
            let mut limit = LimitSet::open(ctx, key, Mode::Write)?;
            let assessed = assess(policy, now, options.cost, &mut limit)?;
            limits.push((limit, assessed));
        }
        let allowed = limits.iter().all(|(_, assessed)| assessed.verdict().allowed);
        let act = if allowed { charge } else { refuse };
        let verdicts: Vec<_> = limits.iter_mut().map(|(limit, assessed)| act(limit, assessed, now)).collect();
        for (limit, _) in limits {
            limit.commit();
        }
        limit::count(allowed.then(|| options.cost.saturating_mul(verdicts.len() as u64)));
        ctx.reply_array(1 + verdicts.len());
        ctx.reply_bool(allowed);
        verdicts.iter().for_each(|verdict| reply(ctx, verdict));
        Ok(())
    }
}
