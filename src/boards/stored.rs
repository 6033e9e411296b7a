//! The board's data type: saving, AOF rewriting, memory usage, digest.

use crate::boards::model::{Board, Direction, Entry, Kind, Schema, Ties, Value};
use crate::server::OwnedStr;
use crate::server::data_type::{DataType, Handle};
use crate::server::io::{Digest, Loader, Rewriter, Saver};
use std::ffi::{CStr, c_int};

/// The approximate number of arguments of one ZLB.SET in a rewritten AOF. Larger commands would block clients for
/// longer during a replay, and need larger buffers.
const REWRITE_ARGUMENTS: usize = 512;

/// The number of nodes and pages that MEMORY USAGE samples. The sizes of nodes and pages differ little, so more samples
/// would not improve the estimate much.
const MEMORY_SAMPLES: usize = 64;

static HANDLE: Handle<Board> = Handle::new();

impl DataType for Board {
    const NAME: &'static CStr = c"zeitboard";
    const NUMBER: c_int = 0;

    fn handle() -> &'static Handle<Board> {
        &HANDLE
    }

    fn save(&self, to: &mut Saver<'_>) {
        self.encode(to);
    }

    fn load(from: &mut Loader<'_>) -> Result<Board, String> {
        Board::decode(from).map_err(|why| why.to_string())
    }

    fn rewrite(&self, to: &mut Rewriter<'_>) {
        to.emit(c"ZLB.CREATE", &description(self.schema()));
        let mut arguments = Vec::new();
        for effect in self.rebuild() {
            write(effect, &mut arguments);
            if arguments.len() >= REWRITE_ARGUMENTS {
                to.emit(c"ZLB.SET", &arguments);
                arguments.clear();
            }
        }
        if !arguments.is_empty() {
            to.emit(c"ZLB.SET", &arguments);
        }
    }

    fn memory_usage(&self) -> usize {
        self.memory_usage(MEMORY_SAMPLES)
    }

    fn free_effort(&self) -> usize {
        self.free_effort()
    }

    fn digest(&self, to: &mut Digest<'_>) {
        self.encode(to);
        to.end_sequence();
    }
}

/// Returns the arguments of ZLB.CREATE after the key.
fn description(schema: &Schema) -> Vec<OwnedStr> {
    let mut words = Vec::new();
    for dimension in schema.dimensions() {
        words.extend([OwnedStr::new(b"DIM"), OwnedStr::new(&dimension.name)]);
        if dimension.direction == Direction::Asc {
            words.push(OwnedStr::new(b"ASC"));
        }
        if dimension.kind == Kind::Float {
            words.push(OwnedStr::new(b"FLOAT"));
        }
    }
    if schema.ties() != Ties::default() {
        words.extend([OwnedStr::new(b"TIES"), OwnedStr::new(schema.ties().word().as_bytes())]);
    }
    if let Some(keep) = schema.keep() {
        words.extend([OwnedStr::new(b"KEEP"), OwnedStr::new(keep.to_string().as_bytes())]);
    }
    words
}

/// Appends a member and its values, as arguments of ZLB.SET.
pub(super) fn write(effect: Entry<'_>, to: &mut Vec<OwnedStr>) {
    to.push(OwnedStr::new(effect.member));
    to.extend(effect.values.iter().map(|value| match value {
        Value::Int(number) => OwnedStr::from_integer(number),
        Value::Float(_) => OwnedStr::new(value.to_string().as_bytes()),
    }));
}
