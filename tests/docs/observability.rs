//! Compares docs/observability.md with a live server: fields of INFO, settings, events, and the script for the
//! Prometheus exporter of Redis. (sessions.rs runs the page's sessions.)

use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::{Command, Stdio};
use testkit::{Client, PATIENCE, Page, Program, blocks, cells, code, eventually, free_port, root, show, start};

fn page() -> Page {
    Page::read(&root().join("docs/observability.md"))
}

/// Returns the rows of the table in a section, without its head.
fn rows<'a>(page: &'a Page, section: &str) -> Vec<Vec<&'a str>> {
    page.section(section).filter_map(|line| cells(line)).skip(1).collect()
}

/// Returns the names in the first column of the table in a section.
fn documented(section: &str) -> BTreeSet<String> {
    rows(&page(), section).iter().flat_map(|row| code(row[0])).map(str::to_owned).collect()
}

/// Returns the first code block in this language from the section about Prometheus.
fn prometheus(language: &str) -> String {
    blocks(page().section("Prometheus"), language).remove(0)
}

fn fields(c: &mut Client) -> BTreeSet<String> {
    c.info("zeitset").into_keys().collect()
}

#[test]
fn every_field_of_info_is_documented_and_no_other() {
    let (_server, mut c) = start();
    assert_eq!(documented("INFO zeitset"), fields(&mut c));
    for row in rows(&page(), "INFO zeitset") {
        let kinds: &[&str] = if row[0] == "`zeitset_version`" { &["text"] } else { &["counter", "gauge"] };
        assert!(kinds.contains(&row[1]) && !row[2].is_empty(), "{row:?}");
    }
}

/// The accepted values of a setting.
#[derive(Clone, Debug, PartialEq)]
enum Range {
    YesOrNo,
    Numbers(i64, i64),
}

/// Returns the name, default and range of each setting on the page.
fn settings() -> Vec<(String, String, Range)> {
    let bare = |cell: &str| cell.trim_matches('`').to_owned();
    let range = |cell: &str| match cell.split_once(" to ") {
        Some((least, most)) => Range::Numbers(least.parse().expect("a number"), most.parse().expect("a number")),
        None => Some(Range::YesOrNo).filter(|_| cell == "`yes`, `no`").unwrap_or_else(|| panic!("no range: {cell}")),
    };
    rows(&page(), "Settings").iter().map(|row| (bare(row[0]), bare(row[1]), range(row[2]))).collect()
}

#[test]
fn every_setting_is_documented_with_its_default_and_range_and_no_other() {
    let (_server, mut c) = start();
    let documented = settings();
    let known: BTreeSet<_> = c.strings("CONFIG GET zeitset.*").chunks(2).map(|pair| pair.to_vec()).collect();
    assert_eq!(
        documented.iter().map(|(name, default, _)| vec![name.clone(), default.clone()]).collect::<BTreeSet<_>>(),
        known
    );
    for (name, _, range) in documented {
        let (good, wrong) = match range {
            Range::YesOrNo => (["no".into(), "yes".into()], ["maybe".into(), "\"\"".into()]),
            Range::Numbers(least, most) => {
                ([least, most].map(|number| number.to_string()), [least - 1, most + 1].map(|number| number.to_string()))
            }
        };
        for value in &good {
            c.script(&[(format!("CONFIG SET {name} {value}"), "+OK")]);
            for value in &wrong {
                c.script(&[(format!("CONFIG SET {name} {value}"), "!ERR ")]);
            }
            c.script(&[(format!("CONFIG GET {name}"), format!("['{name}' '{value}']"))]);
        }
    }
}

#[test]
fn the_example_configuration_has_every_setting_with_its_default_and_range() {
    let (mut comment, mut told) = (String::new(), Vec::new());
    for line in include_str!("../../redis.conf.example").lines() {
        if line.starts_with('#') {
            comment += line;
        } else if let Some((name, value)) = line.split_once(' ').filter(|(name, _)| name.starts_with("zeitset.")) {
            let range = comment.split_once("..").map_or(Range::YesOrNo, |(before, after)| {
                let least = before.rsplit('(').next().and_then(|number| number.parse().ok());
                let most = after.split(')').next().and_then(|number| number.parse().ok());
                Range::Numbers(least.expect("the least"), most.expect("the most"))
            });
            told.push((name.to_owned(), value.to_owned(), range));
        }
        if !line.starts_with('#') {
            comment.clear();
        }
    }
    assert_eq!(told, settings());
}

