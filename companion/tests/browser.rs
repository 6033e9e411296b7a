//! `zeitset ui` in a real browser. The server is under load, and has many queues, one of them large. The test opens
//! every page and uses every action. `make pictures` stores the pictures in docs/pictures.

use crate::support::{Browser, Running, companion, eventually};
use std::sync::atomic::{AtomicBool, Ordering};
use testkit::{Client, Server, cmd};

const QUEUES: usize = 10_000;

/// Returns the number of jobs in the large queue.
fn jobs() -> usize {
    if std::env::var_os("ZEITSET_FULL").is_some() { 1_000_000 } else { 50_000 }
}

const EVIL: &[u8] = b"<img src=x onerror=document.title='broken'>\xff";

fn fill(c: &mut Client) {
    let mut pipe = redis::pipe();
    for n in 0..QUEUES {
        pipe.cmd("ZQ.PUSH")
            .arg(format!("tenant:{n:05}:mails"))
            .arg("{}")
            .arg("DELAY")
            .arg(format!("{}s", 600 + n))
            .ignore();
    }
    c.pipe(&pipe);
    for first in (0..jobs()).step_by(10_000) {
        let mut pipe = redis::pipe();
        for n in first..first + 10_000 {
            let payload = format!("{{\"to\":\"user{n}@example.org\",\"template\":\"newsletter\"}}");
            pipe.cmd("ZQ.PUSH").arg("newsletter").arg(payload).arg("ID").arg(format!("letter:{n}")).ignore();
        }
        c.pipe(&pipe);
    }
    for n in 0..40 {
        let payload =
            format!("{{\"order\":{},\"customer\":\"ann\",\"lines\":[{{\"sku\":\"A-{n}\",\"count\":2}}]}}", 4700 + n);
        cmd!(c, "ZQ.PUSH", "orders", payload, "ID", format!("order:{}", 4700 + n), "MAXATTEMPTS", 5);
    }
    for n in 0..6 {
        c.run(&format!("ZQ.PUSH orders reminder ID reminder:{n} DELAY {}m", 10 + n));
    }
    let errors = [
        "SMTP 550 mailbox unavailable",
        "timeout after 30 s",
        "HTTP 503 from payment",
        "out of stock",
        "no such address",
    ];
    for (n, error) in errors.into_iter().enumerate() {
        let token = c.claim("ZQ.CLAIM 1 orders LEASE 1h AS worker-7");
        let id = format!("order:{}", 4700 + n);
        cmd!(c, "ZQ.NACK", "orders", id, token, "DEAD", "ERROR", error);
    }
    for _ in 0..3 {
        c.run("ZQ.CLAIM 1 orders LEASE 1h AS worker-7");
    }
    for (n, error) in ["warehouse does not answer", "no such address"].iter().cycle().take(9).enumerate() {
        cmd!(c, "ZQ.PUSH", "shipping", format!("{{\"parcel\":{n}}}"), "ID", format!("parcel:{n}"));
        let token = c.claim("ZQ.CLAIM 1 shipping LEASE 1h");
        cmd!(c, "ZQ.NACK", "shipping", format!("parcel:{n}"), token, "DEAD", "ERROR", error);
    }
    for (n, worker) in ["van-1", "van-2", "van-2"].into_iter().enumerate() {
        cmd!(c, "ZQ.PUSH", "shipping", "{}", "ID", format!("letter:{n}"));
        cmd!(c, "ZQ.CLAIM", 1, "shipping", "LEASE", "1h", "AS", worker);
    }
    cmd!(c, "ZQ.PUSH", EVIL, EVIL, "ID", EVIL, "GROUP", EVIL);
    // There are more groups than a page lists. One of them has jobs in three states.
    for n in 0..30 {
        c.run(&format!("ZQ.PUSH imports row ID import:{n} GROUP customer:{n:02}"));
    }
    c.run("ZQ.PUSH imports row GROUP customer:00");
    c.run("ZQ.PUSH imports row GROUP customer:00 DELAY 1h");
    c.run("ZQ.CLAIM 1 imports LEASE 1h");
    c.run("ZQ.HOLD imports customer:01 1h");
    c.run("ZQ.PUSH imports row");
    for n in 0..12 {
        c.run(&format!("ZEXP.ADD sessions {}m visitor:{n}", 5 + n));
        for _ in 0..=12 - n {
            c.run(&format!("ZRL.CHECK login:user{n} 1 1h COST 2"));
        }
    }
    c.run("ZRL.CHECK search:ann 10 1h COST 3");
    c.run("ZLB.CREATE scores DIM points DIM seconds ASC");
    for n in 0..60 {
        c.run(&format!("ZLB.SET scores player{n} {} {}", n * n % 977, n * 7 % 100));
    }
}

