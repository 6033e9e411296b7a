//! A server's dataset. Equal datasets look the same to every client.

use crate::client::Client;
use crate::patience::PATIENCE;
use crate::reply::{show, show_bytes};
use redis::Value;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// The default number of databases of a server.
const DATABASES: i64 = 16;

/// The type, expiry (Unix ms) and content of each key, by database and name.
#[derive(Debug, PartialEq)]
pub struct Dataset(BTreeMap<(i64, String), Entry>);

#[derive(Debug, PartialEq)]
struct Entry {
    kind: String,
    expires_at: String,
    content: String,
}

impl Dataset {
    /// Reads the whole dataset, even from a replica in a cluster. Selects database 0 afterwards.
    pub fn of(client: &mut Client) -> Self {
        let mut entries = BTreeMap::new();
        // Without a cluster, this command fails.
        let _ = client.try_run("READONLY");
        client.run("SELECT 0");
        for database in 0..DATABASES {
            // A cluster may have only one database.
            if database > 0 && client.try_run(&format!("SELECT {database}")).is_err() {
                break;
            }
            let Value::Array(keys) = client.run("KEYS *") else { panic!("KEYS answers an array") };
            for key in keys {
                // A key may have any bytes.
                let Value::BulkString(key) = key else { panic!("a key is a string") };
                let mut ask = |words: &[&str]| {
                    let mut command = redis::cmd(words[0]);
                    command.arg(&key).arg(&words[1..]);
                    // If a key is being moved to another node, the command returns an error. The error counts as a
                    // difference and must not end the test.
                    client.try_call(&command).unwrap_or_else(Value::SimpleString)
                };
                let kind = show(&ask(&["TYPE"]));
                let content = match kind.as_str() {
                    // The dump depends on the encoding. A server that loads the set may choose another encoding.
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
    /// Removes the keys that have expired at `now` (Unix ms).
    pub fn forget_expired(&mut self, now: i64) {
        self.0.retain(|_, entry| entry.expires_at.parse::<i64>().is_ok_and(|at| at < 0 || at > now));
    }

    pub fn differences(&self, other: &Dataset) -> String {
        let keys: std::collections::BTreeSet<_> = self.0.keys().chain(other.0.keys()).collect();
        keys.into_iter()
            .filter(|key| self.0.get(key) != other.0.get(key))
            .map(|key| format!("{key:?}\n  {:?}\n  {:?}\n", self.0.get(key), other.0.get(key)))
            .collect()
    }
}

/// Waits until two servers have equal data. Fails the test if their data still differ after `PATIENCE`.
#[track_caller]
pub fn assert_same_data(one: &mut Client, other: &mut Client) {
    let start = Instant::now();
    loop {
        let (left, right) = (Dataset::of(one), Dataset::of(other));
        // Compares the values that the message will show. A second read may differ, because members expire.
        if left == right {
            return;
        }
        assert!(start.elapsed() < PATIENCE, "{}", left.differences(&right));
        std::thread::sleep(Duration::from_millis(20));
    }
}
