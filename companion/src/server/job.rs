//! Jobs: ZQ.GET and ZQ.PEEK.

use super::{Key, Server, reply};
use redis::{RedisResult, Value, pipe};
use zeitset_client::zq;

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

/// A job. Jobs from a list have fewer fields.
#[derive(Clone, Debug, Default)]
pub struct Job {
    pub id: Key,
    pub state: String,
    pub due_ms: u64,
    pub priority: i64,
    pub attempts: u64,
    pub max_attempts: u64,
    pub payload: Option<Vec<u8>>,
    /// The payload of a push with AGAIN that came while the job was claimed.
    pub again: Option<Vec<u8>>,
    pub worker: Option<Vec<u8>>,
    pub claimed_ms: Option<u64>,
    pub error: Option<Vec<u8>>,
    /// What the job has done so far: the text of ZQ.PROGRESS.
    pub progress: Option<Vec<u8>>,
    /// All other fields of ZQ.GET.
    pub others: Vec<(String, String)>,
}

impl Job {
    pub fn listed(state: State, job: zq::Listed<Key>) -> Job {
        let zq::Listed { id, due_ms, priority, attempts, payload, lease } = job;
        // A claim's token is the time of the claim in µs, or slightly later.
        let claimed_ms = lease.as_ref().map(|lease| lease.token / 1000);
        let (state, worker) = (state.name().into(), lease.and_then(|lease| lease.worker));
        Job { id, state, due_ms, priority, attempts, payload, worker, claimed_ms, ..Job::default() }
    }

    /// Parses the map of ZQ.GET. `None` if there is no such job.
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
                "again_payload" => job.again = reply::bytes(value).map(<[u8]>::to_vec),
                "priority" => job.priority = reply::number(value).unwrap_or_default(),
                "attempts" => job.attempts = reply::count(value).unwrap_or_default(),
                "max_attempts" => job.max_attempts = reply::count(value).unwrap_or_default(),
                "due_ms" => job.due_ms = reply::count(value).unwrap_or_default(),
                "worker" => job.worker = owned(),
                "claimed_ms" => job.claimed_ms = reply::count(value),
                "error" => job.error = owned(),
                "progress" => job.progress = owned(),
                _ => job.others.push((name, reply::text(value))),
            }
        }
        Some(job)
    }
}

/// Reads whole jobs, some with each pipeline of ZQ.GET. ZQ.GET returns whole payloads, so the size of the payloads that
/// were read last decides how many jobs the next pipeline reads.
#[derive(Default)]
pub struct Reader {
    /// The average size of a job in bytes.
    average: usize,
}

impl Reader {
    /// The reader aims at this number of bytes per pipeline.
    const BYTES: usize = 256 * 1024;
    /// The maximum number of jobs per pipeline.
    const JOBS: usize = 100;

    /// Returns the number of jobs that the next pipeline may read.
    pub fn most(&self) -> usize {
        Reader::BYTES.checked_div(self.average).unwrap_or(1).clamp(1, Reader::JOBS)
    }

    /// Returns the jobs with these IDs, `None` for a job that is gone, and the number of bytes that were read.
    pub async fn read(&mut self, server: &Server, key: &[u8], ids: &[&[u8]]) -> RedisResult<(Vec<Option<Job>>, usize)> {
        let mut pipe = pipe();
        for id in ids {
            pipe.cmd("ZQ.GET").arg(key).arg(*id);
        }
        let replies = server.ask(pipe).await?;
        let jobs = ids.iter().zip(replies).map(|(id, reply)| Ok(Job::read(id, &reply?)));
        let jobs = jobs.collect::<RedisResult<Vec<_>>>()?;
        let texts = jobs.iter().flatten().flat_map(|job| [&job.payload, &job.again, &job.error]).flatten();
        let bytes = 200 * ids.len() + texts.map(Vec::len).sum::<usize>();
        if !ids.is_empty() {
            self.average = bytes.div_ceil(ids.len()).max(self.average / 2);
        }
        Ok((jobs, bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use redis::Value::{Array, BulkString, Int};

    #[test]
    fn a_job_has_the_progress_that_its_worker_told() {
        let field = |name: &str, value: Value| [BulkString(name.into()), value];
        let reply = [field("state", BulkString("claimed".into())), field("progress", BulkString("page 7".into()))];
        let job =
            Job::read(b"a", &Array([reply.concat(), field("progress_ms", Int(7)).into()].concat())).expect("a job");
        assert_eq!((job.state.as_str(), job.progress.as_deref()), ("claimed", Some(&b"page 7"[..])));
        assert_eq!(job.others, [("progress_ms".to_owned(), "7".to_owned())]);
        let none = Job::read(b"a", &Array(field("progress", Value::Nil).into())).expect("a job");
        assert_eq!(none.progress, None);
    }
}
