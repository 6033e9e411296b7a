//! `zeitset ui` on a phone and on a desktop: nothing runs over, what is active is visible, axe-core finds no serious
//! problem, and an open page shows every change.

use crate::support::{Browser, Running, eventually, ui};
use std::path::PathBuf;
use std::process::Command;
use testkit::{Client, Server, cmd};

/// The version of axe-core, which npm installs below the folder `target`.
const AXE: &str = "axe-core@4.14.1";

/// Returns the source of axe-core. If npm is missing or cannot fetch the package, prints that this part is skipped.
pub fn axe() -> Option<String> {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("axe");
    let source = folder.join("node_modules/axe-core/axe.min.js");
    if !source.is_file() {
        std::fs::create_dir_all(&folder).expect("a folder");
        let install = ["install", "--no-save", "--no-audit", "--no-fund", "--ignore-scripts", AXE, "--prefix"];
        let outcome = Command::new("npm").args(install).arg(&folder).output();
        if !outcome.is_ok_and(|it| it.status.success()) {
            eprintln!("skipped: npm is not installed (on Debian: apt-get install npm), or cannot fetch {AXE}");
            return None;
        }
    }
    Some(std::fs::read_to_string(source).expect("axe-core"))
}

const LONG: &str = "a-name-that-is-much-longer-than-any-column-of-a-phone:0123456789:0123456789:0123456789:0123456789";

pub fn fill(c: &mut Client) {
    c.run("CONFIG SET maxmemory 123456789");
    for n in 0..30 {
        cmd!(c, "ZQ.PUSH", "mails", r#"{"to":"ann"}"#, "ID", format!("{LONG}:{n}"), "GROUP", format!("{LONG}:{n}"));
    }
    cmd!(c, "ZQ.PUSH", LONG, "x".repeat(3_000), "ID", LONG);
    for n in 0..2 {
        cmd!(c, "ZQ.PUSH", "mails", "payload", "ID", n, "PRIORITY", -9);
        let token = c.claim("ZQ.CLAIM 1 mails LEASE 1h");
        cmd!(c, "ZQ.NACK", "mails", n, token, "DEAD", "ERROR", format!("connection to {LONG}:5432 refused"));
    }
    cmd!(c, "ZQ.CLAIM", 1, "mails", "LEASE", "1h", "AS", LONG);
    cmd!(c, "ZQ.PUSH", "mails", "payload", "ID", "later", "DELAY", "1h");
    cmd!(c, "ZQ.HOLD", "mails", format!("{LONG}:7"), "1h");
    for n in 0..20 {
        for _ in 0..2 {
            cmd!(c, "ZRL.CHECK", format!("{LONG}:{n}"), 1, "1h");
        }
        cmd!(c, "ZEXP.ADD", "set", "1h", format!("{LONG}:{n}"));
    }
    cmd!(c, "ZLB.CREATE", "board", "DIM", "points", "DIM", "seconds", "ASC");
    for n in 0..60 {
        cmd!(c, "ZLB.SET", "board", format!("{LONG}:{n}"), n, 1_000_000_000_i64);
    }
}

pub fn pages() -> Vec<String> {
    let fixed = [
        "/",
        "/queues",
        "/queue?key=mails",
        "/queue?key=mails&tab=delayed",
        "/queue?key=mails&tab=claimed",
        "/queue?key=mails&tab=dead",
        "/queue?key=mails&tab=errors",
        "/queue?key=mails&tab=groups",
        "/queue?key=mails&tab=charts",
        "/queue?key=mails&tab=settings",
        "/workers",
        "/limits",
        "/sets?key=set",
        "/boards",
        "/boards?key=board",
        "/job?key=mails&id=0",
        "/search?q=a-name",
    ];
    let long = [
        format!("/queue?key=mails&group={LONG}:7"),
        format!("/queue?key={LONG}"),
        format!("/job?key={LONG}&id={LONG}"),
        format!("/workers?worker={LONG}"),
        format!("/limits?key={LONG}:1&limit=1&window=1h"),
        format!("/search?q={LONG}"),
    ];
    fixed.map(str::to_owned).into_iter().chain(long).collect()
}

/// Returns the elements whose content runs over their edge. Tables, code and truncated names scroll or end by design.
const RUNS_OVER: &str = "const over = [];
    if (document.documentElement.scrollWidth > document.documentElement.clientWidth) over.push('the page');
    for (const element of document.querySelectorAll('body *')) {
      if (element.closest('.scroll, svg, select, .hidden') || getComputedStyle(element).display === 'inline') continue;
      if (element.clientWidth && element.scrollWidth > element.clientWidth && element.tagName !== 'INPUT')
        over.push(`${element.tagName}.${element.className}#${element.id}: ${element.innerText.slice(0, 60)}`);
    }
    return over.join('\\n');";

/// Returns the links of the menu and the tabs that cannot be seen without scrolling sideways.
const OUT_OF_SIGHT: &str = "return [...document.querySelectorAll('nav a')].filter((link) => {
      const box = link.getBoundingClientRect();
      link.scrollIntoView({ block: 'center' });
      const { left, top, width, height } = link.getBoundingClientRect();
      const seen = document.elementFromPoint(left + width / 2, top + height / 2);
      return box.left < 0 || box.right > innerWidth || !(seen && (link.contains(seen) || seen.contains(link)));
    }).map((link) => link.innerText).join();";

