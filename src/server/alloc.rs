//! The server's allocator as Rust's, so that the module's memory counts in the server's `used_memory`.

use std::alloc::{GlobalAlloc, Layout};
use std::ffi::c_void;
use std::ptr::null_mut;

/// Allocates through the module API. Unlike the allocator of the `redis-module` crate it can grow a block in place.
#[cfg_attr(test, expect(dead_code, reason = "unit tests run without a server"))]
pub struct ServerAlloc;

/// What every server's allocator aligns to, and no more than that: a server built without `malloc_usable_size` puts the size of a
/// block, a `size_t`, in front of what malloc gave it.
pub(super) const GUARANTEED: usize = size_of::<usize>();

/// How far behind the start of the server's block ours begins, for an alignment above [`GUARANTEED`]: 1 to `align` bytes. The
/// server's block has to be `align` bytes longer. `start` is a multiple of [`GUARANTEED`], and so is what is returned: there is room
/// for a number in front of our block.
fn offset(start: usize, align: usize) -> usize {
    align - start % align
}

/// Makes our block in a block of the server that is `align` bytes longer, and notes in front of it where that one starts.
///
/// # Safety
/// `start` must be null or come from the server's allocator, for `align` bytes at least and `align` above [`GUARANTEED`].
unsafe fn aligned(start: *mut u8, align: usize) -> *mut u8 {
    if start.is_null() {
        return null_mut();
    }
    let offset = offset(start.addr(), align);
    // SAFETY: the block has `align` bytes more than are asked for, and the offset is not more than that.
    let block = unsafe { start.add(offset) };
    // SAFETY: both addresses are multiples of the size of a number and differ, so in front of the second there is room for one,
    // which is aligned.
    unsafe { block.cast::<usize>().sub(1).write(offset) };
    block
}

/// Where the server's block starts that `block` lies in.
///
/// # Safety
/// `block` must have come from [`aligned`].
unsafe fn start_of(block: *mut u8) -> *mut u8 {
    // SAFETY: `aligned` has written it there.
    let offset = unsafe { block.cast::<usize>().sub(1).read() };
    // SAFETY: so far behind the start of the server's block `aligned` has put this one.
    unsafe { block.sub(offset) }
}

// SAFETY: the functions are malloc, calloc, realloc and free of the server's allocator, under their usual contract; where that does
// not align enough, `aligned` does.
unsafe impl GlobalAlloc for ServerAlloc {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let (size, align) = (layout.size(), layout.align());
        if align <= GUARANTEED {
            // SAFETY: any size is fine; a null answer is passed on as what it means.
            return unsafe { api!(RedisModule_Alloc(size)) }.cast();
        }
        // SAFETY: the block is new, and of that size. (No layout is large enough for the sum to overflow.)
        unsafe { aligned(api!(RedisModule_Alloc(size + align)).cast(), align) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        let (size, align) = (layout.size(), layout.align());
        if align <= GUARANTEED {
            // SAFETY: as for `alloc`.
            return unsafe { api!(RedisModule_Calloc(1, size)) }.cast();
        }
        // SAFETY: as for `alloc`; what is written lies in front of our block.
        unsafe { aligned(api!(RedisModule_Calloc(1, size + align)).cast(), align) }
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        if layout.align() <= GUARANTEED {
            // SAFETY: the caller vouches that `block` came from this allocator; the alignment does not change.
            return unsafe { api!(RedisModule_Realloc(block.cast::<c_void>(), new_size)) }.cast();
        }
        // The server's block might move to an address from which ours lies at another offset; so this is a new one.
        // SAFETY: the caller vouches that the new size goes with the alignment.
        let new = unsafe { self.alloc(Layout::from_size_align_unchecked(new_size, layout.align())) };
        if !new.is_null() {
            // SAFETY: both blocks have as many bytes, and they are two.
            unsafe { new.copy_from_nonoverlapping(block, layout.size().min(new_size)) };
            // SAFETY: the caller gives the old one up.
            unsafe { self.dealloc(block, layout) };
        }
        new
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        // SAFETY: the caller vouches that `block` came from this allocator, with this layout.
        let start = if layout.align() <= GUARANTEED { block } else { unsafe { start_of(block) } };
        // SAFETY: the block is the server's, and not used again.
        unsafe { api!(RedisModule_Free(start.cast::<c_void>())) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_block_is_aligned_and_has_room_for_a_number_in_front(
            start in (1..usize::MAX / 32).prop_map(|start| start * GUARANTEED),
            align in (4..13_u32).prop_map(|exponent| 1_usize << exponent),
        ) {
            let offset = offset(start, align);
            prop_assert!(offset >= size_of::<usize>() && offset <= align);
            prop_assert_eq!((start + offset) % align, 0);
        }

        /// In real memory: at every place where a server's block may start.
        #[test]
        fn the_servers_block_is_found_again(place in 0..64_usize, align in (4..8_u32).prop_map(|exponent| 1_usize << exponent)) {
            let mut memory = vec![0_usize; 64 + 32];
            // SAFETY: the place lies in the memory, with 128 bytes and more behind it.
            let start = unsafe { memory.as_mut_ptr().add(place) }.cast::<u8>();
            // SAFETY: as said, and it is aligned as numbers are.
            let block = unsafe { aligned(start, align) };
            prop_assert_eq!(block.addr() % align, 0);
            // SAFETY: `block` was made right above.
            prop_assert_eq!(unsafe { start_of(block) }, start);
        }
    }

    #[test]
    fn no_memory_stays_none() {
        // SAFETY: null is allowed.
        assert!(unsafe { aligned(null_mut(), 16) }.is_null());
    }
}
