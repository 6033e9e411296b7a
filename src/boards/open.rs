//! A board, found under its key, changed, and the change told.

use crate::error::Error;
use crate::model::board::{Board, Schema};
use crate::server::context::EventClass;
use crate::server::key::{Key, Mode};
use crate::server::{Context, Str};
use std::ffi::CStr;

/// What a call did to a board.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// Members have other values, or are new. Replicated as `ZLB.SET`.
    Set,
    /// The same, by increments.
    Increment,
    /// Members have gone. Replicated as `ZLB.REM`.
    Remove,
}

impl Change {
    fn command(self) -> &'static CStr {
        match self {
            Change::Set | Change::Increment => c"ZLB.SET",
            Change::Remove => c"ZLB.REM",
        }
    }

    fn event(self) -> &'static CStr {
        match self {
            Change::Set => c"zlb.set",
            Change::Increment => c"zlb.incr",
            Change::Remove => c"zlb.rem",
        }
    }
}

/// The board under a key opened for reading. `None`: the key is missing.
pub fn look<'k>(key: &'k Key<'_>) -> Result<Option<&'k Board>, Error> {
    key.value()
}

/// Puts an empty board under a key that holds nothing yet. `arguments` are those of the ZLB.CREATE that says so.
pub fn create<'a>(ctx: Context<'a>, name: Str<'a>, schema: Schema, arguments: &[Str<'a>]) -> Result<(), Error> {
    let mut key = Key::open(ctx, name, Mode::Write);
    if key.value::<Board>()?.is_some() {
        return Err(Error::BoardExists);
    }
    key.set_value(Board::new(schema));
    drop(key);
    tell(ctx, name, c"ZLB.CREATE", arguments, c"zlb.create");
    Ok(())
}

/// A board opened for writing.
pub struct OpenBoard<'a> {
    ctx: Context<'a>,
    name: Str<'a>,
    key: Key<'a>,
}

impl<'a> OpenBoard<'a> {
    pub fn open(ctx: Context<'a>, name: Str<'a>) -> OpenBoard<'a> {
        OpenBoard { ctx, name, key: Key::open(ctx, name, Mode::Write) }
    }

    /// The board itself. `None`: the key is missing. What is done to it must be committed.
    pub fn board(&mut self) -> Result<Option<&mut Board>, Error> {
        self.key.value_mut()
    }

    /// Makes a change whole. `arguments`, the key among them, are those of a ZLB.SET without conditions or of a ZLB.REM
    /// that does the same to an equal board. Not to be called when nothing has changed.
    pub fn commit(self, change: Change, arguments: &[Str<'_>]) {
        let OpenBoard { ctx, name, key } = self;
        drop(key);
        crate::server::fault!("board-changed");
        tell(ctx, name, change.command(), arguments, change.event());
    }
}

fn tell(ctx: Context<'_>, name: Str<'_>, command: &CStr, arguments: &[Str<'_>], event: &CStr) {
    ctx.replicate(command, arguments);
    ctx.signal_modified(name);
    ctx.notify(EventClass::Module, event, name);
}