/// A phone and a desktop.
pub const SCREENS: [(u32, u32); 2] = [(390, 844), (1280, 900)];

/// Checks the page that the browser shows: nothing runs over, what is active is visible, axe-core finds nothing serious.
#[track_caller]
pub fn holds(browser: &Browser, axe: Option<&str>, what: &str) {
    assert_eq!(browser.script(RUNS_OVER), "", "{what}");
    assert_eq!(browser.script(OUT_OF_SIGHT), "", "{what}");
    let Some(axe) = axe else { return };
    browser.script(axe);
    let found = browser.promise(
        "const { violations } = await axe.run(document, { resultTypes: ['violations'] });
         return violations.filter((it) => ['serious', 'critical'].includes(it.impact)).map((it) =>
           `${it.id}: ${it.nodes.slice(0, 3).map((node) => node.html.slice(0, 200) + ' ' + node.failureSummary).join('; ')}`).join('\\n');",
    );
    assert_eq!(found, "", "{what}");
}

#[test]
fn nothing_runs_over_and_what_is_active_is_visible() {
    let Some(browser) = Browser::open() else { return };
    let server = Server::start();
    fill(&mut server.client());
    let ui = ui(&server, &["--write"]);
    eventually("the sampler has seen the queues", || ui.get("/workers").1.contains("a-name"));
    let axe = axe();
    for (width, height) in SCREENS {
        browser.screen(width, height);
        for (number, path) in pages().iter().enumerate() {
            // Each page is looked at once in the dark, and once in the light.
            browser.dark((number % 2 == 1) == (width == 390));
            browser.go(&format!("http://{}{path}", ui.address));
            assert_eq!(browser.script("return innerWidth"), width, "{path}");
            holds(&browser, axe.as_deref(), &format!("{path} at {width}"));
        }
    }
}

#[test]
fn a_number_of_seven_digits_has_one_line_in_a_tile() {
    let Some(browser) = Browser::open() else { return };
    let server = Server::start();
    let ui = ui(&server, &[]);
    for (width, height) in SCREENS {
        browser.screen(width, height);
        browser.go(&format!("http://{}/", ui.address));
        let lines = browser.script(
            "const value = document.querySelector('.tile dd');
             value.textContent = '1,000,048';
             return Math.round(value.getBoundingClientRect().height / parseFloat(getComputedStyle(value).lineHeight));",
        );
        assert_eq!(lines, 1, "at {width}");
    }
}

/// Returns the page without the parts that the script keeps up to date.
const STILL: &str = "const still = (page) => {
      const body = page.body.cloneNode(true);
      for (const part of body.querySelectorAll('[data-live]')) part.replaceWith(`[${part.id}]`);
      for (const part of body.querySelectorAll('#stale, #pulse, #pause')) part.remove();
      return body.innerHTML;
    };";

