//! Atomic slot migration: `CLUSTER MIGRATESLOTS` (Valkey from 9.0), `CLUSTER MIGRATION IMPORT` (Redis from 8.4).
//!
//! During a migration, the target already holds the keys, but clients do not see them and the source still owns them.
//! The target's keys are **outdated**, because later writes are buffered (Redis) or in transit. If the migration fails,
//! the target drops the keys. So a module must not touch these keys until the migration is complete. Valkey migrates
//! slots only if every module declares support. Redis does not require this.
//!
//! The events of a migration tell the module when to forget a slot's keys and when to scan for them. Whether the module
//! may change a key does not depend on these events: see [`super::authority`].

use super::api::details;
use super::context::Context;
use super::info::with_server_info;
use std::ffi::{c_char, c_int, c_void};
use std::slice;
use std::sync::atomic::{AtomicBool, Ordering};

/// Whether the server is Valkey. Valkey and Redis use different numbers and structures for the migration events.
static IS_VALKEY: AtomicBool = AtomicBool::new(false);

/// Finds out whether the server is Valkey. When the module is loaded, it must call this function before all others of
/// this file.
pub fn find_out_product(ctx: &Context) {
    // SAFETY: the name is NUL-terminated, and the data are valid.
    let version = |data| unsafe { api!(RedisModule_ServerInfoGetFieldC(data, c"valkey_version".as_ptr())) };
    let is_valkey = with_server_info(ctx, c"server", |data| !version(data).is_null());
    IS_VALKEY.store(is_valkey, Ordering::Relaxed);
}

fn is_valkey() -> bool {
    IS_VALKEY.load(Ordering::Relaxed)
}

/// The value of `VALKEYMODULE_OPTIONS_HANDLE_ATOMIC_SLOT_MIGRATION`.
const HANDLED: c_int = 1 << 5;

/// Slots from `start` to `end`, both inclusive. Layout of `ValkeyModuleSlotRange`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct SlotRange {
    start: c_int,
    end: c_int,
}

/// Returns the number of the slot migration event: `VALKEYMODULE_EVENT_ATOMIC_SLOT_MIGRATION` or
/// `REDISMODULE_EVENT_CLUSTER_SLOT_MIGRATION`. Valkey and Redis number their events differently. A server without the
/// event refuses the subscription.
pub(super) fn event_number() -> u64 {
    if is_valkey() { 19 } else { 18 }
}

/// Returns `true` if the sub-event begins a slot migration at the target. Returns `false` if the sub-event ends the
/// migration, successfully or not.
///
/// Returns `None` for the sub-events at the source, where the module has nothing to do. The source owns the keys to the
/// end, and pauses writes before the target takes over the slots. Then the source deletes the keys: Valkey sends events
/// as DEL does, Redis sends none.
pub(super) fn is_beginning(detail: u64) -> Option<bool> {
    match (is_valkey(), detail) {
        (_, 0) => Some(true),
        // Failed, or completed.
        (true, 2 | 4) | (false, 1 | 2) => Some(false),
        _ => None,
    }
}

/// Layout of `ValkeyModuleAtomicSlotMigrationInfo`.
#[repr(C)]
struct ValkeyInfo {
    version: u64,
    job: [c_char; 41],
    ranges: *const SlotRange,
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

/// Layout of `RedisModuleSlotRangeArray`. `count` pairs follow it.
#[repr(C)]
struct RedisRanges {
    count: i32,
    first: [[u16; 2]; 0],
}

/// Returns the module option that declares support for atomic slot migration. Returns 0 if the server lacks the option.
pub(super) fn module_option() -> c_int {
    if !(is_valkey() && has_api!(RedisModule_GetModuleOptionsAll)) {
        return 0;
    }
    // SAFETY: takes no arguments.
    HANDLED & unsafe { api!(RedisModule_GetModuleOptionsAll()) }
}

/// Returns the slots of a migration event.
///
/// # Safety
/// `data` must be what the server passed with a migration event.
pub(super) unsafe fn ranges_of(data: *const c_void) -> Vec<SlotRange> {
    if is_valkey() {
        // SAFETY: for this event Valkey passes this structure.
        let Some(info) = (unsafe { details::<ValkeyInfo>(data) }) else { return Vec::new() };
        // SAFETY: the server guarantees `count` ranges.
        return unsafe { items(info.ranges, info.count as usize) }.to_vec();
    }
    // SAFETY: for this event Redis passes this structure.
    let ranges = unsafe { details::<RedisInfo>(data) }.map(|info| info.ranges);
    let Some(ranges) = ranges.filter(|ranges| !ranges.is_null()) else { return Vec::new() };
    // SAFETY: the pointer is not null, and Redis passes this structure.
    let count = usize::try_from(unsafe { (*ranges).count }).unwrap_or(0);
    // SAFETY: the pairs follow the count without padding, because their alignment is smaller.
    let first = unsafe { &raw const (*ranges).first }.cast::<[u16; 2]>();
    // SAFETY: the server guarantees `count` pairs.
    let pairs = unsafe { items(first, count) };
    pairs.iter().map(|&[start, end]| SlotRange { start: start.into(), end: end.into() }).collect()
}

/// # Safety
/// `first` must be null or point to `count` items that are valid for `'a`.
unsafe fn items<'a, T>(first: *const T, count: usize) -> &'a [T] {
    if first.is_null() {
        return &[];
    }
    // SAFETY: the caller guarantees it.
    unsafe { slice::from_raw_parts(first, count) }
}

/// Whether a key belongs to one of these slots.
pub fn hold(ranges: &[SlotRange], key: &[u8]) -> bool {
    if ranges.is_empty() {
        return false;
    }
    // SAFETY: `key` has these bytes. Every server with migration events has the function.
    let slot = unsafe { api!(RedisModule_ClusterKeySlotC(key.as_ptr().cast::<c_char>(), key.len())) };
    ranges.iter().any(|range| (range.start..=range.end).contains(&slot.cast_signed()))
}
