//! All commands of the module with all kinds of arguments, called in every way. The server survives and replies, an
//! error changes no key, and at the end the AOF and a replica have the master's data.

use super::Run;
use super::words::{self, KEYS};
use crate::server::described;
use rand::Rng;
use redis::Value;
use std::thread;
use testkit::{Client, Dataset, PATIENCE, Server, assert_same_data, eventually, show};

const SCRIPT: &str = "return redis.pcall(unpack(ARGV))";
const FUNCTION: &str =
    "#!lua name=fuzz\nredis.register_function('fuzz', function(keys, args) return redis.pcall(unpack(args)) end)";

/// A part of a packet, which the server reads at a time, has 16 KB. Half of it is enough for the other words.
const PART: usize = 8 * 1024;

/// How a call reaches the module.
#[derive(Clone, Copy, Debug)]
enum Way {
    Plain,
    Resp3,
    Transaction,
    Script,
    Function,
}

fn packed(words: &[Vec<u8>]) -> redis::Cmd {
    let mut command = redis::Cmd::new();
    words.iter().for_each(|word| {
        command.arg(word);
    });
    command
}

/// Returns the commands for a call. The last reply is that of the call.
fn commands_of(way: Way, words: &[Vec<u8>]) -> Vec<redis::Cmd> {
    let wrapped = |name: &str, what: &str| {
        let mut command = redis::cmd(name);
        command.arg(what).arg(0).arg(words);
        command
    };
    match way {
        Way::Plain | Way::Resp3 => vec![packed(words)],
        Way::Transaction => vec![redis::cmd("MULTI"), packed(words), redis::cmd("EXEC")],
        Way::Script => vec![wrapped("EVAL", SCRIPT)],
        Way::Function => vec![wrapped("FCALL", "fuzz")],
    }
}

/// The result of a call.
struct Outcome {
    before: Vec<String>,
    error: Option<String>,
    after: Vec<String>,
}

/// Sends a call between two reads of the keys, in one packet, so that the server's timers do not run in between. (The
/// upkeep of queues removes groups without jobs.)
fn send(c: &mut Client, way: Way, words: &[Vec<u8>]) -> Outcome {
    let mut look = redis::cmd("DEBUG");
    look.arg("DIGEST-VALUE").arg(&KEYS[..]);
    let mut commands = vec![look.clone()];
    commands.extend(commands_of(way, words));
    commands.push(look);
    let replies = c.burst(&commands);
    let [before, .., reply, after] = &replies[..] else { unreachable!("a reply to each") };
    let reply = match (way, reply) {
        (Way::Transaction, Value::Array(replies)) => match &replies[..] {
            [reply] => reply,
            replies => panic!("one reply, not {}", replies.len()),
        },
        (_, reply) => reply,
    };
    let error = matches!(reply, Value::ServerError(_)).then(|| show(reply));
    Outcome { before: digests(before), error, after: digests(after) }
}

/// As [`send`], for a call that may block its client. Unblocks the client.
fn send_and_unblock(c: &mut Client, control: &mut Client, way: Way, words: &[Vec<u8>]) -> Outcome {
    let id = c.int("CLIENT ID");
    thread::scope(|scope| {
        let call = scope.spawn(|| send(c, way, words));
        eventually(PATIENCE, "the call is answered", || {
            control.run(&format!("CLIENT UNBLOCK {id}"));
            call.is_finished()
        });
        call.join().expect("the call is answered")
    })
}

fn digests(reply: &Value) -> Vec<String> {
    match reply {
        // If the array has another length, the client has taken one command's reply for another's.
        Value::Array(digests) if digests.len() == KEYS.len() => digests.iter().map(show).collect(),
        other => panic!("replies are out of step: {}", show(other)),
    }
}

/// Fails if an error changed a key. A key that has expired may be missing.
fn assert_unchanged(before: &[String], after: &[String], what: &str) {
    for ((before, after), key) in before.iter().zip(after).zip(KEYS) {
        let is_gone = after.trim_matches(|c: char| !c.is_ascii_digit()).bytes().all(|digit| digit == b'0');
        assert!(before == after || is_gone, "{key} was changed by {what}");
    }
}

fn shorten(words: &[Vec<u8>]) -> String {
    let words: Vec<_> = words.iter().map(|word| testkit::show_bytes(&word[..word.len().min(40)])).collect();
    words.join(" ")
}

fn assert_silent(server: &Server) {
    let log = server.log();
    let odd = log.lines().find(|line| line.contains("<module> zeitset:"));
    assert_eq!(odd, None, "a warning in the log");
}

#[test]
fn any_call_in_any_way_is_answered_and_an_error_changes_nothing() {
    let mut run = Run::new("commands", 6000);
    // With the sweeper off, no member is deleted except by a call.
    let mut server = Server::builder().config("appendonly yes\naof-use-rdb-preamble no\nzeitset.sweep no").start();
    let replica = Server::builder().replica_of(&server);
    let mut control = server.client();
    let (mut resp2, mut resp3) = (server.client(), server.resp3());
    let commands = described::commands(&mut control);
    control.call(redis::cmd("FUNCTION").arg("LOAD").arg(FUNCTION));
    words::plant(&mut control);
    let (mut calls, mut errors) = (0, 0);
    while run.goes_on() {
        match run.random.random_range(0..100) {
            0 => words::plant(&mut control),
            1..5 => drop(control.try_call(&packed(&words::native(&mut run.random)))),
            _ => {}
        }
        let command = &commands[run.random.random_range(0..commands.len())];
        let words = words::call(&mut run.random, command);
        let way = match run.random.random_range(0..10) {
            0..5 => Way::Plain,
            5..7 => Way::Resp3,
            7 => Way::Transaction,
            8 => Way::Script,
            _ => Way::Function,
        };
        let c = if let Way::Resp3 = way { &mut resp3 } else { &mut resp2 };
        let what = format!("{way:?} {} ({})", shorten(&words), run.here());
        let may_block = words.iter().any(|word| word.eq_ignore_ascii_case(b"BLOCK"));
        let outcome = match may_block {
            true => send_and_unblock(c, &mut control, way, &words),
            false => send(c, way, &words),
        };
        calls += 1;
        if let Some(error) = outcome.error {
            errors += 1;
            assert!(!error.contains("connection lost") && !error.contains("internal error"), "{error}: {what}");
            // The server reads a long packet in parts, and its timers run in between: they may add a tag.
            if words.iter().map(Vec::len).sum::<usize>() < PART {
                assert_unchanged(&outcome.before, &outcome.after, &what);
            }
        }
    }
    eprintln!("{calls} calls of {} commands, {errors} answered by an error", commands.len());
    assert!(errors < calls * 3 / 4, "too little of it makes sense: {errors} errors of {calls} calls");
    replica.wait_for_sync(&server);
    assert_same_data(&mut control, &mut replica.client());
    let before = Dataset::of(&mut control);
    server.restart();
    let mut control = server.client();
    let after = Dataset::of(&mut control);
    assert!(after == before, "{}\n{}", run.here(), after.differences(&before));
    assert_silent(&server);
    assert_silent(&replica);
}
