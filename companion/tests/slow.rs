//! Clients that connect and then do little or nothing. Such clients must not block other clients for long, and must not
//! stay connected forever.

use crate::support::{PATIENCE, Running, companion, fetch};
use std::io::{Read, Write};
use std::net::TcpStream;
use testkit::Server;

fn connect(ui: &Running, text: &str) -> TcpStream {
    let mut socket = TcpStream::connect(&ui.address).expect("it listens");
    socket.write_all(text.as_bytes()).expect("it reads");
    socket.set_read_timeout(Some(PATIENCE)).expect("a timeout");
    socket
}

/// Returns what the program sends until it closes the connection.
fn rest(mut socket: TcpStream) -> String {
    let mut answer = Vec::new();
    socket.read_to_end(&mut answer).expect("it closes the connection");
    String::from_utf8_lossy(&answer).into_owned()
}

#[test]
fn requests_that_never_end_are_ended_and_too_many_of_them_keep_nobody_out() {
    let server = Server::start();
    let url = server.url();
    let ui = Running::start(companion(&["ui", "--redis", &url, "--write"]));
    let host = &ui.address;
    let body = connect(&ui, &format!("POST /act HTTP/1.1\r\nHost: {host}\r\nContent-Length: 100\r\n\r\ntoken="));
    // This client gets an answer and sends no other request.
    let idle = connect(&ui, &format!("GET /metrics HTTP/1.1\r\nHost: {host}\r\n\r\n"));
    let heads: Vec<TcpStream> = (0..400).map(|_| connect(&ui, "GET / HTTP/1.1\r\nHost: ")).collect();
    let (status, page) = fetch(host, "GET", "/queues", &[], "");
    assert_eq!(status, 200, "{page}");
    let answer = rest(body);
    assert!(answer.starts_with("HTTP/1.1 408"), "{answer}");
    assert!(rest(idle).contains("zeitset_up 1"));
    for head in heads {
        rest(head);
    }
}

#[test]
fn an_answer_that_nobody_reads_keeps_nobody_else_waiting() {
    let server = Server::start();
    let mut c = server.client();
    testkit::cmd!(c, "ZQ.PUSH", "mails", "x".repeat(30_000_000), "ID", "large");
    let url = server.url();
    let mut ui = Running::start(companion(&["ui", "--redis", &url]));
    let host = ui.address.clone();
    let request = format!("GET /payload?key=mails&id=large HTTP/1.1\r\nHost: {host}\r\n\r\n");
    let mut unread = connect(&ui, &request);
    let mut first = [0; 1];
    unread.read_exact(&mut first).expect("it answers");
    assert_eq!(fetch(&host, "GET", "/queues", &[], "").0, 200);
    // The unread answer does not delay the end of the program.
    ui.terminate();
}
