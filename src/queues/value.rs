//! The data type `zeitqueue`.

use super::wire::Words;
use crate::model::queue::Queue;
use crate::server::data_type::{DataType, Handle};
use crate::server::io::{Digest, Loader, Rewriter, Saver};
use std::ffi::{CStr, c_int};

/// An AOF rewrite puts so many effects, and so many bytes, into one command at the most. (One effect is never divided.)
const BATCH: usize = 64;
const BATCH_BYTES: usize = 64 * 1024;

static HANDLE: Handle = Handle::new();

impl DataType for Queue {
    const NAME: &'static CStr = c"zeitqueue";
    const VERSION: c_int = 1;

    fn handle() -> &'static Handle {
        &HANDLE
    }

    fn load(from: &mut Loader<'_>, version: c_int) -> Option<Queue> {
        if version != Self::VERSION {
            return None;
        }
        Queue::decode(from).ok()
    }

    fn save(&self, to: &mut Saver<'_>) {
        self.encode(to);
    }

    fn rewrite(&self, to: &mut Rewriter<'_>) {
        let key = to.key();
        let mut words = Words::new();
        for effect in self.rebuild() {
            words.add(&effect);
            if words.effects() >= BATCH || words.bytes() >= BATCH_BYTES {
                words.send(key.as_str(), |command, arguments| to.emit(command, arguments));
                words = Words::new();
            }
        }
        if words.effects() > 0 {
            words.send(key.as_str(), |command, arguments| to.emit(command, arguments));
        }
    }

    fn digest(&self, to: &mut Digest<'_>) {
        self.encode(to);
        to.end_sequence();
    }

    fn memory_usage(&self) -> usize {
        Queue::memory_usage(self)
    }

    fn free_effort(&self) -> usize {
        Queue::free_effort(self)
    }
}
