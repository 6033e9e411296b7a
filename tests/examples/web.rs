//! The web services with a limit per client: which requests they admit under load, and the responses to refused ones.

use super::clients;
use std::collections::HashMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::Command;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};
use testkit::{PATIENCE, Program, Server, program};

const LIMIT: usize = 10;
const WINDOW_S: u64 = 2;

#[test]
fn rust_keeps_to_the_limit_under_load() {
    assert_limits(Command::new(program("zeitset-examples", "service")));
}

#[test]
fn the_worker_of_the_rust_service_sends_the_mails_that_the_service_pushes() {
    let server = Server::start();
    let mut command = Command::new(program("zeitset-examples", "service"));
    let mut service = Program::start(command.args([&server.url(), "0"]));
    let mut lines = BufReader::new(service.stdout()).lines().map(|line| line.expect("a line"));
    let address = lines.next().expect("it says where it listens");
    let address: SocketAddr = address.trim_start_matches("http://").trim_end_matches('/').parse().expect("an address");
    assert_eq!(send(address, "POST /mails/ann", "eve").status, 200);
    assert_eq!(lines.next().as_deref(), Some("a mail to ann"));
}

#[test]
#[ignore = "fetches a client library: make examples"]
fn python_keeps_to_the_limit_under_load() {
    if let Some(command) = clients::python("web.py") {
        assert_limits(command);
    }
}

#[test]
#[ignore = "fetches a client library: make examples"]
fn node_keeps_to_the_limit_under_load() {
    if let Some(command) = clients::node("web.js") {
        assert_limits(command);
    }
}

fn assert_limits(mut command: Command) {
    let server = Server::start();
    let (host, port) = server.address();
    command.arg(format!("redis://{host}:{port}")).arg("0");
    command.env("LIMIT", LIMIT.to_string()).env("WINDOW", WINDOW_S.to_string());
    let mut service = Program::start(&mut command);
    let mut line = String::new();
    BufReader::new(service.stdout()).read_line(&mut line).expect("a line");
    let address = line.trim().trim_start_matches("http://").trim_end_matches('/');
    let address = address.parse().unwrap_or_else(|error| panic!("it says where it listens ({error}): {line}"));
    no_more_than_the_limit_in_any_window(address);
    requests_after_retry_after_are_allowed(address);
}

/// Four threads send requests of one client until the service has admitted the units of three windows.
fn no_more_than_the_limit_in_any_window(address: SocketAddr) {
    let (admitted, refused) = (Mutex::new(Vec::new()), Mutex::new(0));
    let (start, done) = (Instant::now(), AtomicBool::new(false));
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                while !done.load(Ordering::Relaxed) {
                    let response = get(address, "ann");
                    match response.status {
                        200 => admitted.lock().expect("no panic").push(charged_until_ms(&response.body)),
                        429 => *refused.lock().expect("no panic") += 1,
                        other => panic!("status {other}"),
                    }
                    let enough = admitted.lock().expect("no panic").len() >= 3 * LIMIT;
                    if enough || start.elapsed() > PATIENCE {
                        done.store(true, Ordering::Relaxed);
                    }
                }
            });
        }
    });
    let mut admitted = admitted.into_inner().expect("no panic");
    assert!(admitted.len() >= 3 * LIMIT, "{} let through in {:?}", admitted.len(), start.elapsed());
    assert!(refused.into_inner().expect("no panic") > 0, "nobody was refused: that was no load");
    // Each number is the time of a call plus one window, by the server's clock. So two numbers differ as much as the
    // times of their calls.
    admitted.sort_unstable();
    for calls in admitted.windows(LIMIT + 1) {
        let span = calls[LIMIT] - calls[0];
        assert!(span >= WINDOW_S * 1000, "{} calls within {span} ms: {calls:?}", LIMIT + 1);
    }
}

fn requests_after_retry_after_are_allowed(address: SocketAddr) {
    let policy = format!("\"default\";q={LIMIT};w={WINDOW_S}");
    let first = get(address, "eve");
    assert_eq!(first.status, 200, "another client has a limit of its own");
    assert_eq!(first.headers["ratelimit-policy"], policy);
    let left = LIMIT - 1;
    assert_eq!(first.headers["ratelimit"], format!("\"default\";r={left};t={WINDOW_S}"));
    assert!(!first.headers.contains_key("retry-after"));

    let start = Instant::now();
    let refusal = loop {
        let response = get(address, "eve");
        if response.status == 429 {
            break response;
        }
        assert!(start.elapsed() < PATIENCE, "never refused");
    };
    let wait: u64 = refusal.headers["retry-after"].parse().expect("seconds");
    assert!((1..=WINDOW_S).contains(&wait), "{wait}");
    assert_eq!(refusal.headers["ratelimit-policy"], policy);
    assert_eq!(refusal.headers["ratelimit"], format!("\"default\";r=0;t={wait}"));
    assert_eq!(refusal.headers["content-type"], "application/problem+json");
    // Waits as long as the response said.
    thread::sleep(Duration::from_secs(wait));
    assert_eq!(get(address, "eve").status, 200, "after {wait} s, as told");
}

struct Response {
    status: u16,
    /// The header fields by name in lower case.
    headers: HashMap<String, String>,
    body: String,
}

fn get(address: SocketAddr, client: &str) -> Response {
    send(address, "GET /", client)
}

/// Sends a request with HTTP/1.0, so that the response ends with the connection.
fn send(address: SocketAddr, request: &str, client: &str) -> Response {
    let mut stream = TcpStream::connect_timeout(&address, PATIENCE).expect("the service accepts connections");
    stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
    write!(stream, "{request} HTTP/1.0\r\nX-Api-Key: {client}\r\n\r\n").expect("a request");
    let mut text = String::new();
    stream.read_to_string(&mut text).expect("a response");
    let (head, body) = text.split_once("\r\n\r\n").unwrap_or_else(|| panic!("no response: {text}"));
    let mut lines = head.lines();
    let status = lines.next().and_then(|line| line.split(' ').nth(1)).and_then(|status| status.parse().ok());
    let headers = lines.filter_map(|line| line.split_once(": "));
    Response {
        status: status.unwrap_or_else(|| panic!("no status: {head}")),
        headers: headers.map(|(name, value)| (name.to_lowercase(), value.to_owned())).collect(),
        body: body.to_owned(),
    }
}

/// Returns the number `charged_until_ms` of a JSON response.
fn charged_until_ms(json: &str) -> u64 {
    let (_, rest) = json.split_once("\"charged_until_ms\":").unwrap_or_else(|| panic!("not there: {json}"));
    let digits: String = rest.trim_start().chars().take_while(char::is_ascii_digit).collect();
    digits.parse().expect("a number")
}
