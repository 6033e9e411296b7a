//! Files of earlier releases are loaded, and every key answers as it did.
//!
//! Each release leaves a folder in tests/data/fixtures, which `scripts/fixtures.sh` makes (RELEASING.md):
//!
//! | file | |
//! |---|---|
//! | `dump.rdb` | all keys, as SAVE wrote them |
//! | `base.rdb`, `base.aof` | an earlier state of the keys, as BGREWRITEAOF wrote it, with and without a preamble |
//! | `tail.aof` | what the server appended after the rewrite. With either base, it makes the keys of `dump.rdb` |
//! | `effects-1.txt` | the effects of `base.aof` and `tail.aof` in format 1, and those of a rewrite: command, key, arguments in hex |
//! | `dumps.txt` | for each key: its name, when it expires (Unix ms, -1: never), the output of DUMP in hex |
//! | `expected.txt` | questions, and the answer of each ([`questions`]) |
//!
//! Redis 7.0 wrote the files: all servers that the module supports can load them. Its clock was some months late, so
//! some times in the files have passed: members and leases have expired. All other times are in the year 2100 or
//! later. So no answer depends on the time of the test.

mod effects;
mod history;
mod making;
mod questions;
mod versions;

pub use making::aof;
use questions::assert_answers;
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use testkit::redis::{Value, cmd};
use testkit::{Builder, Client, Server, command, root};

/// The effects of version 0.3, and their options.
const BOARD_EFFECTS_OF_0_3: &str = "CLEAR CREATE REM REMRANGE REPLACE SET";
const QUEUE_EFFECTS_OF_0_3: &str = "\
    ACK AGAIN CANCEL CLAIM CLEAN CONFIGURE DEAD DROP EXPIRE EXTEND FOLLOW FOLLOWER HOLD JOB MOVE PUSH PUSHAUTO REDRIVE \
    RETRY REVIVE SETTLE TOTALS TURN UNITS \
    again due error free group last ttl worker \
    max_attempts backoff_base_ms backoff_max_ms aging_ms maxlen concurrency rate_limit rate_window_ms groupconcurrency \
    grouprate_limit grouprate_window_ms ordered paused jitter deadlen deadttl_ms \
    token attempts period anchor created claimed failed since expires \
    pushed claimed_total acked nacked cancelled redriven expired_leases replaced recurred missed cleaned dropped \
    revoked late expired";

fn fixtures() -> PathBuf {
    root().join("tests/data/fixtures")
}

