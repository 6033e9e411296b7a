//! A connection to a server. Commands are lines or lists of bytes.

use crate::patience::{PATIENCE, eventually};
use crate::reply::show;
use redis::{Parser, RedisResult, Value};
use std::collections::HashMap;
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

pub struct Client {
    /// The server's ID of this connection.
    pub id: i64,
    socket: Socket,
    parser: Parser,
    /// The push messages (RESP3) that the client received while it waited for replies.
    pushes: Vec<Value>,
}

/// A socket with a read timeout. After the process was stopped and continued, a read returns EINTR. This socket then
/// reads again, while `redis::Connection` would report a lost connection.
struct Socket(TcpStream);

impl Read for Socket {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        loop {
            match self.0.read(buf) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                result => return result,
            }
        }
    }
}

/// Calls a command with arguments of any type (`&str`, numbers, bytes). Panics on an error reply.
#[macro_export]
macro_rules! cmd {
    ($client:expr, $name:expr $(, $arg:expr)* $(,)?) => {
        $client.call($crate::redis::cmd($name)$(.arg($arg))*)
    };
}

impl Client {
    /// Connects to a port of this machine, with RESP2.
    pub fn connect(port: u16) -> RedisResult<Self> {
        let socket = TcpStream::connect_timeout(&([127, 0, 0, 1], port).into(), PATIENCE)?;
        socket.set_nodelay(true)?;
        socket.set_read_timeout(Some(PATIENCE))?;
        let mut client = Self { id: 0, socket: Socket(socket), parser: Parser::new(), pushes: Vec::new() };
        // Fails if the server accepts the connection and closes it immediately.
        client.id = redis::from_redis_value(client.request(redis::cmd("CLIENT").arg("ID"))?)?;
        Ok(client)
    }

    fn request(&mut self, command: &redis::Cmd) -> RedisResult<Value> {
        self.socket.0.write_all(&command.get_packed_command())?;
        self.read_reply()
    }

    fn read_reply(&mut self) -> RedisResult<Value> {
        loop {
            match self.parser.parse_value(&mut self.socket)? {
                push @ Value::Push { .. } => self.pushes.push(push),
                reply => return Ok(reply),
            }
        }
    }

    /// Sends a command. Returns the reply, or the text of an error.
    pub fn try_call(&mut self, command: &redis::Cmd) -> Result<Value, String> {
        match self.request(command) {
            Ok(error @ Value::ServerError(_)) => Err(show(&error)[1..].into()),
            Ok(value) => Ok(value),
            Err(error) => Err(format!("connection lost: {error}")),
        }
    }

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

    /// Sends a pipeline. All commands must succeed.
    #[track_caller]
    pub fn pipe(&mut self, commands: &redis::Pipeline) {
        // The replies to MULTI and EXEC are additional.
        let count = commands.len() + if commands.is_transaction() { 2 } else { 0 };
        for reply in self.replies(&commands.get_packed_pipeline(), count) {
            let replies = if let Value::Array(inner) = &reply { inner } else { std::slice::from_ref(&reply) };
            assert!(!replies.iter().any(|reply| matches!(reply, Value::ServerError(_))), "{}", show(&reply));
        }
    }

    /// Sends lines as one packet. All commands must succeed.
    #[track_caller]
    pub fn run_all(&mut self, lines: impl IntoIterator<Item = impl AsRef<str>>) {
        let mut pipeline = redis::pipe();
        for line in lines {
            pipeline.add_command(command(line.as_ref()));
        }
        self.pipe(&pipeline);
    }

    /// Sends commands as one packet, and returns the replies, including errors. If no command blocks and the packet is
    /// small, the server runs all commands before its timers.
    #[track_caller]
    pub fn burst(&mut self, commands: &[redis::Cmd]) -> Vec<Value> {
        let packed: Vec<u8> = commands.iter().flat_map(redis::Cmd::get_packed_command).collect();
        self.replies(&packed, commands.len())
    }

    #[track_caller]
    fn replies(&mut self, packed: &[u8], count: usize) -> Vec<Value> {
        self.socket.0.write_all(packed).expect("the server reads");
        (0..count).map(|_| self.read_reply().expect("the server answers")).collect()
    }

    /// Sends a line (see [`command`]).
    pub fn try_run(&mut self, line: &str) -> Result<Value, String> {
        self.try_call(&command(line))
    }

    /// Sends a line without waiting for the reply. `receive` reads the reply.
    pub fn send(&mut self, line: &str) {
        self.socket.0.write_all(&command(line).get_packed_command()).expect("the server reads");
    }

    /// Reads the reply to a sent line, in the notation of `reply::show`.
    #[track_caller]
    pub fn receive(&mut self) -> String {
        show(&self.read_reply().expect("the server answers"))
    }

    #[track_caller]
    pub fn run(&mut self, line: &str) -> Value {
        self.call(&command(line))
    }

    /// Returns the reply to a line, even an error, in the notation of `reply::show`.
    pub fn reply(&mut self, line: &str) -> String {
        match self.try_run(line) {
            Ok(value) => show(&value),
            Err(error) => format!("!{error}"),
        }
    }

