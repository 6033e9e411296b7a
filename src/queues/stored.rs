//! The queue's data type `zeitqueue`: saving, AOF rewriting, memory usage, digest.

use super::names;
use super::totals::Contribution;
use super::upkeep::Upkeep;
use super::wire::{APPLY, EncodedEffects};
use crate::model::queue::Queue;
use crate::model::relocate::{Mover, Relocate};
use crate::server::OwnedStr;
use crate::server::data_type::{DataType, Handle};
use crate::server::events::Classes;
use crate::server::io::{Digest, Loader, Rewriter, Saver};
use std::ffi::{CStr, c_int};

/// The maximum number of effects in one command of a rewritten AOF file.
const BATCH: usize = 64;
const BATCH_BYTES: usize = 64 * 1024;

/// A queue, its contribution to the totals, and the times of its checks.
pub struct Stored {
    pub queue: Queue,
    contribution: Contribution,
    pub(super) upkeep: Upkeep,
}

impl Stored {
    pub fn new(queue: Queue) -> Stored {
        let contribution = Contribution::of(&queue);
        Stored { queue, contribution, upkeep: Upkeep::new() }
    }

    /// Updates the totals for INFO. The caller must call this function after each change of the queue. If
    /// `is_replayed` returns true, does not count expired leases, because the server that ran the command has
    /// counted them.
    pub fn count(&mut self, is_replayed: impl FnOnce() -> bool) {
        self.contribution.update(&self.queue, is_replayed);
    }
}

impl Clone for Stored {
    fn clone(&self) -> Stored {
        Stored::new(self.queue.clone())
    }
}

static HANDLE: Handle<Stored> = Handle::new();

impl Relocate for Stored {
    fn relocate(&mut self, from: usize, mover: &mut impl Mover) -> Option<usize> {
        self.queue.relocate(from, mover)
    }
}

impl DataType for Stored {
    const NAME: &'static CStr = c"zeitqueue";
    const NUMBER: c_int = 1;
    const EVENTS: Classes = Classes::KEYS;

    fn handle() -> &'static Handle<Stored> {
        &HANDLE
    }

    fn load(from: &mut Loader<'_>) -> Result<Stored, String> {
        let queue = Queue::decode(from).map_err(|why| why.to_string())?;
        if let Some((database, name)) = from.key() {
            names::note_loaded(from, database, name.bytes());
        }
        Ok(Stored::new(queue))
    }

    fn save(&self, to: &mut Saver<'_>) {
        self.queue.encode(to);
    }

    fn rewrite(&self, to: &mut Rewriter<'_>) {
        let mut emit = |effects: &EncodedEffects| {
            let arguments: Vec<_> = effects.arguments().into_iter().map(OwnedStr::new).collect();
            to.emit(APPLY, &arguments);
        };
        let mut effects = EncodedEffects::default();
        for effect in self.queue.rebuild() {
            effects.add(&effect);
            if effects.effects() >= BATCH || effects.bytes() >= BATCH_BYTES {
                emit(&effects);
                effects = EncodedEffects::default();
            }
        }
        if effects.effects() > 0 {
            emit(&effects);
        }
    }

    fn digest(&self, to: &mut Digest<'_>) {
        self.queue.encode(to);
        to.end_sequence();
    }

    fn memory_usage(&self) -> usize {
        size_of::<Contribution>() + size_of::<Upkeep>() + self.queue.memory_usage()
    }

    fn free_effort(&self) -> usize {
        self.queue.free_effort()
    }
}
