//! Tests `zeitset ui` over HTTP: the content of the pages, escaping, and which requests are rejected. tests/browser.rs
//! tests the actions in a browser.

use crate::support::{Running, companion, eventually, fetch, ui};
use std::io::Write;
use testkit::{Server, cmd};

const PAGES: [&str; 21] = [
    "/",
    "/queues",
    "/queues?sort=dead",
    "/queue?key=mails",
    "/queue?key=mails&tab=delayed",
    "/queue?key=mails&tab=dead",
    "/queue?key=mails&tab=errors",
    "/queue?key=mails&tab=groups",
    "/queue?key=mails&tab=charts",
    "/queue?key=mails&tab=settings",
    "/job?key=mails&id=a",
    "/workers",
    "/workers?worker=",
    "/too-long",
    "/limits?key=limit",
    "/sets?key=set",
    "/boards?key=board",
    "/queue?key=mails&tab=groups&find=a",
    "/queue?key=mails&group=",
    "/search?q=a",
    "/limits?key=limit&limit=1&window=1h",
];

fn fill(server: &Server) {
    let mut c = server.client();
    for line in [
        "ZQ.PUSH mails payload ID a",
        "ZQ.PUSH mails later ID b DELAY 1h",
        "ZRL.CHECK limit 1 1h",
        "ZRL.CHECK limit 1 1h",
        "ZEXP.ADD set 1h member",
        "ZLB.CREATE board DIM points",
        "ZLB.SET board ann 3 bob 4",
    ] {
        c.run(line);
    }
}

#[test]
fn every_page_is_served_with_headers_that_forbid_foreign_code() {
    let server = Server::start();
    fill(&server);
    let ui = ui(&server, &[]);
    for path in PAGES {
        let (status, page) = ui.get(path);
        assert_eq!(status, if path == "/too-long" { 414 } else { 200 }, "{path}: {page}");
        let absolute = page.split(['"', '\'']).find(|word| word.starts_with('/'));
        assert_eq!(absolute, None, "{path}: below another path it would lead elsewhere");
        let head = page.split("\r\n\r\n").next().expect("headers").to_lowercase();
        assert!(head.contains("content-security-policy: default-src 'none'"), "{path}: {head}");
        assert!(head.contains("x-content-type-options: nosniff") && head.contains("cache-control: no-store"), "{head}");
        assert!(!page.contains("<form class=\"inline\" method=\"post\""), "{path} only reads");
        assert!(!page.contains("://") || path == "/boards?key=board", "{path} fetches nothing from elsewhere");
    }
    for (path, what) in [("/limits?key=limit", "sliding"), ("/sets?key=set", "member"), ("/boards?key=board", "bob")] {
        assert!(ui.get(path).1.contains(what), "{path}: {what}");
    }
    assert!(ui.get("/metrics").1.contains("zeitset_up 1"));
    assert_eq!(ui.get("/nothing").0, 404);
    assert_eq!(ui.get("/queue").0, 400);
}

/// Returns a ring of `slots` slots with one unit each. The newest slot precedes the slot `seam`.
fn ring(first_ms: u64, slots: u64, seam: u64) -> Vec<u8> {
    let age = |place: u64| (place + slots - seam) % slots;
    let slot = |place: u64| [(first_ms + age(place)).to_le_bytes(), (7 + age(place)).to_le_bytes()].concat();
    [b"sliding:".to_vec(), (0..slots).flat_map(slot).collect()].concat()
}

#[test]
fn a_limit_is_shown_moment_by_moment_and_a_large_one_is_not_fetched_whole() {
    const FAR_MS: u64 = 4_102_444_800_000;
    let server = Server::start();
    let mut c = server.client();
    cmd!(c, "ZRL.CHECK", "few", 10, "1h", "COST", 3);
    cmd!(c, "ZRL.CHECK", "fixed", 10, "1h", "FIXED");
    let ui = ui(&server, &[]);
    let page = |key: &str| ui.get(&format!("/limits?key={key}")).1;
    assert!(page("few").contains("Available again") && page("few").contains("<td class=\"number\">3</td>"));
    assert!(!page("fixed").contains("Available again"));
    for (slots, seam) in [(103, 0), (400, 7), (5000, 0), (5000, 1), (5000, 50), (5000, 4321), (5000, 4999)] {
        cmd!(c, "SET", "many", ring(FAR_MS, slots, seam));
        let sent = |c: &mut testkit::Client| c.info_number("stats", "total_net_output_bytes");
        let before = sent(&mut c);
        let page = page("many");
        assert!(sent(&mut c) - before < 60_000, "{} bytes were fetched", sent(&mut c) - before);
        let shown = page.split("Available again").nth(1).expect("moments");
        assert_eq!(shown.matches("<td class=\"number\">1</td>").count(), 100, "{slots} {seam}");
        assert!(page.contains(&format!("The latest 100 of {} slots", grouped(slots - 1))), "{slots} {seam}: {page}");
        let last = shown.split("title=\"").nth(100).expect("a hundred moments");
        let ms = slots - 1;
        assert!(last.starts_with(&format!("2100-01-01 00:00:{:02}.{:03}", ms / 1000, ms % 1000)), "{last}");
    }
}

