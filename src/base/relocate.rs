//! Moving the memory of values, for active defragmentation. A value passes each of its blocks to the server. The server
//! decides which blocks to move.

/// Passes blocks of memory to the server, which may move them.
pub trait Mover {
    fn vec<T>(&mut self, vec: &mut Vec<T>);

    fn bytes(&mut self, bytes: &mut Box<[u8]>);

    /// Whether the server asks to stop for now. The next call of [`Relocate::relocate`] continues.
    fn should_stop(&mut self) -> bool;
}

/// A value whose memory can be moved step by step.
pub trait Relocate {
    /// Moves the blocks of the value, beginning with step `from` (the first step is 0). Returns the next step, or
    /// `None` after the last one. If the value changes between two calls, blocks may be missed or moved twice.
    fn relocate(&mut self, from: usize, mover: &mut impl Mover) -> Option<usize>;
}

/// Calls `step` with the numbers from `from` to `steps - 1`. If `mover` asks to stop, returns the number of the next
/// step. After the last step, returns `None`.
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

#[cfg(test)]
mod tests;
#[cfg(test)]
pub use tests::relocate_all;
