//! The replication stream as a replica receives it. The AOF gets the same commands.

use crate::client::Client;
use crate::effects;
use crate::patience::PATIENCE;
use crate::reply::show_bytes;
use crate::server::Server;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;

/// A connection that receives the replication stream like a replica, and a client that writes markers into the stream.
pub struct Stream {
    reader: BufReader<TcpStream>,
    marker: Client,
    marks: u64,
}

const MARK: &str = "test:mark";

impl Stream {
    pub fn attach(server: &Server) -> Self {
        let mut socket = TcpStream::connect(server.address()).expect("the server accepts");
        socket.set_read_timeout(Some(PATIENCE)).expect("a read timeout");
        socket.write_all(b"PSYNC ? -1\r\n").expect("PSYNC is sent");
        let mut reader = BufReader::new(socket);
        let answer = line(&mut reader);
        assert!(answer.starts_with("+FULLRESYNC"), "PSYNC: {answer}");
        // While the server creates the snapshot, it sends empty lines to keep the connection alive.
        let header = loop {
            let header = line(&mut reader);
            if !header.is_empty() {
                break header;
            }
        };
        skip(&mut reader, length(&header, '$'));
        let mut stream = Self { reader, marker: server.client(), marks: 0 };
        stream.take();
        stream
    }

    /// Returns the commands replicated since the last call, each as a line, without PING and SELECT. Shows packed
    /// effects as words.
    pub fn take(&mut self) -> Vec<String> {
        let show = |word: &[u8]| show_bytes(word).trim_matches('\'').to_owned();
        self.take_raw().iter().map(|words| effects::line(words, show)).collect()
    }

    /// Returns the commands replicated since the last call, as their arguments, without PING and SELECT.
    pub fn take_raw(&mut self) -> Vec<Vec<Vec<u8>>> {
        self.marks += 1;
        let mark = format!("SET {MARK} {}", self.marks);
        self.marker.run(&mark);
        let mut commands = Vec::new();
        loop {
            let command = self.command();
            if command.join(&b' ') == mark.as_bytes() {
                return commands;
            }
            if ![&b"SELECT"[..], b"PING"].contains(&&command[0][..]) {
                commands.push(command);
            }
        }
    }

    fn command(&mut self) -> Vec<Vec<u8>> {
        let words = length(&line(&mut self.reader), '*');
        (0..words)
            .map(|_| {
                let bytes = length(&line(&mut self.reader), '$');
                let mut word = vec![0; bytes];
                self.reader.read_exact(&mut word).expect("a whole argument");
                skip(&mut self.reader, 2);
                word
            })
            .collect()
    }
}

fn line(reader: &mut impl BufRead) -> String {
    let mut line = String::new();
    reader.read_line(&mut line).expect("the stream goes on");
    line.trim_end().to_owned()
}

fn length(line: &str, kind: char) -> usize {
    line.strip_prefix(kind)
        .and_then(|digits| digits.parse().ok())
        .unwrap_or_else(|| panic!("expected a length after {kind}, got {line}"))
}

fn skip(reader: &mut impl Read, bytes: usize) {
    let skipped = std::io::copy(&mut reader.take(bytes as u64), &mut std::io::sink());
    assert_eq!(skipped.expect("the stream goes on"), bytes as u64);
}