/// Changes everything that a page shows.
fn change(c: &mut Client) {
    for line in [
        "ZQ.CONFIG mails PAUSED no MAXATTEMPTS 7 RATE 5 1m",
        "ZQ.PUSH mails payload ID new GROUP new PRIORITY -99",
        "ZQ.PUSH another payload",
        "ZQ.CLAIM 1 mails LEASE 2h COUNT 2 AS bob",
        "ZQ.CLAIM 1 another LEASE 2h AS bob",
        "ZQ.CONFIG mails PAUSED yes",
        "ZQ.HOLD mails held 3h",
        "ZRL.CHECK limit 9 1h COST 9",
        "ZRL.CHECK limit 9 1h COST 9",
        "ZEXP.ADD set 2h more",
        "ZLB.SET board zoe 7",
        "ZLB.CREATE board2 DIM points",
    ] {
        c.run(line);
    }
    c.run("ZQ.CANCEL mails seen");
}

#[test]
fn everything_that_changes_on_the_server_changes_on_an_open_page() {
    let Some(browser) = Browser::open() else { return };
    browser.screen(1280, 900);
    for path in [
        "/",
        "/queues",
        "/queues?sort=ready",
        "/queue?key=mails",
        "/queue?key=mails&tab=delayed",
        "/queue?key=mails&tab=claimed",
        "/queue?key=mails&tab=dead",
        "/queue?key=mails&tab=errors",
        "/queue?key=mails&tab=groups",
        "/queue?key=mails&tab=ready&group=held",
        "/queue?key=mails&tab=charts",
        "/queue?key=mails&tab=settings",
        "/queue?key=another",
        "/job?key=mails&id=seen",
        "/workers",
        "/workers?worker=bob",
        "/limits",
        "/limits?key=limit&limit=9&window=1h",
        "/sets?key=set",
        "/boards",
        "/boards?key=board",
        "/boards?key=board2",
    ] {
        let server = Server::start();
        let mut c = server.client();
        c.run_all([
            "ZQ.PUSH mails payload ID seen",
            "ZQ.PUSH mails payload ID held GROUP held",
            "ZEXP.ADD set 1h member",
            "ZLB.CREATE board DIM points",
        ]);
        let ui = ui(&server, &["--write"]);
        browser.go(&format!("http://{}{path}", ui.address));
        let before = browser.script(&format!("{STILL} return still(document)"));
        change(&mut c);
        let after = browser.promise(&format!(
            "{STILL} const answer = await fetch(location.href);
             return still(new DOMParser().parseFromString(await answer.text(), 'text/html'));"
        ));
        assert!(before.as_str().is_some_and(|it| it.len() > 500), "{before}");
        assert!(before == after, "{path} has a part that changes, but not on an open page:\n{before}\n{after}");
        shows(&browser, &ui, path);
    }
}

/// What an open page shows soon after [`change`].
fn shows(browser: &Browser, ui: &Running, path: &str) {
    let texts: &[&str] = match path {
        "/" => &["paused"],
        "/queues" => &["paused", "another"],
        "/queue?key=mails" => &["paused", "Resume"],
        "/queue?key=mails&tab=claimed" => &["bob"],
        "/queue?key=mails&tab=groups" => &["new", "in 2h"],
        "/queue?key=mails&tab=ready&group=held" => &["held until in 2h"],
        "/job?key=mails&id=seen" => &["There is no such job"],
        "/workers" => &["bob"],
        "/limits?key=limit&limit=9&window=1h" => &["The next such call is denied", "Denied 1 times"],
        "/sets?key=set" => &["more"],
        "/boards" => &["board2"],
        "/boards?key=board" => &["zoe"],
        _ => &[],
    };
    for text in texts {
        eventually(&format!("{path} shows {text}"), || browser.text().to_lowercase().contains(&text.to_lowercase()));
    }
    if path.ends_with("tab=settings") {
        let value = || browser.script("return document.querySelector('input[name=MAXATTEMPTS]').value");
        eventually("the setting is shown", || value() == "7");
    }
    assert_eq!(ui.get(path).0, 200);
}
