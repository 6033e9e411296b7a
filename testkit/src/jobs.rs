//! Jobs and queues: claims, and fields of replies.

use crate::client::Client;
use redis::Value;

impl Client {
    /// Claims a job with `line`, a call of ZQ.CLAIM. Returns the job's token.
    #[track_caller]
    pub fn claim(&mut self, line: &str) -> i64 {
        let Value::Array(jobs) = self.run(line) else { panic!("{line}: no array") };
        match jobs.first() {
            // key, id, token, attempt, deadline, payload
            Some(Value::Array(job)) => redis::from_redis_value_ref(&job[2]).expect("a token"),
            _ => panic!("{line}: nothing to claim"),
        }
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
