//! Random commands of all families, while the neighbour runs random commands during the events of these commands.

use crate::torture::fuzz::Run;
use rand::{Rng, seq::IndexedRandom};
use redis::Value;
use testkit::{Client, Server, Traffic, assert_agree};

const DURATIONS: [&str; 6] = ["1ms", "5ms", "40ms", "1s", "5m", "1w"];

/// Events of the module's commands and of its sweeper. `expired` is left out: if a module deletes a key during that
/// event, the server itself crashes.
const EVENTS: [&str; 15] = [
    "zadd",
    "zrem",
    "zexp.*",
    "zremrangeby*",
    "del",
    "expire",
    "persist",
    "set*",
    "zq.*",
    "zlb.*",
    "z*",
    "keymiss",
    "new",
    "rename*",
    "copy*",
];

/// Checks that each key has consistent content for clients.
fn check(c: &mut Client, what: &str) {
    c.run("EVIL.OFF");
    for key in c.strings("KEYS *") {
        match c.string(&format!("TYPE {key}")).as_str() {
            "zset" => {
                // ZCARD comes before ZEXP.CARD, because members may be deleted between the two commands.
                let members = c.reply(&format!("ZCARD {key}"));
                let card = c.reply(&format!("ZEXP.CARD {key}"));
                let is_set = card.parse::<i64>().is_ok_and(|card| card <= members.parse().expect("a number"));
                assert!(is_set || card.starts_with("!NOTEXPIRING"), "{key}: {card} of {members}: {what}");
            }
            "zeitqueue" => {
                let stats = c.reply(&format!("ZQ.STATS {key}"));
                assert!(stats.starts_with('['), "{stats}: {what}");
            }
            "zeitboard" => {
                let Value::Array(rows) = c.run(&format!("ZLB.RANGE {key} 0 -1")) else { panic!("{key}: {what}") };
                assert_eq!(c.int(&format!("ZLB.CARD {key}")), rows.len() as i64, "{key}: {what}");
            }
            _ => {}
        }
    }
}

/// The neighbour's commands are replicated after the change that caused their event. So replicas and the AOF agree with
/// the master.
fn all_agree_in_the_end(name: &'static str, config: &str) {
    let mut run = Run::new(name, 3_000);
    let (server, replica) = disturb(&mut run, config);
    assert_agree(&server, &[&replica]);
}

#[test]
fn random_commands_next_to_a_hostile_module() {
    all_agree_in_the_end("neighbour", "zeitset.sweep no");
}

#[test]
fn random_commands_next_to_a_hostile_module_while_the_sweeper_works() {
    all_agree_in_the_end("neighbour while sweeping", "");
}

/// Sends random commands while the neighbour is active. Returns the server and its replica.
fn disturb(run: &mut Run, config: &str) -> (Server, Server) {
    let aof = "appendonly yes";
    let server = Server::builder().neighbour().config(aof).config(config).start();
    let mut c = server.client();
    let replica = Server::builder().replica_of(&server);
    let mut traffic = Traffic::new(run.random.random(), &DURATIONS);
    let (mut done, mut last) = (0, Vec::new());
    while run.goes_on() {
        let now = c.now();
        if traffic.random.random_ratio(1, 5) {
            done += c.int("EVIL.OFF");
            // This command changes keys outside of the module's commands and events.
            let line = traffic.native(now);
            let _ = c.try_run(&line);
            last.push(line);
            for _ in 0..traffic.random.random_range(1..5) {
                let rule = evil(&mut traffic, now);
                c.run(&rule);
                last.push(rule);
            }
        }
        let line = traffic.line(now);
        last.push(line.clone());
        let keep = last.len().saturating_sub(20);
        last.drain(..keep);
        let here = format!("{}, after {last:#?}", run.here());
        traffic.send(&mut c, &line, &here);
        if traffic.random.random_ratio(1, 50) {
            check(&mut c, &here);
        }
    }
    done += c.int("EVIL.OFF");
    eprintln!("{} commands, and {done} of the neighbour in their events", traffic.calls());
    assert!(done > 0, "the neighbour did nothing");
    (server, replica)
}

/// Generates a rule for the neighbour.
fn evil(traffic: &mut Traffic, now: i64) -> String {
    let events = *EVENTS.choose(&mut traffic.random).expect("events");
    let order = if traffic.random.random_ratio(1, 3) { "EVIL.ON" } else { "EVIL.ONCE" };
    let mut command = match traffic.random.random_range(0..3) {
        0 => traffic.line(now),
        _ => traffic.native(now),
    };
    if traffic.random.random_ratio(1, 2) {
        // The neighbour's command uses the key of the event.
        let words: Vec<_> = command.split_whitespace().collect();
        let with_key = words.iter().map(|word| if word.starts_with("{k}") { "{key}" } else { word });
        command = with_key.collect::<Vec<_>>().join(" ");
    }
    format!("{order} {events} {command}")
}