/// Runs clients until the end of the test.
fn load(server: &Server, done: &AtomicBool) {
    let mut c = server.client();
    let mut n = 0_u64;
    while !done.load(Ordering::Relaxed) {
        n += 1;
        for _ in 0..1 + n / 40 % 7 {
            c.run("ZQ.PUSH thumbnails payload");
            c.claim("ZQ.CLAIM 1 thumbnails LEASE 1m");
            c.run("ZRL.CHECK api:ann 50 1s");
            c.run("ZRL.CHECK api:bob 5 1s");
            c.run(&format!("ZEXP.ADD recent 500ms visitor:{n}"));
        }
        c.run("ZQ.CANCEL thumbnails nobody");
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
}

#[test]
fn every_page_and_every_action_works_in_a_browser() {
    let Some(browser) = Browser::open() else { return };
    let server = Server::start();
    let mut c = server.client();
    fill(&mut c);
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| load(&server, &done));
        let outcome =
            std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| click_through(&browser, &server, &mut c)));
        done.store(true, Ordering::Relaxed);
        outcome.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
    });
}

fn click_through(browser: &Browser, server: &Server, c: &mut Client) {
    let url = server.url();
    let ui = Running::start(companion(&["ui", "--redis", &url, "--interval", "100ms", "--write"]));
    let at = |path: &str| format!("http://{}{path}", ui.address);
    browser.size(1280, 900);
    browser.dark(false);

    // The overview updates its numbers without a reload.
    browser.go(&at("/"));
    browser.sees("Worth a look");
    let commands = || browser.script("return [...document.querySelectorAll('.chart b')].map(b => b.innerText).join()");
    let before = commands();
    eventually("the charts move", || commands() != before);
    eventually("the sampler has seen all queues", || ui.get("/queues").1.contains("10,006"));
    browser.sees("orders");

    queues(browser, &at);
    one_queue(browser, &at, c);
    dead_letters(browser, &at, c);
    errors(browser, &at, c);
    workers_and_charts(browser, &at);
    copying(browser, &at);
    groups(browser, &at);
    other_pages(browser, &at);
    hostile(browser, &at);
    pictures(browser, &at);
}

/// A refresh keeps the visitor's focus, selection, ticked boxes and scroll position. If the server stops, the page
/// shows the time of the server's last answer.
#[test]
fn a_refresh_takes_nothing_from_the_visitor_and_old_figures_say_so() {
    let Some(browser) = Browser::open() else { return };
    let mut server = Server::start();
    let mut c = server.client();
    for n in 0..5 {
        c.run(&format!("ZQ.PUSH mails {} ID job{n}", "x".repeat(300)));
    }
    let ui = Running::start(companion(&["ui", "--redis", &server.url(), "--interval", "100ms", "--write"]));
    browser.size(500, 900);
    browser.go(&format!("http://{}/queue?key=mails", ui.address));
    browser.sees("job0");
    browser.script(
        "const row = document.querySelectorAll('#jobs tbody tr')[1];
         row.querySelector('input').checked = true;
         row.querySelector('input').focus();
         document.querySelector('#jobs .scroll').scrollLeft = 100;
         getSelection().selectAllChildren(row.querySelector('a'));",
    );
    let kept = || {
        let script = "return [document.activeElement.ariaLabel, document.querySelector('#jobs .scroll').scrollLeft,
             getSelection().toString(), [...document.querySelectorAll('#jobs input:checked')].map(box => box.ariaLabel)].join()";
        browser.script(script).as_str().unwrap_or_default().to_owned()
    };
    let before = kept();
    assert_eq!(before, "Select job1,100,job1,Select job1");
    // Rows around the selected one are added and removed.
    c.run("ZQ.CLAIM 1 mails LEASE 1h");
    c.run("ZQ.PUSH mails payload ID later");
    browser.sees("later");
    assert!(!browser.text().contains("job0"), "{}", browser.text());
    assert_eq!(kept(), before);

    // Resumes the paused page, which then shows the new job.
    browser.click("#pause");
    c.run("ZQ.PUSH mails payload ID paused-meanwhile");
    browser.click("#pause");
    browser.sees("paused-meanwhile");

    // When a job changes its state, its page shows the new state.
    browser.go(&format!("http://{}/job?key=mails&id=job1", ui.address));
    browser.sees("ready");
    let token = c.claim("ZQ.CLAIM 1 mails LEASE 1h");
    c.run(&format!("ZQ.NACK mails job1 {token} DEAD ERROR broken"));
    eventually("the page says that the job is dead", || {
        browser.script("return document.querySelector('h1').innerText").as_str().is_some_and(|it| it.contains("dead"))
    });
    browser.sees("broken");

    server.kill();
    browser.sees("No answer since");
}

