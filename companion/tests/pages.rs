//! Lists in pages: a page offers only what the server lists, and queues and groups with any name.

use crate::support::{Running, eventually, rows, ui};
use testkit::{Server, cmd};

/// Follows the links to the next page. Returns the IDs of all rows.
fn all(ui: &Running, first: &str, part: &str) -> Vec<String> {
    let (mut path, mut found) = (first.to_owned(), Vec::new());
    loop {
        let (status, page) = ui.get(&path);
        assert_eq!(status, 200, "{path}: {page}");
        found.extend(rows(&page, part).iter().map(|row| row.split('|').next().unwrap_or_default().to_owned()));
        let next = page.split("id=\"next\" href=\"").nth(1).and_then(|rest| rest.split('"').next());
        let Some(next) = next else { return found };
        path = format!("/{}", next.replace("&amp;", "&"));
    }
}

#[test]
fn no_page_leads_to_one_that_the_server_does_not_list() {
    let server = Server::start();
    let mut c = server.client();
    for n in 0..600 {
        cmd!(c, "ZQ.PUSH", "mails", "payload", "ID", format!("job{n}"), "GROUP", format!("customer:{}", n % 3));
    }
    for n in 0..60 {
        cmd!(c, "ZQ.PUSH", "plain", "payload", "ID", format!("job{n}"));
    }
    let ui = ui(&server, &[]);
    let listed = all(&ui, "/queue?key=mails", "jobs");
    assert!((500..600).contains(&listed.len()), "{}", listed.len());
    let last = ui.get(&format!("/queue?key=mails&after={}", listed[listed.len() - 26]));
    assert!(
        last.1.contains("the server lists only the first ready jobs") && last.1.contains("tab=groups"),
        "{}",
        last.1
    );
    // An old link leads to the first page.
    let (status, page) = ui.get(&format!("/queue?key=mails&after={}", listed[listed.len() - 1]));
    let later = ui.get("/queue?key=mails&after=job599");
    assert!(status == 200 && later.0 == 200 && later.1.contains("This is the first page."), "{page} {}", later.1);
    // All jobs of a group are listed, and all of a queue without groups.
    for group in 0..3 {
        let listed = all(&ui, &format!("/queue?key=mails&group=customer:{group}"), "jobs");
        assert_eq!(listed.len(), 200);
    }
    assert_eq!(all(&ui, "/queue?key=plain", "jobs").len(), 60);
}

#[test]
fn a_queue_with_an_empty_name_is_opened_like_any_other() {
    let server = Server::start();
    let mut c = server.client();
    cmd!(c, "ZQ.PUSH", "", "payload", "ID", "a", "GROUP", "");
    cmd!(c, "ZQ.PUSH", "", "without-a-group", "ID", "b");
    let ui = ui(&server, &["--write"]);
    let list = ui.get("/queues").1;
    assert!(list.contains("href=\"queue?key=\""), "{list}");
    let (status, page) = ui.get("/queue?key=");
    assert!(status == 200 && page.contains("job?key=&amp;id=a"), "{page}");
    assert!(ui.get("/job?key=&id=b").1.contains("without-a-group"));
    assert_eq!(ui.act("key=&do=pause").0, 303);
    assert!(ui.get("/queue?key=").1.contains("paused"));
    assert_eq!(ui.act("key=&id=b&do=delete&tab=ready&sure=yes").1, "queue?key=&tab=ready&done=deleted&n=1");
    assert_eq!(ui.get("/queue").0, 400);
    cmd!(c, "DEL", "");
    eventually("it is forgotten", || !ui.get("/queues?sort=ready").1.contains("href=\"queue?key=\""));
}

#[test]
fn groups_are_found_by_size_and_by_name_and_lead_to_their_jobs() {
    let server = Server::start();
    let mut c = server.client();
    let mut pipe = redis::pipe();
    for n in 0..1_500 {
        pipe.cmd("ZQ.PUSH").arg("mails").arg("payload").arg("GROUP").arg(format!("customer:{n:04}")).ignore();
    }
    for n in 0..30 {
        pipe.cmd("ZQ.PUSH").arg("mails").arg("payload").arg("ID").arg(n).arg("GROUP").arg("customer:0815").ignore();
    }
    c.pipe(&pipe);
    cmd!(c, "ZQ.PUSH", "mails", "payload", "ID", "later", "DELAY", "1h", "GROUP", "customer:0815");
    c.run("ZQ.HOLD mails customer:0815 2h");
    let ui = ui(&server, &["--write"]);
    let found = rows(&ui.get("/queue?key=mails&tab=groups").1, "groups");
    assert!(found[0].starts_with("customer:0815|31|1|0|0|in 1h 59m"), "the largest is the first, and held: {found:?}");
    let first = |path: &str| {
        let found = rows(&ui.get(path).1, "groups");
        found.iter().map(|row| row.split('|').next().unwrap_or_default().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(first("/queue?key=mails&tab=groups&find=customer:149").len(), 10, "a beginning");
    assert_eq!(first("/queue?key=mails&tab=groups&find=R:0815"), ["customer:0815"], "a part, in any case");
    assert_eq!(first("/queue?key=mails&tab=groups&sort=name")[0], "customer:0000");
    assert_eq!(all(&ui, "/queue?key=mails&tab=groups&sort=name", "groups").len(), 1_500);
    assert!(ui.get("/queue?key=mails&tab=groups&find=nobody").1.contains("No such group"));

    let listed = all(&ui, "/queue?key=mails&tab=ready&group=customer%3A0815", "jobs");
    assert_eq!(listed.len(), 31);
    let page = ui.get("/queue?key=mails&tab=delayed&group=customer%3A0815").1;
    assert!(page.contains(">later<") && page.contains(">held<") && page.contains("until"), "{page}");
    assert!(ui.get("/queue?key=mails&tab=delayed&group=customer%3A0001").1.contains("No delayed job."));
}

#[test]
fn the_jobs_of_a_group_are_held_retried_and_cleaned() {
    let server = Server::start();
    let mut c = server.client();
    for (n, group) in ["ann", "ann", "bob"].into_iter().enumerate() {
        cmd!(c, "ZQ.PUSH", "mails", "payload", "ID", n, "GROUP", group);
        let token = c.claim("ZQ.CLAIM 1 mails LEASE 1h");
        cmd!(c, "ZQ.NACK", "mails", n, token, "DEAD", "ERROR", "broken");
    }
    let ui = ui(&server, &["--write"]);
    let page = ui.get("/queue?key=mails&tab=groups").1;
    assert!(rows(&page, "groups")[0].starts_with("ann|0|0|0|2"), "{page}");
    assert_eq!(
        ui.act("key=mails&tab=dead&group=ann&do=hold&duration=1h").1,
        "queue?key=mails&tab=dead&group=ann&done=held&n=1"
    );
    assert_eq!(ui.act("key=mails&tab=groups&group=ann&do=redrive").1, "queue?key=mails&tab=groups&done=retried&n=2");
    assert_eq!(c.text_field("ZQ.GET mails 2", "state"), "dead");
    let (_, question) = ui.act("key=mails&group=ann&do=clean&state=ready&older=all");
    assert!(question.contains("Remove all 2 ready jobs of the group ann of mails?"), "{question}");
    assert_eq!(
        ui.act("key=mails&group=ann&do=clean&state=ready&older=all&sure=yes").1,
        "queue?key=mails&tab=ready&group=ann&done=cleaned&n=2"
    );
    assert_eq!((c.field("ZQ.STATS mails", "ready"), c.field("ZQ.STATS mails", "dead")), (0, 1));
}
