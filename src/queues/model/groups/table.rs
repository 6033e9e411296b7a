//! The store of groups. Jobs refer to their group by number, so a group never moves. The groups are in small chunks,
//! and the table frees empty chunks. So the memory shrinks with the number of groups.

use super::Group;
use std::ops::{Index, IndexMut};

const CHUNK: usize = 64;

#[derive(Clone, Debug, Default)]
struct Chunk {
    /// The groups, and `None` for each free number. The vector is empty if the chunk has no group.
    groups: Vec<Option<Box<Group>>>,
    used: usize,
}

#[derive(Clone, Debug, Default)]
pub(super) struct GroupTable {
    chunks: Vec<Chunk>,
    /// The indexes of the chunks that can take another group, in any order.
    roomy: Vec<u32>,
    len: usize,
    allocated: usize,
}

impl GroupTable {
    pub fn len(&self) -> usize {
        self.len
    }

    /// Returns the size of the table in bytes, without the groups' own allocations. O(1).
    pub fn bytes(&self) -> usize {
        self.len * size_of::<Group>()
            + self.allocated * CHUNK * size_of::<Option<Box<Group>>>()
            + self.chunks.capacity() * size_of::<Chunk>()
            + self.roomy.capacity() * size_of::<u32>()
    }

    /// Adds a group. Returns its number. O(1).
    pub fn insert(&mut self, group: Group) -> u32 {
        let number = match self.roomy.last() {
            Some(&number) => number,
            None => {
                let number = self.chunks.len() as u32;
                self.chunks.push(Chunk::default());
                self.roomy.push(number);
                number
            }
        };
        let chunk = &mut self.chunks[number as usize];
        if chunk.groups.is_empty() {
            self.allocated += 1;
            chunk.groups = std::iter::repeat_with(|| None).take(CHUNK).collect();
        }
        let offset = chunk.groups.iter().position(Option::is_none).unwrap_or(0);
        chunk.groups[offset] = Some(Box::new(group));
        chunk.used += 1;
        if chunk.used == CHUNK {
            self.roomy.pop();
        }
        self.len += 1;
        number * CHUNK as u32 + offset as u32
    }

    pub fn remove(&mut self, slot: u32) {
        let (number, offset) = (slot as usize / CHUNK, slot as usize % CHUNK);
        let chunk = &mut self.chunks[number];
        if chunk.used == CHUNK {
            self.roomy.push(number as u32);
        }
        chunk.groups[offset] = None;
        chunk.used -= 1;
        self.len -= 1;
        if chunk.used == 0 {
            chunk.groups = Vec::new();
            self.allocated -= 1;
        }
        if self.len == 0 {
            *self = GroupTable::default();
        }
    }
}

impl Index<u32> for GroupTable {
    type Output = Group;

    fn index(&self, slot: u32) -> &Group {
        let group = &self.chunks[slot as usize / CHUNK].groups[slot as usize % CHUNK];
        group.as_deref().expect("a number that was handed out")
    }
}

impl IndexMut<u32> for GroupTable {
    fn index_mut(&mut self, slot: u32) -> &mut Group {
        let group = &mut self.chunks[slot as usize / CHUNK].groups[slot as usize % CHUNK];
        group.as_deref_mut().expect("a number that was handed out")
    }
}
