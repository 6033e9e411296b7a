//! `zeitset metrics`: all numbers of the server in the format of Prometheus.

use crate::support::{Running, companion, printed};
use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead, BufReader};
use std::process::Stdio;
use testkit::{Server, cmd, free_port};

fn once(server: &Server, words: &[&str]) -> String {
    let url = server.url();
    let words = [&["metrics", "--once", "--redis", &url], words].concat();
    printed(companion(&words).output().expect("it starts"))
}

fn values(page: &str) -> BTreeMap<String, f64> {
    let samples = page.lines().filter(|line| !line.starts_with('#'));
    let pairs = samples.map(|line| line.rsplit_once(' ').unwrap_or_else(|| panic!("no sample: {line}")));
    pairs.map(|(name, value)| (name.to_owned(), value.parse().expect("a number"))).collect()
}

fn types(page: &str) -> BTreeMap<&str, &str> {
    page.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split_once(' ')).collect()
}

#[test]
fn every_field_of_info_is_served_with_its_type_and_value() {
    let server = Server::start();
    let mut c = server.client();
    c.run("ZRL.CHECK limit 3 1h COST 3");
    c.run("ZRL.CHECK limit 3 1h");
    c.run("ZEXP.ADD set 1h a 1h b");
    // Without the sweeper, nothing changes between the metrics page and INFO.
    c.run("CONFIG SET zeitset.sweep no");
    let page = once(&server, &[]);
    let (values, types) = (values(&page), types(&page));
    let untyped: Vec<_> = types.iter().filter(|(_, kind)| **kind == "untyped").collect();
    assert!(untyped.is_empty(), "docs/observability.md does not explain: {untyped:?}");
    let info = c.string("INFO zeitset");
    let fields: Vec<_> = info.lines().filter_map(|line| line.strip_prefix("zeitset_")?.split_once(':')).collect();
    assert!(fields.len() > 15, "{info}");
    for (field, value) in fields.into_iter().filter(|(field, _)| *field != "version") {
        let (name, scale) = match (field.strip_suffix("_ms"), field.strip_suffix("_us")) {
            (Some(stem), _) => (format!("zeitset_{stem}_seconds"), 1e3),
            (_, Some(stem)) => (format!("zeitset_{stem}_seconds"), 1e6),
            _ => (format!("zeitset_{field}"), 1.0),
        };
        let total = format!("{name}_total");
        let served = values.get(&name).or_else(|| values.get(&total));
        let served = served.unwrap_or_else(|| panic!("{field} is not served:\n{page}"));
        let is_counter = values.contains_key(&total);
        let kind = types[if is_counter { total.as_str() } else { name.as_str() }];
        assert_eq!(kind, if is_counter { "counter" } else { "gauge" }, "{field}");
        assert_eq!(*served, value.parse::<f64>().expect("a number") / scale, "{field}");
    }
    assert_eq!(values["zeitset_up"], 1.0);
    assert_eq!(values["zeitset_checks_denied_total"], 1.0);
    assert_eq!(values["zeitset_server_is_master"], 1.0);
    assert_eq!(values[r#"zeitset_command_calls_total{command="zrl.check"}"#], 2.0);
}

#[test]
fn a_queue_is_served_with_its_jobs_its_wait_and_its_counters() {
    let server = Server::start();
    let mut c = server.client();
    let due = c.now() - 100_000;
    c.run_all(["ZQ.PUSH mails payload ID a", "ZQ.PUSH mails payload ID b", "ZQ.PUSH mails later DELAY 1h"]);
    c.run(&format!("ZQ.PUSH mails payload ID c PRIORITY 1 AT {due}ms"));
    let token = c.claim("ZQ.CLAIM 1 mails LEASE 1h");
    c.run(&format!("ZQ.NACK mails a {token} DEAD"));
    c.run("ZQ.CLAIM 1 mails LEASE 1h");
    let wait = r#"zeitset_queue_oldest_wait_seconds{queue="mails"}"#;
    assert!((100.0..160.0).contains(&values(&once(&server, &[]))[wait]));
    c.run("ZQ.CONFIG mails PAUSED yes");
    let values = values(&once(&server, &[]));
    for (state, count) in [("ready", 1.0), ("delayed", 1.0), ("claimed", 1.0), ("dead", 1.0)] {
        assert_eq!(values[&format!(r#"zeitset_queue_jobs{{queue="mails",state="{state}"}}"#)], count, "{state}");
    }
    let of = |metric: &str| values[&format!(r#"zeitset_queue_{metric}{{queue="mails"}}"#)];
    assert_eq!([of("pushed_total"), of("claimed_total"), of("nacked_total"), of("paused")], [4.0, 2.0, 1.0, 1.0]);
    assert_eq!(of("oldest_wait_seconds"), 0.0, "in a paused queue, no job waits for a worker");
}

#[test]
fn the_number_of_queues_is_bounded() {
    let server = Server::start();
    let mut c = server.client();
    for n in 0..30 {
        c.run(&format!("ZQ.PUSH queue:{n:02} payload"));
    }
    let page = once(&server, &["--queues", "7"]);
    let values = values(&page);
    let queues: BTreeSet<_> = values.keys().filter(|name| name.starts_with("zeitset_queue_paused{")).collect();
    assert_eq!(queues.len(), 7);
    assert!(queues.iter().any(|name| name.contains("queue:00")) && !page.contains("queue:07"), "the first by name");
    assert_eq!((values["zeitset_queues_shown"], values["zeitset_queues_truncated"]), (7.0, 1.0));
}

#[test]
fn keys_of_any_bytes_are_labels_that_the_format_allows() {
    let server = Server::start();
    let mut c = server.client();
    // These two keys would have the same label if the invalid byte were only replaced by `\xff`.
    for key in [&b"a\"b\\\n\xff"[..], b"a\"b\\\n\\xff"] {
        cmd!(c, "ZQ.PUSH", key, "payload");
    }
    let page = once(&server, &[]);
    let labels: BTreeSet<_> = page.lines().filter_map(|line| line.strip_prefix("zeitset_queue_paused")).collect();
    assert_eq!(labels, BTreeSet::from([r#"{queue="a\"b\\\\\\n\\xff"} 0"#, r#"{queue="a\"b\\\\\\n\\\\xff"} 0"#]));
}

#[test]
fn a_server_that_goes_away_is_served_as_down_and_comes_back_into_sight() {
    let mut server = Server::start();
    let log = std::env::temp_dir().join(format!("zeitset-metrics-{}.log", std::process::id()));
    let mut command = companion(&["metrics", "--redis", &server.url()]);
    command.stderr(std::fs::File::create(&log).expect("a file"));
    let running = Running::start(command);
    let (status, page) = running.get("/metrics");
    assert_eq!(status, 200);
    assert!(page.contains("text/plain; version=0.0.4") && page.contains("\nzeitset_up 1\n"), "{page}");
    let address = format!("127.0.0.1:{}", server.address().1);
    server.kill();
    // A lost connection and a refused one are different errors.
    running.get("/metrics");
    for _ in 0..3 {
        let (status, page) = running.get("/metrics");
        assert_eq!(status, 200);
        assert!(page.contains("\nzeitset_up 0\n") && !page.contains("zeitset_sets_tracked"), "{page}");
    }
    let said = std::fs::read_to_string(&log).expect("the log");
    assert_eq!(said.matches("no server listens there").count(), 1, "the log names each reason once: {said}");
    assert!(said.contains(&format!("zeitset_up is 0: {address}: ")), "{said}");
    std::fs::remove_file(log).expect("it can be removed");
}

#[test]
fn the_reason_why_a_server_is_not_up_is_printed() {
    let server = Server::builder().plain().start();
    let port = server.address().1;
    server.client().run("CONFIG SET requirepass secret");
    for (url, reason) in [
        (format!("redis://127.0.0.1:{port}"), "the user name or the password is missing or wrong"),
        (format!("redis://:wrong@127.0.0.1:{port}"), "the user name or the password is missing or wrong"),
        (format!("redis://:secret@127.0.0.1:{port}"), "the server has not loaded the module"),
        (format!("redis://127.0.0.1:{}", free_port()), "no server listens there"),
    ] {
        let output = companion(&["metrics", "--once", "--redis", &url]).output().expect("it starts");
        let (page, error) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        assert!(page.contains("\nzeitset_up 0\n") && !output.status.success(), "{url}: {page}");
        assert!(error.contains(reason) && error.contains("127.0.0.1:") && !error.contains("secret"), "{url}: {error}");
    }
}

#[test]
fn a_server_without_the_module_is_not_up() {
    let server = Server::builder().plain().start();
    let running = Running::start(companion(&["metrics", "--redis", &server.url()]));
    let (_, page) = running.get("/metrics");
    assert!(page.contains("\nzeitset_up 0\n") && page.contains("zeitset_server_memory_used_bytes"), "{page}");
}

#[test]
fn metrics_for_other_machines_are_served_with_a_warning() {
    let server = Server::start();
    let url = server.url();
    for (listen, warns) in [("0.0.0.0:0", true), ("127.0.0.1:0", false)] {
        let mut command = companion(&["metrics", "--redis", &url, "--listen", listen]);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it starts");
        let mut line = String::new();
        BufReader::new(child.stdout.take().expect("a pipe")).read_line(&mut line).expect("a line");
        child.kill().expect("it runs");
        let said = child.wait_with_output().expect("it ends").stderr;
        assert!(line.starts_with("Metrics of "), "{line}");
        assert_eq!(String::from_utf8_lossy(&said).contains("have no password"), warns, "{listen}");
    }
}
