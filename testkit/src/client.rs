//! One connection to a server: commands as lines or as lists of bytes, replies as they are.

use crate::patience::PATIENCE;
use crate::reply::show;
use redis::{Connection, ConnectionLike, PushInfo, Value};
use std::collections::HashMap;
use std::sync::mpsc::Receiver;
use std::time::Duration;

pub struct Client {
    connection: Connection,
    pushes: Receiver<PushInfo>,
}

/// Calls a command with arguments of any type (`&str`, numbers, bytes); panics on an error reply.
#[macro_export]
macro_rules! cmd {
    ($client:expr, $name:expr $(, $arg:expr)* $(,)?) => {
        $client.call($crate::redis::cmd($name)$(.arg($arg))*)
    };
}

impl Client {
    pub fn new(mut connection: Connection) -> Self {
        connection.set_read_timeout(Some(PATIENCE)).expect("a read timeout");
        let (sender, pushes) = std::sync::mpsc::channel();
        connection.set_push_sender(sender);
        Self { connection, pushes }
    }

    /// A connection to a port of this machine. `options` are those of a redis URL.
    pub fn connect(port: u16, options: &str) -> redis::RedisResult<Self> {
        let client = redis::Client::open(format!("redis://127.0.0.1:{port}/{options}"))?;
        Ok(Self::new(client.get_connection_with_timeout(PATIENCE)?))
    }

    /// Sends a command; the reply, or the text of an error.
    pub fn try_call(&mut self, command: &redis::Cmd) -> Result<Value, String> {
        match self.connection.req_packed_command(&command.get_packed_command()) {
            Ok(error @ Value::ServerError(_)) => Err(show(&error)[1..].into()),
            Ok(value) => Ok(value),
            Err(error) => Err(format!("connection lost: {error}")),
        }
    }

    /// Sends a command that must succeed.
    #[track_caller]
    pub fn call(&mut self, command: &redis::Cmd) -> Value {
        self.try_call(command).unwrap_or_else(|error| {
            let words: Vec<_> = command
                .args_iter()
                .map(|arg| match arg {
                    redis::Arg::Simple(bytes) => String::from_utf8_lossy(bytes).into_owned(),
                    _ => "?".into(),
                })
                .collect();
            let line: String = words.join(" ").chars().take(200).collect();
            panic!("{line}: {error}")
        })
    }

    /// Sends the commands of a pipeline, which must succeed.
    #[track_caller]
    pub fn pipe(&mut self, commands: &redis::Pipeline) {
        commands.exec(&mut self.connection).expect("the commands succeed");
    }

    /// Sends a line: words between blanks are the arguments, and `""` stands for an empty one.
    pub fn try_run(&mut self, line: &str) -> Result<Value, String> {
        self.try_call(&command(line))
    }

    /// Sends a line without waiting for the reply, which `receive` gets.
    pub fn send(&mut self, line: &str) {
        self.connection.send_packed_command(&command(line).get_packed_command()).expect("the server reads");
    }

    /// The reply to a line that was sent, in the notation of `reply::show`.
    #[track_caller]
    pub fn receive(&mut self) -> String {
        show(&self.connection.recv_response().expect("the server answers"))
    }

    /// Sends a line that must succeed.
    #[track_caller]
    pub fn run(&mut self, line: &str) -> Value {
        self.call(&command(line))
    }

    /// The reply to a line in the notation of `reply::show`, errors among them.
    pub fn reply(&mut self, line: &str) -> String {
        match self.try_run(line) {
            Ok(value) => show(&value),
            Err(error) => format!("!{error}"),
        }
    }

    /// Runs `(line, expected reply)` one after the other. Of an error only the beginning is compared.
    #[track_caller]
    pub fn script<L: AsRef<str>, R: AsRef<str>>(&mut self, steps: &[(L, R)]) {
        for (line, expected) in steps {
            let (line, expected) = (line.as_ref(), expected.as_ref());
            let got = self.reply(line);
            let same = match expected.strip_prefix('!') {
                Some(_) => got.starts_with(expected),
                None => got == expected,
            };
            assert!(same, "{line}\n  expected: {expected}\n       got: {got}");
        }
    }

    #[track_caller]
    pub fn int(&mut self, line: &str) -> i64 {
        match self.run(line) {
            Value::Int(n) => n,
            other => panic!("{line}: expected an integer, got {}", show(&other)),
        }
    }

    #[track_caller]
    pub fn ints(&mut self, line: &str) -> Vec<i64> {
        match self.run(line) {
            Value::Array(items) => items.iter().map(|item| int_of(line, item)).collect(),
            other => panic!("{line}: expected an array, got {}", show(&other)),
        }
    }

