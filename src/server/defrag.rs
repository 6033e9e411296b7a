//! Active defragmentation. The server asks each value to move its memory blocks to better addresses.
//!
//! The module can move only the box of a value, a `Vec`, or a boxed slice. The module passes the block to the server,
//! which may replace it by another block with the same bytes, as `realloc` does. Moving a block is safe, because each
//! block has one owner, and no other pointer into the block exists. The maps of the standard library do not give access
//! to their blocks, so the module does not move them. These maps are small, or have small nodes.

use super::alloc::GUARANTEED;
use crate::base::relocate::{Mover, Relocate};
use redis_module::raw::{self, RedisModuleDefragCtx};
use std::ffi::{c_int, c_ulong, c_void};
use std::mem::{ManuallyDrop, take};
use std::ptr::NonNull;

/// Whether the server has the functions for defragmentation.
pub(super) fn is_offered() -> bool {
    has_api!(RedisModule_DefragAlloc)
        && has_api!(RedisModule_DefragShouldStop)
        && has_api!(RedisModule_DefragCursorGet)
        && has_api!(RedisModule_DefragCursorSet)
}

/// The context that the server passed to the current call of [`defrag`].
struct Defrag(*mut RedisModuleDefragCtx);

impl Defrag {
    /// Offers a block to the server, which may move it. Returns the address of the block: the new one if the server has
    /// moved the block, otherwise the old one.
    ///
    /// # Safety
    /// The block must come from the module's allocator, with an alignment of at most [`GUARANTEED`]. The caller must
    /// use only the returned address afterwards.
    unsafe fn moved<T>(&self, block: NonNull<T>) -> NonNull<T> {
        // SAFETY: the context is that of the current call. At that alignment, the block is one of the server's own.
        let new = unsafe { api!(RedisModule_DefragAlloc(self.0, block.as_ptr().cast::<c_void>())) };
        // Null means that the block stays.
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
        // SAFETY: a vector with a capacity owns a block of the allocator, and this vector is forgotten.
        let start = unsafe { self.moved(start) };
        // SAFETY: the block holds the old block's contents, and the old owner is gone.
        *vec = unsafe { Vec::from_raw_parts(start.as_ptr(), len, capacity) };
    }

    fn bytes(&mut self, bytes: &mut Box<[u8]>) {
        // A boxed slice is a vector without spare capacity.
        let mut vec = take(bytes).into_vec();
        self.vec(&mut vec);
        *bytes = vec.into_boxed_slice();
    }

    fn should_stop(&mut self) -> bool {
        // SAFETY: the context is that of the current call.
        unsafe { api!(RedisModule_DefragShouldStop(self.0)) != 0 }
    }
}

/// Moves the memory of one value. `value` is the server's pointer to the value. Returns nonzero if the server must call
/// again for this value.
///
/// # Safety
/// The server must call this in its main thread, and `value` must be a box of this type. The caller must not use another
/// pointer to the value afterwards.
pub(super) unsafe fn defrag<T: Relocate>(ctx: *mut RedisModuleDefragCtx, value: *mut *mut c_void) -> c_int {
    const { assert!(align_of::<T>() <= GUARANTEED && size_of::<T>() > 0) };
    let mut mover = Defrag(ctx);
    // SAFETY: the server passes the address of its pointer to the value.
    let kept = unsafe { &mut *value };
    let Some(block) = NonNull::new(kept.cast::<T>()) else { return 0 };
    // SAFETY: a value is a box of this type. The pointer to it is updated right after.
    let mut block = unsafe { mover.moved(block) };
    *kept = block.as_ptr().cast();
    // SAFETY: the server calls this in its main thread while no key is open, so no other reference to the value exists.
    let value = unsafe { block.as_mut() };
    let mut cursor: c_ulong = 0;
    // SAFETY: the context is that of the current call. Without a cursor, this call must do everything.
    let is_resumable =
        unsafe { api!(RedisModule_DefragCursorGet(ctx, &raw mut cursor)) } == raw::REDISMODULE_OK as c_int;
    let next = value.relocate(cursor as usize, &mut mover);
    let Some(next) = next.filter(|_| is_resumable) else { return 0 };
    // SAFETY: as above.
    unsafe { api!(RedisModule_DefragCursorSet(ctx, next as c_ulong)) };
    1
}