fn queues(browser: &Browser, at: &dyn Fn(&str) -> String) {
    browser.follow("Queues");
    browser.sees("tenant:00000:mails");
    browser.click("#next");
    browser.sees("tenant:00050:mails");
    browser.go(&at("/queues"));
    browser.fill("input[name=filter]", "09999");
    browser.click("form.look button");
    browser.sees("tenant:09999:mails");
    browser.go(&at("/queues?sort=ready"));
    browser.sees("newsletter");
    browser.follow("newsletter");
    browser.sees("letter:0");
    browser.sees(if jobs() == 1_000_000 { "1,000,000" } else { "50,000" });
}

fn one_queue(browser: &Browser, at: &dyn Fn(&str) -> String, c: &mut Client) {
    // Opens a dead letter, with its error and its payload.
    browser.go(&at("/queue?key=orders&tab=dead"));
    browser.sees("order:4700");
    browser.follow("order:4700");
    browser.sees("SMTP 550 mailbox unavailable");
    browser.sees("\"customer\": \"ann\"");

    browser.go(&at("/queue?key=orders&tab=delayed"));
    browser.click("#jobs input[name=id]");
    browser.click("button[value=promote]");
    browser.sees("1 job due now.");
    assert_eq!(c.field("ZQ.STATS orders", "delayed"), 5);

    browser.go(&at("/job?key=orders&id=reminder%3A3"));
    browser.click("details summary");
    browser.fill("input[name=delay]", "3h");
    browser.fill("input[name=priority]", "-2");
    browser.click("button[value=change]");
    browser.sees("1 job changed.");
    assert_eq!(c.field("ZQ.GET orders reminder:3", "priority"), -2);

    browser.click("button[value=delete]");
    browser.click("button[name=sure]");
    browser.sees("1 job deleted.");
    assert_eq!(c.field("ZQ.STATS orders", "cancelled"), 1);

    browser.go(&at("/queue?key=orders"));
    browser.click("button[value=pause]");
    browser.sees("The queue is paused");
    browser.click("button[value=resume]");
    browser.sees("The queue goes on.");

    browser.go(&at("/queue?key=orders&tab=settings"));
    browser.fill("input[name=BACKOFF]", "10s 1h");
    browser.click("button[value=configure]");
    browser.sees("The settings are changed.");
    assert_eq!(c.field("ZQ.CONFIG orders", "backoff_max_ms"), 3_600_000);

    // Deletes all jobs of a page.
    browser.go(&at("/queue?key=orders&tab=ready"));
    browser.click("[data-all]");
    browser.click("button[value=delete]");
    browser.click("button[name=sure]");
    browser.sees("25 jobs deleted.");
}

fn dead_letters(browser: &Browser, at: &dyn Fn(&str) -> String, c: &mut Client) {
    // Retries one dead letter from its own page and one from the list. The others stay dead.
    browser.go(&at("/job?key=orders&id=order%3A4700"));
    browser.click("button[value=retry]");
    browser.sees("1 job ready again.");
    assert_eq!(c.text_field("ZQ.GET orders order:4700", "state"), "ready");
    browser.go(&at("/queue?key=orders&tab=dead"));
    browser.click("input[aria-label='Select order:4702']");
    browser.click("form.selection button[value=retry]");
    browser.sees("1 job ready again.");
    assert_eq!(c.text_field("ZQ.GET orders order:4702", "state"), "ready");
    assert_eq!(c.field("ZQ.STATS orders", "dead"), 3);

    // Retries many dead letters at once, the oldest first.
    browser.click("details summary");
    browser.fill("input[name=count]", "1");
    browser.click("button[value=redrive]");
    browser.sees("1 job ready again.");
    assert_eq!(c.text_field("ZQ.GET orders order:4701", "state"), "ready");

    // Removes the dead letters older than an hour, of which there are none. Then removes all dead letters.
    browser.click("details summary");
    browser.fill("input[name=older]", "1h");
    browser.click("button[value=clean]");
    browser.click("button[name=sure]");
    browser.sees("0 jobs removed.");
    assert_eq!(c.field("ZQ.STATS orders", "dead"), 2);
    browser.click("details summary");
    browser.fill("input[name=older]", "all");
    browser.click("button[value=clean]");
    browser.sees("Remove all 2 dead jobs of orders?");
    browser.click("button[name=sure]");
    browser.sees("2 jobs removed.");
    browser.sees("No dead job.");
    assert_eq!((c.field("ZQ.STATS orders", "dead"), c.field("ZQ.STATS orders", "cleaned")), (0, 2));

    // The page shows the server's own error.
    browser.go(&at("/queue?key=orders&tab=delayed"));
    browser.click("details summary");
    browser.fill("input[name=older]", "a week");
    browser.click("button[value=clean]");
    browser.click("button[name=sure]");
    browser.sees("The server refuses: ERR invalid duration");
}