fn read(path: &Path) -> Vec<u8> {
    fs::read(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Returns the folders of all releases that have left files.
fn releases() -> Vec<PathBuf> {
    let entries = fs::read_dir(fixtures()).expect("a folder").map(|entry| entry.expect("an entry").path());
    let releases: Vec<_> = entries.filter(|path| path.is_dir()).collect();
    assert!(releases.contains(&fixtures().join("0.3")));
    releases
}

/// Starts a server with these files in its folder.
fn start_with(builder: Builder, config: &str, files: &[(&str, Vec<u8>)]) -> Server {
    let mut server = builder.without_aof().start();
    for (name, bytes) in files {
        let path = server.folder().join(name);
        fs::create_dir_all(path.parent().expect("a file has a folder")).expect("the folder can be written");
        fs::write(path, bytes).expect("the folder can be written");
    }
    server.edit_config(|_| config.to_owned());
    server.crash_and_restart();
    server
}

#[track_caller]
fn assert_loaded(server: &Server, release: &Path, way: &str) {
    assert_answers(server, &release.join("expected.txt"), way);
    for field in ["zeitset_queue_effects_rejected", "zeitset_board_effects_rejected"] {
        assert_eq!(server.client().info_number("zeitset", field), 0, "{way}: {field}");
    }
}

#[test]
fn the_rdb_file_of_each_release_is_loaded() {
    releases().iter().for_each(|release| assert_rdb_is_loaded(release));
}

#[track_caller]
fn assert_rdb_is_loaded(release: &Path) {
    let server = start_with(Server::builder(), "appendonly no", &[("dump.rdb", read(&release.join("dump.rdb")))]);
    assert_loaded(&server, release, "RDB");
}

#[test]
fn the_aof_of_each_release_is_loaded_with_and_without_a_preamble() {
    releases().iter().for_each(|release| assert_aof_is_loaded(release));
}

#[track_caller]
fn assert_aof_is_loaded(release: &Path) {
    for base in ["base.rdb", "base.aof"] {
        let manifest = format!("file {base} seq 1 type b\nfile tail.aof seq 1 type i\n");
        let files = [
            ("appendonlydir/appendonly.aof.manifest", manifest.into_bytes()),
            (&*format!("appendonlydir/{base}"), read(&release.join(base))),
            ("appendonlydir/tail.aof", read(&release.join("tail.aof"))),
        ];
        let server = start_with(Server::builder(), "appendonly yes", &files);
        assert_loaded(&server, release, base);
    }
}

/// Returns the name, the expiry and the output of DUMP of each key.
fn dumps(release: &Path) -> Vec<(String, i64, Vec<u8>)> {
    let text = String::from_utf8(read(&release.join("dumps.txt"))).expect("text");
    let key = |line: &str| {
        let [key, until, dump] = line.split(' ').collect::<Vec<_>>()[..] else { panic!("{line}") };
        (key.to_owned(), until.parse::<i64>().expect("a time").max(0), bytes(dump))
    };
    text.lines().map(key).collect()
}

#[test]
fn the_dumps_of_each_release_are_restored() {
    releases().iter().for_each(|release| assert_dumps_are_restored(release));
}

#[track_caller]
fn assert_dumps_are_restored(release: &Path) {
    let server = Server::start();
    restore(release, &mut server.client());
    assert_loaded(&server, release, "RESTORE");
}

fn restore(release: &Path, c: &mut Client) {
    for (key, until, dump) in dumps(release) {
        c.restore(&key, until, &dump);
    }
}

/// Two versions that store a value in different forms under one number could not load each other's values.
#[test]
fn queues_and_boards_have_the_same_bytes_as_before_or_another_number_of_their_format() {
    /// The type of a value that belongs to a module, in RDB files.
    const MODULE_2: u8 = 7;
    let server = Server::start();
    let mut c = server.client();
    for (key, until, before) in releases().iter().flat_map(|release| dumps(release)) {
        if before[0] != MODULE_2 {
            continue;
        }
        let mut restore = cmd("RESTORE");
        restore.arg(&key).arg(until).arg(&before[..]).arg("ABSTTL").arg("REPLACE");
        // In between, no timer drops an expired job.
        let [_, Value::BulkString(now)] = &c.burst(&[restore, command(&format!("DUMP {key}"))])[..] else {
            panic!("{key}");
        };
        // The value is between the type and the version of the RDB file. Its first number, after an opcode, is the number
        // of the format.
        let [before, now] = [&before, now].map(|dump| &dump[10..dump.len() - 10]);
        if before[..2] == now[..2] {
            assert_eq!(now, before, "{key}: raise VERSION of the model (CONTRIBUTING.md)");
        }
    }
}

/// Two builds that write an effect in different forms under one number could not read each other's effects.
#[test]
fn effects_have_the_same_bytes_as_before_or_another_number_of_their_format() {
    for release in releases() {
        let (format, effects) = effects::effects(&release);
        let file = effects_file(&release, format);
        let before = fs::read_to_string(&file).unwrap_or_else(|error| {
            panic!("{}: {error}: run scripts/fixtures.sh effects (CONTRIBUTING.md)", file.display())
        });
        let differs = before.lines().zip(effects.lines()).find(|(before, now)| before != now);
        assert!(before == effects, "raise FORMAT in src/base/packed.rs (CONTRIBUTING.md): {differs:#?}");
    }
}

fn effects_file(release: &Path, format: u8) -> PathBuf {
    release.join(format!("effects-{format}.txt"))
}

/// If an effect or an option were missing, the tests above would not notice that the module can no longer read it.
#[test]
fn the_aof_of_0_3_has_every_effect_and_option() {
    let release = fixtures().join("0.3");
    let files = ["base.aof", "tail.aof"].map(|file| commands(&read(&release.join(file))));
    for (command, effects) in [("ZLB.APPLY", BOARD_EFFECTS_OF_0_3), ("ZQ.APPLY", QUEUE_EFFECTS_OF_0_3)] {
        let effects_of = files.iter().flatten().filter(|words| words[0] == command.as_bytes());
        let found: BTreeSet<_> = effects_of.flatten().map(Vec::as_slice).collect();
        let missing: Vec<_> = effects.split(' ').filter(|effect| !found.contains(effect.as_bytes())).collect();
        assert!(missing.is_empty(), "{command}: {missing:?}");
    }
}

/// Splits an AOF file into commands, and each command into arguments.
pub fn commands(mut file: &[u8]) -> Vec<Vec<Vec<u8>>> {
    let line = |file: &mut &[u8], kind: u8| -> usize {
        let end = file.iter().position(|&byte| byte == b'\r').expect("a line");
        let (head, rest) = file.split_at(end);
        assert_eq!(head[0], kind);
        *file = &rest[2..];
        std::str::from_utf8(&head[1..]).ok().and_then(|digits| digits.parse().ok()).expect("a number")
    };
    let mut commands = Vec::new();
    while !file.is_empty() {
        let words = line(&mut file, b'*');
        let word = |_| {
            let length = line(&mut file, b'$');
            let word = file[..length].to_vec();
            file = &file[length + 2..];
            word
        };
        commands.push((0..words).map(word).collect());
    }
    commands
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn bytes(hex: &str) -> Vec<u8> {
    let byte = |at| u8::from_str_radix(&hex[at..at + 2], 16).expect("hex");
    (0..hex.len()).step_by(2).map(byte).collect()
}