fn grouped(number: u64) -> String {
    if number < 1000 { number.to_string() } else { format!("{},{:03}", number / 1000, number % 1000) }
}

#[test]
fn what_users_wrote_is_text_wherever_it_is_shown() {
    const EVIL: &[u8] = b"\"><script>alert(1)</script><img src=x onerror=alert(2)>'&\xff\x1b[2J\xe2\x80\xae";
    let server = Server::start();
    let mut c = server.client();
    cmd!(c, "ZQ.PUSH", EVIL, EVIL, "ID", "dead");
    let claimed = cmd!(c, "ZQ.CLAIM", 1, EVIL, "LEASE", "1h", "AS", EVIL);
    let redis::Value::Array(claimed) = claimed else { panic!("{claimed:?}") };
    let [redis::Value::Array(claimed)] = claimed.as_slice() else { panic!("{claimed:?}") };
    let redis::Value::Int(token) = claimed[2] else { panic!("{claimed:?}") };
    cmd!(c, "ZQ.NACK", EVIL, "dead", token, "DEAD", "ERROR", EVIL);
    cmd!(c, "ZQ.PUSH", EVIL, EVIL, "ID", "claimed");
    cmd!(c, "ZQ.CLAIM", 1, EVIL, "LEASE", "1h", "AS", EVIL);
    cmd!(c, "ZQ.PUSH", EVIL, EVIL, "ID", EVIL);
    let limit = [b"limit:", EVIL].concat();
    cmd!(c, "ZRL.CHECK", &limit, 1, "1h");
    cmd!(c, "ZRL.CHECK", &limit, 1, "1h");
    cmd!(c, "ZEXP.ADD", "set", "1h", EVIL);
    cmd!(c, "ZLB.CREATE", "board", "DIM", "<b>points");
    cmd!(c, "ZLB.SET", "board", EVIL, 3);
    let ui = ui(&server, &["--write"]);
    let evil: String = EVIL.iter().map(|byte| format!("%{byte:02x}")).collect();
    eventually("the sampler has seen the queue", || ui.get("/workers").1.contains("alert(1)"));
    for path in [
        "/queues".to_owned(),
        "/queues?sort=ready".to_owned(),
        format!("/queues?filter={evil}"),
        format!("/queue?key={evil}"),
        format!("/queue?key={evil}&tab=dead"),
        format!("/queue?key={evil}&tab=errors"),
        format!("/queue?key={evil}&tab=groups&find={evil}"),
        format!("/queue?key={evil}&group={evil}"),
        format!("/search?q={evil}"),
        format!("/limits?key=limit:{evil}&limit={evil}&window={evil}&cost={evil}"),
        format!("/sets?key=set&member={evil}"),
        format!("/queue?key={evil}&tab=charts"),
        format!("/queue?key={evil}&tab=settings"),
        "/workers".to_owned(),
        format!("/workers?worker={evil}"),
        format!("/job?key={evil}&id={evil}"),
        "/limits".to_owned(),
        format!("/limits?key=limit:{evil}"),
        "/sets?key=set".to_owned(),
        "/boards?key=board".to_owned(),
        format!("/boards?key=board&member={evil}"),
    ] {
        let (status, page) = ui.get(&path);
        let body = page.split_once("\r\n\r\n").expect("a body").1;
        assert_eq!(status, 200, "{path}: {body}");
        assert!(body.contains("alert(1)"), "{path} shows it");
        for raw in ["<script>alert", "<img", "<b>points", "\x1b", "\u{202e}", "onerror=alert(2)>'"] {
            assert!(!body.contains(raw), "{path}: {raw:?} in {body}");
        }
    }
    let (_, page) = ui.get(&format!("/job?key={evil}&id={evil}"));
    assert!(page.contains(r"&amp;\xff\x1b[2J\u{202e}</pre>"), "the payload, byte by byte: {page}");
    let (_, file) = ui.get(&format!("/payload?key={evil}&id={evil}"));
    assert!(file.contains("application/octet-stream") && file.contains("attachment"), "{file}");
}

