//! The queues of the database by name, page by page: ZQ.LIST.

use super::{Key, Server, reply};
use redis::{RedisResult, Value, cmd, pipe};
use std::collections::BTreeSet;
use tokio::sync::Mutex;

/// Keys that one step of the walk looks at. Takes the server about half a millisecond.
const KEYS_PER_SCAN: usize = 500;
const SCANS: usize = 10;

/// Finds queues. A module without ZQ.LIST is asked by SCAN, a few thousand keys further with every question.
#[derive(Default)]
pub struct Names {
    walk: Mutex<Walk>,
}

#[derive(Default)]
struct Walk {
    cursor: u64,
    found: BTreeSet<Key>,
    seen: BTreeSet<Key>,
}

impl Names {
    /// At most `count` names that come after `after` in byte order.
    pub async fn after(&self, server: &Server, after: &[u8], count: usize) -> RedisResult<Vec<Key>> {
        let mut list = cmd("ZQ.LIST");
        if !after.is_empty() {
            list.arg("AFTER").arg(after);
        }
        let mut pipe = pipe();
        pipe.add_command(list.arg("COUNT").arg(count).to_owned());
        match server.ask(pipe).await?.pop().expect("a reply for each command") {
            Ok(names) => Ok(keys(&names)),
            Err(error) if error.to_string().contains("unknown command") => self.walk(server, after, count).await,
            Err(error) => Err(error),
        }
    }

    async fn walk(&self, server: &Server, after: &[u8], count: usize) -> RedisResult<Vec<Key>> {
        let mut walk = self.walk.lock().await;
        for _ in 0..SCANS {
            let cursor = walk.cursor.to_string();
            let size = KEYS_PER_SCAN.to_string();
            let words = ["SCAN", &cursor, "COUNT", &size, "TYPE", "zeitqueue"].map(str::as_bytes);
            let reply = server.one(&words).await?;
            let [cursor, names] = reply::array(&reply) else { break };
            walk.cursor = reply::count(cursor).unwrap_or_default();
            for name in keys(names) {
                walk.found.insert(name.clone());
                walk.seen.insert(name);
            }
            if walk.cursor == 0 {
                walk.found = std::mem::take(&mut walk.seen);
                break;
            }
        }
        let later = walk.found.iter().filter(|name| name.as_slice() > after);
        Ok(later.take(count).cloned().collect())
    }
}

fn keys(value: &Value) -> Vec<Key> {
    reply::array(value).iter().filter_map(reply::bytes).map(<[u8]>::to_vec).collect()
}