fn errors(browser: &Browser, at: &dyn Fn(&str) -> String, c: &mut Client) {
    browser.go(&at("/queue?key=shipping"));
    browser.follow("Errors");
    browser.sees("warehouse does not answer");
    browser.picture("errors");
    // The first row is that of the most frequent error.
    browser.click("#errors tbody tr:first-child button[value=retry-kind]");
    browser.sees("5 of 5 jobs, finished.");
    assert_eq!((c.field("ZQ.STATS shipping", "dead"), c.field("ZQ.STATS shipping", "ready")), (4, 5));
    browser.click("#errors tbody tr:first-child button[value=delete-kind]");
    browser.sees("Delete 4 jobs of shipping that died of “no such address”?");
    browser.click("button[name=sure]");
    browser.sees("4 of 4 jobs, finished.");
    browser.sees("No dead job.");
}

fn workers_and_charts(browser: &Browser, at: &dyn Fn(&str) -> String) {
    browser.follow("Workers");
    browser.sees("van-2");
    browser.picture("workers");
    browser.follow("van-2");
    browser.sees("letter:2");
    browser.go(&at("/queue?key=thumbnails"));
    browser.follow("Charts");
    let points =
        || browser.script("return document.querySelectorAll('#charts polyline')[2].getAttribute('points').length");
    let before = points();
    eventually("the chart grows", || points().as_i64() > before.as_i64());
}

fn copying(browser: &Browser, at: &dyn Fn(&str) -> String) {
    browser.go(&at("/job?key=newsletter&id=letter%3A7"));
    browser.click("[data-copy]");
    browser.sees("Copied");
    let selected = browser.script("return getSelection().toString()");
    assert_eq!(selected, "{\n  \"to\": \"user7@example.org\",\n  \"template\": \"newsletter\"\n}");
    // A page with a question does not change.
    browser.go(&at("/queue?key=newsletter"));
    browser.click("#jobs input[name=id]");
    browser.click("form.selection button[value=delete]");
    browser.sees("Delete 1 job of newsletter?");
    assert!(browser.script("return document.body.dataset.refresh ?? null").is_null());
    browser.follow("Cancel");
    browser.sees("letter:7");
}

fn groups(browser: &Browser, at: &dyn Fn(&str) -> String) {
    // Returns the cells of the table by row, without the buttons.
    let rows = || {
        let script = "return [...document.querySelectorAll('#groups tbody tr')]\
             .map(row => [...row.cells].slice(0, 6).map(cell => cell.innerText).join(' ')).join('\\n')";
        browser.script(script).as_str().unwrap_or_default().to_owned()
    };
    browser.go(&at("/queue?key=imports"));
    browser.follow("Groups");
    browser.sees("customer:00");
    let first = rows();
    let lines: Vec<_> = first.lines().map(str::trim).collect();
    assert_eq!(lines[..2], ["without a name 1 0 0 0", "customer:00 1 1 1 0"], "{first}");
    assert!(lines[2].starts_with("customer:01 1 0 0 0 in ") && lines[3] == "customer:02 1 0 0 0", "{first}");
    assert_eq!(first.lines().count(), 31, "{first}");
    browser.fill("#groups tbody tr:nth-child(4) input[name=duration]", "2h");
    browser.click("#groups tbody tr:nth-child(4) button[value=hold]");
    browser.sees("The group is held");
    browser.click("#groups tbody tr:nth-child(4) button[value=release]");
    browser.sees("The group is released.");
    browser.follow("All groups by name");
    browser.sees("By name.");
    assert_eq!(rows().lines().count(), 25);
    browser.click("#next");
    browser.sees("customer:29");
    let second = rows();
    assert!(second.starts_with("customer:24 1 0 0 0") && second.lines().count() == 6, "{second}");
    // A group is found by a part of its name, and leads to its jobs.
    browser.fill("input[name=find]", "omer:17");
    browser.click("form[aria-label='Search groups'] button");
    browser.follow("customer:17");
    browser.sees("import:17");
    assert!(!browser.text().contains("import:18"), "{}", browser.text());
    browser.go(&at("/queue?key=newsletter&tab=groups"));
    browser.sees("without a name");
}

