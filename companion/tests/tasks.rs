//! What support does with `zeitset ui`, in a browser: by clicking on a phone in the dark and on a desktop in the light, by
//! keyboard alone, and as screen readers get the page.

use crate::screens::{SCREENS, axe, holds};
use crate::support::{Browser, ENTER, ESCAPE, Node, PATIENCE, Running, TAB, eventually, ui};
use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, Ordering};
use testkit::{Client, Server, cmd};

/// The number of dead letters: enough for a retry that is stopped on its way.
const LETTERS: usize = 10_000;

fn fill(c: &mut Client, letters: usize) {
    let mut pipe = redis::pipe();
    for n in 0..1_500 {
        pipe.cmd("ZQ.PUSH").arg("imports").arg("row").arg("GROUP").arg(format!("customer:{n:04}")).ignore();
    }
    for n in 0..30 {
        let noisy = pipe.cmd("ZQ.PUSH").arg("imports").arg("row").arg("ID").arg(format!("row:{n}"));
        noisy.arg("GROUP").arg("customer:0815").ignore();
    }
    c.pipe(&pipe);
    c.run("ZQ.CONFIG mails MAXATTEMPTS 1");
    for first in (0..letters).step_by(1_000) {
        let (mut push, mut nack) = (redis::pipe(), redis::pipe());
        let some = first..letters.min(first + 1_000);
        for n in some.clone() {
            push.cmd("ZQ.PUSH").arg("mails").arg("{}").arg("ID").arg(format!("mail:{n}")).ignore();
        }
        c.pipe(&push);
        let claimed = cmd!(c, "ZQ.CLAIM", 1, "mails", "LEASE", "1h", "COUNT", some.len());
        let claimed: Vec<(String, String, u64, u64, u64, String)> = redis::from_redis_value(claimed).expect("jobs");
        for (_, id, token, ..) in &claimed {
            let error = format!("connection to db-{token}.internal:5432 refused");
            nack.cmd("ZQ.NACK").arg("mails").arg(id).arg(token).arg("DEAD").arg("ERROR").arg(error).ignore();
        }
        c.pipe(&nack);
    }
    for _ in 0..5 {
        c.run("ZRL.CHECK login:ann 3 1h");
    }
}

#[test]
fn the_tasks_of_support_are_done_by_clicking() {
    let Some(browser) = Browser::open() else { return };
    let axe = axe();
    for (width, height) in SCREENS {
        let server = Server::start();
        let mut c = server.client();
        fill(&mut c, LETTERS);
        let ui = ui(&server, &["--write"]);
        browser.screen(width, height);
        browser.dark(width == 390);
        let is_dark = "return getComputedStyle(document.body).backgroundColor";
        let check = |what: &str| holds(&browser, axe.as_deref(), &format!("{what} at {width}"));
        browser.go(&format!("http://{}/", ui.address));
        assert_eq!(browser.script(is_dark) == "rgb(14, 19, 24)", width == 390);

        noisiest_customer(&browser, &mut c, &check);
        job_by_its_id(&browser, &check);
        errors_of_one_kind(&browser, &server, &mut c, &check);
        room_for_a_user(&browser, &mut c, &check);
    }
}

/// Finds the customer with most waiting jobs, follows the group to its jobs, and holds it.
fn noisiest_customer(browser: &Browser, c: &mut Client, check: &dyn Fn(&str)) {
    browser.follow("Queues");
    browser.follow("imports");
    browser.follow("Groups");
    browser.sees("Most ready jobs first.");
    let first = browser.script("return document.querySelector('#groups tbody tr a').innerText");
    assert_eq!(first, "customer:0815");
    check("the groups");
    browser.follow("customer:0815");
    browser.sees("row:0");
    browser.fill("#group input[name=duration]", "2h");
    browser.click("#group button[value=hold]");
    browser.sees("The group is held");
    browser.sees("held until in");
    check("the jobs of a group");
    assert_eq!(c.field("ZQ.GET imports row:0", "attempts"), 0);
    browser.click("#group button[value=release]");
    browser.sees("The group is released.");
    // Another customer is found by a part of the name, and its number leads to its jobs.
    browser.follow("All groups");
    browser.fill("input[name=find]", "er:1234");
    browser.click("form[aria-label='Search groups'] button");
    browser.sees("customer:1234");
    browser.click("#groups tbody td.number a");
    browser.sees("Group: customer:1234");
    check("the jobs of a group that was searched");
}

