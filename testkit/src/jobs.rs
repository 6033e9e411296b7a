//! Jobs and queues: claims, and fields of replies.

use crate::client::Client;
use crate::patience::{PATIENCE, eventually};
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
    /// Reads a reply of ZQ.CLAIM.
    #[track_caller]
    pub fn all(reply: &Value) -> Vec<Job> {
        let rows: Vec<(String, String, i64, i64, i64, String)> = redis::from_redis_value_ref(reply).expect("jobs");
        let job = |(_, id, token, attempt, deadline, payload)| Job { id, token, attempt, deadline, payload };
        rows.into_iter().map(job).collect()
    }
}

impl Client {
    /// Calls `line`, a ZQ.CLAIM.
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
