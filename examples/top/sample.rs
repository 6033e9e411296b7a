//! What is asked of the server. However many keys it holds, a sample costs it a bounded number of cheap commands: queues are
//! found by a SCAN that goes a few thousand keys further with every sample, and looked at in turns.

use redis::{Client, Connection, FromRedisValue, Pipeline, RedisResult, Value, cmd, pipe};
use std::collections::{BTreeMap, HashMap};

/// Keys that a sample looks at: so many SCANs of so many keys. Each of them takes the server about half a millisecond.
const SCANS: usize = 10;
const KEYS_PER_SCAN: usize = 500;

/// Queues whose figures a sample refreshes.
const QUEUES: usize = 200;

pub struct Source {
    connection: Connection,
    pub address: String,
    cursor: u64,
    /// Steps of the walk under way through all keys, and whether one has come to its end.
    walked: u64,
    complete: bool,
    queues: BTreeMap<Vec<u8>, Queue>,
    /// The queue after which the next turn begins.
    turn: Vec<u8>,
}

/// The state of the server at one moment.
pub struct Sample {
    pub address: String,
    /// The server's clock, µs.
    pub at: u64,
    pub info: HashMap<String, String>,
    /// The queues known up to now.
    pub queues: BTreeMap<Vec<u8>, Queue>,
    /// Slow commands of the module, newest first.
    pub slow: Vec<Slow>,
    pub keys: u64,
    /// How much of the keyspace has been searched for queues, in percent.
    pub searched: u64,
}

#[derive(Clone, Default)]
pub struct Queue {
    /// When the figures were read: the server's clock, µs.
    pub at: u64,
    pub ready: u64,
    pub delayed: u64,
    pub claimed: u64,
    pub dead: u64,
    pub pushed: u64,
    pub acked: u64,
    /// The due time of the job that has been ready the longest, Unix ms.
    pub oldest_ready_ms: Option<u64>,
    /// When the next delayed job is due and the next lease ends, Unix ms; asked only of queues that are shown.
    pub next_due_ms: Option<u64>,
    pub next_deadline_ms: Option<u64>,
}

pub struct Slow {
    /// Unix seconds.
    pub at: u64,
    pub micros: u64,
    pub command: String,
}

impl Source {
    pub fn open(url: &str) -> RedisResult<Source> {
        let client = Client::open(url)?;
        let address = client.get_connection_info().addr().to_string();
        let connection = client.get_connection()?;
        let (queues, turn) = (BTreeMap::new(), Vec::new());
        Ok(Source { connection, address, cursor: 0, walked: 0, complete: false, queues, turn })
    }

    /// Asks for everything; for the next deadlines only of the `rows` queues that will be shown.
    pub fn sample(&mut self, rows: usize) -> RedisResult<Sample> {
        self.find_queues()?;
        let ((seconds, micros), keys, info, slow): ((u64, u64), u64, String, Value) = pipe()
            .cmd("TIME")
            .cmd("DBSIZE")
            .cmd("INFO")
            .arg(&["server", "clients", "memory", "stats", "commandstats", "latencystats", "zeitset"])
            .cmd("SLOWLOG")
            .arg(&["GET", "64"])
            .query(&mut self.connection)?;
        let at = seconds * 1_000_000 + micros;
        self.look_at_queues(at)?;
        self.ask_for_deadlines(rows)?;
        let fields = info.lines().filter_map(|line| line.split_once(':'));
        let walked = self.walked * 100 / keys.max(1);
        Ok(Sample {
            address: self.address.clone(),
            at,
            info: fields.map(|(name, value)| (name.to_owned(), value.trim().to_owned())).collect(),
            queues: self.queues.clone(),
            slow: slow_commands(slow),
            keys,
            searched: if self.complete { 100 } else { walked.min(99) },
        })
    }

    /// Walks on through the keys; a walk that has come to the end begins anew with the next sample.
    fn find_queues(&mut self) -> RedisResult<()> {
        for _ in 0..SCANS {
            let (cursor, keys): (u64, Vec<Vec<u8>>) = cmd("SCAN")
                .arg(self.cursor)
                .arg("COUNT")
                .arg(KEYS_PER_SCAN)
                .arg("TYPE")
                .arg("zeitqueue")
                .query(&mut self.connection)?;
            for key in keys {
                self.queues.entry(key).or_default();
            }
            self.cursor = cursor;
            self.walked += KEYS_PER_SCAN as u64;
            if cursor == 0 {
                self.complete = true;
                self.walked = 0;
                break;
            }
        }
        Ok(())
    }

