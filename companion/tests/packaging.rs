//! Tests of packaging/ and docs/operations.md with a real server: the metrics that alarms and the dashboard use exist,
//! docs/operations.md explains every alarm, and the ACL lines allow what they should and no more.

use crate::support::{Running, companion, eventually, printed};
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

/// Returns all words that begin with `zeitset_`.
fn metrics(text: &str) -> BTreeSet<String> {
    let words = text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    words.filter(|word| word.starts_with("zeitset_")).map(str::to_owned).collect()
}

fn served(server: &Server) -> String {
    printed(companion(&["metrics", "--once", "--redis", &server.url()]).output().expect("it starts"))
}

/// Returns the metrics pages of a master with a queue and of its replica.
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
    let tests = read("packaging/prometheus/zeitset.test.yml");
    for alarm in alarms {
        assert!(
            tests.contains(&format!("alertname=\"{alarm}\"")) || tests.contains(&format!("alertname: {alarm}")),
            "{alarm} has no test"
        );
    }
}

#[test]
fn prometheus_itself_accepts_rules_and_metrics_and_each_alarm_fires_when_it_should() {
    let Ok(status) =
        Command::new("promtool").args(["check", "rules"]).arg(path("packaging/prometheus/zeitset.rules.yml")).status()
    else {
        eprintln!("skipped: promtool is not installed (on Debian: apt-get install prometheus)");
        return;
    };
    assert!(status.success());
    let tests = "packaging/prometheus/zeitset.test.yml";
    let status = Command::new("promtool").args(["test", "rules"]).arg(path(tests)).status();
    assert!(status.is_ok_and(|status| status.success()), "{tests}");
    let page = all_served();
    // Keeps only the first page, because a metric may be declared only once.
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
        ("operator", "ZQ.HOLD jobs:a ann 1s", true),
        ("viewer", "ZQ.HOLD jobs:a ann 1s", false),
        ("viewer", "ZRL.REFUND limit:a 1 AT 4102444800", false),
        ("operator", "ZRL.REFUND limit:a 1 AT 4102444800", true),
        ("operator", "DEL limit:a", false),
        ("operator", "ZQ.CLAIM 1 jobs:a LEASE 1s", false),
        ("operator", "FLUSHALL", false),
    ] {
        assert_eq!(may(user, line), expected, "{user}: {line}");
    }
    // The viewer's ACL line suffices for the companion.
    let url = format!("redis://viewer:change-me@127.0.0.1:{}", server.address().1);
    c.run("ZQ.PUSH jobs:b payload ID dead GROUP ann");
    let token = c.claim("ZQ.CLAIM 1 jobs:b LEASE 1h COUNT 1");
    c.run(&format!("ZQ.NACK jobs:b dead {token} DEAD"));
    c.run_all([
        "ZEXP.ADD set 1h ann",
        "ZLB.CREATE board DIM points",
        "ZLB.SET board ann 1",
        "ZRL.CHECK fixed 1 1h FIXED",
    ]);
    let ui = Running::start(companion(&["ui", "--redis", &url]));
    for path in [
        "/",
        "/queues",
        "/queue?key=jobs:b",
        "/queue?key=jobs:b&tab=errors",
        "/queue?key=jobs:b&tab=groups",
        "/queue?key=jobs:b&tab=groups&find=ann",
        "/workers",
        "/limits?key=fixed&limit=1&window=1h",
        "/sets?key=set&member=ann",
        "/boards?key=board&member=ann",
        "/search?q=ann",
    ] {
        let (status, page) = ui.get(path);
        assert!(status == 200 && !page.contains("NOPERM") && !page.contains("permission"), "{path}: {page}");
    }
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
    // The program has all options that the files use.
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
    let instructions = ["ARG", "FROM", "RUN", "WORKDIR", "COPY", "VOLUME", "USER", "EXPOSE", "HEALTHCHECK", "CMD"];
    for line in docker.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
        assert!(instructions.contains(&line.split(' ').next().unwrap_or_default()), "{line}");
    }
}

