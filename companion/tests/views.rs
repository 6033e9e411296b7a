//! Views of `zeitset ui`: workers, charts of a queue and of a limit, readable payloads.
//! (tests/web.rs tests which visitors may see the pages, and which may change data.)

use crate::support::{eventually, rows, ui};
use testkit::{Server, cmd};

#[test]
fn workers_are_shown_with_what_they_hold() {
    let server = Server::start();
    let mut c = server.client();
    for n in 0..5 {
        c.run(&format!("ZQ.PUSH mails payload ID mail{n}"));
        c.run(&format!("ZQ.PUSH bills payload ID bill{n}"));
    }
    for line in [
        "ZQ.CLAIM 1 mails LEASE 2h AS ann",
        "ZQ.CLAIM 1 bills LEASE 1h COUNT 2 AS ann",
        "ZQ.CLAIM 1 mails LEASE 3h AS bob",
        "ZQ.CLAIM 1 mails LEASE 4h",
    ] {
        c.run(line);
    }
    let ui = ui(&server, &[]);
    let found = || rows(&ui.get("/workers").1, "workers");
    eventually("the sampler has seen both queues", || found().iter().any(|row| row.contains("bills")));
    let found = found();
    let [none, ann, bob] = found.as_slice() else { panic!("{found:?}") };
    assert!(none.starts_with("without a name|1|") && none.contains("|in 3h 59m|mails"), "{none}");
    assert!(ann.starts_with("ann|3|") && ann.contains(" ago|in 59m ") && ann.ends_with("|bills|mails"), "{ann}");
    assert!(bob.starts_with("bob|1|") && bob.contains("|in 2h 59m|mails"), "{bob}");
    let jobs = rows(&ui.get("/workers?worker=ann").1, "workers");
    let starts: Vec<_> = jobs.iter().map(|row| row.split('|').take(2).collect::<Vec<_>>().join(" ")).collect();
    assert_eq!(starts, ["bill0 bills", "bill1 bills", "mail0 mails"]);
    assert!(ui.get("/workers?worker=nobody").1.contains("It holds no job."));
    assert_eq!(rows(&ui.get("/workers?worker=").1, "workers").len(), 1);
}

#[test]
fn a_queue_has_charts_of_its_own() {
    let server = Server::start();
    server.client().run("ZQ.PUSH mails payload");
    let ui = ui(&server, &[]);
    let charts = || ui.get("/queue?key=mails&tab=charts").1;
    let is_drawn = |page: &str| page.matches("<polyline").count() >= 6 && page.contains("Jobs ready");
    eventually("there are lines", || is_drawn(&charts()));
    assert!(ui.get("/queue?key=nothing&tab=charts").1.contains("Not seen yet."));
}

#[test]
fn a_limit_is_shown_as_it_fills_and_empties() {
    let server = Server::start();
    let mut c = server.client();
    let ui = ui(&server, &[]);
    let chart = |key: &str| {
        let page = ui.get(&format!("/limits?key={key}")).1;
        let chart = page.split_once("Units in use, if no more are taken")?.1;
        let legend = chart.split("<b>").nth(1)?.split('<').next()?.to_owned();
        let line = chart.split("<polyline").nth(1)?.split("points=\"").nth(1)?.split('"').next()?;
        let heights =
            line.split(' ').map(|point| point.split(',').nth(1).expect("y").parse::<f64>().expect("a number"));
        Some((legend, heights.map(|y| 100.0 - y).collect::<Vec<_>>()))
    };
    assert_eq!(chart("none"), None, "a limit that nobody has used");
    for (key, algorithm) in [("sliding", "SLIDING"), ("fixed", "FIXED"), ("leaky", "LEAKY")] {
        for cost in [2, 3] {
            cmd!(c, "ZRL.CHECK", key, 10, "1h", "COST", cost, algorithm);
        }
        let (legend, heights) = chart(key).expect("a chart");
        assert_eq!((legend.as_str(), heights[0], heights[heights.len() - 1]), ("5", 100.0, 0.0), "{key}");
        assert!(heights.is_sorted_by(|one, next| one >= next), "{key}: {heights:?}");
        // The units of a LEAKY limit become available gradually, the units of a FIXED window all at once.
        let halfway = heights[heights.len() / 2];
        assert!(if key == "leaky" { (45.0..55.0).contains(&halfway) } else { halfway == 100.0 }, "{key}: {halfway}");
    }
}

