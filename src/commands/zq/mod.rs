//! ZQ: timers, delayed, priority and reliable queues. What the commands share: how a due time is written, and how states and
//! settings are shown.

pub mod ack;
pub mod apply;
pub mod cancel;
pub mod claim;
pub mod clean;
pub mod config;
pub mod extend;
pub mod get;
pub mod groups;
pub mod list;
pub mod nack;
pub mod peek;
pub mod push;
pub mod redrive;
pub mod reschedule;
pub mod stats;

use super::args::{Args, after, once};
use crate::error::Error;
use crate::model::queue::{Field, Settings, State};
use crate::server::Context;
use crate::server::command::Arg;

/// `[DELAY duration | AT instant]`
const DUE: Arg =
    Arg::one_of(c"due", &[Arg::string(c"delay").after(c"DELAY"), Arg::string(c"instant").after(c"AT")]).optional();

/// `[AFTER name] [COUNT count]`: a page of names.
const PAGE: [Arg; 2] =
    [Arg::string(c"name").after(c"AFTER").optional(), Arg::integer(c"count").after(c"COUNT").optional()];

/// Which names a page has.
struct Page<'a> {
    /// Only those behind this one.
    after: Option<&'a [u8]>,
    /// How many at most.
    count: usize,
}

impl<'a> Page<'a> {
    /// Reads [`PAGE`], up to the end of the arguments.
    fn parse(args: &mut Args<'a>, default_count: u64) -> Result<Page<'a>, Error> {
        let (mut after, mut count) = (None, None);
        while let Some(keyword) = args.trailing_keyword()? {
            match keyword.as_str() {
                "AFTER" => once(&mut after, args.word()?.bytes())?,
                "COUNT" => once(&mut count, args.positive()?)?,
                _ => return Err(Error::Syntax),
            }
        }
        Ok(Page { after, count: at_most(count, default_count) })
    }
}

/// COUNT as a number of items in memory.
fn at_most(count: Option<u64>, default: u64) -> usize {
    usize::try_from(count.unwrap_or(default)).unwrap_or(usize::MAX)
}

fn state_name(state: State) -> &'static [u8] {
    match state {
        State::Ready => b"ready",
        State::Delayed => b"delayed",
        State::Claimed => b"claimed",
        State::Dead => b"dead",
    }
}

fn to_integer(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// How many pairs [`reply_settings`] replies.
const SETTINGS: usize = 9 + Settings::FURTHER.len();

/// The settings as pairs of a map; 0 means that a setting is off.
fn reply_settings(ctx: &Context, settings: &Settings) {
    let (limit, window) = settings.rate.map_or((0, 0), |rate| (rate.limit, rate.window));
    let numbers: [(&[u8], u64); 8] = [
        (b"attempts", settings.attempts.into()),
        (b"backoff_base_ms", settings.backoff_base),
        (b"backoff_max_ms", settings.backoff_max),
        (b"aging_ms", settings.aging),
        (b"maxlen", settings.maxlen),
        (b"concurrency", settings.concurrency),
        (b"rate_limit", limit),
        (b"rate_window_ms", window),
    ];
    for (name, number) in numbers {
        ctx.reply_bytes(name);
        ctx.reply_count(number);
    }
    let switch = |name: &[u8], is_on| {
        ctx.reply_bytes(name);
        ctx.reply_bytes(if is_on { b"yes" } else { b"no" });
    };
    let further = |fields: &[Field<Settings>]| {
        for field in fields {
            let (name, value) = (field.name.as_bytes(), (field.get)(settings));
            if field.most == 1 {
                switch(name, value > 0);
            } else {
                ctx.reply_bytes(name);
                ctx.reply_count(value);
            }
        }
    };
    // The order of the reply is older than the tags: the settings of groups (tags 4 to 7), PAUSED, then tags 1 to 3.
    let (first, rest) = Settings::FURTHER.split_at(3);
    let (of_groups, newer) = rest.split_at(4);
    further(of_groups);
    switch(b"paused", settings.paused);
    further(first);
    further(newer);
}
