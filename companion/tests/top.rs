//! `zeitset top` shows the state of the server, at a low cost for the server.

use crate::support::{PATIENCE, companion, eventually, printed};
use std::io::{Read, Write};
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use testkit::{Server, cmd};

fn top(server: &Server) -> String {
    printed(companion(&["top", &server.url(), "--once", "--interval", "200ms"]).output().expect("it starts"))
}

/// Returns the words of the line that begins with `first`.
#[track_caller]
fn words<'a>(picture: &'a str, first: &str) -> Vec<&'a str> {
    let line = picture.lines().find(|line| line.split_whitespace().next() == Some(first));
    line.unwrap_or_else(|| panic!("{first} is missing:\n{picture}")).split_whitespace().collect()
}

/// Returns the number before `unit` in the line that begins with `first`.
#[track_caller]
fn figure(picture: &str, first: &str, unit: &str) -> f64 {
    let words = words(picture, first);
    let pair = words.windows(2).find(|pair| pair[1] == unit);
    pair.and_then(|pair| pair[0].parse().ok()).unwrap_or_else(|| panic!("no {unit} in {words:?}"))
}

#[test]
fn the_numbers_are_those_of_the_server() {
    let server = Server::start();
    let mut c = server.client();
    c.run("ZEXP.ADD otp 1h a 2h b");
    c.run("ZRL.CHECK limit 3 1h COST 3");
    c.run("ZRL.CHECK limit 3 1h");
    c.run("ZRL.CHECK limit 3 1h");
    for n in 0..4 {
        c.run(&format!("ZQ.PUSH mails payload ID {n}"));
    }
    c.run("ZQ.PUSH mails later DELAY 5h");
    c.run("ZQ.PUSH mails dead ID dead PRIORITY -1");
    let token = c.claim("ZQ.CLAIM 1 mails LEASE 1h");
    assert_eq!(c.int(&format!("ZQ.NACK mails dead {token} DEAD")), 1);
    c.run("ZQ.CLAIM 1 mails LEASE 10h");
    c.run("ZQ.PUSH reports yearly DELAY 365d");
    c.run("ZQ.CONFIG reports PAUSED yes");
    c.run("CONFIG SET slowlog-log-slower-than 0");
    c.run("ZQ.CONFIG mails AGING 5s");
    c.run("CONFIG SET slowlog-log-slower-than -1");
    let mut waiting = server.client();
    let waiter = std::thread::spawn(move || waiting.run("ZQ.CLAIM 1 empty LEASE 1s BLOCK 10m"));
    eventually("a client waits", || c.string("INFO zeitset").contains("zeitset_clients_waiting:1\r"));

    let picture = top(&server);
    assert!(words(&picture, "limits").join(" ").ends_with("denied 2 of 3"), "{picture}");
    assert_eq!(figure(&picture, "limits", "allowed/s"), 0.0);
    assert_eq!(figure(&picture, "sets", "tracked"), 1.0);
    assert_eq!(figure(&picture, "sets", "overdue"), 0.0);
    assert_eq!(figure(&picture, "queues", "clients"), 1.0, "one waits");
    assert_eq!(figure(&picture, "queues", "claims"), 2.0, "in all");
    assert_eq!(figure(&picture, "server", "blocked"), 1.0);
    // READY DELAYED CLAIMED DEAD PUSH/S ACK/S
    assert_eq!(words(&picture, "mails")[1..7], ["3", "1", "1", "1", "0", "0"]);
    assert_eq!(words(&picture, "reports")[1..6], ["(paused)", "0", "1", "0", "0"]);
    assert_eq!(words(&picture, "ZRL.CHECK")[1..3], ["0", "3"], "calls a second, calls");
    assert_eq!(words(&picture, "limit")[1], "2", "denied");
    assert!(picture.contains("ZQ.CONFIG mails AGING 5s"), "the slow command:\n{picture}");

    c.run("ZQ.PUSH empty payload");
    waiter.join().expect("the waiting client gets its job");
}

#[test]
fn rates_are_what_happens_meanwhile() {
    let server = Server::start();
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut c = server.client();
            while !done.load(Ordering::Relaxed) {
                c.run("ZRL.CHECK limit 1000000000 1h");
                c.run("ZRL.CHECK small 1 1h");
                c.run("ZQ.PUSH mails payload");
            }
        });
        // On a busy machine, a sample may see no calls since the previous one. Repeats the command until a snapshot
        // shows all rates.
        let start = Instant::now();
        let mut seen = false;
        while !seen && start.elapsed() < PATIENCE {
            let picture = top(&server);
            seen =
                picture.lines().any(|line| line.starts_with("mails")) && rates(&picture).iter().all(|&rate| rate > 0.0);
        }
        // The load also ends if the view fails.
        done.store(true, Ordering::Relaxed);
        assert!(seen, "rates above zero: {}", top(&server));
    });
}

