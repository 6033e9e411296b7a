//! The load: prepared requests over several connections. Replies are only counted.
//!
//! Only the server is measured. So the client does as little as possible during the measurement: it writes prepared
//! bytes and finds the ends of the replies.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

/// The bytes of one request: usually a command, sometimes several (MULTI ... EXEC).
pub struct Request {
    pub bytes: Vec<u8>,
    pub replies: usize,
}

impl Request {
    pub fn of(commands: &[redis::Cmd]) -> Request {
        Request { bytes: commands.iter().flat_map(redis::Cmd::get_packed_command).collect(), replies: commands.len() }
    }
}

/// Requests that are written together, and the number of their replies.
struct Batch {
    bytes: Vec<u8>,
    replies: usize,
}

/// Sends all requests, `pipeline` at a time on each connection. Returns the duration.
///
/// Each connection has one batch in progress. While the server processes one batch, the other batches wait, so the
/// server is never idle.
pub fn flood(connections: &mut [Connection], requests: &[Request], pipeline: usize) -> Duration {
    let batches: Vec<Batch> = requests
        .chunks(pipeline)
        .map(|chunk| Batch {
            bytes: chunk.iter().flat_map(|request| &request.bytes).copied().collect(),
            replies: chunk.iter().map(|request| request.replies).sum(),
        })
        .collect();
    let start = Instant::now();
    for round in batches.chunks(connections.len()).map(Some).chain([None]) {
        let mut next = round.into_iter().flatten();
        for connection in connections.iter_mut() {
            connection.receive();
            if let Some(batch) = next.next() {
                connection.send(&batch.bytes, batch.replies);
            }
        }
    }
    start.elapsed()
}

/// Sends each request after the reply to the previous request. Returns the duration of each request.
pub fn ping_pong(connection: &mut Connection, requests: &[Request]) -> Vec<Duration> {
    let time = |request: &Request| {
        let start = Instant::now();
        connection.send(&request.bytes, request.replies);
        connection.receive();
        start.elapsed()
    };
    requests.iter().map(time).collect()
}

/// A connection that counts its outstanding replies.
pub struct Connection {
    stream: TcpStream,
    owed: usize,
    received: Vec<u8>,
}

impl Connection {
    pub fn open(address: (&str, u16)) -> Connection {
        let stream = TcpStream::connect(address).expect("the server accepts connections");
        stream.set_nodelay(true).expect("a TCP stream");
        stream.set_read_timeout(Some(Duration::from_secs(60))).expect("a read timeout");
        Connection { stream, owed: 0, received: Vec::new() }
    }

    fn send(&mut self, bytes: &[u8], replies: usize) {
        self.stream.write_all(bytes).expect("the server reads");
        self.owed = replies;
    }

    /// Waits for all outstanding replies. An error reply would invalidate the result, so it ends the benchmark.
    fn receive(&mut self) {
        let (mut at, mut chunk) = (0, [0; 64 * 1024]);
        while self.owed > 0 {
            match end_of_reply(&self.received, at) {
                Some(end) => {
                    at = end;
                    self.owed -= 1;
                }
                None => {
                    let count = self.stream.read(&mut chunk).expect("the server answers");
                    assert!(count > 0, "the server has closed the connection");
                    self.received.extend_from_slice(&chunk[..count]);
                }
            }
        }
        assert_eq!(at, self.received.len(), "more replies than requests");
        self.received.clear();
    }
}

/// Returns the end of the RESP2 reply that begins at `at`, or `None` if it is incomplete.
fn end_of_reply(bytes: &[u8], at: usize) -> Option<usize> {
    let line = &bytes[at.min(bytes.len())..];
    let length = line.windows(2).position(|pair| pair == b"\r\n")?;
    let after = at + length + 2;
    let number = || std::str::from_utf8(&line[1..length]).ok()?.parse::<i64>().ok();
    match line[0] {
        b'-' => panic!("an error: {}", String::from_utf8_lossy(&line[..length])),
        b'$' => match usize::try_from(number()?) {
            Ok(size) => Some(after + size + 2).filter(|&end| end <= bytes.len()),
            Err(_) => Some(after),
        },
        b'*' => (0..number()?.max(0)).try_fold(after, |at, _| end_of_reply(bytes, at)),
        _ => Some(after),
    }
}
