//! Slots of a cluster that move from one server to another as a whole: `CLUSTER MIGRATESLOTS` of Valkey from 9.0 on, and
//! `CLUSTER MIGRATION IMPORT` of Redis from 8.4 on.
//!
//! While they move, their keys are at the target already, where no client sees them, and they still belong to the source. What
//! lies there is **old**: later writes wait in a buffer (Redis), or are on their way. If the move fails the target drops them. So a
//! module must let them be until the move is complete. Valkey moves slots only when every module has said that it does; Redis
//! asks nobody.
//!
//! The events below say when to forget what was known of a slot's keys, and when to look for them. Whether a key may be changed
//! is not decided by them: see [`super::authority`].

use super::events::details;
use super::product::is_valkey;
use std::ffi::{c_char, c_int, c_void};
use std::slice;

/// `VALKEYMODULE_OPTIONS_HANDLE_ATOMIC_SLOT_MIGRATION`
const HANDLED: c_int = 1 << 5;

/// Slots from `start` to `end`, both included. Layout of `ValkeyModuleSlotRange`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct Range {
    start: c_int,
    end: c_int,
}

/// What happened to slots at the target. At the source nothing need be done: its keys stay its own to the end, writes pause
/// before the slots change hands, and then it deletes them as DEL would (Valkey), or without a word (Redis).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    Started,
    Failed,
    Completed,
}

/// The number of the event: `VALKEYMODULE_EVENT_ATOMIC_SLOT_MIGRATION` or `REDISMODULE_EVENT_CLUSTER_SLOT_MIGRATION`. The same
/// number means something else to the other product; a server that is too old refuses it.
pub(super) fn event_number() -> u64 {
    if is_valkey() { 19 } else { 18 }
}

/// What an event of that number says with its sub-event; `None` if it is about the source.
pub(super) fn step_of(detail: u64) -> Option<Step> {
    match (is_valkey(), detail) {
        (_, 0) => Some(Step::Started),
        (true, 2) | (false, 1) => Some(Step::Failed),
        (true, 4) | (false, 2) => Some(Step::Completed),
        _ => None,
    }
}

/// Layout of `ValkeyModuleAtomicSlotMigrationInfo`.
#[repr(C)]
struct ValkeyInfo {
    version: u64,
    job: [c_char; 41],
    ranges: *const Range,
    count: u32,
}

/// Layout of `RedisModuleClusterSlotMigrationInfo`.
#[repr(C)]
struct RedisInfo {
    version: u64,
    source: [c_char; 41],
    destination: [c_char; 41],
    task: *const c_char,
    ranges: *const RedisRanges,
}

/// Layout of `RedisModuleSlotRangeArray`: `count` pairs follow.
#[repr(C)]
struct RedisRanges {
    count: i32,
    first: [[u16; 2]; 0],
}

/// The module option by which we say that we let arriving slots be; none where the server does not know it.
pub(super) fn module_option() -> c_int {
    if !(is_valkey() && has_api!(RedisModule_GetModuleOptionsAll)) {
        return 0;
    }
    // SAFETY: takes no arguments.
    HANDLED & unsafe { api!(RedisModule_GetModuleOptionsAll()) }
}

/// The slots that an event of a migration is about.
///
/// # Safety
/// `data` must be what the server passed with such an event.
pub(super) unsafe fn ranges_of(data: *const c_void) -> Vec<Range> {
    if is_valkey() {
        // SAFETY: for this event Valkey passes this structure.
        let Some(info) = (unsafe { details::<ValkeyInfo>(data) }) else { return Vec::new() };
        // SAFETY: the server says that this many stand there.
        return unsafe { items(info.ranges, info.count as usize) }.to_vec();
    }
    // SAFETY: for this event Redis passes this structure.
    let ranges = unsafe { details::<RedisInfo>(data) }.map(|info| info.ranges);
    let Some(ranges) = ranges.filter(|ranges| !ranges.is_null()) else { return Vec::new() };
    // SAFETY: the pointer is not null, and the server passes this structure.
    let count = usize::try_from(unsafe { (*ranges).count }).unwrap_or(0);
    // SAFETY: the pairs follow the count, whose alignment is more than theirs.
    let first = unsafe { &raw const (*ranges).first }.cast::<[u16; 2]>();
    // SAFETY: the server says that this many stand there.
    let pairs = unsafe { items(first, count) };
    pairs.iter().map(|&[start, end]| Range { start: start.into(), end: end.into() }).collect()
}

/// # Safety
/// If `first` is not null, `count` items must stand there, for as long as `'a`.
unsafe fn items<'a, T>(first: *const T, count: usize) -> &'a [T] {
    if first.is_null() {
        return &[];
    }
    // SAFETY: as the caller vouches.
    unsafe { slice::from_raw_parts(first, count) }
}

/// Whether a key lies in one of these slots.
pub fn hold(ranges: &[Range], key: &[u8]) -> bool {
    if ranges.is_empty() {
        return false;
    }
    // SAFETY: `key` has these bytes. Every server that has slots to announce has the function.
    let slot = unsafe { api!(RedisModule_ClusterKeySlotC(key.as_ptr().cast::<c_char>(), key.len())) };
    ranges.iter().any(|range| (range.start..=range.end).contains(&slot.cast_signed()))
}
