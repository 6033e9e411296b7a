//! Shows what a call changed. A `Trace` is the state of a key before or after the call. A `Witness` records what the
//! call sent to replicas and to clients that watch the key.

use crate::client::Client;
use crate::server::Server;
use crate::stream::Stream;

/// The state of one key, the server's count of changes since the last save, and the replication offset. If two traces
/// are equal, nothing changed between them.
///
/// Every change increases the count. The replication offset increases only while a `Stream` or a replica is attached.
#[derive(Debug, PartialEq, Eq)]
pub struct Trace {
    dump: String,
    expires_at: i64,
    changes: i64,
    replication_offset: i64,
}

impl Client {
    pub fn trace(&mut self, key: &str) -> Trace {
        Trace {
            dump: self.reply(&format!("DUMP {key}")),
            expires_at: self.int(&format!("PEXPIRETIME {key}")),
            changes: self.info_number("persistence", "rdb_changes_since_last_save"),
            replication_offset: self.info_number("replication", "master_repl_offset"),
        }
    }
}

/// The observers of a key: replicas and the AOF, transactions that watch the key, clients that have cached the key, and
/// listeners of keyspace events.
pub struct Witness {
    stream: Stream,
    watcher: Client,
    cache: Client,
    listener: Client,
    key: String,
    /// A command that reads the key. The client `cache` sends it, so that the server tracks the key for this client.
    read: String,
}

/// The commands and events that the observers got from one call.
#[derive(Debug, PartialEq, Eq)]
pub struct Told {
    /// The replicated commands, without MULTI and EXEC.
    pub commands: Vec<String>,
    /// The keyspace events, each with its key, as `zadd k`.
    pub events: Vec<String>,
}

impl Witness {
    pub fn of(server: &Server, key: &str, read: &str) -> Self {
        let (watcher, mut cache, mut listener) = (server.client(), server.resp3(), server.resp3());
        cache.run("CLIENT TRACKING ON");
        listener.run("CONFIG SET notify-keyspace-events KEA");
        listener.psubscribe("__keyevent@*__:*");
        Self { stream: Stream::attach(server), watcher, cache, listener, key: key.into(), read: read.into() }
    }

    /// Runs a command, which may return an error. If the key has changed, asserts that all observers were notified. If
    /// not, asserts that none were.
    #[track_caller]
    pub fn call(&mut self, c: &mut Client, line: &str) -> Told {
        self.watcher.run(&format!("WATCH {}", self.key));
        self.cache.run(&self.read);
        self.cache.pushes();
        self.stream.take();
        self.listener.pushes();
        let before = c.trace(&self.key);
        c.reply(line);
        let is_changed = c.trace(&self.key) != before;
        let mut commands = self.stream.take();
        commands.retain(|command| !["MULTI", "EXEC"].contains(&command.as_str()));
        // The last event belongs to the key that `Stream` writes as a marker.
        let events: Vec<_> =
            self.listener.pushes().iter().map(|push| event(push)).filter(|it| !it.ends_with(" test:mark")).collect();
        let exec = if is_changed { "nil" } else { "[+PONG]" };
        self.watcher.script(&[("MULTI", "+OK"), ("PING", "+QUEUED"), ("EXEC", exec)]);
        let invalidated = if is_changed { vec![format!(">[Invalidate ['{}']]", self.key)] } else { vec![] };
        assert_eq!(self.cache.pushes(), invalidated, "{line}: caches");
        assert_eq!(!commands.is_empty(), is_changed, "{line}: replicates {commands:?}");
        assert_eq!(!events.is_empty(), is_changed, "{line}: sends {events:?}");
        Told { commands, events }
    }
}

/// Returns `zadd k` for the message `>[PMessage ... '__keyevent@0__:zadd' 'k']`.
fn event(push: &str) -> String {
    let told = push.rsplit_once("__:").map_or(push, |(_, told)| told);
    told.trim_end_matches("']").replace("' '", " ")
}