#[test]
fn the_image_of_a_release_is_built_from_a_file_that_is_there() {
    let release = read(".github/workflows/release.yml");
    let build = release.split("docker/build-push-action").nth(1).expect("the image is built");
    let file = build.lines().find_map(|line| line.trim().strip_prefix("file: "));
    assert!(read(file.expect("no Dockerfile lies in the root")).contains("FROM "));
}

#[test]
fn what_compose_and_kubernetes_name_is_there() {
    let compose = read("packaging/docker/compose.yaml");
    let mounts = compose.lines().filter_map(|line| line.trim().strip_prefix("- .")?.split(':').next());
    let mounts: Vec<String> = mounts.map(|file| format!("packaging/docker/.{file}")).collect();
    assert_eq!(mounts.len(), 2, "{mounts:?}");
    assert!(mounts.iter().all(|file| path(file).is_file()), "{mounts:?}");
    let prometheus = read("packaging/docker/prometheus.yml");
    assert!(compose.contains("/etc/prometheus/zeitset.rules.yml") && prometheus.contains("- zeitset.rules.yml"));
    assert!(compose.contains("  metrics:\n") && prometheus.contains("\"metrics:9469\""));
    let promtool = Command::new("promtool")
        .args(["check", "config", "--syntax-only"])
        .arg(path("packaging/docker/prometheus.yml"))
        .status();
    assert!(promtool.is_err() || promtool.is_ok_and(|status| status.success()));

    // The module is copied from its place in the image to the place where the server expects it.
    let kubernetes = read("packaging/kubernetes/zeitset.yaml");
    assert!(read("packaging/docker/Dockerfile").contains(" /usr/lib/redis/modules/zeitset.so\n"));
    assert!(kubernetes.contains(r#""/usr/lib/redis/modules/zeitset.so", "/modules/zeitset.so"]"#));
    assert!(kubernetes.contains("loadmodule /modules/zeitset.so\n"));
    let folder = std::env::temp_dir().join(format!("zeitset-kubernetes-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder");
    std::fs::write(folder.join("zeitset.yaml"), kubernetes).expect("a file");
    std::fs::write(folder.join("kustomization.yaml"), "resources: [zeitset.yaml]\n").expect("a file");
    match Command::new("kubectl").arg("kustomize").arg(&folder).output() {
        Err(_) => eprintln!("skipped: kubectl is not installed"),
        Ok(output) => assert_eq!(printed(output).matches("\nkind: ").count(), 3),
    }
    std::fs::remove_dir_all(&folder).expect("it can be removed");
}

/// Returns the files that a page links to.
fn links(page: &str) -> impl Iterator<Item = &str> {
    // Every other part is a code block.
    let prose = page.split("```").step_by(2);
    let targets = prose.flat_map(|text| text.split("](").skip(1)).filter_map(|rest| rest.split([')', '#', ' ']).next());
    targets.filter(|target| !target.is_empty() && !target.contains(':'))
}

#[test]
fn what_an_installed_page_links_to_is_installed() {
    let root = std::env::temp_dir().join(format!("zeitset-install-{}", std::process::id()));
    let mut make = Command::new("make");
    // Only the installed pages are checked, so `/bin/true` replaces the programs.
    make.current_dir(testkit::root()).args([
        "--silent",
        "install",
        "MODULE=/bin/true",
        "COMPANION=/bin/true",
        "PREFIX=/usr",
    ]);
    printed(make.arg(format!("DESTDIR={}", root.display())).output().expect("make"));
    let mut folders = vec![root.join("usr/share/doc/zeitset")];
    let (mut pages, mut broken) = (0, Vec::new());
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).expect("a folder").flatten().map(|entry| entry.path()) {
            if entry.is_dir() {
                folders.push(entry);
            } else if entry.extension().is_some_and(|extension| extension == "md") {
                let page = std::fs::read_to_string(&entry).expect("a page");
                let missing = links(&page).filter(|target| !folder.join(target).exists());
                broken.extend(missing.map(|target| format!("{}: {target}", entry.display())));
                pages += 1;
            }
        }
    }
    assert!(pages > 60, "{pages}");
    assert!(broken.is_empty(), "{broken:#?}");
    let file = "usr/share/doc/zeitset/docs/operations.md";
    assert!(
        read("packaging/systemd/zeitset-ui.service").contains(&format!("file:///{file}\n")) && root.join(file).exists()
    );
    std::fs::remove_dir_all(&root).expect("it can be removed");
}

/// Returns the arguments with which a maintainer's script calls systemctl. The script runs below a temporary root.
fn called(script: &str, arguments: &[&str]) -> String {
    let root = std::env::temp_dir().join(format!("zeitset-{script}-{}", std::process::id()));
    for folder in ["bin", "run/systemd/system"] {
        std::fs::create_dir_all(root.join(folder)).expect("a folder");
    }
    std::fs::write(root.join("called"), "").expect("a file");
    std::fs::write(root.join("bin/systemctl"), "#!/bin/sh\necho \"$@\" >>\"$DPKG_ROOT/called\"\n").expect("a file");
    let start = "chmod +x \"$DPKG_ROOT/bin/systemctl\"; . \"$0\"";
    let mut shell = Command::new("sh");
    shell.args(["-c", start]).arg(path("packaging/debian").join(script)).args(arguments).env("DPKG_ROOT", &root);
    shell.env("PATH", format!("{}/bin:{}", root.display(), std::env::var("PATH").unwrap_or_default()));
    printed(shell.output().expect("sh"));
    let called = std::fs::read_to_string(root.join("called")).expect("what was called");
    std::fs::remove_dir_all(&root).expect("it can be removed");
    called
}

#[test]
fn an_upgrade_of_the_package_restarts_the_web_page_if_it_runs() {
    assert_eq!(called("postinst", &["configure", ""]), "", "a first installation starts nothing");
    let called = called("postinst", &["configure", "0.2.0-1"]);
    assert!(called.contains("daemon-reload") && called.contains("try-restart zeitset-ui.service"), "{called}");
}

#[test]
fn removing_the_package_stops_and_disables_the_web_page() {
    let root = std::env::temp_dir().join(format!("zeitset-prerm-{}", std::process::id()));
    let (bin, wants) = (root.join("bin"), root.join("etc/systemd/system/multi-user.target.wants"));
    for folder in [&bin, &wants, &root.join("run/systemd/system")] {
        std::fs::create_dir_all(folder).expect("a folder");
    }
    std::fs::write(wants.join("zeitset-ui.service"), "").expect("a file");
    std::fs::write(wants.join("other.service"), "").expect("a file");
    // This systemctl writes its arguments to a file.
    std::fs::write(bin.join("systemctl"), "#!/bin/sh\necho \"$@\" >\"$DPKG_ROOT/called\"\n").expect("a file");
    let prerm = |word: &str| {
        let script = format!("chmod +x \"$DPKG_ROOT/bin/systemctl\"; . '{}'", path("packaging/debian/prerm").display());
        let mut shell = Command::new("sh");
        shell.args(["-c", &script, "prerm"]).env("DPKG_ROOT", &root);
        shell.env("PATH", format!("{}:{}", bin.display(), std::env::var("PATH").unwrap_or_default()));
        shell.args([word]);
        assert!(shell.status().is_ok_and(|status| status.success()), "{word}");
    };
    prerm("upgrade");
    assert!(wants.join("zeitset-ui.service").exists(), "an upgrade leaves it");
    prerm("remove");
    let called = std::fs::read_to_string(root.join("called")).expect("systemctl was called");
    assert!(called.contains("disable --now zeitset-ui.service"), "{called}");
    assert!(!wants.join("zeitset-ui.service").exists() && wants.join("other.service").exists());
    std::fs::remove_dir_all(&root).expect("it can be removed");
}
