//! Jobs: ZQ.GET and ZQ.PEEK.

use super::{Key, reply};
use redis::Value;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    Ready,
    Delayed,
    Claimed,
    Dead,
}

impl State {
    pub const ALL: [State; 4] = [State::Ready, State::Delayed, State::Claimed, State::Dead];

    pub fn name(self) -> &'static str {
        match self {
            State::Ready => "ready",
            State::Delayed => "delayed",
            State::Claimed => "claimed",
            State::Dead => "dead",
        }
    }

    pub fn parse(name: &[u8]) -> Option<State> {
        State::ALL.into_iter().find(|state| state.name().as_bytes().eq_ignore_ascii_case(name))
    }
}

/// What is known of a job; of one that was listed without its payload, less.
#[derive(Clone, Debug, Default)]
pub struct Job {
    pub id: Key,
    pub state: String,
    pub due_ms: u64,
    pub priority: i64,
    pub attempts: u64,
    pub max_attempts: u64,
    pub payload: Option<Vec<u8>>,
    pub worker: Option<Vec<u8>>,
    pub error: Option<Vec<u8>>,
    /// All else that ZQ.GET tells.
    pub others: Vec<(String, String)>,
}

impl Job {
    /// `[id, due_ms, priority, attempts, payload]`.
    pub fn listed(state: State, value: &Value) -> Option<Job> {
        let [id, due, priority, attempts, payload, ..] = reply::array(value) else { return None };
        Some(Job {
            id: reply::bytes(id)?.to_vec(),
            state: state.name().into(),
            due_ms: reply::count(due).unwrap_or_default(),
            priority: reply::number(priority).unwrap_or_default(),
            attempts: reply::count(attempts).unwrap_or_default(),
            payload: reply::bytes(payload).map(<[u8]>::to_vec),
            ..Job::default()
        })
    }

    /// The map of ZQ.GET; `None`: there is no such job.
    pub fn read(id: &[u8], value: &Value) -> Option<Job> {
        let pairs = reply::pairs(value);
        if pairs.is_empty() {
            return None;
        }
        let mut job = Job { id: id.to_vec(), ..Job::default() };
        for (name, value) in pairs {
            let owned = || reply::bytes(value).filter(|bytes| !bytes.is_empty()).map(<[u8]>::to_vec);
            match name.as_str() {
                "state" => job.state = reply::text(value),
                "payload" => job.payload = reply::bytes(value).map(<[u8]>::to_vec),
                "priority" => job.priority = reply::number(value).unwrap_or_default(),
                "attempts" => job.attempts = reply::count(value).unwrap_or_default(),
                "max_attempts" => job.max_attempts = reply::count(value).unwrap_or_default(),
                "due_ms" => job.due_ms = reply::count(value).unwrap_or_default(),
                "worker" => job.worker = owned(),
                "error" => job.error = owned(),
                _ => job.others.push((name, reply::text(value))),
            }
        }
        Some(job)
    }
}
