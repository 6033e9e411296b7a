//! Handles the keyspace events of keys that get or lose a queue: updates the [`registry`], and wakes waiting clients.

use super::{QueueValue, registry, waiting};
use crate::server::Context;
use crate::server::events::{EventKind, KeyEvent};
use crate::server::key::ReadKey;

pub fn on_key(ctx: &mut Context, event: &KeyEvent<'_>) {
    // A RESTORE is never skipped, because it can create the first queue of the server.
    if event.kind != EventKind::Restore && registry::is_empty(ctx) {
        return;
    }
    match event.kind {
        EventKind::Gone | EventKind::RenameFrom | EventKind::MoveFrom => {
            registry::note_gone(ctx, event.key.bytes(), event.kind != EventKind::Gone);
        }
        EventKind::Restore | EventKind::RenameTo | EventKind::MoveTo | EventKind::CopyTo => {
            let key = ReadKey::open_notouch(ctx, event.key);
            let queue = key.value::<QueueValue>().ok().flatten();
            let holds_queue = queue.inspect(|queue| queue.note_use()).is_some();
            // In a transaction, Valkey 9.1 reports the database of the client, even if MOVE or COPY has written the key
            // to another database. So this function asks the key for its database.
            let database = key.database();
            drop(key);
            if let Some(database) = database.filter(|_| holds_queue) {
                registry::note_arrived(ctx, database, event.key.bytes());
                waiting::wake_first(ctx, database, event.key);
            }
        }
        _ => {}
    }
}
