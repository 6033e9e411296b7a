//! An implementation of [`Mover`] for the tests of all types that can be relocated.

use super::*;

/// A mover that moves every block and counts the bytes.
#[derive(Default)]
struct Mill {
    bytes: usize,
    /// The number of blocks after which the mover stops. 0: never.
    patience: usize,
    blocks: usize,
}

impl Mover for Mill {
    fn vec<T>(&mut self, vec: &mut Vec<T>) {
        let mut new = Vec::with_capacity(vec.capacity());
        new.append(vec);
        *vec = new;
        self.bytes += vec.capacity() * size_of::<T>();
        self.blocks += 1;
    }

    fn bytes(&mut self, bytes: &mut Box<[u8]>) {
        *bytes = bytes.to_vec().into();
        self.bytes += bytes.len();
        self.blocks += 1;
    }

    fn should_stop(&mut self) -> bool {
        let stop = self.patience > 0 && self.blocks >= self.patience;
        self.blocks *= usize::from(!stop);
        stop
    }
}

/// Moves the whole value, in steps of `patience` blocks. Returns the number of moved bytes.
pub fn relocate_all(value: &mut impl Relocate, patience: usize) -> usize {
    let mut mill = Mill { patience, ..Mill::default() };
    let mut next = Some(0);
    while let Some(step) = next {
        next = value.relocate(step, &mut mill);
        assert!(next.is_none_or(|next| next > step), "it goes on");
    }
    mill.bytes
}