    /// Runs each line, and compares its reply with the expected reply. If an error is expected, compares only the
    /// beginning.
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

    /// Runs a line whose reply is an array. Returns the elements of the array as strings.
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

    /// Returns the output of DUMP.
    #[track_caller]
    pub fn dump(&mut self, key: &str) -> Vec<u8> {
        match self.call(redis::cmd("DUMP").arg(key)) {
            Value::BulkString(dump) => dump,
            other => panic!("DUMP {key}: {}", show(&other)),
        }
    }

    /// Creates or replaces a key from the output of DUMP. `until` is the end of its TTL in Unix ms, or 0 for no TTL.
    #[track_caller]
    pub fn restore(&mut self, key: &str, until: i64, dump: &[u8]) {
        self.call(redis::cmd("RESTORE").arg(key).arg(until).arg(dump).arg("ABSTTL").arg("REPLACE"));
    }

    /// Rewrites the AOF. Returns when the rewrite is complete.
    #[track_caller]
    pub fn rewrite_aof(&mut self) {
        self.run("BGREWRITEAOF");
        eventually(PATIENCE, "the AOF is rewritten", || {
            let info = self.info("persistence");
            let fields = ["aof_rewrite_in_progress", "aof_rewrite_scheduled", "aof_last_bgrewrite_status"];
            fields.map(|field| info[field].as_str()) == ["0", "0", "ok"]
        });
    }

    #[track_caller]
    pub fn scores(&mut self, key: &str) -> Vec<(String, f64)> {
        self.strings(&format!("ZRANGE {key} 0 -1 WITHSCORES"))
            .chunks(2)
            .map(|pair| (pair[0].clone(), pair[1].parse().expect("a score")))
            .collect()
    }

    /// Returns the server's time in Unix ms, rounded down.
    pub fn now(&mut self) -> i64 {
        let time: Vec<i64> = self.strings("TIME").iter().map(|part| part.parse().expect("TIME")).collect();
        time[0] * 1000 + time[1] / 1000
    }

    /// Waits until the server's time is `instant` (Unix ms) or later.
    pub fn wait_until(&mut self, instant: i64) {
        loop {
            let left = instant - self.now();
            if left <= 0 {
                return;
            }
            std::thread::sleep(Duration::from_millis(left.unsigned_abs().min(1000)));
        }
    }

    pub fn info(&mut self, section: &str) -> HashMap<String, String> {
        self.info_of(&format!("INFO {section}"))
    }

    /// Runs a command whose reply has lines of `field:value`. Returns the fields as a map.
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

    pub fn info_number(&mut self, section: &str, field: &str) -> i64 {
        self.info(section)[field].parse().expect("a number")
    }

    /// Whether the server is a Valkey older than `version`.
    pub fn is_valkey_before(&mut self, version: [u32; 3]) -> bool {
        let info = self.info("server");
        let numbers = |text: &String| text.split('.').map(|part| part.parse().expect("a number")).collect::<Vec<u32>>();
        info.get("valkey_version").is_some_and(|text| numbers(text).as_slice() < version.as_slice())
    }

    /// Whether the server has the bug valkey#4024: if a module listens for events, `COPY ... DB n` leaves the client in
    /// database n. The server replicates the COPY as if the client had sent it in database n.
    pub fn copy_loses_the_database(&mut self) -> bool {
        self.is_valkey_before([9, 1, 1])
    }

    /// Subscribes this RESP3 connection to channels. `pushes` returns the messages.
    pub fn psubscribe(&mut self, pattern: &str) {
        // The confirmation is a push message. No reply follows.
        self.send(&format!("PSUBSCRIBE {pattern}"));
        self.pushes();
    }

    /// Returns the push messages (RESP3) that have arrived so far, in the notation of `reply::show`.
    pub fn pushes(&mut self) -> Vec<String> {
        // The reply to a PING follows all earlier push messages.
        self.run("PING");
        std::mem::take(&mut self.pushes).iter().map(show).collect()
    }
}

/// Returns the command of a line. Words between blanks are the arguments, and `""` is an empty one.
pub fn command(line: &str) -> redis::Cmd {
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{BufRead, BufReader};
    use std::net::TcpListener;
    use std::process::{Command, id};

    #[test]
    fn a_process_that_was_stopped_reads_on() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let server = std::thread::spawn(move || {
            let mut socket = listener.accept().unwrap().0;
            let mut lines = BufReader::new(socket.try_clone().unwrap()).lines();
            lines.find(|line| line.as_ref().unwrap() == "ID");
            socket.write_all(b":1\r\n").unwrap();
            lines.find(|line| line.as_ref().unwrap() == "PING");
            let stop = format!("kill -STOP {0}; sleep 0.1; kill -CONT {0}", id());
            assert!(Command::new("sh").args(["-c", &stop]).status().unwrap().success());
            socket.write_all(b"+PONG\r\n").unwrap();
        });
        assert_eq!(Client::connect(port).unwrap().reply("PING"), "+PONG");
        server.join().unwrap();
    }
}
