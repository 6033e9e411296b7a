//! The ring: the groups with jobs in the order of their turns, as a tree in which every group knows when the first one of its subtree opens, and
//! when the first one has a ready job.

use super::table::Table;
use super::{Group, Groups, NEVER};
use crate::model::chunks::NIL;
use crate::model::queue::Millis;
use crate::model::queue::node::Links;
use crate::model::queue::tree::{self, Nodes};

impl Nodes for Table {
    type Order = ();
    type Key = u64;

    fn key(&self, slot: u32) -> u64 {
        self[slot].turn
    }

    fn links(&self, slot: u32) -> Links {
        self[slot].links
    }

    fn links_mut(&mut self, slot: u32) -> &mut Links {
        &mut self[slot].links
    }

    fn pass_on(&mut self, from: u32, to: u32) {
        let Group { least_opens, least_ready, .. } = self[from];
        (self[to].least_opens, self[to].least_ready) = (least_opens, least_ready);
    }

    fn refresh(&mut self, root: u32, (): ()) -> bool {
        let Group { links, opens, ready, .. } = self[root];
        let least =
            [links.left, links.right].into_iter().filter(|&child| child != NIL).fold((opens, ready), |least, child| {
                let child = &self[child];
                (least.0.min(child.least_opens), least.1.min(child.least_ready))
            });
        let it = &mut self[root];
        let known = (it.least_opens, it.least_ready);
        (it.least_opens, it.least_ready) = least;
        least != known
    }
}

impl Groups {
    /// The group goes to the end of the ring. O(log n).
    pub(super) fn requeue(&mut self, group: u32) {
        self.dequeue(group);
        self.enqueue(group);
    }

    pub(super) fn dequeue(&mut self, group: u32) {
        self.ring = tree::remove(&mut self.table, self.ring, group, ());
    }

    /// Puts a group that is in no ring at the end.
    pub(super) fn enqueue(&mut self, group: u32) {
        self.table[group].turn = self.next_turn;
        self.next_turn += 1;
        self.ring = tree::insert(&mut self.table, self.ring, group, ());
    }

    pub(super) fn set_times(&mut self, group: u32, (ready, opens): (Millis, Millis)) {
        let it = &mut self.table[group];
        if (it.ready, it.opens) != (ready, opens) {
            (it.ready, it.opens) = (ready, opens);
            tree::changed(&mut self.table, self.ring, group, ());
        }
    }

    /// When the first group opens; [`NEVER`]: none does.
    pub(in crate::model::queue) fn opens(&self) -> Millis {
        if self.ring == NIL { NEVER } else { self.table[self.ring].least_opens }
    }

    /// Whose turn it is: the first group that is open, or `NIL`. O(log n).
    pub(super) fn turn(&self, now: Millis) -> u32 {
        let is_open = |root: u32| root != NIL && self.table[root].least_opens <= now;
        let mut root = self.ring;
        while is_open(root) {
            let Group { links, opens, .. } = self.table[root];
            root = match links {
                Links { left, .. } if is_open(left) => left,
                _ if opens <= now => return root,
                Links { right, .. } => right,
            };
        }
        NIL
    }

    /// The first group in the ring behind `turn` that has a ready job, or `NIL`. O(log n).
    pub(super) fn next_ready(&self, turn: Option<u64>, now: Millis) -> u32 {
        self.ready_in(self.ring, turn, now)
    }

    fn ready_in(&self, root: u32, behind: Option<u64>, now: Millis) -> u32 {
        if root == NIL || self.table[root].least_ready > now {
            return NIL;
        }
        let Group { links, ready, turn, .. } = self.table[root];
        let is_behind = behind.is_none_or(|behind| turn > behind);
        if is_behind {
            let found = self.ready_in(links.left, behind, now);
            if found != NIL {
                return found;
            }
            if ready <= now {
                return root;
            }
        }
        self.ready_in(links.right, behind, now)
    }

    /// How many groups have jobs. O(1).
    pub(in crate::model::queue) fn with_jobs(&self) -> usize {
        tree::size(&self.table, self.ring) as usize
    }

    /// The groups with jobs in the order of their turns.
    pub(super) fn in_turn(&self) -> impl Iterator<Item = u32> {
        let mut path = Vec::new();
        let mut root = self.ring;
        std::iter::from_fn(move || {
            while root != NIL {
                path.push(root);
                root = self.table[root].links.left;
            }
            let group = path.pop()?;
            root = self.table[group].links.right;
            Some(group)
        })
    }
}
