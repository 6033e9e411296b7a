//! Panics made to order, for the tests of what they leave behind. Only in builds with the feature `panic-test`.
//!
//! `ZEITSET.PANIC place` has the module panic when it next comes to a `fault!("place")`, once; the word `none` takes that back.

use super::command::{Access, Arg, Command, Entry, Keys, Spec};
use super::context::Context;
use super::string::Str;
use crate::error::Error;
use std::sync::Mutex;

pub const COMMANDS: &[Entry] = &[Entry::of::<Panic>()];

static ARMED: Mutex<Vec<u8>> = Mutex::new(Vec::new());

/// Panics if a test wants it here.
pub fn pass(place: &str) {
    let mut armed = ARMED.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    if *armed == place.as_bytes() {
        armed.clear();
        drop(armed);
        panic!("as ordered, at {place}: %s%n");
    }
}

struct Panic;

impl Command for Panic {
    const SPEC: Spec = Spec {
        name: c"ZEITSET.PANIC",
        summary: c"Has the module panic at the place named, when it next comes there.",
        complexity: c"O(1)",
        since: c"0.1.0",
        flags: c"readonly",
        arity: 2,
        keys: Keys::First(Access::Read),
        arguments: &[Arg::key(c"place")],
    };

    fn run<'a>(ctx: &mut Context, arguments: &'a [Str<'a>]) -> Result<(), Error> {
        *ARMED.lock().unwrap_or_else(|poisoned| poisoned.into_inner()) = arguments[0].bytes().to_vec();
        ctx.reply_ok();
        Ok(())
    }
}