#[test]
fn nothing_is_changed_without_write_token_and_origin() {
    let server = Server::start();
    fill(&server);
    let form = |token: &str| format!("token={token}&key=mails&id=a&do=delete&sure=yes");
    let post = |ui: &Running, headers: &[(&str, &str)], body: &str| fetch(&ui.address, "POST", "/act", headers, body).0;

    let reader = ui(&server, &[]);
    assert_eq!(post(&reader, &[], &form("")), 403, "read-only");
    let writer = ui(&server, &["--write"]);
    let token = writer.token();
    assert_eq!(post(&writer, &[], &form("")), 403, "no token");
    assert_eq!(post(&writer, &[], &form(&token.replace(|c: char| c.is_ascii_digit(), "0"))), 403, "another token");
    assert_eq!(post(&writer, &[("Origin", "http://evil.example")], &form(&token)), 403, "another page");
    assert_eq!(post(&writer, &[("Origin", "null")], &form(&token)), 403, "a sandboxed page");
    assert_eq!(post(&writer, &[("Host", "evil.example")], &form(&token)), 421, "a foreign name for this machine");
    let by_error = |token: &str| format!("token={token}&key=mails&kind=&tab=errors&do=delete-kind&told=9&sure=yes");
    assert_eq!(post(&writer, &[], &by_error("")), 403, "nor the jobs of an error");
    let held = "token=&key=mails&group=&do=hold&duration=1h";
    assert_eq!(post(&writer, &[], held), 403, "nor is a group held");
    for of_limit in ["do=reset&sure=yes", "do=refund&units=1&at=4102444800"] {
        let form = format!("token=&key=limit&{of_limit}");
        assert_eq!(post(&writer, &[], &form), 403, "nor is a limit changed");
    }
    assert_eq!(post(&writer, &[("Origin", "http://evil.example")], &by_error(&token)), 403);
    assert_eq!(fetch(&writer.address, "GET", "/", &[("Host", "evil.example")], "").0, 421, "nor is anything shown");
    assert_eq!(server.client().int("EXISTS mails"), 1);
    let origin = format!("http://{}", writer.address);
    assert_eq!(post(&writer, &[("Origin", &origin)], &form(&token)), 303);
    assert_eq!(server.client().field("ZQ.STATS mails", "ready"), 0, "now it is deleted");
}

#[test]
fn beyond_this_machine_a_password_is_needed() {
    let server = Server::start();
    fill(&server);
    let url = server.url();
    for words in [&["--listen", "0.0.0.0:0"][..], &["--host", "ui.example"]] {
        let output = companion(&[&["ui", "--redis", &url], words].concat()).output().expect("it starts");
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success() && said.contains("password"), "{said}");
    }
    let mut command = companion(&["ui", "--redis", &url, "--host", "ui.example", "--write"]);
    command.env("ZEITSET_PASSWORD", "correct horse");
    let ui = Running::start(command);
    let get = |headers: &[(&str, &str)]| fetch(&ui.address, "GET", "/queues", headers, "");
    let (status, answer) = get(&[]);
    assert!(status == 401 && answer.to_lowercase().contains("www-authenticate: basic"), "{answer}");
    // The header has the credentials `x:wrong`. The header `right` has `x:correct horse`.
    assert_eq!(get(&[("Authorization", "Basic eDp3cm9uZw==")]).0, 401);
    let right = ("Authorization", "Basic eDpjb3JyZWN0IGhvcnNl");
    assert_eq!(get(&[right]).0, 200);
    assert_eq!(get(&[right, ("Host", "ui.example")]).0, 200);
    assert_eq!(get(&[right, ("Host", "other.example")]).0, 421);
    // A proxy may use another host name than the browser. The browser sends the page's own name in `Origin`.
    let (_, page) = fetch(&ui.address, "GET", "/queue?key=mails", &[right], "");
    let token = page.split("name=\"token\" value=\"").nth(1).and_then(|rest| rest.split('"').next()).expect("a form");
    let post = |origin: &str| {
        let form = format!("token={token}&key=mails&do=pause");
        fetch(&ui.address, "POST", "/act", &[right, ("Origin", origin)], &form).0
    };
    for (origin, status) in [
        ("https://ui.example", 303),
        ("https://ui.example:8443", 403),
        ("https://ui.example.evil", 403),
        ("https://evil.ui.example", 403),
        ("null", 403),
        ("", 403),
    ] {
        assert_eq!(post(origin), status, "{origin}");
    }
}

