//! What values are saved to and loaded from: numbers and byte strings, one after the other. The server has its RDB files and
//! payloads behind these traits, the tests have tapes.

/// Takes what is saved.
pub trait Writer {
    fn number(&mut self, number: u64);
    /// A byte string of any length, which the reader will know.
    fn bytes(&mut self, bytes: &[u8]);
}

/// Gives back what a [`Writer`] took, in the same order.
///
/// An implementation has to report the end of its input, not make up zeros.
pub trait Reader {
    /// A byte string: borrowed, or a buffer of the server.
    type Bytes: AsRef<[u8]>;

    fn number(&mut self) -> Result<u64, Truncated>;
    fn bytes(&mut self) -> Result<Self::Bytes, Truncated>;
}

/// What is being read ends too early, or is something else than what was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Truncated;
