//! What packaging/ and docs/operations.md promise holds on a real server: metrics that alarms and the dashboard name are served,
//! every alarm is explained, the ACL lines allow what they should and no more.

use crate::support::{companion, eventually, printed};
use serde_json::Value;
use std::collections::BTreeSet;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use testkit::Server;

fn path(name: &str) -> PathBuf {
    testkit::root().join(name)
}

fn read(name: &str) -> String {
    std::fs::read_to_string(path(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
}

/// All words that begin with `zeitset_`.
fn metrics(text: &str) -> BTreeSet<String> {
    let words = text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    words.filter(|word| word.starts_with("zeitset_")).map(str::to_owned).collect()
}

fn served(server: &Server) -> String {
    printed(companion(&["metrics", "--once", "--redis", &server.url()]).output().expect("it starts"))
}

/// What a master with a queue and its replica serve.
fn all_served() -> String {
    let server = Server::start();
    let mut c = server.client();
    c.run("ZQ.PUSH mails payload");
    let replica = Server::start();
    replica.client().run(&format!("REPLICAOF 127.0.0.1 {}", server.address().1));
    eventually("the replica follows", || served(&replica).contains("zeitset_server_master_link_up"));
    served(&server) + &served(&replica)
}

#[test]
fn alarms_and_dashboard_name_only_metrics_that_are_served() {
    let served = metrics(&all_served());
    let dashboard: Value = serde_json::from_str(&read("packaging/grafana/zeitset.json")).expect("JSON");
    let panels = dashboard["panels"].as_array().expect("panels");
    assert!(panels.len() > 10);
    let exprs = panels.iter().flat_map(|panel| panel["targets"].as_array().expect("targets"));
    let exprs: Vec<&str> = exprs.map(|target| target["expr"].as_str().expect("an expression")).collect();
    let variables = dashboard["templating"]["list"].to_string();
    let rules = read("packaging/prometheus/zeitset.rules.yml");
    let rules: Vec<&str> = rules.lines().filter_map(|line| line.trim().strip_prefix("expr: ")).collect();
    let named = metrics(&(exprs.join("\n") + &rules.join("\n") + &variables));
    assert!(named.len() > 20, "{named:?}");
    let missing: Vec<_> = named.difference(&served).collect();
    assert!(missing.is_empty(), "not served: {missing:?}");
}

#[test]
fn every_alarm_is_explained_and_no_other() {
    let rules = read("packaging/prometheus/zeitset.rules.yml");
    let alarms: BTreeSet<&str> = rules.lines().filter_map(|line| line.trim().strip_prefix("- alert: ")).collect();
    let page = read("docs/operations.md");
    let explained = page.lines().filter_map(|line| line.strip_prefix("| `Zeitset")?.split('`').next());
    let explained: BTreeSet<String> = explained.map(|name| format!("Zeitset{name}")).collect();
    assert_eq!(explained.iter().map(String::as_str).collect::<BTreeSet<_>>(), alarms);
}

#[test]
fn prometheus_itself_accepts_rules_and_metrics() {
    let Ok(status) =
        Command::new("promtool").args(["check", "rules"]).arg(path("packaging/prometheus/zeitset.rules.yml")).status()
    else {
        eprintln!("skipped: promtool is not installed (on Debian: apt-get install prometheus)");
        return;
    };
    assert!(status.success());
    let page = all_served();
    // The pages of two servers: a metric may be declared once only.
    let page = page.split_inclusive("# HELP zeitset_up").take(2).collect::<String>();
    let page = page.trim_end_matches("# HELP zeitset_up");
    let mut promtool =
        Command::new("promtool").args(["check", "metrics"]).stdin(Stdio::piped()).spawn().expect("promtool");
    std::io::Write::write_all(&mut promtool.stdin.take().expect("a pipe"), page.as_bytes()).expect("it reads");
    assert!(promtool.wait().expect("it ends").success(), "{page}");
}

#[test]
fn the_acl_lines_allow_what_they_should_and_no_more() {
    let server = Server::start();
    let mut c = server.client();
    let page = read("docs/operations.md");
    let lines: Vec<&str> = page.lines().filter(|line| line.starts_with("user ")).collect();
    assert_eq!(lines.len(), 5);
    for line in &lines {
        let words = line.strip_prefix("user ").expect("a user").split(' ');
        c.call(redis::cmd("ACL").arg("SETUSER").arg(words.collect::<Vec<_>>()));
    }
    let may = |user: &str, line: &str| {
        let url = format!("redis://{user}:change-me@127.0.0.1:{}", server.address().1);
        let mut connection =
            redis::Client::open(url).and_then(|client| client.get_connection()).expect("the user exists");
        let mut words = line.split(' ');
        let mut cmd = redis::cmd(words.next().expect("a command"));
        let outcome: redis::RedisResult<redis::Value> =
            words.fold(&mut cmd, |cmd, word| cmd.arg(word)).query(&mut connection);
        !outcome.is_err_and(|error| error.to_string().contains("permission") || error.to_string().contains("NOPERM"))
    };
    for (user, line, expected) in [
        ("producer", "ZQ.PUSH jobs:a payload", true),
        ("producer", "ZQ.PUSH other payload", false),
        ("producer", "ZQ.CLAIM 1 jobs:a LEASE 1s", false),
        ("worker", "ZQ.CLAIM 1 jobs:a LEASE 1s", true),
        ("worker", "ZQ.CONFIG jobs:a", false),
        ("worker", "DEL jobs:a", false),
        ("worker", "CLIENT LIST", false),
        ("limiter", "ZRL.CHECK limit:a 1 1s", true),
        ("limiter", "ZRL.TOP", false),
        ("limiter", "DEL limit:a", true),
        ("limiter", "DEL jobs:a", false),
        ("viewer", "ZQ.STATS jobs:a", true),
        ("viewer", "ZQ.CANCEL jobs:a x", false),
        ("viewer", "GET jobs:a", false),
        ("operator", "ZQ.CONFIG jobs:a PAUSED yes", true),
        ("operator", "ZQ.CANCEL jobs:a x", true),
        ("operator", "ZQ.CLAIM 1 jobs:a LEASE 1s", false),
        ("operator", "FLUSHALL", false),
    ] {
        assert_eq!(may(user, line), expected, "{user}: {line}");
    }
    // The viewer's line is all that the companion needs.
    let url = format!("redis://viewer:change-me@127.0.0.1:{}", server.address().1);
    let page = printed(companion(&["metrics", "--once", "--redis", &url]).output().expect("it starts"));
    assert!(page.contains("zeitset_queue_jobs{queue=\"jobs:a\""), "{page}");
    let top = printed(companion(&["top", &url, "--once", "--interval", "100ms"]).output().expect("it starts"));
    assert!(top.contains("jobs:a") && !top.contains("not to be listed"), "{top}");
}

#[test]
fn the_files_for_containers_and_services_are_well_formed() {
    let compose = path("packaging/docker/compose.yaml");
    let has_compose = Command::new("docker").args(["compose", "version"]).output().is_ok_and(|it| it.status.success());
    if has_compose {
        let mut docker = Command::new("docker");
        docker.args(["compose", "-f"]).arg(&compose).args(["config", "--quiet"]).env("ZEITSET_PASSWORD", "x");
        assert!(docker.status().is_ok_and(|status| status.success()), "docker compose config");
    } else {
        eprintln!("skipped: docker compose is not installed");
    }
    // Options that the files use are options that the program has.
    let help = printed(companion(&["ui", "--help"]).output().expect("it starts"));
    for file in ["packaging/docker/compose.yaml", "packaging/docker/Dockerfile", "packaging/systemd/zeitset-ui.service"]
    {
        for option in
            read(file).split(['"', ' ', '\n', '=']).filter(|word| ["--listen", "--redis", "--write"].contains(word))
        {
            assert!(help.contains(option), "{file}: {option}");
        }
    }
    let docker = read("packaging/docker/Dockerfile");
    let instructions = ["FROM", "RUN", "WORKDIR", "COPY", "VOLUME", "USER", "EXPOSE", "CMD"];
    for line in docker.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
        assert!(instructions.contains(&line.split(' ').next().unwrap_or_default()), "{line}");
    }
}
