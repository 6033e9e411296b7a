//! Sets that a scan has found, to be tracked together: see [`Tracking::find`](super::Tracking::find).

use crate::model::time::Millis;

/// The maximum capacity for names, in bytes, that [`Finds`] keeps after use.
const KEPT: usize = 1 << 16;

/// Names and due times of sets. The memory is reused for the next sets.
#[derive(Default)]
pub struct Finds {
    names: Vec<u8>,
    /// For each set, the end of its name in `names`, and its due time.
    ends: Vec<(usize, Millis)>,
}

impl Finds {
    pub fn push(&mut self, key: &[u8], due: Millis) {
        self.names.extend_from_slice(key);
        self.ends.push((self.names.len(), due));
    }

    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    pub fn each(&self) -> impl Iterator<Item = (&[u8], Millis)> + Clone {
        let mut start = 0;
        self.ends.iter().map(move |&(end, due)| (&self.names[std::mem::replace(&mut start, end)..end], due))
    }

    pub fn clear(&mut self) {
        self.names.clear();
        self.ends.clear();
        // Frees the memory that long names needed.
        self.names.shrink_to(KEPT);
    }
}
