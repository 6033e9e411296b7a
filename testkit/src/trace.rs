//! Proof that nothing happened: no change, no dirty count, no replication.

use crate::client::Client;
use crate::reply::show;

/// What the server knows of one key and of changes as a whole. Two equal traces: nothing was changed between them.
///
/// The replication offset moves only while a `Stream` or a replica is attached; the dirty count always does.
#[derive(Debug, PartialEq, Eq)]
pub struct Trace {
    dump: String,
    expires_at: i64,
    changes: i64,
    replication_offset: i64,
}

impl Trace {
    pub fn take(client: &mut Client, key: &str) -> Self {
        Self {
            dump: show(&client.run(&format!("DUMP {key}"))),
            expires_at: client.int(&format!("PEXPIRETIME {key}")),
            changes: client.info_number("persistence", "rdb_changes_since_last_save"),
            replication_offset: client.info_number("replication", "master_repl_offset"),
        }
    }
}

impl Client {
    /// Everything about `key` and the server that a call which changes nothing leaves as it is.
    pub fn trace(&mut self, key: &str) -> Trace {
        Trace::take(self, key)
    }
}
