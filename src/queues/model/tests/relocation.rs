//! Tests of active defragmentation: all blocks of memory move, and the queue stays the same.

use super::super::{Push, Queue};
use super::encoded;
use crate::base::relocate::relocate_all;

#[test]
fn a_queue_is_the_same_after_its_memory_has_moved() {
    let mut queue = Queue::new();
    for i in 0..3000u64 {
        let group = (i % 7).to_string();
        let group = if i % 7 == 0 { b"" } else { group.as_bytes() };
        let push = Push { payload: &[b'x'; 100], due: i % 50, group, ..Push::default() };
        assert!(queue.push(10, &push).is_ok());
    }
    queue.claim(20_000, 500, 100, b"", |_| ());
    let before = encoded(&queue);
    for patience in [0, 1, 1000] {
        let moved = relocate_all(&mut queue, patience);
        assert!(moved * 10 > queue.memory_usage() * 8, "{moved} of {} bytes", queue.memory_usage());
        queue.check();
        assert_eq!(encoded(&queue), before);
    }
    assert_eq!(relocate_all(&mut Queue::new(), 0), 0);
}
