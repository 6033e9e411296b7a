//! The queues of the database by name, in pages: ZQ.LIST.

use super::{Key, Server};
use redis::{RedisError, RedisResult};
use zeitset_client::zq;

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
        let list = zq::list().count(count as u64).reply_as();
        self.call(if after.is_empty() { list } else { list.after(after) }).await
    }
}