fn other_pages(browser: &Browser, at: &dyn Fn(&str) -> String) {
    // The search leads from any page to a job whose queue is not known.
    browser.fill("input[name=q]", "letter:4711");
    browser.click("form.search button");
    browser.sees("10,006 queues were searched.");
    browser.follow("letter:4711");
    browser.sees("user4711@example.org");
    browser.follow("Limits");
    browser.sees("login:user0");
    browser.fill("input[name=key]", "search:ann");
    browser.click("form.look button");
    browser.sees("sliding");
    browser.fill("input[name=limit]", "10");
    browser.fill("input[name=window]", "1h");
    browser.fill("input[name=cost]", "9");
    browser.click("input[name=cost] ~ button, label:has(input[name=cost]) + button");
    browser.sees("The next such call is denied.");
    browser.fill("input[name=units]", "2");
    browser.click("button[value=refund]");
    browser.sees("2 units are available again.");
    browser.click("button[value=reset]");
    browser.click("button[name=sure]");
    browser.sees("The limit is reset");
    browser.follow("Sets");
    browser.fill("input[name=key]", "sessions");
    browser.click("form.look button");
    browser.sees("visitor:0");
    browser.follow("Boards");
    eventually("the board is found", || {
        if browser.text().contains("scores") {
            return true;
        }
        browser.click("#next");
        false
    });
    browser.follow("scores");
    browser.sees("60 members");
    browser.fill("input[name=member]", "player30");
    browser.click("form.look button");
    browser.sees("player30");
    browser.go(&at("/boards?key=scores&start=25"));
    browser.follow("Top");
    browser.sees("player");
}

fn hostile(browser: &Browser, at: &dyn Fn(&str) -> String) {
    let evil: String = EVIL.iter().map(|byte| format!("%{byte:02x}")).collect();
    for path in [
        "/queues?filter=onerror".to_owned(),
        format!("/queue?key={evil}"),
        format!("/queue?key={evil}&tab=groups"),
        format!("/job?key={evil}&id={evil}"),
    ] {
        browser.go(&at(&path));
        browser.sees(r"<img src=x onerror=document.title='broken'>\xff");
        let images = browser.script("return document.images.length + document.querySelectorAll('main script').length");
        assert_eq!(images, 0, "{path}");
        assert!(browser.script("return document.title").as_str().is_some_and(|title| title != "broken"), "{path}");
    }
}

fn pictures(browser: &Browser, at: &dyn Fn(&str) -> String) {
    let pages = [
        ("overview", "/"),
        ("queues", "/queues?sort=ready"),
        ("queue", "/queue?key=newsletter"),
        ("groups", "/queue?key=imports&tab=groups"),
        ("settings", "/queue?key=orders&tab=settings"),
        ("job", "/job?key=newsletter&id=letter%3A7"),
        ("charts", "/queue?key=thumbnails&tab=charts"),
        ("limits", "/limits?key=api%3Aann"),
        ("sets", "/sets?key=sessions"),
        ("boards", "/boards?key=scores"),
    ];
    for (name, path) in pages {
        browser.go(&at(path));
        browser.sees("Zeitset");
        browser.picture(name);
    }
    browser.dark(true);
    browser.go(&at("/"));
    browser.picture("overview-dark");
    // On a phone, no page is wider than the screen. Tables have a scroll bar of their own.
    browser.dark(false);
    browser.size(500, 900);
    for path in pages.map(|(_, path)| path).into_iter().chain(["/workers", "/queue?key=orders&tab=errors"]) {
        browser.go(&at(path));
        let excess = browser.script("return document.documentElement.scrollWidth - window.innerWidth");
        assert!(excess.as_i64().is_some_and(|excess| excess <= 0), "{path} is {excess} px too wide");
    }
    browser.go(&at("/queue?key=newsletter"));
    browser.picture("queue-phone");
}
