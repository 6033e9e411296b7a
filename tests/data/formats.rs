//! What 0.1 saved and wrote into AOF files is loaded; and when a value cannot be loaded, the log says which key, and why.

use testkit::{Client, Payload, Server};

/// `DUMP` of three keys under 0.1, on Redis 7.0.
const QUEUE: &str = "\
    0781cde8adaae7ae7801020102050247d002800036ee800280000075300243e802070240640281000000fb7504300002000281000660d00be2b98102\
    81000001a200030af1020002050205020202000201020002000200020102810000029d75073af0020202050505746869726405057265616479020002\
    81000001a200030af10280fffffffd0202020002000205020002000506666f7572746805056c6174657202010281000003bb2cc3d800020002030200\
    02000205028005265c000281000003bb2cc3d800050f313739353239363532393133372d300507756e6e616d656402010281000003bb2cc3dbe80200\
    020402000200020502000200050566697273740507636c61696d656402020281000002f146b34af0020902000281000660d00be2b981020102050200\
    020005067365636f6e6405046465616402030281000001a200030afc0208020102000201020302000200000a0086e5efdb57f32350";
const BOARD: &str = "\
    0781cde8ad6e86ab740002010201020a020202000506706f696e7473020305077365636f6e6473020405c33a40430604646f7261feffa00002019a99\
    400009b93f0462657274d8040040000780284004616e6e61a00e10002940046361726c0d9c7500883ce4377e000a00742fa732a83e89cb";
const NAMES: &str = "0781cde8ad6e86ab74000201020202000201020005017802020506016102016202000a007462b861c48a713b";

/// The same three keys, as BGREWRITEAOF wrote them under 0.1.
const AOF: &[&str] = &[
    "ZLB.CREATE names DIM x TIES NAME",
    "ZLB.SET names a 1 b 1",
    "ZLB.CREATE board DIM points DIM seconds ASC FLOAT TIES LAST KEEP 10",
    "ZLB.SET board carl -7 1e+300 anna 300 12.5 bert 300 12.25 dora 9223372036854775807 0.1",
    "ZQ.APPLY queue 0 CONFIGURE 5 2000 3600000 30000 1000 7 100 1080000000000 0 TAKEN 2875296529136 2 \
     JOB first claimed claimed 3235296529136 9 0 1795296529136001 1 5 0 0 \
     JOB second dead dead 1795296529148 8 1 0 1 3 0 0 \
     JOB third ready ready 1795296529137 -3 2 0 0 5 0 0 \
     JOB fourth later scheduled 4102444800000 0 3 0 0 5 86400000 4102444800000 \
     JOB 1795296529137-0 unnamed scheduled 4102444801000 0 4 0 0 5 0 0 \
     TOTALS 1795296529136001 1795296529137 0 5 5 2 0 1 0 0 0",
];

fn bytes(hex: &str) -> Vec<u8> {
    let digits: Vec<u8> = hex.bytes().filter(u8::is_ascii_hexdigit).collect();
    let byte = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).expect("hex"), 16).expect("hex");
    digits.chunks(2).map(byte).collect()
}

/// `DUMP` of a queue under 0.1 that has used everything: priorities, EVERY, RATE, and leases that have ended, one of them for the
/// last time. And what a rewritten AOF file had of it.
const FULL: &[u8] = include_bytes!("fixtures/queue-0.1.dump");
const FULL_AOF: &str = include_str!("fixtures/queue-0.1.aof");

/// `DUMP` of an ORDERED queue under 0.2: jobs of groups, and of each way to become delayed.
const QUEUE_0_2: &[u8] = include_bytes!("fixtures/queue-0.2.dump");

fn restore(c: &mut Client, key: &str, hex: &str) {
    c.call(redis::cmd("RESTORE").arg(key).arg(0).arg(bytes(hex)));
}

#[test]
fn what_0_1_saved_is_loaded() {
    let server = Server::start();
    let mut c = server.client();
    for (key, hex) in [("queue", QUEUE), ("board", BOARD), ("names", NAMES)] {
        restore(&mut c, key, hex);
    }
    let job = |state: &str, payload: &str, [priority, attempts, most, due, every, token]: [i64; 6]| {
        format!(
            "['state' '{state}' 'payload' '{payload}' 'priority' {priority} 'attempts' {attempts} 'max_attempts' {most} \
             'due_ms' {due} 'every_ms' {every} 'token' {token} 'created_ms' "
        )
    };
    for (id, expected) in [
        ("first", job("claimed", "claimed", [9, 1, 5, 3_235_296_529_136, 0, 1_795_296_529_136_001])),
        ("second", job("dead", "dead", [8, 1, 3, 1_795_296_529_148, 0, 0])),
        ("fourth", job("delayed", "later", [0, 0, 5, 4_102_444_800_000, 86_400_000, 0])),
        ("1795296529137-0", job("delayed", "unnamed", [0, 0, 5, 4_102_444_801_000, 0, 0])),
    ] {
        let reply = c.reply(&format!("ZQ.GET queue {id}"));
        assert!(reply.starts_with(&expected), "{reply}");
    }
    // Ready or delayed, as the clock of this machine has it.
    let third = c.reply("ZQ.GET queue third");
    assert!(third.contains("'payload' 'ready' 'priority' -3") && third.contains("'due_ms' 1795296529137"), "{third}");
    c.script(&[
        (
            "ZQ.CONFIG queue",
            "['attempts' 5 'backoff_base_ms' 2000 'backoff_max_ms' 3600000 'aging_ms' 30000 'maxlen' 1000 'concurrency' 7 \
             'rate_limit' 100 'rate_window_ms' 1080000000000 'group_concurrency' 0 'group_rate_limit' 0 'group_rate_window_ms' 0 'ordered' 'no' 'paused' 'no' 'jitter' 0 'deadlen' 0 'deadttl_ms' 0]",
        ),
        (
            "ZLB.RANGE board 0 -1 WITHVALUES",
            "[['dora' 9223372036854775807 '0.1'] ['bert' 300 '12.25'] ['anna' 300 '12.5'] ['carl' -7 '1e+300']]",
        ),
        ("ZLB.RANGE names 0 -1 WITHVALUES", "[['a' 1] ['b' 1]]"),
    ]);
}

