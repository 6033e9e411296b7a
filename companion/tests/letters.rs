//! The tab Errors of `zeitset ui`: all dead letters of a queue, counted by the kind of their error in slices, and
//! retried or deleted by kind.

use crate::support::{Running, eventually, rows, ui};
use redis::Value;
use testkit::{Client, Server, cmd};

/// Makes dead letters with the IDs `l0`, `l1` …, whose errors are `error(n)`. Without text, a letter has no error.
fn kill(c: &mut Client, key: &str, ids: std::ops::Range<usize>, error: impl Fn(usize) -> String) {
    let mut numbers = ids.clone();
    while !numbers.is_empty() {
        let some: Vec<usize> = numbers.by_ref().take(1_000).collect();
        let mut pipe = redis::pipe();
        for n in &some {
            pipe.cmd("ZQ.PUSH").arg(key).arg("payload").arg("ID").arg(format!("l{n}")).arg("PRIORITY").arg(-9).ignore();
        }
        c.pipe(&pipe);
        let claimed = cmd!(c, "ZQ.CLAIM", 1, key, "LEASE", "1h", "COUNT", some.len());
        let claimed: Vec<(String, String, u64, u64, u64, String)> = redis::from_redis_value(claimed).expect("jobs");
        let mut pipe = redis::pipe();
        for (_, id, token, ..) in &claimed {
            let error = error(id[1..].parse().expect("a number"));
            let nack = pipe.cmd("ZQ.NACK").arg(key).arg(id).arg(token).arg("DEAD");
            if error.is_empty() { nack } else { nack.arg("ERROR").arg(error) }.ignore();
        }
        c.pipe(&pipe);
    }
}

/// Returns the error and the number of jobs of each row.
fn kinds(ui: &Running, key: &str) -> Vec<String> {
    let found = rows(&ui.get(&format!("/queue?key={key}&tab=errors")).1, "errors");
    found.iter().map(|row| row.split('|').take(2).collect::<Vec<_>>().join(" ")).collect()
}

#[test]
fn dead_letters_of_one_error_are_retried_or_deleted_together() {
    let server = Server::start();
    let mut c = server.client();
    kill(&mut c, "mails", 0..5, |n| format!("timeout of 10.0.0.{n}:80 after {n} s\nat line {n}"));
    kill(&mut c, "mails", 5..6, |_| "no such user".into());
    kill(&mut c, "mails", 6..7, |_| String::new());
    c.run("ZQ.PUSH mails payload ID alive");
    let ui = ui(&server, &["--write"]);
    let mut found = kinds(&ui, "mails");
    found[1..].sort();
    assert_eq!(found, ["timeout of ⟨host⟩ after ⟨n⟩ s 5", "no such user 1", "without an error 1"]);

    let kind =
        "timeout%2520of%2520%25E2%259F%25A8host%25E2%259F%25A9%2520after%2520%25E2%259F%25A8n%25E2%259F%25A9%2520s";
    // The page asks first. The answer deletes at most the number of jobs that the question named.
    let (status, question) = ui.act(&format!("key=mails&tab=errors&do=delete-kind&kind={kind}"));
    assert!(status == 200 && question.contains("Delete 5 jobs of mails that died of “timeout of ⟨host⟩"), "{question}");
    assert!(question.contains("name=\"told\" value=\"5\""), "{question}");
    kill(&mut c, "mails", 7..8, |_| "timeout of 10.0.0.9:80 after 9 s".into());
    let (status, _) = ui.act(&format!("key=mails&tab=errors&do=delete-kind&kind={kind}&told=5&sure=yes"));
    assert_eq!(status, 303);
    eventually("five are deleted", || c.field("ZQ.STATS mails", "cancelled") == 5);
    assert_eq!(c.text_field("ZQ.GET mails l7", "state"), "dead");
    for kind in ["", "no%2520such%2520user", "another"] {
        assert_eq!(ui.act(&format!("key=mails&tab=errors&do=retry-kind&kind={kind}")).0, 303);
    }
    eventually("two are ready again", || {
        (c.field("ZQ.STATS mails", "redriven"), c.field("ZQ.STATS mails", "dead")) == (2, 1)
    });
    eventually("they are no longer counted", || kinds(&ui, "mails").len() == 1);
}

