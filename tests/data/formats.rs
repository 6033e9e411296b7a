//! Boards that version 0.1 saved or wrote into AOF files are loaded. If a value cannot be loaded, the log names the key
//! and the reason.

use testkit::{Client, PATIENCE, Payload, Server, eventually};
/// The output of `DUMP` for two boards of version 0.1, on Redis 7.0.
const BOARD: &str = "\
    0781cde8ad6e86ab740002010201020a020202000506706f696e7473020305077365636f6e6473020405c33a40430604646f7261feffa00002019a99\
    400009b93f0462657274d8040040000780284004616e6e61a00e10002940046361726c0d9c7500883ce4377e000a00742fa732a83e89cb";
const NAMES: &str = "0781cde8ad6e86ab74000201020202000201020005017802020506016102016202000a007462b861c48a713b";

/// The same two boards, as BGREWRITEAOF wrote them with version 0.1.
const AOF: &[&str] = &[
    "ZLB.CREATE names DIM x TIES NAME",
    "ZLB.SET names a 1 b 1",
    "ZLB.CREATE board DIM points DIM seconds ASC FLOAT TIES LAST KEEP 10",
    "ZLB.SET board carl -7 1e+300 anna 300 12.5 bert 300 12.25 dora 9223372036854775807 0.1",
];

fn bytes(hex: &str) -> Vec<u8> {
    let digits: Vec<u8> = hex.bytes().filter(u8::is_ascii_hexdigit).collect();
    let byte = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).expect("hex"), 16).expect("hex");
    digits.chunks(2).map(byte).collect()
}

/// The output of `DUMP` for queues of earlier versions, with the number of their format.
const QUEUES: [(u8, &[u8]); 2] =
    [(1, include_bytes!("fixtures/queue-0.1.dump")), (2, include_bytes!("fixtures/queue-0.2.dump"))];

fn restore(c: &mut Client, key: &str, hex: &str) {
    c.call(redis::cmd("RESTORE").arg(key).arg(0).arg(bytes(hex)));
}

#[test]
fn queues_of_earlier_versions_are_refused_and_the_log_says_so() {
    let server = Server::start();
    let mut c = server.client();
    for (format, dump) in QUEUES {
        let refused = c.try_call(redis::cmd("RESTORE").arg("old").arg(0).arg(dump));
        assert!(refused.is_err(), "{refused:?}");
        let line =
            format!("cannot load key 'old': it has format {format}; this version of the module reads formats 4 to 5");
        eventually(PATIENCE, "the log says why", || server.log().contains(&line));
    }
    // Earlier versions wrote these effects to AOF files. They are no longer valid, and change nothing.
    for effect in [
        "CONFIGURE 3 2000 3600000 5000 1000 50 200 604800000 0",
        "JOB own-1 payload-1 dead 1795306738445 -3 0 0 1 3 0 0",
        "TOTALS 1795306738460891 1795306720598 0 15 15 9 1 2 1 0 1",
        "PUSH+ a x 1795306738445 0 0 0 1 group g",
    ] {
        c.script(&[(format!("ZQ.APPLY old 1 PUSH a x 1 0 0 0 {effect}"), "!ERR syntax error")]);
    }
    c.script(&[("EXISTS old", "0")]);
}

/// The payload and the AOF of a board create equal boards.
#[test]
fn boards_that_0_1_saved_or_wrote_into_an_aof_are_loaded() {
    let server = Server::start();
    let mut c = server.client();
    for line in AOF {
        c.run(line);
    }
    for (key, hex) in [("board", BOARD), ("names", NAMES)] {
        let restored = format!("restored-{key}");
        restore(&mut c, &restored, hex);
        let [from_aof, from_dump] = [key, &restored].map(|key| c.call(redis::cmd("DUMP").arg(key)));
        assert_eq!(from_aof, from_dump, "{key}");
    }
    c.script(&[(
        "ZLB.RANGE restored-board 0 -1 WITHVALUES",
        "[['dora' 9223372036854775807 '0.1'] ['bert' 300 '12.25'] ['anna' 300 '12.5'] ['carl' -7 '1e+300']]",
    )]);
}

#[test]
fn the_log_says_which_key_cannot_be_loaded_and_why() {
    let server = Server::start();
    let mut c = server.client();
    c.script(&[("ZQ.PUSH queue x ID a", "'a'"), ("ZLB.CREATE board DIM x", "+OK")]);
    for key in ["queue", "board"] {
        let Payload { head, body, tail } = Payload::of(&mut c, key);
        let name = format!("copy\n%s%n of {key}");
        let mut refused = |head: &[u8], body: &[u8]| {
            let payload = Payload { head: head.to_vec(), body: Vec::new(), tail: tail.clone() };
            assert!(!payload.restore(&mut c, &name, body));
        };
        // The first number is the version of the format. The opcode 2 precedes a number.
        let version = if key == "queue" { 4 } else { 1 };
        assert_eq!(body[..2], [2, version]);
        refused(&head, &[&[2, 63], &body[2..]].concat());
        refused(&head, &body[..body.len() / 2]);
        let mut newer = head.clone();
        *newer.last_mut().expect("not empty") += 1;
        refused(&newer, &body);
        let log = server.log();
        let known = if key == "queue" { "formats 4 to 5" } else { "format 1" };
        for why in [
            &*format!("it has format 63; this version of the module reads {known}"),
            "it is cut short",
            "written by a newer version of the module (encoding ",
        ] {
            let line = format!("cannot load key 'copy\\n%s%n of {key}': {why}");
            assert!(log.contains(&line), "{line} is not in the log:\n{log}");
        }
    }
    assert_eq!(c.reply("PING"), "+PONG");
}