    /// Refreshes the figures of those whose turn it is, and forgets the queues that are gone.
    fn look_at_queues(&mut self, at: u64) -> RedisResult<()> {
        let after = self.queues.keys().filter(|&key| *key > self.turn);
        let before = self.queues.keys().filter(|&key| *key <= self.turn);
        let keys: Vec<_> = after.chain(before).take(QUEUES).cloned().collect();
        let mut pipe = pipe();
        for key in &keys {
            pipe.cmd("EXISTS").arg(key).cmd("ZQ.STATS").arg(key);
        }
        let replies = self.ask(pipe)?;
        for (key, replies) in keys.into_iter().zip(replies.chunks_exact(2)) {
            self.turn.clone_from(&key);
            match replies {
                // A key that has become something else answers an error.
                [Ok(Value::Int(1)), Ok(stats)] => {
                    let queue = Queue::read(stats.clone(), at)?;
                    self.queues.insert(key, queue);
                }
                _ => {
                    self.queues.remove(&key);
                }
            }
        }
        Ok(())
    }

    fn ask_for_deadlines(&mut self, rows: usize) -> RedisResult<()> {
        let shown: Vec<_> = shown(&self.queues, rows).map(|(key, _)| key.clone()).collect();
        let mut pipe = pipe();
        for key in &shown {
            pipe.cmd("ZQ.PEEK").arg(key).arg(&["DELAYED", "COUNT", "1"]);
            pipe.cmd("ZQ.PEEK").arg(key).arg(&["CLAIMED", "COUNT", "1"]);
        }
        let replies = self.ask(pipe)?;
        for (key, replies) in shown.iter().zip(replies.chunks_exact(2)) {
            let Some(queue) = self.queues.get_mut(key) else { continue };
            queue.next_due_ms = replies[0].as_ref().ok().and_then(first_time);
            queue.next_deadline_ms = replies[1].as_ref().ok().and_then(first_time);
        }
        Ok(())
    }

    /// The replies, errors among them.
    fn ask(&mut self, mut pipe: Pipeline) -> RedisResult<Vec<RedisResult<Value>>> {
        // The client refuses to send nothing.
        if pipe.is_empty() { Ok(Vec::new()) } else { pipe.ignore_errors().query(&mut self.connection) }
    }
}

impl Queue {
    fn read(stats: Value, at: u64) -> RedisResult<Queue> {
        let stats = HashMap::<String, Value>::from_redis_value(stats)?;
        let number = |name: &str| match stats.get(name) {
            Some(&Value::Int(number)) => u64::try_from(number).ok(),
            _ => None,
        };
        let count = |name| number(name).unwrap_or_default();
        Ok(Queue {
            at,
            ready: count("ready"),
            delayed: count("delayed"),
            claimed: count("claimed"),
            dead: count("dead"),
            pushed: count("pushed"),
            acked: count("acked"),
            oldest_ready_ms: number("oldest_ready_ms"),
            next_due_ms: None,
            next_deadline_ms: None,
        })
    }
}

/// The queues with the most ready jobs, then with the most jobs, then by name.
pub fn shown(queues: &BTreeMap<Vec<u8>, Queue>, rows: usize) -> impl Iterator<Item = (&Vec<u8>, &Queue)> {
    let mut queues: Vec<_> = queues.iter().collect();
    queues.sort_by_key(|(_, queue)| std::cmp::Reverse((queue.ready, queue.claimed + queue.delayed + queue.dead)));
    queues.into_iter().take(rows)
}

/// The second field of the first job of a ZQ.PEEK.
fn first_time(jobs: &Value) -> Option<u64> {
    let Value::Array(jobs) = jobs else { return None };
    match jobs.first()? {
        Value::Array(fields) => u64::from_redis_value(fields.get(1)?.clone()).ok(),
        _ => None,
    }
}

fn slow_commands(log: Value) -> Vec<Slow> {
    let Value::Array(entries) = log else { return Vec::new() };
    let read = |entry: Value| {
        let Value::Array(fields) = entry else { return None };
        let mut fields = fields.into_iter().skip(1);
        let at = u64::from_redis_value(fields.next()?).ok()?;
        let micros = u64::from_redis_value(fields.next()?).ok()?;
        let words = Vec::<Vec<u8>>::from_redis_value(fields.next()?).ok()?;
        let words: Vec<_> = words.iter().take(8).map(|word| String::from_utf8_lossy(word)).collect();
        is_ours(&words[0]).then(|| Slow { at, micros, command: words.join(" ") })
    };
    entries.into_iter().filter_map(read).collect()
}

/// Whether a command is one of the module's.
pub fn is_ours(command: &str) -> bool {
    let family = command.split('.').next().unwrap_or_default();
    command.contains('.') && ["zexp", "zrl", "zq", "zlb"].iter().any(|name| family.eq_ignore_ascii_case(name))
}
