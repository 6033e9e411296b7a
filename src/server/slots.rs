//! Slots of a cluster that move from one server to another as a whole: `CLUSTER MIGRATESLOTS`, of Valkey from 9.0 on.
//!
//! While they move, their keys are at the target already, where no client sees them, and they still belong to the source.
//! If the move fails the target drops them. So a module must let them be until the move is complete; Valkey moves slots only
//! when every module has said that it does.

use super::product::is_valkey;
use std::ffi::{c_char, c_int, c_void};
use std::slice;

/// `VALKEYMODULE_OPTIONS_HANDLE_ATOMIC_SLOT_MIGRATION`
const HANDLED: c_int = 1 << 5;

/// `VALKEYMODULE_EVENT_ATOMIC_SLOT_MIGRATION`. Redis may use the number for something else.
pub(super) const MIGRATION: u64 = 19;

// Its sub-events at the target. Those at the source need nothing done: its keys stay its own to the end, writes pause before
// the slots change hands, and then it deletes them as DEL would.
pub(super) const IMPORT_STARTED: u64 = 0;
pub(super) const IMPORT_ABORTED: u64 = 2;
pub(super) const IMPORT_COMPLETED: u64 = 4;

/// Slots from `start` to `end`, both included. Layout of `ValkeyModuleSlotRange`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct Range {
    start: c_int,
    end: c_int,
}

/// Layout of `ValkeyModuleAtomicSlotMigrationInfo`.
#[repr(C)]
struct Info {
    version: u64,
    job: [c_char; 41],
    ranges: *const Range,
    count: u32,
}

/// The module option by which we say that we let arriving slots be; none where the server does not know it.
pub(super) fn option() -> c_int {
    if !(is_valkey() && has_api!(RedisModule_GetModuleOptionsAll)) {
        return 0;
    }
    // SAFETY: takes no arguments.
    HANDLED & unsafe { api!(RedisModule_GetModuleOptionsAll()) }
}

/// The slots that an event of a migration is about.
///
/// # Safety
/// `data` must be what the server passed with such an event, for as long as `'a`.
pub(super) unsafe fn of_event<'a>(data: *const c_void) -> &'a [Range] {
    // SAFETY: for this event the server passes this structure.
    let info = unsafe { &*data.cast::<Info>() };
    if info.ranges.is_null() {
        return &[];
    }
    // SAFETY: the server says that so many stand there.
    unsafe { slice::from_raw_parts(info.ranges, info.count as usize) }
}

/// Whether a key lies in one of these slots.
pub fn hold(ranges: &[Range], key: &[u8]) -> bool {
    if ranges.is_empty() {
        return false;
    }
    // SAFETY: so many bytes stand there. Every server that has slots to announce has the function.
    let slot = unsafe { api!(RedisModule_ClusterKeySlotC(key.as_ptr().cast::<c_char>(), key.len())) };
    ranges.iter().any(|range| (range.start..=range.end).contains(&slot.cast_signed()))
}
