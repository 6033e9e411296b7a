//! Two versions together: a build of an earlier release, which `ZEITSET_RELEASE` names, and the module under
//! test. `make test-versions` builds the earlier release and runs these tests.
//!
//! [`upgrade`] goes from the earlier release to the module under test, [`back`] the other way. docs/upgrading.md says
//! what the earlier release does not understand, and how to go back.

mod back;
mod upgrade;

use super::{making, read, start_with};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use testkit::{Builder, Client, Dataset, FAR, Server, Traffic, assert_same_data};

/// Two ways to keep data. The sweepers are off, so the data stay as they are when no command runs.
const KEPT: [&str; 2] = ["appendonly yes\nzeitset.sweep no", "appendonly no\nsave 3600 1\nzeitset.sweep no"];

/// What random commands create ends after the test, except limits of ZRL.THROTTLE.
const DURATIONS: [&str; 3] = ["1h", "1d", "60d"];

const CALLS: usize = 2000;

/// Returns the builder of servers with the earlier release.
fn earlier() -> Builder {
    static MODULE: OnceLock<PathBuf> = OnceLock::new();
    let module = MODULE.get_or_init(|| {
        let path = std::env::var_os("ZEITSET_RELEASE").expect("ZEITSET_RELEASE names the module of a release");
        fs::canonicalize(path).expect("ZEITSET_RELEASE names a file")
    });
    Server::builder().build(module)
}

fn empty_folder(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).expect("the target folder can be written");
    folder
}

/// Sends random commands of all families. An earlier release gets none that this version carries out in another way
/// (docs/upgrading.md): a change of BACKOFF also changes its claimed jobs, and it counts fewer pushes with AGAIN.
fn run(traffic: &mut Traffic, server: &Server) {
    let mut c = server.client();
    let is_earlier = c.info("zeitset")["zeitset_version"] != env!("CARGO_PKG_VERSION");
    for _ in 0..CALLS {
        let line = traffic.line(FAR);
        if !(is_earlier && ["BACKOFF", "AGAIN"].iter().any(|word| line.contains(word))) {
            traffic.send(&mut c, &line, "versions");
        }
    }
}

/// Returns the files of the server's AOF, or its snapshot, after all that it has done.
fn files(server: &Server) -> Vec<(String, Vec<u8>)> {
    let mut c = server.client();
    if c.info("persistence")["aof_enabled"] == "0" {
        c.run("SAVE");
        return vec![("dump.rdb".to_owned(), read(&server.folder().join("dump.rdb")))];
    }
    let folder = fs::read_dir(server.folder().join("appendonlydir")).expect("an AOF");
    folder
        .map(|file| file.expect("a file"))
        .map(|file| (format!("appendonlydir/{}", file.file_name().display()), read(&file.path())))
        .collect()
}

/// Starts a server with another server's files. It has no master, but is a replica, so it changes nothing.
fn loaded(builder: Builder, kept: &str, server: &Server) -> Server {
    let files = files(server);
    let files: Vec<_> = files.iter().map(|(name, bytes)| (name.as_str(), bytes.clone())).collect();
    start_with(builder, &format!("{kept}\nreplicaof 127.0.0.1 1"), &files)
}

#[track_caller]
fn assert_same(one: &Server, other: &Server) {
    assert_same_data(&mut one.client(), &mut other.client());
}

/// Asserts that a server with the files of `from` has the same data as `with`. The upkeep may change `from` and `with`
/// after the files were copied: it forgets units of RATE that are available again. So copies the files again if they
/// differ.
#[track_caller]
fn assert_files_agree(kept: &str, from: &Server, with: &Server) {
    /// The units of the traffic are available again after a second.
    const TRIES: usize = 20;
    for _ in 1..TRIES {
        let loaded = loaded(Server::builder(), kept, from);
        if Dataset::of(&mut loaded.client()) == Dataset::of(&mut with.client()) {
            return;
        }
    }
    assert_same(&loaded(Server::builder(), kept, from), with);
}

fn shut_down(server: &mut Server) {
    // The server closes the connection without a reply.
    let _ = server.client().try_run("SHUTDOWN");
    server.kill();
}

/// After its next start, a replica gets all data from its master: "Order" in docs/upgrading.md.
fn delete_files(server: &Server) {
    let _ = fs::remove_dir_all(server.folder().join("appendonlydir"));
    let _ = fs::remove_file(server.folder().join("dump.rdb"));
}

/// Copies all keys of database 0 to another server, as a cluster moves slots. The other server must refuse `refused`.
#[track_caller]
fn migrate(from: &mut Client, to: &Server, refused: &[String]) {
    // This limit may end meanwhile.
    from.run("DEL {k}cell0");
    for key in from.strings("KEYS *") {
        let reply = from.reply(&format!("MIGRATE 127.0.0.1 {} {key} 0 10000 COPY", to.address().1));
        if refused.contains(&key) {
            assert!(reply.contains("Bad data format"), "{key}: {reply}");
        } else {
            assert_eq!(reply, "+OK", "{key}");
        }
    }
}

fn kind(c: &mut Client, key: &str) -> String {
    testkit::show(&c.run(&format!("TYPE {key}"))).trim_start_matches('+').to_owned()
}

fn members(c: &mut Client, key: &str) -> Vec<String> {
    c.strings(&format!("ZRANGE {key} 0 -1 WITHSCORES"))
}
