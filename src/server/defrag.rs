//! Active defragmentation: the server finds that blocks of memory lie scattered, and has the values give them up for others.
//!
//! What is moved is a `Vec` or a boxed slice: its block, as the module's allocator got it from the server's, is handed to the server, which
//! may answer with another one that holds the same bytes, and has freed the first. That is what `realloc` does, and as harmless: a block has one
//! owner, and nothing else in the module points into it. So nothing of this is possible for the maps of the standard library, whose blocks are
//! theirs; they are small here, or their nodes are.

use super::alloc::GUARANTEED;
use super::panic::enter_module;
use crate::model::relocate::{Mover, Relocate};
use redis_module::raw::{self, RedisModuleDefragCtx, RedisModuleString};
use std::ffi::{c_int, c_ulong, c_void};
use std::mem::{ManuallyDrop, take};
use std::ptr::NonNull;

/// Whether the server can do it. (Servers built without its own allocator offer the functions, and never call the callback.)
pub(super) fn is_offered() -> bool {
    has_api!(RedisModule_DefragAlloc)
        && has_api!(RedisModule_DefragShouldStop)
        && has_api!(RedisModule_DefragCursorGet)
        && has_api!(RedisModule_DefragCursorSet)
}

/// The call under way.
struct Defrag(*mut RedisModuleDefragCtx);

impl Defrag {
    /// Where the bytes of a block are now.
    ///
    /// # Safety
    /// The block must have come from the module's allocator, for an alignment of [`GUARANTEED`] at most, and is not used any more.
    unsafe fn moved<T>(&self, block: NonNull<T>) -> NonNull<T> {
        // SAFETY: the context is that of the call under way; for that alignment, the block is one of the server's own.
        let new = unsafe { api!(RedisModule_DefragAlloc(self.0, block.as_ptr().cast::<c_void>())) };
        // Null: it may stay where it is.
        NonNull::new(new.cast::<T>()).unwrap_or(block)
    }
}

impl Mover for Defrag {
    fn vec<T>(&mut self, vec: &mut Vec<T>) {
        const { assert!(align_of::<T>() <= GUARANTEED && size_of::<T>() > 0) };
        if vec.capacity() == 0 {
            return;
        }
        let mut old = ManuallyDrop::new(take(vec));
        let (len, capacity) = (old.len(), old.capacity());
        let Some(start) = NonNull::new(old.as_mut_ptr()) else { return };
        // SAFETY: a vector with a capacity owns a block of the allocator, and this one is forgotten.
        let start = unsafe { self.moved(start) };
        // SAFETY: the block holds what the other one held, and its owner is gone.
        *vec = unsafe { Vec::from_raw_parts(start.as_ptr(), len, capacity) };
    }

    fn bytes(&mut self, bytes: &mut Box<[u8]>) {
        // A boxed slice is a vector without room.
        let mut vec = take(bytes).into_vec();
        self.vec(&mut vec);
        *bytes = vec.into_boxed_slice();
    }

    fn should_stop(&mut self) -> bool {
        // SAFETY: the context is that of the call under way.
        unsafe { api!(RedisModule_DefragShouldStop(self.0)) != 0 }
    }
}

/// The server's callback. Not 0: it is to be called again for this value.
pub(super) unsafe extern "C" fn defrag<T: Relocate>(
    ctx: *mut RedisModuleDefragCtx,
    _key: *mut RedisModuleString,
    value: *mut *mut c_void,
) -> c_int {
    const { assert!(align_of::<T>() <= GUARANTEED && size_of::<T>() > 0) };
    let mut mover = Defrag(ctx);
    // SAFETY: the server passes the place where it keeps the value.
    let kept = unsafe { &mut *value };
    let Some(block) = NonNull::new(kept.cast::<T>()) else { return 0 };
    // SAFETY: a value is a box of this type; whoever had its address has it from `kept`, which is set right after.
    let mut block = unsafe { mover.moved(block) };
    *kept = block.as_ptr().cast();
    // SAFETY: the server calls this in its main thread while no key is open, so nobody else looks at the value.
    let value = unsafe { block.as_mut() };
    let mut cursor: c_ulong = 0;
    // SAFETY: the context is that of the call under way. Without a cursor, everything is to be done in this call.
    let is_resumable =
        unsafe { api!(RedisModule_DefragCursorGet(ctx, &raw mut cursor)) } == raw::REDISMODULE_OK as c_int;
    let next = enter_module("defrag", || value.relocate(cursor as usize, &mut mover)).flatten();
    let Some(next) = next.filter(|_| is_resumable) else { return 0 };
    // SAFETY: as above.
    unsafe { api!(RedisModule_DefragCursorSet(ctx, next as c_ulong)) };
    1
}
