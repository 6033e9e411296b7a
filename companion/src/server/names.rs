//! Pages of queues by name (ZQ.LIST) and of a queue's jobs (ZQ.PEEK).

use super::{Job, Key, Server, State};
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

    /// Returns at most `most` jobs in one state, in the order of ZQ.PEEK and without their payloads. With `group`,
    /// returns only jobs of this group. If `after` is not empty, returns only jobs that follow the job `after`.
    pub async fn peek(
        &self,
        key: &[u8],
        state: State,
        group: Option<&[u8]>,
        most: usize,
        after: &[u8],
    ) -> RedisResult<Vec<Job>> {
        let mut peek = zq::peek(key, state.name()).count(most as u64).no_payload().reply_as::<Vec<_>>();
        if !after.is_empty() {
            peek = peek.after(after);
        }
        if let Some(group) = group {
            peek = peek.group(group);
        }
        let listed = self.call(peek).await?;
        Ok(listed.into_iter().map(|job| Job::listed(state, job)).collect())
    }
}
