//! All that a server holds: two equal ones differ in nothing that a client can see.

use super::{Client, PATIENCE, reply::show};
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
    expires_at: i64,
    content: String,
}

impl Dataset {
    /// Reads everything. Database 0 is selected afterwards.
    pub fn of(client: &mut Client) -> Self {
        let mut entries = BTreeMap::new();
        for database in 0..DATABASES {
            client.run(&format!("SELECT {database}"));
            for key in client.strings("KEYS *") {
                let kind = client.string(&format!("TYPE {key}"));
                let content = match kind.as_str() {
                    // Not the dump: it differs with the encoding, which a server may choose anew when it loads.
                    "zset" => show(&client.run(&format!("ZRANGE {key} 0 -1 WITHSCORES"))),
                    _ => show(&client.run(&format!("DUMP {key}"))),
                };
                let expires_at = client.int(&format!("PEXPIRETIME {key}"));
                entries.insert((database, key), Entry { kind, expires_at, content });
            }
        }
        client.run("SELECT 0");
        Self(entries)
    }
}

/// Waits until two servers hold the same.
#[track_caller]
pub fn assert_same_data(one: &mut Client, other: &mut Client) {
    let start = Instant::now();
    while Dataset::of(one) != Dataset::of(other) && start.elapsed() < PATIENCE {
        std::thread::sleep(Duration::from_millis(20));
    }
    assert_eq!(Dataset::of(one), Dataset::of(other));
}