fn job_by_its_id(browser: &Browser, check: &dyn Fn(&str)) {
    browser.fill("input[name=q]", "mail:4711");
    browser.click("form.search button:not([type])");
    browser.sees("2 queues were searched.");
    check("the search");
    browser.follow("mail:4711");
    browser.sees("refused");
    check("the job");
    browser.follow("mails");
}

/// Delays the writes of other clients, so that a retry takes a while.
fn slow_down(c: &mut Client, done: &AtomicBool) {
    while !done.load(Ordering::Relaxed) {
        let redriven = c.field("ZQ.STATS mails", "redriven");
        c.run("CLIENT PAUSE 200 WRITE");
        testkit::eventually(PATIENCE, "a slice is retried", || {
            done.load(Ordering::Relaxed) || c.field("ZQ.STATS mails", "redriven") != redriven
        });
    }
    c.run("CLIENT UNPAUSE");
}

fn errors_of_one_kind(browser: &Browser, server: &Server, c: &mut Client, check: &dyn Fn(&str)) {
    browser.follow("Errors");
    let counted = || browser.script("return document.querySelector('#errors td.number')?.innerText ?? ''");
    eventually("all letters are counted", || counted() == "10,000");
    browser.sees("connection to ⟨host⟩ refused");
    check("the errors");
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| slow_down(&mut server.client(), &done));
        let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            browser.click("#errors button[value=retry-kind]");
            browser.sees("the page shows how far");
            browser.sees("of 10,000 jobs.");
            assert_live(browser, "status", "of 10,000 jobs.");
            let bar = browser.tree().into_iter().any(|node| node.role == "progressbar" && node.name == "Progress");
            assert!(bar, "the progress has a name");
            check("a retry that runs");
            browser.click("#task button[value=stop]");
            browser.sees("It is stopped.");
        }));
        done.store(true, Ordering::Relaxed);
        outcome.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
    });
    browser.sees("jobs, stopped.");
    let ready = c.field("ZQ.STATS mails", "ready");
    assert!((1..10_000).contains(&ready), "{ready}");
    browser.click("#errors button[value=retry-kind]");
    browser.sees("jobs, finished.");
    assert_eq!((c.field("ZQ.STATS mails", "ready"), c.field("ZQ.STATS mails", "dead")), (10_000, 0));
    check("a retry that has ended");
}

fn room_for_a_user(browser: &Browser, c: &mut Client, check: &dyn Fn(&str)) {
    browser.follow("Limits");
    browser.follow("login:ann");
    let ask = || {
        browser.fill("input[name=limit]", "3");
        browser.fill("input[name=window]", "1h");
        browser.click("label:has(input[name=cost]) + button");
    };
    ask();
    browser.sees("The next such call is denied.");
    browser.sees("Denied 2 times");
    check("a limit that denies");
    browser.fill("#moments input[name=units]", "1");
    browser.click("#moments button[value=refund]");
    browser.sees("available again.");
    assert!(c.field("ZRL.INFO login:ann", "units") < 3);
    browser.click("button[value=reset]");
    browser.sees("Reset the limit login:ann?");
    check("a question");
    browser.click("button[name=sure]");
    browser.sees("The limit is reset");
    ask();
    browser.sees("The next such call is allowed.");
    check("a limit that allows");
}

/// Returns the text of the nodes below the nodes with this role that screen readers announce when they change.
fn live(tree: &[Node], role: &str) -> Vec<String> {
    let parent = |id: &str| tree.iter().find(|node| node.id == id);
    let regions = tree.iter().filter(|node| {
        let politeness = node.property("live");
        !node.is_ignored && node.role == role && (politeness == "polite" || politeness == "assertive")
    });
    let is_below = |node: &Node, region: &Node| {
        let mut at = parent(&node.parent);
        while let Some(above) = at {
            if above.id == region.id {
                return true;
            }
            at = parent(&above.parent);
        }
        false
    };
    let texts = regions.map(|region| {
        let texts = tree.iter().filter(|node| node.role == "StaticText" && is_below(node, region));
        texts.map(|node| node.name.as_str()).collect::<Vec<_>>().join(" ")
    });
    texts.collect()
}

