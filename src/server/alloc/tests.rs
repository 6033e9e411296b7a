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

    /// The module places its aligned block in a longer block of the server. `start_of` must find the start of the
    /// server's block. `place` is this start, as an index of `memory`.
    #[test]
    fn the_servers_block_is_found_again(place in 0..64_usize, align in (4..8_u32).prop_map(|exponent| 1_usize << exponent)) {
        let mut memory = vec![0_usize; 64 + 32];
        // SAFETY: the address lies in the memory, with more than 128 bytes after it.
        let start = unsafe { memory.as_mut_ptr().add(place) }.cast::<u8>();
        // SAFETY: as above, and the address is aligned for numbers.
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
