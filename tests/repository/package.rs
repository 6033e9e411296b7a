//! The results of `make deb` and `make install` work, and can be removed without a trace. The tests use a temporary
//! root. `make test-deb` builds the package and then runs the tests.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};
use testkit::{Client, Program, Server};

/// The installed configuration snippet, below a prefix.
const SNIPPET: &str = "share/doc/zeitset/examples/zeitset.conf";

#[test]
#[ignore = "wants a release build: make test-deb"]
fn the_debian_package_works_and_leaves_others_data_alone() {
    let root = empty_root("deb");
    for folder in ["etc/redis", "var/lib/redis", "var/lib/dpkg/info", "var/lib/dpkg/updates"] {
        fs::create_dir_all(root.join(folder)).expect("the root can be written");
    }
    for file in ["var/lib/dpkg/status", "var/lib/dpkg/available"] {
        fs::write(root.join(file), "").expect("the root can be written");
    }
    let told = dpkg(&root, "--install", &package());
    assert!(told.contains("/usr/share/doc/zeitset/README.Debian"), "how to go on: {told}");

    let conf = snippet(&root, "/usr");
    serves(&conf);
    has_companion(&root, "/usr");
    assert!(root.join("usr/lib/systemd/system/zeitset-ui.service").exists());
    let licences =
        fs::read_to_string(root.join("usr/share/doc/zeitset/third-party.txt")).expect("the licences of others");
    for linked in
        ["redis-module 2", "Redis Labs Modules", "libc 0", "axum 0", "Apache License", "Rust standard library"]
    {
        assert!(licences.contains(linked), "{linked} is missing");
    }
    let own = fs::read_to_string(root.join("usr/share/doc/zeitset/copyright")).expect("the licence");
    assert!(own.contains("Expat") && own.contains("third-party.txt") && own.contains("BSD-3-Clause"), "{own}");

    // An administrator purges the package while redis.conf still loads the module.
    let (redis_conf, dump) = (root.join("etc/redis/redis.conf"), root.join("var/lib/redis/dump.rdb"));
    fs::write(&redis_conf, &conf).expect("the root can be written");
    fs::write(&dump, "data").expect("the root can be written");
    let told = dpkg(&root, "--purge", Path::new("zeitset"));
    assert!(told.contains("redis.conf still loads the module"), "the server would not start any more: {told}");
    assert!(!root.join("usr/lib/systemd").exists() && !root.join("usr/bin").exists());
    assert!(!root.join("usr/lib/redis").exists() && !root.join("usr/share/doc").exists());
    assert_eq!(fs::read_to_string(redis_conf).expect("still there"), conf);
    assert_eq!(fs::read_to_string(dump).expect("still there"), "data");
}

#[test]
#[ignore = "wants a release build: make test-deb"]
fn make_install_works_and_uninstall_takes_all_away() {
    let root = empty_root("install");
    make(&root, "install");
    serves(&snippet(&root, "/opt/zeitset"));
    has_companion(&root, "/opt/zeitset");
    let neighbour = root.join("opt/zeitset/lib/redis/modules/neighbour.so");
    fs::write(&neighbour, "").expect("the root can be written");
    make(&root, "uninstall");
    assert_eq!(files(&root), [neighbour]);
}

/// Checks that the companion, the alerts and the dashboard are installed.
fn has_companion(root: &Path, prefix: &str) {
    let installed = root.join(prefix.trim_start_matches('/'));
    let version = Program::output(Command::new(installed.join("bin/zeitset")).arg("--version"));
    assert!(version.contains(env!("CARGO_PKG_VERSION")), "{version}");
    for file in ["prometheus/zeitset.rules.yml", "grafana/zeitset.json"] {
        assert!(installed.join("share/doc/zeitset/packaging").join(file).exists(), "{file}");
    }
}

/// Checks that a server with this configuration loads the module, and that CONFIG REWRITE does not add a second line
/// that loads it.
fn serves(conf: &str) {
    let server = Server::builder().plain().config(conf).start();
    let mut c = server.client();
    c.script(&[
        ("ZEXP.ADD set 5m a", "1"),
        ("ZQ.PUSH queue payload ID a", "'a'"),
        ("ZLB.CREATE board DIM points", "+OK"),
        ("CONFIG REWRITE", "+OK"),
    ]);
    let path = c.info("server")["config_file"].clone();
    let rewritten = fs::read_to_string(path).expect("the configuration");
    let loads = rewritten.lines().filter(|line| line.starts_with("loadmodule ")).count();
    assert_eq!(loads, 1, "a server that loads a module twice does not start:\n{rewritten}");

    // The snippet lists every setting with its default, as a comment.
    let settings = settings(&mut c);
    for setting in &settings {
        assert!(conf.lines().any(|line| line == format!("# {setting}")), "{setting} is missing:\n{conf}");
    }
    let server = Server::builder().plain().config(&conf.replace("# zeitset.", "zeitset.")).start();
    assert_eq!(self::settings(&mut server.client()), settings);
}

fn settings(c: &mut Client) -> BTreeSet<String> {
    c.strings("CONFIG GET zeitset.*").chunks(2).map(|pair| pair.join(" ")).collect()
}

/// Returns the lines of the snippet with the module's path outside of the root.
fn snippet(root: &Path, prefix: &str) -> String {
    let installed = root.join(prefix.trim_start_matches('/'));
    let conf = fs::read_to_string(installed.join(SNIPPET)).expect("the ready lines");
    let line = format!("loadmodule {prefix}/lib/redis/modules/zeitset.so");
    assert!(conf.lines().any(|found| found == line), "{line} is missing:\n{conf}");
    conf.replace(&line, &format!("loadmodule {}/lib/redis/modules/zeitset.so", installed.display()))
}

/// Runs dpkg and returns its output. The root is empty, so dependencies are ignored.
fn dpkg(root: &Path, action: &str, package: &Path) -> String {
    // Otherwise dpkg writes to the system's log.
    const OPTIONS: &str = "--log=/dev/null --force-not-root,script-chrootless,depends,bad-path";
    let script = format!("exec dpkg --root='{}' {OPTIONS} {action} '{}' 2>&1", root.display(), package.display());
    Program::output(Command::new("sh").args(["-c", &script]))
}

fn make(root: &Path, target: &str) {
    let mut make = Command::new("make");
    make.current_dir(env!("CARGO_MANIFEST_DIR")).args([target, "PREFIX=/opt/zeitset"]);
    make.arg(format!("DESTDIR={}", root.display())).arg(format!("CARGO_TARGET_DIR={}", target_folder().display()));
    Program::output(&mut make);
}

fn package() -> PathBuf {
    let start = format!("zeitset_{}-1_", env!("CARGO_PKG_VERSION"));
    let mut files = fs::read_dir(target_folder()).expect("the target folder").flatten().map(|entry| entry.path());
    let is_package = |path: &PathBuf| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(&start));
    files.find(is_package).expect("`make deb` comes first")
}

pub(super) fn target_folder() -> PathBuf {
    let test = env::current_exe().expect("the path of the tests");
    test.ancestors().nth(3).expect("target/debug/deps/integration-<hash>").to_owned()
}

pub(super) fn empty_root(name: &str) -> PathBuf {
    let root = target_folder().join("root").join(name);
    let _ = fs::remove_dir_all(&root);
    fs::create_dir_all(&root).expect("the target folder can be written");
    root
}

/// Returns all files below a folder.
fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).expect("a folder").flatten();
    entries.flat_map(|entry| if entry.path().is_dir() { files(&entry.path()) } else { vec![entry.path()] }).collect()
}
