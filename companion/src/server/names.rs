//! The queues of the database by name, in pages: ZQ.LIST.

use super::{Key, Server, reply};
use redis::{RedisError, RedisResult};

/// Returns the reason why the queues cannot be listed, for display.
pub fn unlisted(error: &RedisError) -> String {
    match super::message(error) {
        // The server's own message contains the whole command.
        text if text.contains("unknown command") => {
            "the server has no queue commands: the module is not loaded, or was loaded with the word plain".into()
        }
        text => text,
    }
}

impl Server {
    /// Returns the next names of queues after `after`, in byte order. Returns at most `count` names.
    pub async fn queues_after(&self, after: &[u8], count: usize) -> RedisResult<Vec<Key>> {
        let count = count.to_string();
        let mut words: Vec<&[u8]> = vec![b"ZQ.LIST"];
        if !after.is_empty() {
            words.extend([b"AFTER", after]);
        }
        words.extend([b"COUNT", count.as_bytes()]);
        let names = self.one(&words).await?;
        Ok(reply::array(&names).iter().filter_map(reply::bytes).map(<[u8]>::to_vec).collect())
    }
}
