//! The server's allocator as Rust's, so that the module's memory counts in the server's `used_memory`.

use std::alloc::{GlobalAlloc, Layout};
use std::ffi::c_void;

/// Allocates through the module API. Unlike the allocator of the `redis-module` crate it can grow a block in place.
pub struct ServerAlloc;

/// The server's allocator aligns to 16 bytes as malloc does, and larger alignments only where the size is a multiple of
/// them; so sizes are rounded up.
fn rounded(size: usize, align: usize) -> usize {
    size.next_multiple_of(align)
}

// SAFETY: the three functions are malloc, calloc, realloc and free of the server's allocator, under their usual contract.
unsafe impl GlobalAlloc for ServerAlloc {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: any size is fine; a null answer is passed on as what it means.
        unsafe { api!(RedisModule_Alloc(rounded(layout.size(), layout.align()))) }.cast()
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: as for `alloc`.
        unsafe { api!(RedisModule_Calloc(1, rounded(layout.size(), layout.align()))) }.cast()
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        let size = rounded(new_size, layout.align());
        // SAFETY: the caller vouches that `block` came from this allocator; the alignment does not change.
        unsafe { api!(RedisModule_Realloc(block.cast::<c_void>(), size)) }.cast()
    }

    unsafe fn dealloc(&self, block: *mut u8, _layout: Layout) {
        // SAFETY: the caller vouches that `block` came from this allocator and is not used again.
        unsafe { api!(RedisModule_Free(block.cast::<c_void>())) }
    }
}
