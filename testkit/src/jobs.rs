//! Claims jobs, and reads fields of the replies.

use crate::client::Client;
use crate::patience::{PATIENCE, eventually};
use crate::server::Server;
use redis::Value;

/// A claimed job.
#[derive(Clone, Debug)]
pub struct Job {
    pub id: String,
    pub token: i64,
    pub attempt: i64,
    pub deadline: i64,
    pub payload: String,
}

impl Job {
    /// Parses a reply of ZQ.CLAIM.
    #[track_caller]
    pub fn all(reply: &Value) -> Vec<Job> {
        let rows: Vec<(String, String, i64, i64, i64, String)> = redis::from_redis_value_ref(reply).expect("jobs");
        let job = |(_, id, token, attempt, deadline, payload)| Job { id, token, attempt, deadline, payload };
        rows.into_iter().map(job).collect()
    }
}

impl Client {
    /// Runs a ZQ.CLAIM. Returns the claimed jobs.
    #[track_caller]
    pub fn jobs(&mut self, line: &str) -> Vec<Job> {
        Job::all(&self.run(line))
    }

    /// Claims exactly one job.
    #[track_caller]
    pub fn job(&mut self, line: &str) -> Job {
        let mut jobs = self.jobs(line);
        assert!(jobs.len() == 1, "{line}: not one job: {jobs:?}");
        jobs.remove(0)
    }

    /// Claims exactly one job. Returns the job's token.
    #[track_caller]
    pub fn claim(&mut self, line: &str) -> i64 {
        self.job(line).token
    }

    /// Returns the first field of each row of a reply, such as the IDs of ZQ.PEEK.
    #[track_caller]
    pub fn ids(&mut self, line: &str) -> Vec<String> {
        let rows: Vec<Vec<Value>> = redis::from_redis_value(self.run(line)).expect("rows");
        rows.iter().map(|row| redis::from_redis_value_ref(&row[0]).expect("a text")).collect()
    }

    /// Sends a command that may block. Returns when the server has run the command. At that time, this client is
    /// blocked, or its reply has arrived. `receive` reads the reply.
    #[track_caller]
    pub fn waits(mut self, control: &mut Client, line: &str) -> Self {
        self.send(line);
        let command = line.split(' ').next().expect("a command").to_lowercase();
        let (list, ran) = (format!("CLIENT LIST ID {}", self.id), format!(" cmd={command} "));
        eventually(PATIENCE, "the client waits", || control.string(&list).to_lowercase().contains(&ran));
        self
    }

    #[track_caller]
    pub fn is_blocked(&mut self, other: &Client) -> bool {
        let list = self.string(&format!("CLIENT LIST ID {}", other.id));
        let flags = list.split(' ').find_map(|word| word.strip_prefix("flags="));
        flags.expect("the client is connected").contains('b')
    }

    /// Reads the reply to a sent claim. Returns the ID of its only job.
    #[track_caller]
    pub fn receive_id(&mut self) -> String {
        let reply = self.receive();
        let words: Vec<_> = reply.split(' ').collect();
        assert!(reply.starts_with("[[") && words.len() == 6, "not one job: {reply}");
        words[1].trim_matches('\'').to_owned()
    }

    /// Waits until `count` clients are blocked.
    #[track_caller]
    pub fn wait_for_blocked(&mut self, count: i64) {
        eventually(PATIENCE, "clients wait", || self.info_number("clients", "blocked_clients") == count);
    }

    /// Returns a numeric field from the reply of ZQ.STATS, ZQ.GET or ZQ.CONFIG.
    #[track_caller]
    pub fn field(&mut self, line: &str, name: &str) -> i64 {
        redis::from_redis_value(self.field_value(line, name)).expect("a number")
    }

    /// Returns a text field from the reply of ZQ.STATS, ZQ.GET or ZQ.CONFIG.
    #[track_caller]
    pub fn text_field(&mut self, line: &str, name: &str) -> String {
        redis::from_redis_value(self.field_value(line, name)).expect("a text")
    }

    #[track_caller]
    fn field_value(&mut self, line: &str, name: &str) -> Value {
        let Value::Array(values) = self.run(line) else { panic!("{line}: no map") };
        let pair =
            values.chunks(2).find(|pair| matches!(&pair[0], Value::BulkString(field) if field == name.as_bytes()));
        pair.unwrap_or_else(|| panic!("{line}: no {name}"))[1].clone()
    }
}

impl Server {
    /// Starts a client that waits in a claim.
    #[track_caller]
    pub fn waiting(&self, line: &str) -> Client {
        self.client().waits(&mut self.client(), line)
    }
}