#[test]
fn actions_do_what_they_say() {
    let server = Server::start();
    let mut c = server.client();
    for n in 0..5 {
        c.run(&format!("ZQ.PUSH mails payload ID d{n} DELAY 1h"));
        c.run(&format!("ZQ.PUSH mails payload ID r{n}"));
    }
    let ui = ui(&server, &["--write"]);
    let token = ui.token();
    let act = |fields: &str| {
        let (status, answer) = fetch(&ui.address, "POST", "/act", &[], &format!("token={token}&key=mails&{fields}"));
        (status, answer.lines().find_map(|line| line.strip_prefix("location: ")).unwrap_or_default().to_owned())
    };
    let (status, to) = act("do=promote&id=d0&id=d1&tab=delayed");
    assert_eq!((status, to.as_str()), (303, "queue?key=mails&tab=delayed&done=promoted&n=2"));
    assert!(ui.get(&format!("/{to}")).1.contains("2 jobs due now."), "the page says so");
    assert_eq!(c.field("ZQ.STATS mails", "ready"), 7);
    assert_eq!(act("do=change&id=d2&delay=2h&priority=-5").1, "job?key=mails&id=d2&done=changed&n=1");
    assert_eq!(c.field("ZQ.GET mails d2", "priority"), -5);
    assert_eq!(act("do=change&id=d2&delay=soon").0, 409, "the server's own words");
    act("do=pause");
    assert!(ui.get("/queue?key=mails").1.contains("paused"));
    assert_eq!(c.int("EXISTS mails"), 1);
    act("do=resume");
    let (_, to) = act("do=configure&MAXATTEMPTS=4&was-MAXATTEMPTS=0&RATE=5+1m&was-RATE=0+0");
    assert!(to.ends_with("tab=settings&done=configured&n=0"), "{to}");
    assert_eq!(c.field("ZQ.CONFIG mails", "rate_window_ms"), 60_000);
    assert_eq!(c.field("ZQ.CONFIG mails", "max_attempts"), 4);
    assert_eq!(act("do=delete").1, "queue?key=mails&done=unchanged&n=0", "no job was chosen");
    assert!(act("do=delete&id=r0&id=r1&tab=ready&sure=yes").1.ends_with("done=deleted&n=2"));
    assert_eq!(c.field("ZQ.STATS mails", "cancelled"), 2);
    cmd!(c, "ZQ.PUSH", "mails", "payload", "ID", "of a group", "GROUP", "<b>&");
    let held = |ui: &Running| ui.get("/queue?key=mails&tab=groups").1.contains("name=\"do\" value=\"release\"");
    assert!(!held(&ui));
    let (_, to) = act("do=hold&group=%253Cb%253E%2526&duration=10m&tab=groups");
    assert_eq!(to, "queue?key=mails&tab=groups&done=held&n=1");
    assert!(held(&ui));
    assert!(act("do=release&group=%253Cb%253E%2526&tab=groups").1.ends_with("done=released&n=1"));
    assert!(!held(&ui));
    assert!(act("do=hold&group=nobody&duration=10m&tab=groups").1.ends_with("done=held&n=0"));
    assert_eq!(
        (act("do=hold&group=&tab=groups").0, act("do=hold&duration=1m").0),
        (400, 400),
        "which, and for how long"
    );
    assert_eq!(act("do=hold&group=&duration=soon").0, 409);
    assert_eq!(act("do=nonsense").0, 400);
}

#[test]
fn a_server_without_queues_is_said_to_have_none() {
    for server in [Server::builder().arguments("plain").start(), Server::builder().plain().start()] {
        let ui = ui(&server, &[]);
        for path in ["/queues", "/queues?sort=dead"] {
            eventually("the page says so", || ui.get(path).1.contains("the server has no queue commands"));
            assert_eq!(ui.get(path).0, 200, "{path}");
        }
        assert_eq!(ui.get("/").0, 200);
    }
}

#[test]
fn a_server_that_is_away_is_said_to_be_away() {
    let mut server = Server::start();
    let ui = ui(&server, &[]);
    assert_eq!(ui.get("/queues").0, 200);
    server.kill();
    eventually("the overview says so", || ui.get("/").1.contains("The server does not answer"));
    assert_eq!(ui.get("/queues").0, 502);
}

