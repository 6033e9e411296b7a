//! Memory that moves: what active defragmentation does to values. The server knows which blocks of memory lie in its way; a value knows
//! which blocks it has.

/// Moves blocks of memory to where the server wants them.
pub trait Mover {
    fn vec<T>(&mut self, vec: &mut Vec<T>);

    fn bytes(&mut self, bytes: &mut Box<[u8]>);

    /// Enough for now: the rest is for another call.
    fn should_stop(&mut self) -> bool;
}

/// A value whose memory can be moved, step by step.
pub trait Relocate {
    /// Has the blocks of the value moved, from step `from` on (0: the first one). Answers with the step to go on with, `None` when all are
    /// done. Between two calls the value may change: then blocks are left out, or moved twice.
    fn relocate(&mut self, from: usize, mover: &mut impl Mover) -> Option<usize>;
}

/// Goes through `steps` steps.
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

/// Moves everything there is, and counts it.
#[cfg(test)]
#[derive(Default)]
pub struct Mill {
    pub bytes: usize,
    /// Stops whenever it has moved that many blocks; 0: never.
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

/// Has the whole value moved; how many bytes that were.
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
