//! Moving the memory of values, for active defragmentation. The server decides which blocks are moved. A value passes
//! each of its blocks to the server.

/// Moves blocks of memory. The server decides for each block whether it is moved.
pub trait Mover {
    fn vec<T>(&mut self, vec: &mut Vec<T>);

    fn bytes(&mut self, bytes: &mut Box<[u8]>);

    /// Whether to stop now. A later call moves the other blocks.
    fn should_stop(&mut self) -> bool;
}

/// A value whose memory can be moved step by step.
pub trait Relocate {
    /// Moves the blocks of the value, beginning with step `from` (the first step is 0). Returns the next step, or
    /// `None` after the last one. If the value changes between two calls, blocks may be missed or moved twice.
    fn relocate(&mut self, from: usize, mover: &mut impl Mover) -> Option<usize>;
}

/// Calls `step` with the numbers from `from` to `steps - 1`. Returns the next number if `mover` stops.
pub fn in_steps<M: Mover>(
    from: usize,
    steps: usize,
    mover: &mut M,
    mut step: impl FnMut(usize, &mut M),
) -> Option<usize> {
    for number in from..steps {
        step(number, mover);
        if number + 1 < steps && mover.should_stop() {
            return Some(number + 1);
        }
    }
    None
}

/// A mover for tests: moves every block and counts the bytes.
#[cfg(test)]
#[derive(Default)]
pub struct Mill {
    pub bytes: usize,
    /// Stops after this many blocks. 0 means never.
    pub patience: usize,
    blocks: usize,
}

#[cfg(test)]
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

/// Moves the whole value. Returns the number of bytes.
#[cfg(test)]
pub fn relocate_all(value: &mut impl Relocate, patience: usize) -> usize {
    let mut mill = Mill { patience, ..Mill::default() };
    let mut next = Some(0);
    while let Some(step) = next {
        next = value.relocate(step, &mut mill);
        assert!(next.is_none_or(|next| next > step), "it goes on");
    }
    mill.bytes
}