#[test]
fn a_payload_of_json_has_a_line_for_each_member_and_is_downloaded_as_it_is() {
    let server = Server::start();
    let mut c = server.client();
    cmd!(c, "ZQ.PUSH", "mails", r#"{"to":"ann","tags":["<b>",1.50]}"#, "ID", "json");
    cmd!(c, "ZQ.PUSH", "mails", "{not json", "ID", "text");
    let ui = ui(&server, &[]);
    let page = ui.get("/job?key=mails&id=json").1;
    let expected = "{\n  &quot;to&quot;: &quot;ann&quot;,\n  &quot;tags&quot;: [\n    &quot;&lt;b&gt;&quot;,\n    1.50\n  ]\n}</pre>";
    assert!(page.contains(expected), "{page}");
    assert!(ui.get("/payload?key=mails&id=json").1.ends_with(r#"{"to":"ann","tags":["<b>",1.50]}"#));
    assert!(ui.get("/job?key=mails&id=text").1.contains("{not json</pre>"));
}

#[test]
fn a_push_that_waits_behind_a_claim_and_the_end_of_a_job_are_shown() {
    let server = Server::start();
    let mut c = server.client();
    cmd!(c, "ZQ.PUSH", "index", "first", "ID", "a", "TTL", "2h");
    c.run("ZQ.CLAIM 1 index LEASE 1h");
    cmd!(c, "ZQ.PUSH", "index", "<b>second", "ID", "a", "TTL", "2h", "AGAIN");
    let ui = ui(&server, &[]);
    let page = ui.get("/job?key=index&id=a").1;
    assert!(page.contains("Once more after this claim") && page.contains("&lt;b&gt;second</pre>"), "{page}");
    assert!(page.contains("<dt>ttl</dt>") && page.contains("<dt>expires</dt>") && page.contains("in 1h 59m"), "{page}");
    c.run("ZQ.PUSH short payload TTL 1ms");
    eventually("it is dropped", || c.field("ZQ.STATS short", "expired") == 1);
    assert!(ui.get("/queue?key=short").1.contains("<dt>Jobs expired</dt><dd>1</dd>"));
}

#[test]
fn the_progress_of_a_job_is_shown_while_it_runs_and_after_it_failed() {
    let server = Server::start();
    let mut c = server.client();
    c.run("ZQ.PUSH imports payload ID a");
    let token = c.claim("ZQ.CLAIM 1 imports LEASE 1h AS ann");
    let ui = ui(&server, &[]);
    cmd!(c, "ZQ.PROGRESS", "imports", "a", token, "<b>page 7 of 12");
    let list = rows(&ui.get("/queue?key=imports&tab=claimed").1, "jobs");
    assert!(list[0].contains("|ann|&lt;b&gt;page 7 of 12|"), "{list:?}");
    let page = ui.get("/job?key=imports&id=a").1;
    assert!(page.contains("<pre>&lt;b&gt;page 7 of 12</pre>") && page.contains("Last progress"), "{page}");
    cmd!(c, "ZQ.PROGRESS", "imports", "a", token, "page 8");
    cmd!(c, "ZQ.NACK", "imports", "a", token, "DEAD", "ERROR", "broken");
    let page = ui.get("/job?key=imports&id=a").1;
    assert!(page.contains("<pre>page 8</pre>") && page.contains("broken</pre>"), "{page}");
}

#[test]
fn the_past_of_a_job_is_told_as_far_as_it_is_kept() {
    let server = Server::start();
    let mut c = server.client();
    c.run("ZQ.PUSH mails payload ID a DELAY 1ms");
    let token = c.claim("ZQ.CLAIM 1 mails LEASE 1h BLOCK 10s AS ann");
    cmd!(c, "ZQ.NACK", "mails", "a", token, "DELAY", "1ms", "ERROR", "broken");
    c.claim("ZQ.CLAIM 1 mails LEASE 1h BLOCK 10s AS bob");
    let ui = ui(&server, &[]);
    let page = ui.get("/job?key=mails&id=a").1;
    let told: Vec<_> =
        rows(&page, "job").iter().map(|row| row.split('|').next().unwrap_or_default().to_owned()).collect();
    assert_eq!(told, ["Pushed", "Last failed", "Last claimed by", "Lease expires"], "{page}");
    assert!(
        page.contains(">bob<") && page.contains("broken") && page.contains("the server keeps the number"),
        "{page}"
    );
}
