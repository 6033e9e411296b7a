//! Tasks of Celery in `zeitset ui`: their names and arguments, and lists and dead letters by name.

use crate::support::{Running, eventually, rows, ui};
use testkit::{Client, Server, cmd};

const QUEUE: &str = "kombu:celery";

#[test]
fn a_task_of_celery_is_shown_with_its_name_and_its_arguments() {
    let server = Server::start();
    let payload = r#"{"body":"W1s0MiwgIjxiPiJdLCB7fV0=","properties":{"body_encoding":"base64"},"headers":{"task":"shop.<send>","id":"t-7","eta":"2100-01-01T00:00:00+00:00","argsrepr":"(42, '<b>')"}}"#;
    let mut c = server.client();
    cmd!(c, "ZQ.PUSH", "kombu:celery", payload, "ID", "t-7", "AT", "4102444800");
    let ui = ui(&server, &[]);
    let (_, list) = ui.get("/queue?key=kombu:celery&tab=delayed");
    assert!(list.contains("shop.&lt;send&gt; (42, '&lt;b&gt;')"), "{list}");
    let (_, job) = ui.get("/job?key=kombu:celery&id=t-7");
    for part in ["Celery task", "shop.&lt;send&gt;", "2100-01-01T00:00:00+00:00", "42,\n    &quot;&lt;b&gt;&quot;"] {
        assert!(job.contains(part), "{part}: {job}");
    }
    assert!(!job.contains("W1s0MiwgIjxiPiJd"), "the body is decoded");
}

/// Pushes tasks with the IDs `t0`, `t1` … as the broker of the Python library does.
fn push(c: &mut Client, count: usize, name: impl Fn(usize) -> &'static str) {
    let mut pipe = redis::pipe();
    for n in 0..count {
        let payload = format!(
            r#"{{"body":"W10=","properties":{{"body_encoding":"base64"}},"headers":{{"task":"{}","id":"t{n}"}}}}"#,
            name(n)
        );
        pipe.cmd("ZQ.PUSH").arg(QUEUE).arg(payload).arg("ID").arg(format!("t{n}")).ignore();
    }
    c.pipe(&pipe);
}

fn texts(page: &str, part: &str) -> Vec<String> {
    rows(page, part).iter().map(|row| row.split('|').take(2).collect::<Vec<_>>().join(" ")).collect()
}

#[test]
fn tasks_are_counted_by_name_as_far_as_they_are_read() {
    let server = Server::start();
    let mut c = server.client();
    push(&mut c, 1_500, |n| if n % 10 == 3 { "shop.<pay>" } else { "shop.send" });
    cmd!(c, "ZQ.PUSH", QUEUE, "other", "ID", "other", "PRIORITY", -9, "GROUP", "");
    let ui = ui(&server, &[]);
    let link = "queue?key=kombu%3Acelery&amp;tab=ready&amp;by=task";
    assert!(ui.get("/queue?key=kombu:celery").1.contains(&format!("href=\"{link}\"")));
    // With different priorities, the server lists at most 600 jobs in slices.
    eventually("a page reads jobs of all names in its time", || {
        let page = ui.get("/queue?key=kombu:celery&by=task").1;
        let read = texts(&page, "tasks");
        read.contains(&"No Celery task 1".to_owned())
            && read.len() == 3
            && page.contains("The first 600 of 1,501 jobs were read: the server does not know")
    });
    // Without priorities, a page reads at most a thousand jobs.
    c.run("ZQ.CANCEL kombu:celery other");
    eventually("a page reads a thousand jobs in its time", || {
        let page = ui.get("/queue?key=kombu:celery&by=task").1;
        page.contains("The first 1,000 of 1,500 jobs were read")
            && texts(&page, "tasks") == ["shop.send 900", "shop.&lt;pay&gt; 100"]
    });
    // Each name leads to its jobs. A list looks for a page of them, and then continues where it ended.
    let (mut path, mut found) = ("/queue?key=kombu:celery&task=shop.%3Cpay%3E".to_owned(), Vec::new());
    loop {
        let page = ui.get(&path).1;
        assert!(page.contains("Celery task: ") && !page.contains("Many at once"), "{page}");
        found.extend(texts(&page, "jobs").iter().filter_map(|row| row.split(' ').next().map(str::to_owned)));
        let next = page.split("id=\"next\" href=\"").nth(1).and_then(|rest| rest.split('"').next());
        let Some(next) = next else { break };
        path = format!("/{}", next.replace("&amp;", "&"));
    }
    let expected: Vec<String> = (0..150).map(|n| format!("t{}", 10 * n + 3)).collect();
    assert_eq!(found, expected);
    c.run("ZQ.PUSH plain payload");
    assert!(!ui.get("/queue?key=plain").1.contains("by=task"), "other queues have no such view");
    assert!(ui.get("/queue?key=plain&by=task").1.contains("No Celery task"));
    assert!(ui.get("/queue?key=plain&task=a").1.contains("No ready job of this task among those"));
}

#[test]
fn what_is_done_to_selected_tasks_leads_back_to_their_list() {
    let server = Server::start();
    push(&mut server.client(), 4, |n| if n == 3 { "pay" } else { "send" });
    let ui = ui(&server, &["--write"]);
    let (status, to) = ui.act("key=kombu%253Acelery&id=t3&task=pay&tab=ready&do=delete&sure=yes");
    assert_eq!((status, to.as_str()), (303, "queue?key=kombu%3Acelery&tab=ready&task=pay&done=deleted&n=1"));
}

#[test]
fn dead_letters_are_counted_and_retried_by_task_and_error() {
    let server = Server::start();
    let mut c = server.client();
    push(&mut c, 9, |n| if n < 4 { "shop.pay" } else { "shop.send" });
    c.run("ZQ.CONFIG kombu:celery MAXATTEMPTS 1");
    for n in 0..9 {
        let token = c.claim("ZQ.CLAIM 1 kombu:celery LEASE 1h");
        cmd!(c, "ZQ.NACK", QUEUE, format!("t{n}"), token, "DEAD", "ERROR", format!("timeout after {n} s"));
    }
    let ui = ui(&server, &["--write"]);
    let found = |ui: &Running| {
        let page = ui.get("/queue?key=kombu:celery&tab=errors").1;
        rows(&page, "errors").iter().map(|row| row.split('|').take(3).collect::<Vec<_>>().join(" ")).collect::<Vec<_>>()
    };
    eventually("all are counted", || {
        found(&ui) == ["timeout after ⟨n⟩ s shop.send 5", "timeout after ⟨n⟩ s shop.pay 4"]
    });
    let kind = "timeout%2520after%2520%25E2%259F%25A8n%25E2%259F%25A9%2520s";
    let (_, question) = ui.act(&format!("key=kombu%253Acelery&tab=errors&kind={kind}&task=shop.send&do=delete-kind"));
    assert!(
        question.contains("Delete 5 jobs of the task shop.send of kombu:celery that died of “timeout"),
        "{question}"
    );
    assert_eq!(ui.act(&format!("key=kombu%253Acelery&tab=errors&kind={kind}&task=shop.pay&do=retry-kind")).0, 303);
    eventually("those of the task are ready again", || {
        (c.field("ZQ.STATS kombu:celery", "ready"), c.field("ZQ.STATS kombu:celery", "dead")) == (4, 5)
    });
    eventually("they are no longer counted", || found(&ui) == ["timeout after ⟨n⟩ s shop.send 5"]);
}
