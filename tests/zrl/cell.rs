//! Compatibility with redis-cell: the option `cell` of the module, and a comparison with redis-cell itself if CELL
//! names its library.

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use testkit::{Client, Server, module, start};

/// Starts a server that loads the module with these arguments.
fn with(arguments: &str) -> Server {
    Server::builder().plain().config(&format!("loadmodule \"{}\" {arguments}", module().display())).start()
}

#[test]
fn the_name_is_there_only_if_it_was_asked_for() {
    let (_server, mut c) = start();
    c.script(&[("CL.THROTTLE k 1 1 60", "!ERR unknown command")]);
    let server = with("cell");
    let mut c = server.client();
    assert_eq!(c.ints("CL.THROTTLE k 15 30 60")[..4], [0, 16, 15, -1]);
    assert_eq!(c.ints("ZRL.THROTTLE k 15 30 60")[..3], [0, 16, 14], "the same key");
    c.script(&[("COMMAND GETKEYS CL.THROTTLE k 15 30 60", "['k']")]);
    let server = with("plain CELL");
    server.client().ints("CL.THROTTLE k 15 30 60");
    server.client().script(&[("ZQ.PUSH q x", "!ERR unknown command")]);
}

/// Both modules can use each other's keys. For each call, redis-cell makes the same call before and after the module,
/// on copies of the key. If redis-cell's two replies agree, its clock has not advanced in between, and the module's
/// reply must agree, too.
///
/// Run with `CELL=libredis_cell.so cargo test --test integration -- --ignored zrl::cell`. The number of calls is
/// `CELL_CALLS`, by default 100,000.
#[test]
#[ignore = "needs redis-cell: CELL=libredis_cell.so"]
fn every_reply_is_that_of_redis_cell() {
    let cell = std::env::var("CELL").expect("CELL names libredis_cell.so");
    let calls: u32 = std::env::var("CELL_CALLS").map_or(100_000, |calls| calls.parse().expect("a number"));
    let server = Server::builder().config(&format!("loadmodule {cell}")).start();
    let mut c = server.client();
    let mut random = StdRng::seed_from_u64(20_261_121);
    let (mut compared, mut ticks, mut overpaid) = (0, 0, 0);
    let mut policy = (0, 1, 1);
    for call in 0..calls {
        if call % 40 == 0 {
            c.run("DEL before ours after");
        }
        if call % 10 == 0 {
            policy = match random.random_range(0..4) {
                0 => (0, 5000, 1),
                1 => (random.random_range(0..5), random.random_range(1..5000), random.random_range(1..10)),
                2 => (random.random_range(0..1000), random.random_range(1..1_000_000), random.random_range(1..100_000)),
                _ => (15, 30, 60),
            };
        }
        let (burst, count, period) = policy;
        let quantity: i64 = match random.random_range(0..10) {
            0 => 0,
            1 => -random.random_range(1..4),
            2 => random.random_range(1..burst + 3),
            _ => random.random_range(1..4),
        };
        let arguments = format!("{burst} {count} {period} {quantity}");
        let moment = c.now();
        let replies = [("CL", "before"), ("ZRL", "ours"), ("CL", "after")]
            .map(|(name, key)| c.reply(&format!("{name}.THROTTLE {key} {arguments}")));
        let next = match &replies {
            // More units were returned than were in use. redis-cell then returns an error and keeps a key without a
            // TTL. If the excess is less than a millisecond, redis-cell reports more units than exist.
            [_, ours, _] if quantity < 0 && ours.ends_with(" -1 0]") && c.int("EXISTS ours") == 0 => {
                overpaid += 1;
                "ours"
            }
            // Within a millisecond, a key may or may not have expired.
            [before, ours, after] if before == after && c.now() == moment => {
                assert_eq!(ours, before, "call {call}: {arguments}");
                compared += 1;
                ["before", "ours"][random.random_range(0..2)]
            }
            _ => {
                ticks += 1;
                "ours"
            }
        };
        hand_over(&mut c, next);
    }
    println!(
        "{calls} calls: {compared} equal, {ticks} with a tick of the clock between, {overpaid} gave back more than was held"
    );
    assert!(compared > calls / 2);
}

/// Gives all three keys the content of `next`.
fn hand_over(c: &mut Client, next: &str) {
    for key in ["before", "ours", "after"].into_iter().filter(|key| *key != next) {
        if c.int(&format!("COPY {next} {key} REPLACE")) == 0 {
            c.run(&format!("DEL {key}"));
        }
    }
}

#[test]
#[ignore = "needs redis-cell: CELL=libredis_cell.so"]
fn the_name_cannot_be_taken_from_redis_cell() {
    let cell = std::env::var("CELL").expect("CELL names libredis_cell.so");
    let server = Server::builder().plain().config(&format!("loadmodule {cell}\nenable-module-command yes")).start();
    let mut c = server.client();
    c.script(&[(format!("MODULE LOAD {} cell", module().display()), "!ERR ")]);
    c.ints("CL.THROTTLE k 15 30 60");
    assert!(server.log().contains("the server refused the command CL.THROTTLE"));
}
