//! Makes the files of a release. `scripts/fixtures.sh` runs these tests, which write them into the fixtures.

use super::{effects, effects_file, fixtures, hex, history, questions, releases};
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use testkit::{Builder, Client, Clock, Server};

/// How late the server's clock is while it writes the files.
const LATE_MS: i64 = 90 * 24 * 3600 * 1000;

#[test]
#[ignore = "writes into tests/data/fixtures"]
fn make() {
    let (clock, server) = start(Server::builder());
    let mut c = server.client();
    let version = &c.info("server")["redis_version"];
    assert!(version.starts_with("7.0."), "newer servers could not load the files of {version}: use Redis 7.0");
    let version = c.info("zeitset")["zeitset_version"].clone();
    let release = version.rsplit_once('.').expect("major.minor.patch").0;
    let folder = fixtures().join(release);
    fs::create_dir(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    write(&folder, &server, &clock, || {});
    assert!(releases().contains(&folder));
    make_effects();
}

#[test]
#[ignore = "writes into tests/data/fixtures"]
fn make_effects() {
    for release in releases() {
        let (format, effects) = effects::effects(&release);
        fs::write(effects_file(&release, format), effects).expect("the folder can be written");
    }
}

/// Starts a server for [`write`]. Its clock is late.
pub fn start(builder: Builder) -> (Clock, Server) {
    let clock = Clock::new();
    clock.step_wall(-LATE_MS);
    let server = builder.keeping_aof().clock(&clock).config("zeitset.sweep no").start();
    (clock, server)
}

/// Lets a server write all files into a folder. Calls `before_questions` when the keys have their final values: the
/// questions claim jobs.
pub fn write(folder: &Path, server: &Server, clock: &Clock, before_questions: impl FnOnce()) {
    let mut c = server.client();
    history::before_the_rewrite(&mut c, clock);
    for (preamble, base) in [("no", "base.aof"), ("yes", "base.rdb")] {
        c.run(&format!("CONFIG SET aof-use-rdb-preamble {preamble}"));
        c.rewrite_aof();
        fs::copy(aof(server, 'b'), folder.join(base)).expect("the base of the AOF");
    }
    history::after_the_rewrite(&mut c, clock);
    fs::copy(aof(server, 'i'), folder.join("tail.aof")).expect("the tail of the AOF");
    c.run("SAVE");
    fs::copy(server.folder().join("dump.rdb"), folder.join("dump.rdb")).expect("the RDB file");
    fs::write(folder.join("dumps.txt"), dumps(&mut c)).expect("the folder can be written");

    clock.step_wall(LATE_MS);
    c.run("CONFIG SET zeitset.sweep yes");
    history::wait_for_upkeep(&mut c);
    before_questions();
    let text = questions::questions(server);
    fs::write(folder.join("expected.txt"), text).expect("the folder can be written");
}

/// Returns the path of the current part of the AOF: `b` is the base, `i` the file to which the server appends.
pub fn aof(server: &Server, kind: char) -> PathBuf {
    let folder = server.folder().join("appendonlydir");
    let manifest = fs::read_to_string(folder.join("appendonly.aof.manifest")).expect("the server keeps an AOF");
    // Newer servers write more fields behind the type.
    let line = manifest.lines().find(|line| line.contains(&format!(" type {kind}"))).expect("the part");
    folder.join(line.split(' ').nth(1).expect("file <name> seq <number> type <kind>"))
}

/// Returns the content of `dumps.txt`.
fn dumps(c: &mut Client) -> String {
    let mut keys = c.strings("KEYS *");
    keys.sort();
    let mut text = String::new();
    for key in keys {
        let _ = write!(text, "{key} {} ", c.int(&format!("PEXPIRETIME {key}")));
        let _ = writeln!(text, "{}", hex(&c.dump(&key)));
    }
    text
}