fn rates(picture: &str) -> Vec<f64> {
    let units = [("limits", "allowed/s"), ("limits", "denied/s"), ("limits", "units/s"), ("server", "calls/s")];
    let mut rates: Vec<_> = units.iter().map(|(first, unit)| figure(picture, first, unit)).collect();
    // Adds the pushes per second of the queue and the calls per second of ZQ.PUSH.
    let rate = |first, place: usize| words(picture, first)[place].parse().unwrap_or(0.0);
    rates.extend([rate("mails", 5), rate("ZQ.PUSH", 1)]);
    rates
}

#[test]
fn a_large_keyspace_is_not_walked_through() {
    let server = Server::start();
    let mut c = server.client();
    c.run("DEBUG POPULATE 200000");
    top(&server);
    let stats = c.string("INFO commandstats");
    assert!(!stats.contains("cmdstat_keys:"), "{stats}");
    let scans = stats.split("cmdstat_scan:calls=").nth(1).and_then(|rest| rest.split(',').next());
    let scans: u64 = scans.map_or(0, |calls| calls.parse().expect("a number"));
    assert!(scans <= 40, "two samples, a bounded number of SCANs each: {scans}");
}

#[test]
fn keys_of_any_bytes_do_not_reach_the_terminal_as_they_are() {
    let server = Server::start();
    let mut c = server.client();
    cmd!(c, "ZQ.PUSH", b"evil\x1b[2J\nkey\xff", "payload");
    let picture = top(&server);
    assert!(picture.contains(r"evil\x1b[2J\nkey\xff"), "{picture}");
    assert!(!picture.contains('\x1b'));
}

#[test]
fn a_server_without_the_module_is_shown_as_such() {
    let server = Server::builder().plain().start();
    let picture = top(&server);
    assert!(picture.contains("Zeitset is not loaded"), "{picture}");
}

#[test]
fn a_server_that_is_not_there_is_an_error_without_the_password() {
    let output = companion(&["top", "redis://ann:s3cret@127.0.0.1:1", "--once"]).output().expect("it starts");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success() && said.starts_with("zeitset: "), "{said}");
    assert!(!said.contains("s3cret"), "{said}");
}

#[test]
fn a_reader_that_has_read_enough_ends_the_program_quietly() {
    let server = Server::start();
    let url = server.url();
    for words in [&["top", &url, "--once", "--interval", "50ms"][..], &["metrics", "--once", "--redis", &url]] {
        let mut command = companion(words);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it starts");
        drop(child.stdout.take());
        let output = child.wait_with_output().expect("it ends");
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success() && said.is_empty(), "{words:?}: {} {said}", output.status);
    }
}

struct Ended(Child);

impl Drop for Ended {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn keys_are_heard_while_the_server_hangs() {
    let server = Server::start();
    let program = companion(&[]).get_program().to_string_lossy().into_owned();
    // `script` gives the program a terminal.
    let top = format!("stty rows 30 cols 100; exec {program} top {} --interval 100ms", server.url());
    let started = Command::new("script")
        .args(["-qec", &top, "/dev/null"])
        .env("TERM", "xterm")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn();
    let Ok(child) = started else {
        eprintln!("skipped: script is not installed (on Debian: apt-get install bsdutils)");
        return;
    };
    let mut child = Ended(child);
    let Ended(script) = &mut child;
    let (mut keys, mut screen) = (script.stdin.take().expect("a pipe"), script.stdout.take().expect("a pipe"));
    let seen = Mutex::new(String::new());
    let shows = |text: &str| seen.lock().expect("no panic").contains(text);
    std::thread::scope(|scope| {
        // Kills the program before the thread that reads its output is joined, even if the test fails.
        let mut child = child;
        scope.spawn(|| {
            let mut buffer = [0; 4096];
            while let Ok(read @ 1..) = screen.read(&mut buffer) {
                seen.lock().expect("no panic").push_str(&String::from_utf8_lossy(&buffer[..read]));
            }
        });
        eventually("the view is there", || shows("calls/s"));
        // All commands wait, including those of the view, which reports a timeout after some seconds.
        server.client().run("CLIENT PAUSE 600000 ALL");
        std::thread::sleep(Duration::from_millis(300));
        keys.write_all(b"h").expect("it reads");
        // The view does not rewrite unchanged characters of the screen, such as blanks.
        eventually("the help is shown", || shows("column"));
        assert!(!shows("no answer"), "the key was heard before");
        keys.write_all(b"hq").expect("it reads");
        assert!(child.0.wait().expect("it ends").success());
    });
}
