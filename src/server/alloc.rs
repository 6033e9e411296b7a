//! Rust's global allocator. The module uses the server's allocator, so that its memory counts in the server's
//! `used_memory`.

use std::alloc::{GlobalAlloc, Layout};
use std::ffi::c_void;
use std::ptr::null_mut;

/// Allocates through the module API. Unlike the allocator of the `redis-module` crate, this allocator can grow a block
/// in place.
#[cfg_attr(test, expect(dead_code, reason = "unit tests run without a server"))]
pub struct ServerAlloc;

/// The alignment that every server's allocator guarantees. The alignment is only the size of a `usize`, because a
/// server built without `malloc_usable_size` stores each block's size in front of the block.
pub(super) const GUARANTEED: usize = size_of::<usize>();

/// Returns the distance from the start of a block of the server, at the address `start`, to the aligned block that the
/// module places in it. The distance is at least [`GUARANTEED`] bytes and at most `align` bytes.
///
/// `align` must be above [`GUARANTEED`], and the server's block must be `align` bytes longer than the aligned block.
/// `start` and the distance are multiples of [`GUARANTEED`], so a `usize` fits in front of the aligned block.
fn offset(start: usize, align: usize) -> usize {
    align - start % align
}

/// Places an aligned block in the server's block that begins at `start`, and stores the distance between them
/// ([`offset`]) in front of the aligned block. Returns the aligned block, or null if `start` is null.
///
/// # Safety
/// `start` must be null or a block of the server that is `align` bytes longer than the aligned block. `align` must be
/// above [`GUARANTEED`].
unsafe fn aligned(start: *mut u8, align: usize) -> *mut u8 {
    if start.is_null() {
        return null_mut();
    }
    let offset = offset(start.addr(), align);
    // SAFETY: the server's block has `align` extra bytes, and the offset is at most `align`.
    let block = unsafe { start.add(offset) };
    // SAFETY: both addresses are multiples of `GUARANTEED`, and they differ. So an aligned `usize` fits in front of the
    // block.
    unsafe { block.cast::<usize>().sub(1).write(offset) };
    block
}

/// Returns the start of the server's block in which [`aligned`] has placed `block`.
///
/// # Safety
/// `block` must have come from [`aligned`].
unsafe fn start_of(block: *mut u8) -> *mut u8 {
    // SAFETY: `aligned` wrote the offset there.
    let offset = unsafe { block.cast::<usize>().sub(1).read() };
    // SAFETY: `aligned` placed `block` at this offset.
    unsafe { block.sub(offset) }
}

// SAFETY: the server's functions have the contracts of malloc, calloc, realloc and free. `aligned` provides larger
// alignments.
unsafe impl GlobalAlloc for ServerAlloc {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let (size, align) = (layout.size(), layout.align());
        if align <= GUARANTEED {
            // SAFETY: any size is allowed. A null result is returned to the caller.
            return unsafe { api!(RedisModule_Alloc(size)) }.cast();
        }
        // SAFETY: the block is new and has that size. (No layout is large enough for the sum to overflow.)
        unsafe { aligned(api!(RedisModule_Alloc(size + align)).cast(), align) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        let (size, align) = (layout.size(), layout.align());
        if align <= GUARANTEED {
            // SAFETY: as for `alloc`.
            return unsafe { api!(RedisModule_Calloc(1, size)) }.cast();
        }
        // SAFETY: as for `alloc`. `aligned` writes only in front of our block.
        unsafe { aligned(api!(RedisModule_Calloc(1, size + align)).cast(), align) }
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        if layout.align() <= GUARANTEED {
            // SAFETY: the caller guarantees that `block` came from this allocator. The alignment does not change.
            return unsafe { api!(RedisModule_Realloc(block.cast::<c_void>(), new_size)) }.cast();
        }
        // The server may move its block to an address that needs another offset. So this function allocates a new
        // block. SAFETY: the caller guarantees that the new size is valid for the alignment.
        let new = unsafe { self.alloc(Layout::from_size_align_unchecked(new_size, layout.align())) };
        if !new.is_null() {
            // SAFETY: both blocks have at least this many bytes and do not overlap.
            unsafe { new.copy_from_nonoverlapping(block, layout.size().min(new_size)) };
            // SAFETY: the caller no longer uses the old block.
            unsafe { self.dealloc(block, layout) };
        }
        new
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        // SAFETY: the caller guarantees that `block` came from this allocator, with this layout.
        let start = if layout.align() <= GUARANTEED { block } else { unsafe { start_of(block) } };
        // SAFETY: the block is the server's and is not used again.
        unsafe { api!(RedisModule_Free(start.cast::<c_void>())) }
    }
}

#[cfg(test)]
mod tests;
