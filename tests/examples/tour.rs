//! The tour prints examples/expected.txt in every language.

use super::clients;
use std::fs;
use std::process::Command;
use testkit::{Program, Server, program};

#[test]
fn rust_prints_the_tour() {
    assert_tour(Command::new(program("zeitset-examples", "tour")));
}

#[test]
#[ignore = "fetches a client library: make examples"]
fn python_prints_the_tour() {
    if let Some(command) = clients::python("tour.py") {
        assert_tour(command);
    }
}

#[test]
#[ignore = "fetches a client library: make examples"]
fn node_prints_the_tour() {
    if let Some(command) = clients::node("tour.js") {
        assert_tour(command);
    }
}

#[test]
#[ignore = "fetches a client library: make examples"]
fn go_prints_the_tour() {
    if let Some(command) = clients::go() {
        assert_tour(command);
    }
}

fn assert_tour(mut command: Command) {
    let server = Server::start();
    let (host, port) = server.address();
    command.arg(format!("redis://{host}:{port}"));
    let expected = fs::read_to_string(clients::source("expected.txt")).expect("examples/expected.txt");
    // The tour runs twice, because it must remove the data of an earlier tour.
    for _ in 0..2 {
        let printed = Program::output(&mut command);
        assert_eq!(without_seconds(&printed), without_seconds(&expected), "{printed}");
    }
}

/// Removes the seconds from header fields, after checking that they are 1 to 60. They count down during the tour.
fn without_seconds(text: &str) -> Vec<&str> {
    let lines = text.lines().map(|line| {
        if !line.contains("RateLimit: ") && !line.contains("Retry-After: ") {
            return line;
        }
        let rest = line.trim_end_matches(|c: char| c.is_ascii_digit());
        let seconds: u32 = line[rest.len()..].parse().expect("seconds");
        assert!((1..=60).contains(&seconds), "{line}");
        rest
    });
    lines.collect()
}
