//! ZQ: timers, delayed, priority and reliable queues. This file has the code that the commands share.

pub mod ack;
pub mod apply;
pub mod cancel;
pub mod claim;
pub mod clean;
pub mod config;
pub mod extend;
pub mod get;
pub mod groups;
pub mod hold;
pub mod list;
pub mod nack;
pub mod peek;
pub mod push;
pub mod redrive;
pub mod reschedule;
pub mod stats;

use super::args::{Args, after, once};
use crate::error::Error;
use crate::model::queue::{Notation, Settings};
use crate::server::Context;
use crate::server::command::Arg;

const DUE: Arg =
    Arg::one_of(c"due", &[Arg::string(c"delay").after(c"DELAY"), Arg::string(c"instant").after(c"AT")]).optional();

const PAGE: [Arg; 2] =
    [Arg::string(c"name").after(c"AFTER").optional(), Arg::integer(c"count").after(c"COUNT").optional()];

struct Page<'a> {
    /// AFTER: the page contains only names after this name.
    after: Option<&'a [u8]>,
    count: usize,
}

impl<'a> Page<'a> {
    /// Parses the options of [`PAGE`]. No other arguments may follow.
    fn parse(args: &mut Args<'a>, default_count: u64) -> Result<Page<'a>, Error> {
        let (mut after, mut count) = (None, None);
        while let Some(keyword) = args.trailing_keyword()? {
            match keyword.bytes() {
                b"AFTER" => once(&mut after, args.word()?.bytes())?,
                b"COUNT" => once(&mut count, args.positive()?)?,
                _ => return Err(Error::Syntax),
            }
        }
        Ok(Page { after, count: at_most(count, default_count) })
    }
}

/// Parses the IDs and tokens of one or more claimed jobs.
fn claimed_jobs<'a>(args: &mut Args<'a>) -> Result<Vec<(&'a [u8], u64)>, Error> {
    let mut jobs = Vec::new();
    while jobs.is_empty() || !args.is_empty() {
        jobs.push((args.string()?.bytes(), args.token()?));
    }
    Ok(jobs)
}

fn at_most(count: Option<u64>, default: u64) -> usize {
    usize::try_from(count.unwrap_or(default)).unwrap_or(usize::MAX)
}

/// Replies with a text, or with null if the text is empty.
fn reply_text(ctx: &Context, text: &[u8]) {
    if text.is_empty() {
        ctx.reply_null();
    } else {
        ctx.reply_bytes(text);
    }
}

fn to_integer(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// Replies with the settings as pairs of a map. The value 0 means that the setting is off.
fn reply_settings(ctx: &Context, settings: &Settings) {
    for field in Settings::FIELDS {
        ctx.reply_bytes(field.name.as_bytes());
        match (field.get)(settings) {
            value if field.notation != Notation::Switch => ctx.reply_count(value),
            0 => ctx.reply_bytes(b"no"),
            _ => ctx.reply_bytes(b"yes"),
        }
    }
}
