//! Pages of queues by name (ZQ.LIST) and of a queue's jobs (ZQ.PEEK).

use super::{Job, Key, Server, State, reply};
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
        let count = most.to_string();
        let mut words: Vec<&[u8]> =
            vec![b"ZQ.PEEK", key, state.name().as_bytes(), b"COUNT", count.as_bytes(), b"NOPAYLOAD"];
        if !after.is_empty() {
            words.extend([b"AFTER", after]);
        }
        if let Some(group) = group {
            words.extend([b"GROUP", group]);
        }
        let listed = self.one(&words).await?;
        Ok(reply::array(&listed).iter().filter_map(|job| Job::listed(state, job)).collect())
    }
}