#[test]
fn all_dead_letters_are_counted_in_slices_and_those_of_a_kind_are_retried() {
    const LETTERS: usize = 5_000;
    let server = Server::start();
    let mut c = server.client();
    kill(&mut c, "mails", 0..LETTERS, |n| match n % 6 {
        0 => format!("order {n} is unknown"),
        _ => format!("connection to db-{n}.internal:5432 refused"),
    });
    let ui = ui(&server, &["--write"]);
    let sent = |c: &mut Client| c.info_number("stats", "total_net_output_bytes");
    eventually("all are counted", || {
        let page = ui.get("/queue?key=mails&tab=errors").1;
        page.contains("<td class=\"number\">4,166</td>") && page.contains("<td class=\"number\">834</td>")
    });
    assert_eq!(kinds(&ui, "mails"), ["connection to ⟨host⟩ refused 4,166", "order ⟨n⟩ is unknown 834"]);
    // What is known is not read again.
    let before = sent(&mut c);
    kinds(&ui, "mails");
    assert!(sent(&mut c) - before < 50_000, "{}", sent(&mut c) - before);
    // New letters are added, and those that have left are removed.
    kill(&mut c, "mails", LETTERS..LETTERS + 10, |_| "order 7 is unknown".into());
    c.run("ZQ.CANCEL mails l0 l6");
    eventually("the counts follow", || kinds(&ui, "mails").contains(&"order ⟨n⟩ is unknown 842".to_owned()));
    assert_eq!(
        ui.act("key=mails&tab=errors&do=retry-kind&kind=order%2520%25E2%259F%25A8n%25E2%259F%25A9%2520is%2520unknown")
            .0,
        303
    );
    eventually("all of the kind are ready again", || c.field("ZQ.STATS mails", "ready") == 842);
    assert_eq!(c.field("ZQ.STATS mails", "dead"), 4_166, "and no others");
    eventually("the page says so", || ui.get("/queue?key=mails&tab=errors").1.contains("842 of 842 jobs, finished."));
    eventually("the counts follow", || kinds(&ui, "mails") == ["connection to ⟨host⟩ refused 4,166"]);
}

#[test]
fn a_task_ends_at_maxlen_and_can_be_stopped() {
    let server = Server::start();
    let mut c = server.client();
    kill(&mut c, "mails", 0..20_000, |_| "broken".into());
    let ui = ui(&server, &["--write"]);
    eventually("all are counted", || kinds(&ui, "mails") == ["broken 20,000"]);
    c.run("ZQ.CONFIG mails MAXLEN 1000");
    // Beyond MAXLEN, the server makes no more jobs ready, and the task ends.
    assert_eq!(ui.act("key=mails&tab=errors&do=retry-kind&kind=broken").0, 303);
    eventually("the task ends", || ui.get("/queue?key=mails&tab=errors").1.contains("1,000 of 20,000 jobs, finished."));
    c.run("ZQ.CONFIG mails MAXLEN 0");
    assert_eq!(ui.act("key=mails&tab=errors&do=stop").1, "queue?key=mails&tab=errors&done=stopped&n=0");
    // While it runs, the page shows how far it is, and it can be stopped.
    std::thread::scope(|scope| {
        let begun = scope.spawn(|| ui.act("key=mails&tab=errors&do=retry-kind&kind=broken"));
        eventually("some are ready", || c.field("ZQ.STATS mails", "ready") > 1_000);
        assert!(ui.act("key=mails&tab=errors&do=stop").0 == 303 && begun.join().expect("it answers").0 == 303);
    });
    eventually("it has ended", || !ui.get("/queue?key=mails&tab=errors").1.contains("<progress"));
    let page = ui.get("/queue?key=mails&tab=errors").1;
    assert!(page.contains("jobs, stopped.") || page.contains("jobs, finished."), "{page}");
}

#[test]
fn large_payloads_are_not_fetched_all_at_once() {
    let server = Server::start();
    let mut c = server.client();
    for n in 0..9 {
        cmd!(c, "ZQ.PUSH", "large", "x".repeat(1_000_000), "ID", n);
        let token = c.claim("ZQ.CLAIM 1 large LEASE 1h");
        cmd!(c, "ZQ.NACK", "large", n, token, "DEAD");
    }
    let ui = ui(&server, &[]);
    let sent = |c: &mut Client| c.info_number("stats", "total_net_output_bytes");
    let before = sent(&mut c);
    let page = ui.get("/queue?key=large&tab=errors").1;
    assert!(page.contains("of 9 dead letters."), "{page}");
    let fetched = sent(&mut c) - before;
    assert!(fetched < 4_000_000, "{fetched} bytes");
    eventually("all are counted", || kinds(&ui, "large") == ["without an error 9"]);
}

#[test]
fn errors_of_too_many_kinds_are_counted_together() {
    let server = Server::start();
    let mut c = server.client();
    let word = |mut n: usize| {
        let mut word = String::new();
        for _ in 0..4 {
            word.push(char::from(b'a' + (n % 26) as u8));
            n /= 26;
        }
        word
    };
    kill(&mut c, "mails", 0..1_500, |n| format!("failed: {}", word(n)));
    let ui = ui(&server, &["--write"]);
    eventually("all are counted", || {
        let page = ui.get("/queue?key=mails&tab=errors").1;
        page.contains("and 950 more errors") && page.contains("and 500 jobs with other errors")
    });
    let Value::Int(dead) = c.run("ZQ.CLEAN mails DEAD COUNT 5000") else { panic!("a number") };
    assert_eq!(dead, 1_500);
    eventually("none is left", || ui.get("/queue?key=mails&tab=errors").1.contains("No dead job."));
}