/// The documented events are those on the pages of commands and those of the background work. (commands.rs compares the
/// pages with the events that a server sends.)
#[test]
fn every_event_is_documented_and_no_other() {
    let pages = Page::all_in("docs/commands");
    let cells = pages.iter().filter_map(|page| page.fact("events"));
    let mut events: BTreeSet<_> = cells.flat_map(code).map(str::to_owned).collect();

    let (server, mut c) = start();
    let mut listener = server.resp3();
    c.run("CONFIG SET notify-keyspace-events Ezd");
    listener.psubscribe("__keyevent@0__:*");
    c.run("ZEXP.ADD set 50ms a 1h b");
    c.run("ZQ.PUSH queue x TTL 50ms");
    eventually(PATIENCE, "a has expired", || c.info_number("zeitset", "zeitset_members_expired") == 1);
    eventually(PATIENCE, "the job has expired", || c.info_number("zeitset", "zeitset_expired_jobs") == 1);
    for push in listener.pushes() {
        let event = push.split("__:").nth(2).and_then(|rest| rest.split('\'').next());
        events.extend(event.map(str::to_owned));
    }
    assert!(["zexp.expired", "zq.expired"].iter().all(|&event| events.contains(event)), "{events:?}");
    assert_eq!(documented("Keyspace events"), events);
}

#[test]
fn the_script_for_the_exporter_gives_every_number() {
    let (_server, mut c) = start();
    let reply = c.call(redis::cmd("EVAL").arg(prometheus("lua")).arg(0));
    let redis::Value::Array(values) = &reply else { panic!("{}", show(&reply)) };
    let names: BTreeSet<_> = values.chunks(2).map(|pair| show(&pair[0]).trim_matches('\'').to_owned()).collect();
    let mut numbers = fields(&mut c);
    assert!(numbers.remove("zeitset_version"));
    assert_eq!(names, numbers);
}

/// Returns the exporter's page, or `None` if the exporter does not answer.
fn scrape(port: u16) -> Option<String> {
    let mut socket = TcpStream::connect(("127.0.0.1", port)).ok()?;
    socket.set_read_timeout(Some(PATIENCE)).ok()?;
    socket.write_all(b"GET /metrics HTTP/1.0\r\n\r\n").ok()?;
    let mut text = String::new();
    socket.read_to_string(&mut text).ok()?;
    Some(text)
}

#[test]
fn the_exporter_shows_what_the_page_quotes() {
    const EXPORTER: &str = "prometheus-redis-exporter";
    let is_installed =
        Command::new(EXPORTER).arg("--version").stderr(Stdio::null()).stdout(Stdio::null()).status().is_ok();
    if !is_installed {
        eprintln!("skipped: {EXPORTER} is not installed (on Debian: apt-get install {EXPORTER})");
        return;
    }
    let (server, mut c) = start();
    c.run_all(["ZEXP.ADD codes 5m a 5m b", "ZQ.PUSH jobs x", "ZQ.PUSH jobs y", "ZQ.CLAIM 1 jobs LEASE 1h"]);
    let script = std::env::temp_dir().join(format!("zeitset-exporter-{}.lua", std::process::id()));
    std::fs::write(&script, prometheus("lua")).expect("a temporary file");
    let (mut port, mut said) = (free_port(), String::new());
    let start = |port| {
        let mut command = Command::new(EXPORTER);
        command.args(["-web.listen-address", &format!("127.0.0.1:{port}"), "-check-keys", "codes"]);
        Program::start(command.args(["-redis.addr", &server.url(), "-script"]).arg(&script).stderr(Stdio::null()))
    };
    let mut exporter = start(port);
    eventually(PATIENCE, "the exporter serves", || {
        // Another program may take the free port first.
        if exporter.has_ended() {
            port = free_port();
            exporter = start(port);
        }
        said = scrape(port).unwrap_or_default();
        said.contains("redis_up 1")
    });
    let _ = std::fs::remove_file(&script);
    for quoted in prometheus("text").lines() {
        let (metric, value) = quoted.rsplit_once(' ').expect("a metric and its value");
        let now = said.lines().find_map(|line| line.strip_prefix(metric)?.strip_prefix(' '));
        let now = now.unwrap_or_else(|| panic!("{metric} is missing"));
        let is_time = metric.contains("duration") || metric.contains("latency");
        assert!(is_time || now == value, "{metric}: {now}, the page says {value}");
    }
}
