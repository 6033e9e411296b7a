//! `ZQ.APPLY key effects`
//!
//! Applies encoded effects ([`crate::queues::wire`]): the results of another command, as the master computed them.
//! Replicas and AOF files get this command instead of the commands that clients sent. Applications do not need this
//! command. The form that Zeitset 0.3 sent ([`crate::queues::words`]) is still accepted.
//!
//! A client can also replay an AOF file, so clients may send this command. Like RESTORE, the command bypasses the
//! checks of other commands, and needs the rights of RESTORE. An effect that does not fit the queue changes nothing.
//! The reply is the number of effects that fit.
//!
//! A master or an AOF file never gets an error reply, because nobody would see the reply. Instead, effects that cannot
//! be read, or that do not fit, are counted and logged.

use crate::base::packed::{Unreadable, is_packed};
use crate::base::time::Millis;
use crate::error::Error;
use crate::queues::model::Effect;
use crate::queues::wire::{self, APPLY};
use crate::queues::{self, OpenQueue, words};
use crate::server::command::{Access, Arg, Keys, Spec};
use crate::server::key::Writing;
use crate::server::{Context, Str};

pub const SPEC: Spec = Spec {
    name: APPLY,
    summary: c"Applies effects of other commands to a queue, for replication and AOF files.",
    complexity: c"O(log N) for each effect, with N the number of jobs of the queue",
    since: c"0.1.0",
    // With the flag deny-oom, a replica above its own `maxmemory` could refuse effects, and would then differ from its
    // master.
    flags: c"write",
    keys: Keys::OfEffects(Access::Exchange),
    arguments: &[Arg::key(c"key"), Arg::string(c"effect").multiple()],
};

pub fn run<'a>(ctx: &mut Context, arguments: &'a [Str<'a>]) -> Result<(), Error> {
    let is_replayed = ctx.is_replayed();
    let refused = |ctx: &mut Context, key, count, why: &Unreadable, error| {
        if !is_replayed {
            return Err(error);
        }
        queues::report_rejected(ctx, key, count, why);
        ctx.reply_count(0);
        Ok(())
    };
    let Some((&key, encoded)) = arguments.split_first() else {
        return refused(ctx, None, 1, &Unreadable::new("ZQ.APPLY", "it has no key"), Error::Arity);
    };
    ctx.check_right_to_restore(key)?;
    let (at, effects) = match decode(encoded) {
        Ok(read) => read,
        Err((why, error)) => return refused(ctx, Some(key), 1, &why, error),
    };
    let mut open = match OpenQueue::<Writing>::open(ctx, key) {
        Ok(open) => open,
        Err(error) => {
            let why = Unreadable::new(wire::name_of(&effects[0]), error.text().to_string_lossy());
            return refused(ctx, Some(key), effects.len() as u64, &why, error);
        }
    };
    let (rejected, first) = open.change(|queue, recorder| {
        let (mut rejected, mut first) = (0, None);
        for effect in &effects {
            if queue.apply(effect) {
                recorder.add(effect);
            } else {
                rejected += 1;
                first = first.or(Some(effect));
            }
        }
        (rejected, first)
    });
    open.commit_replayed(at);
    if let Some(first) = first.filter(|_| is_replayed) {
        let why = Unreadable::new(wire::name_of(first), "it does not fit the queue");
        queues::report_rejected(ctx, Some(key), rejected, &why);
    }
    ctx.reply_count(effects.len() as u64 - rejected);
    Ok(())
}

fn decode<'a>(encoded: &'a [Str<'a>]) -> Result<(Millis, Vec<Effect<'a>>), (Unreadable, Error)> {
    match encoded {
        [] => Err((Unreadable::new("ZQ.APPLY", "it has no effect"), Error::Arity)),
        [packed] if is_packed(packed.bytes()) => wire::decode(packed.bytes()).map_err(|why| (why, Error::Effect)),
        words => words::decode(words),
    }
}