/// What is known of its jobs now, and was not stored then: only what an id or a token tells.
#[test]
fn a_queue_of_0_1_goes_on_where_it_stood() {
    let server = Server::start();
    let mut c = server.client();
    c.call(redis::cmd("RESTORE").arg("q").arg(0).arg(FULL));
    c.run(FULL_AOF.trim_end().replacen("ZQ.APPLY q ", "ZQ.APPLY rebuilt ", 1).as_str());
    for key in ["q", "rebuilt"] {
        let job = |c: &mut Client, id: &str| c.reply(&format!("ZQ.GET {key} {id}"));
        let made = job(&mut c, "1795306720594-0");
        assert!(
            made.ends_with(
                "'created_ms' 1795306720594 'claimed_ms' nil 'failed_ms' nil 'worker' nil 'error' nil 'group' nil]"
            ),
            "{made}"
        );
        let held = job(&mut c, "own-4");
        let known = "'created_ms' nil 'claimed_ms' 1795306720633 'failed_ms' nil 'worker' nil 'error' nil 'group' nil]";
        assert!(held.starts_with("['state' 'claimed'") && held.ends_with(known), "{held}");
        let dead = job(&mut c, "lapsed-dead");
        let known = "'claimed_ms' 1795306720622 'failed_ms' 1795306720632 'worker' nil 'error' nil 'group' nil]";
        assert!(dead.starts_with("['state' 'dead'") && dead.ends_with(known), "{dead}");
        c.script(&[
            (&format!("ZQ.ACK {key} lapsed 1795306720633583"), "1"),
            (&format!("ZQ.NACK {key} own-4 1795306720633584 FREE ERROR late"), "1"),
        ]);
        assert!(job(&mut c, "own-4").contains("'attempts' 0"));
    }
    assert_eq!(
        c.reply("ZQ.CLAIM 1 q LEASE 1m COUNT 1").len(),
        c.reply("ZQ.CLAIM 1 rebuilt LEASE 1m COUNT 1").len() - 6
    );
}

#[test]
fn what_0_2_saved_is_loaded() {
    let server = Server::start();
    let mut c = server.client();
    c.call(redis::cmd("RESTORE").arg("q").arg(0).arg(QUEUE_0_2));
    for (id, known) in [
        (
            "cron",
            "'due_ms' 1873176143966 'every_ms' 77760000000 'token' 0 'created_ms' 1795416143966 'claimed_ms' 1795416144033",
        ),
        (
            "free",
            "'due_ms' 1864536144261 'every_ms' 0 'token' 0 'created_ms' 1795416144159 'claimed_ms' 1795416144213 'failed_ms' nil 'worker' 'w1'",
        ),
        (
            "retry",
            "'due_ms' 1855896144345 'every_ms' 77760000000 'token' 0 'created_ms' 1795416144277 'claimed_ms' 1795416144301 'failed_ms' 1795416144345 'worker' 'w2' 'error' 'broken' 'group' 'c'",
        ),
        ("moved", "'due_ms' 1847256144485 'every_ms' 0 'token' 0 'created_ms' 1795416144441 'claimed_ms' nil"),
    ] {
        let job = c.reply(&format!("ZQ.GET q {id}"));
        assert!(job.contains(known), "{job}");
    }
    let saved = Payload::of(&mut c, "q");
    assert!(saved.restore(&mut c, "again", &saved.body));
    let [loaded, again] = ["q", "again"].map(|key| c.call(redis::cmd("DUMP").arg(key)));
    assert_eq!(loaded, again);
}

#[test]
fn what_0_1_wrote_into_an_aof_is_loaded() {
    let server = Server::start();
    let mut c = server.client();
    for line in AOF {
        c.run(line);
    }
    for (key, hex) in [("queue", QUEUE), ("board", BOARD), ("names", NAMES)] {
        let restored = format!("restored-{key}");
        restore(&mut c, &restored, hex);
        let [from_aof, from_dump] = [key, &restored].map(|key| c.call(redis::cmd("DUMP").arg(key)));
        assert_eq!(from_aof, from_dump, "{key}");
    }
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
        // The version of the format is the first number; 2 is what a number begins with.
        let version = if key == "queue" { 3 } else { 1 };
        assert_eq!(body[..2], [2, version]);
        refused(&head, &[&[2, 63], &body[2..]].concat());
        refused(&head, &body[..body.len() / 2]);
        let mut newer = head.clone();
        *newer.last_mut().expect("not empty") += 1;
        refused(&newer, &body);
        let log = server.log();
        let noun = if key == "queue" { "queue" } else { "leaderboard" };
        for why in [
            &format!("it is a {noun} of format 63; this version of the module reads formats up to {version}"),
            &format!("the {key} is cut short"),
            "a newer version of the module has written it (number ",
        ] {
            let line = format!("the key 'copy\\n%s%n of {key}' cannot be loaded: {why}");
            assert!(log.contains(&line), "{line} is not in the log:\n{log}");
        }
    }
    assert_eq!(c.reply("PING"), "+PONG");
}
