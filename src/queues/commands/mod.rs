//! ZQ: timers, delayed, priority and reliable queues. This file has the code that the commands share.

mod ack;
mod apply;
mod cancel;
mod claim;
mod clean;
mod config;
mod extend;
mod get;
mod groups;
mod hold;
mod list;
mod nack;
mod peek;
mod progress;
mod push;
mod redrive;
mod reschedule;
mod stats;

use crate::args::{Args, after, integer, once};
use crate::error::Error;
use crate::queues::model::{MAX_WORKER, Notation, Settings};
use crate::server::Context;
use crate::server::command::{Arg, Command, commands};

/// The commands for queues.
pub const COMMANDS: &[Command] = commands![
    ack, cancel, claim => enter_blocking, clean, config, extend, get, groups, hold, list, nack, peek, progress, push, redrive, reschedule, stats
];

/// The command that replicas and AOF files get instead of the commands that clients sent. Like RESTORE, this command
/// can store any value in a key.
pub const EFFECTS: &[Command] = commands![apply];

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
    /// Parses the options AFTER and COUNT. They must be the last arguments of the command.
    fn parse(args: &mut Args<'a>, default_count: u64) -> Result<Page<'a>, Error> {
        let (mut after, mut count) = (None, None);
        while let Some(keyword) = args.trailing_keyword()? {
            match keyword.bytes() {
                b"AFTER" => once(&mut after, args.option_value()?.bytes())?,
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

/// Adds the settings to a map reply: pairs of a name and a value. A setting that is off is 0, or `no` for ORDERED and
/// PAUSED.
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

impl<'a> Args<'a> {
    /// Parses a claim's token. Accepts any integer. A wrong token matches no job.
    pub fn token(&mut self) -> Result<u64, Error> {
        let token = integer(self.string()?.bytes()).ok_or(Error::NotAnInteger)?;
        Ok(u64::try_from(token).unwrap_or(0))
    }

    /// Parses a worker name: 1 to 255 bytes.
    pub fn worker(&mut self) -> Result<&'a [u8], Error> {
        let worker = self.option_value()?.bytes();
        if (1..=MAX_WORKER).contains(&worker.len()) { Ok(worker) } else { Err(Error::Worker) }
    }

    /// Parses a job ID, which must not be empty.
    pub fn id(&mut self) -> Result<&'a [u8], Error> {
        let id = self.option_value()?.bytes();
        if id.is_empty() { Err(Error::EmptyId) } else { Ok(id) }
    }

    pub fn priority(&mut self) -> Result<i32, Error> {
        i32::try_from(self.integer()?).map_err(|_| Error::Priority)
    }

    pub fn attempts(&mut self) -> Result<u32, Error> {
        u32::try_from(self.count()?).map_err(|_| Error::OutOfRange)
    }
}