    /// Simple or bulk strings; the elements of an array of them.
    #[track_caller]
    pub fn strings(&mut self, line: &str) -> Vec<String> {
        match self.run(line) {
            Value::Array(items) => items.iter().map(|item| text_of(line, item)).collect(),
            other => panic!("{line}: expected an array, got {}", show(&other)),
        }
    }

    #[track_caller]
    pub fn string(&mut self, line: &str) -> String {
        text_of(line, &self.run(line))
    }

    /// `member score member score ...` as ZRANGE shows it: members and the times at which they expire.
    #[track_caller]
    pub fn scores(&mut self, key: &str) -> Vec<(String, f64)> {
        self.strings(&format!("ZRANGE {key} 0 -1 WITHSCORES"))
            .chunks(2)
            .map(|pair| (pair[0].clone(), pair[1].parse().expect("a score")))
            .collect()
    }

    /// The server's clock in Unix milliseconds, rounded down.
    pub fn now(&mut self) -> i64 {
        let time: Vec<i64> = self.strings("TIME").iter().map(|part| part.parse().expect("TIME")).collect();
        time[0] * 1000 + time[1] / 1000
    }

    /// Returns when the server's clock shows `instant` (Unix ms) or later.
    pub fn wait_until(&mut self, instant: i64) {
        loop {
            let left = instant - self.now();
            if left <= 0 {
                return;
            }
            std::thread::sleep(Duration::from_millis(left.unsigned_abs().min(1000)));
        }
    }

    /// One section of INFO as a map.
    pub fn info(&mut self, section: &str) -> HashMap<String, String> {
        self.info_of(&format!("INFO {section}"))
    }

    /// The same of another command that replies lines of `field:value`.
    pub fn info_of(&mut self, line: &str) -> HashMap<String, String> {
        let text = match self.run(line) {
            Value::BulkString(bytes) => String::from_utf8(bytes).expect("INFO is text"),
            Value::VerbatimString { text, .. } => text,
            other => panic!("{line}: {}", show(&other)),
        };
        text.lines()
            .filter_map(|line| line.split_once(':'))
            .map(|(field, value)| (field.to_owned(), value.trim().to_owned()))
            .collect()
    }

    /// A number out of INFO.
    pub fn info_number(&mut self, section: &str, field: &str) -> i64 {
        self.info(section)[field].parse().expect("a number")
    }

    /// Whether the server is a Valkey older than `version`.
    pub fn is_valkey_before(&mut self, version: [u32; 3]) -> bool {
        let info = self.info("server");
        let numbers = |text: &String| text.split('.').map(|part| part.parse().expect("a number")).collect::<Vec<u32>>();
        info.get("valkey_version").is_some_and(|text| numbers(text).as_slice() < version.as_slice())
    }

    /// valkey#4024: where a module listens for events, `COPY ... DB n` leaves the client in database n, and is replicated
    /// as if it had been sent there.
    pub fn copy_loses_the_database(&mut self) -> bool {
        self.is_valkey_before([9, 1, 1])
    }

    /// Subscribes this RESP3 connection; messages arrive as `pushes`.
    pub fn psubscribe(&mut self, pattern: &str) {
        self.connection.psubscribe_resp3(pattern).expect("a RESP3 connection");
        // The confirmation is a push, too.
        self.pushes();
    }

    /// The push messages (RESP3) that have arrived up to now, in the notation of `reply::show`.
    pub fn pushes(&mut self) -> Vec<String> {
        // The reply to a PING comes after whatever was pushed before it.
        self.run("PING");
        self.pushes.try_iter().map(|push| show(&Value::Push { kind: push.kind, data: push.data })).collect()
    }
}

fn command(line: &str) -> redis::Cmd {
    let mut words = line.split_whitespace();
    let mut command = redis::cmd(words.next().expect("a command"));
    for word in words {
        command.arg(if word == "\"\"" { "" } else { word });
    }
    command
}

#[track_caller]
fn int_of(line: &str, value: &Value) -> i64 {
    match value {
        Value::Int(n) => *n,
        other => panic!("{line}: expected an integer, got {}", show(other)),
    }
}

#[track_caller]
fn text_of(line: &str, value: &Value) -> String {
    match value {
        Value::Int(n) => n.to_string(),
        Value::Double(number) => number.to_string(),
        Value::BulkString(bytes) => String::from_utf8_lossy(bytes).into_owned(),
        Value::SimpleString(text) => text.clone(),
        Value::Okay => "OK".into(),
        other => panic!("{line}: expected a string, got {}", show(other)),
    }
}
