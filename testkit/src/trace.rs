//! Traces, which prove that a call changed and replicated nothing.

use crate::client::Client;
use crate::reply::show;

/// The state of one key, and the server's dirty count and replication offset. If two traces are equal, nothing changed
/// between them.
///
/// The replication offset moves only while a `Stream` or a replica is attached. The dirty count always moves.
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
    pub fn trace(&mut self, key: &str) -> Trace {
        Trace::take(self, key)
    }
}