#[track_caller]
fn assert_live(browser: &Browser, role: &str, text: &str) {
    let mut seen = Vec::new();
    testkit::eventually(PATIENCE, &format!("a screen reader is told {text:?}"), || {
        seen = live(&browser.tree(), role);
        seen.iter().any(|region| region.contains(text))
    });
}

/// Where the focus is. Fails if it cannot be seen.
#[track_caller]
fn focus(browser: &Browser) -> (i64, f64, f64, String) {
    let found = browser.script(
        "const on = document.activeElement, style = getComputedStyle(on), box = on.getBoundingClientRect();
         const seen = document.elementFromPoint(Math.max(0, box.left) + Math.min(box.width, innerWidth) / 2, box.top + Math.min(box.height, 20) / 2);
         return [[...document.querySelectorAll('*')].indexOf(on), box.top + scrollY, box.bottom + scrollY,
           on.ariaLabel || on.innerText || on.name || on.id,
           on.matches(':focus-visible') && style.outlineStyle !== 'none' && parseFloat(style.outlineWidth) >= 2,
           box.width > 0 && box.top >= 0 && box.top < innerHeight && !!seen && (on.contains(seen) || seen.contains(on))];",
    );
    let text = found[3].as_str().unwrap_or_default().to_owned();
    assert!(found[4] == true, "the focus is not marked: {found}");
    assert!(found[5] == true, "the focus is out of sight: {found}");
    let number = |place: usize| found[place].as_f64().expect("a number");
    (found[0].as_i64().expect("an index"), number(1), number(2), text)
}

/// Presses Tab until the focus is on this text. The focus moves down the page, and never up.
#[track_caller]
fn tab_to(browser: &Browser, wanted: &str) {
    let mut before = (-1, 0.0, 0.0, String::new());
    for _ in 0..200 {
        browser.keys(TAB);
        let now = focus(browser);
        assert!(now.0 > before.0 && now.2 > before.1, "from {before:?} to {now:?}");
        if now.3.starts_with(wanted) {
            return;
        }
        before = now;
    }
    panic!("no Tab leads to {wanted:?}");
}

/// Sets the focus to the beginning of the page, as if the page had just been opened.
fn begin(browser: &Browser) {
    browser.script("document.activeElement.blur(); getSelection().removeAllRanges(); scrollTo(0, 0); document.body.tabIndex = -1; document.body.focus(); document.body.removeAttribute('tabindex');");
}

#[test]
fn a_job_is_found_retried_and_changed_by_keyboard_alone() {
    let Some(browser) = Browser::open() else { return };
    for (width, height) in SCREENS {
        let server = Server::start();
        let mut c = server.client();
        fill(&mut c, 20);
        let ui = ui(&server, &["--write"]);
        browser.screen(width, height);
        browser.dark(width != 390);
        browser.go(&format!("http://{}/", ui.address));
        // The first stop leads past the menu.
        browser.keys(TAB);
        assert_eq!(focus(&browser).3, "Skip to the content");
        browser.keys(ENTER);
        eventually("the focus is on the content", || browser.script("return document.activeElement.id") == "main");

        browser.go(&format!("http://{}/", ui.address));
        tab_to(&browser, "Search all");
        browser.keys(&format!("mail:17{ENTER}"));
        browser.sees("2 queues were searched.");
        begin(&browser);
        tab_to(&browser, "mail:17");
        browser.keys(ENTER);
        browser.sees("refused");
        begin(&browser);
        tab_to(&browser, "Retry");
        browser.keys(ENTER);
        browser.sees("1 job ready again.");
        assert_eq!(c.text_field("ZQ.GET mails mail:17", "state"), "ready");

        // Escape closes a form, and answers a question with no.
        begin(&browser);
        tab_to(&browser, "Change delay or priority");
        browser.keys(ENTER);
        browser.keys(TAB);
        assert_eq!(focus(&browser).3, "delay");
        browser.keys(ESCAPE);
        assert_eq!(focus(&browser).3, "Change delay or priority");
        assert_eq!(browser.script("return document.querySelectorAll('details[open]').length"), 0);
        browser.keys(ENTER);
        browser.keys(&format!("{TAB}1h{TAB}-3{ENTER}"));
        browser.sees("1 job changed.");
        assert_eq!(c.field("ZQ.GET mails mail:17", "priority"), -3);
        begin(&browser);
        tab_to(&browser, "Delete");
        browser.keys(ENTER);
        browser.sees("Delete 1 job of mails?");
        browser.keys(ESCAPE);
        browser.sees("Pushed in all");
        assert_eq!(c.text_field("ZQ.GET mails mail:17", "state"), "delayed");
    }
}