#[test]
fn nothing_is_removed_for_good_before_the_number_was_told_and_confirmed() {
    let server = Server::start();
    let mut c = server.client();
    for n in 0..7 {
        c.run(&format!("ZQ.PUSH mails payload ID r{n}"));
    }
    let ui = ui(&server, &["--write"]);
    let token = ui.token();
    let act = |fields: &str| fetch(&ui.address, "POST", "/act", &[], &format!("token={token}&key=mails&{fields}"));
    for (fields, question) in [
        ("do=delete&id=r0&id=r1&tab=ready", "Delete 2 jobs of mails?"),
        ("do=clean&state=ready&older=all", "Remove all 7 ready jobs of mails?"),
        ("do=clean&state=ready&older=7d", "Of the 7 ready jobs of mails, remove those ready for longer than 7d?"),
    ] {
        let (status, page) = act(fields);
        assert!(status == 200 && page.contains(question), "{fields}: {page}");
        assert_eq!(c.field("ZQ.STATS mails", "ready"), 7, "{fields}");
    }
    assert_eq!(act("do=clean&state=ready").0, 400, "no age is not every age");
    assert_eq!(act("do=clean&state=ready&older=&sure=yes").0, 400);
    assert_eq!(act("do=clean&state=ready&older=all&sure=yes").0, 303);
    assert_eq!(c.field("ZQ.STATS mails", "ready"), 0);
}

#[test]
fn a_page_behind_a_job_that_is_gone_is_the_first_one() {
    let server = Server::start();
    let mut c = server.client();
    for n in 0..60 {
        c.run(&format!("ZQ.PUSH mails payload ID job{n:02}"));
    }
    let ui = ui(&server, &[]);
    assert!(ui.get("/queue?key=mails&after=job24").1.contains("job25"));
    c.run("ZQ.CLAIM 1 mails LEASE 1h COUNT 30");
    let (status, page) = ui.get("/queue?key=mails&after=job24");
    assert_eq!(status, 200);
    assert!(page.contains("The last job of the page before is gone") && page.contains("job30"), "{page}");
}

#[test]
fn a_list_fetches_no_more_than_one_large_payload() {
    let server = Server::start();
    let mut c = server.client();
    for n in 0..30 {
        cmd!(c, "ZQ.PUSH", "mails", "x".repeat(1_000_000), "ID", n);
    }
    for n in 0..3_000 {
        c.run(&format!("ZQ.PUSH mails small ID small{n}"));
    }
    let ui = ui(&server, &[]);
    let sent = |c: &mut testkit::Client| c.info_number("stats", "total_net_output_bytes");
    let before = sent(&mut c);
    let (_, page) = ui.get("/queue?key=mails");
    assert!(page.contains("large: open the job"), "{page}");
    let fetched = sent(&mut c) - before;
    assert!(fetched < 2_000_000, "{fetched} bytes");
}

#[test]
fn a_request_that_is_never_complete_does_not_keep_the_program_from_ending() {
    let server = Server::start();
    let mut ui = ui(&server, &[]);
    let mut half = std::net::TcpStream::connect(&ui.address).expect("it listens");
    half.write_all(b"GET / HTTP/1.1\r\nHost: x\r\n").expect("it reads");
    // Requests are accepted in order, so the incomplete one has been accepted when a later one has an answer.
    assert_eq!(ui.get("/").0, 200);
    ui.terminate();
}

#[test]
fn a_queue_that_is_gone_is_forgotten_however_many_there_are() {
    let server = Server::start();
    let mut c = server.client();
    let name = |n: usize| format!("queue{n:05}");
    for first in (0..21_000).step_by(1_000) {
        let mut pipe = redis::pipe();
        for n in first..first + 1_000 {
            pipe.cmd("ZQ.PUSH").arg(name(n)).arg("payload").ignore();
        }
        c.pipe(&pipe);
    }
    let url = server.url();
    let ui = Running::start(companion(&["ui", "--redis", &url, "--interval", "50ms"]));
    eventually("all have been looked at", || ui.get("/queues").1.contains("over 20,000"));
    let shows = |n: usize| ui.get(&format!("/queues?filter={}", name(n))).1.contains(&format!("key={}\"", name(n)));
    assert!(shows(15_000) && !shows(20_500));
    c.run(&format!("DEL {}", name(15_000)));
    eventually("it is forgotten", || !shows(15_000));
    // The next queue by name is read in place of the deleted one.
    eventually("another one is noted", || shows(20_000));
}
