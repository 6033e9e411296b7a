//! All that a server holds: two equal ones differ in nothing that a client can see.

use crate::client::Client;
use crate::patience::PATIENCE;
use crate::reply::{show, show_bytes};
use redis::Value;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// How many databases a server has by default.
const DATABASES: i64 = 16;

/// By database and key: type, time-to-live (absolute, Unix ms) and content.
#[derive(Debug, PartialEq)]
pub struct Dataset(BTreeMap<(i64, String), Entry>);

#[derive(Debug, PartialEq)]
struct Entry {
    kind: String,
    expires_at: String,
    content: String,
}

impl Dataset {
    /// Reads everything. Database 0 is selected afterwards. Of a node of a cluster, also one that is a replica.
    pub fn of(client: &mut Client) -> Self {
        let mut entries = BTreeMap::new();
        // Refused where there is no cluster.
        let _ = client.try_run("READONLY");
        for database in 0..DATABASES {
            // A cluster may have one database only.
            if client.try_run(&format!("SELECT {database}")).is_err() {
                break;
            }
            let Value::Array(keys) = client.run("KEYS *") else { panic!("KEYS answers an array") };
            for key in keys {
                // Keys may be any bytes.
                let Value::BulkString(key) = key else { panic!("a key is a string") };
                let mut ask = |words: &[&str]| {
                    let mut command = redis::cmd(words[0]);
                    command.arg(&key).arg(&words[1..]);
                    // A key that is on its way to another node, or back, is a difference, not the end of the test.
                    client.try_call(&command).unwrap_or_else(Value::SimpleString)
                };
                let kind = show(&ask(&["TYPE"]));
                let content = match kind.as_str() {
                    // Not the dump: it differs with the encoding, which a server may choose again when it loads.
                    "+zset" => show(&ask(&["ZRANGE", "0", "-1", "WITHSCORES"])),
                    _ => show(&ask(&["DUMP"])),
                };
                let expires_at = show(&ask(&["PEXPIRETIME"]));
                entries.insert((database, show_bytes(&key)), Entry { kind, expires_at, content });
            }
        }
        client.run("SELECT 0");
        Self(entries)
    }
}

impl Dataset {
    /// The keys that are not the same, as they are here and there.
    pub fn differences(&self, other: &Dataset) -> String {
        let keys: std::collections::BTreeSet<_> = self.0.keys().chain(other.0.keys()).collect();
        keys.into_iter()
            .filter(|key| self.0.get(key) != other.0.get(key))
            .map(|key| format!("{key:?}\n  {:?}\n  {:?}\n", self.0.get(key), other.0.get(key)))
            .collect()
    }
}

/// Waits until two servers hold the same.
#[track_caller]
pub fn assert_same_data(one: &mut Client, other: &mut Client) {
    let start = Instant::now();
    loop {
        let (left, right) = (Dataset::of(one), Dataset::of(other));
        // Not to be read once more for the message: what expires in between would make them differ.
        if left == right {
            return;
        }
        assert!(start.elapsed() < PATIENCE, "{}", left.differences(&right));
        std::thread::sleep(Duration::from_millis(20));
    }
}