/// Returns what is wrong with a page for screen readers.
fn faults(tree: &[Node]) -> Vec<String> {
    let shown: Vec<&Node> = tree.iter().filter(|node| !node.is_ignored).collect();
    let with = |role: &str| shown.iter().filter(|node| node.role == role).copied().collect::<Vec<_>>();
    let mut faults = Vec::new();
    for (role, count) in [("main", 1), ("banner", 1)] {
        if with(role).len() != count {
            faults.push(format!("{} nodes with the role {role}", with(role).len()));
        }
    }
    let levels: Vec<i64> = with("heading").iter().filter_map(|node| node.property("level").as_i64()).collect();
    if levels.iter().filter(|level| **level == 1).count() != 1 || levels.windows(2).any(|pair| pair[1] > pair[0] + 1) {
        faults.push(format!("headings of the levels {levels:?}"));
    }
    let named = ["link", "button", "textbox", "searchbox", "checkbox", "combobox", "columnheader", "heading", "image"];
    // Several landmarks or controls of one role must have different names. Links may lead to one place.
    let unique = ["button", "textbox", "searchbox", "checkbox", "combobox", "navigation", "search", "region"];
    for role in named.into_iter().chain(unique).collect::<HashSet<_>>() {
        let mut names = HashSet::new();
        for node in with(role) {
            if node.name.is_empty() {
                faults.push(format!("a {role} without a name"));
            } else if unique.contains(&role) && !names.insert(node.name.as_str()) {
                faults.push(format!("two of {role} {:?}", node.name));
            }
        }
    }
    if with("table").len() > with("columnheader").len() {
        faults.push("a table without headers".into());
    }
    faults
}

#[test]
fn screen_readers_get_names_headings_and_headers_of_every_page() {
    let Some(browser) = Browser::open() else { return };
    let server = Server::start();
    let mut c = server.client();
    crate::screens::fill(&mut c);
    let ui = ui(&server, &["--write"]);
    eventually("the sampler has seen the queues", || ui.get("/workers").1.contains("a-name"));
    browser.screen(1280, 900);
    let (mut tables, mut found) = (0, Vec::new());
    for path in crate::screens::pages() {
        browser.go(&format!("http://{}{path}", ui.address));
        let tree = browser.tree();
        found.extend(faults(&tree).into_iter().map(|fault| format!("{path}: {fault}")));
        tables += tree.iter().filter(|node| node.role == "columnheader").count();
    }
    assert_eq!(found, Vec::<String>::new());
    assert!(tables > 50, "{tables} headers of tables");
}

#[test]
fn screen_readers_are_told_what_changes_on_an_open_page() {
    let Some(browser) = Browser::open() else { return };
    let mut server = Server::start();
    let mut c = server.client();
    c.run("ZQ.PUSH mails payload ID a");
    c.run("ZRL.CHECK api 1 1h");
    let ui: Running = ui(&server, &["--write"]);
    browser.screen(1280, 900);
    browser.go(&format!("http://{}/queue?key=mails", ui.address));
    assert!(live(&browser.tree(), "status").iter().all(|text| !text.contains("paused")));
    c.run("ZQ.CONFIG mails PAUSED yes");
    assert_live(&browser, "status", "paused");
    browser.go(&format!("http://{}/job?key=mails&id=a", ui.address));
    assert_live(&browser, "status", "ready");
    c.run("ZQ.CONFIG mails PAUSED no");
    c.run("ZQ.CLAIM 1 mails LEASE 1h");
    assert_live(&browser, "status", "claimed");
    browser.go(&format!("http://{}/limits?key=api&limit=1&window=1h", ui.address));
    assert_live(&browser, "status", "The next such call is denied.");
    c.run("DEL api");
    assert_live(&browser, "status", "The next such call is allowed.");
    server.kill();
    assert_live(&browser, "alert", "No answer since");
}
