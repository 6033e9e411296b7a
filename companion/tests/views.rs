//! Views of `zeitset ui`: dead letters by error, workers, charts of a queue and of a limit, readable payloads.
//! (tests/web.rs tests which visitors may see the pages, and which may change data.)

use crate::support::{Running, companion, eventually, fetch};
use testkit::{Client, Server, cmd};

fn ui(server: &Server, words: &[&str]) -> Running {
    let url = server.url();
    Running::start(companion(&[&["ui", "--redis", &url, "--interval", "100ms"], words].concat()))
}

/// Creates a dead letter, with an error if `error` is not empty.
fn kill(c: &mut Client, id: &str, error: &str) {
    cmd!(c, "ZQ.PUSH", "mails", "payload", "ID", id, "PRIORITY", -9);
    let token = c.claim("ZQ.CLAIM 1 mails LEASE 1h");
    match error {
        "" => cmd!(c, "ZQ.NACK", "mails", id, token, "DEAD"),
        error => cmd!(c, "ZQ.NACK", "mails", id, token, "DEAD", "ERROR", error),
    };
}

/// Returns the texts of the cells of a part of the page, by row.
fn rows(page: &str, part: &str) -> Vec<String> {
    let part = page.split(&format!("id=\"{part}\"")).nth(1).expect("the part");
    let rows = part.split("</table>").next().unwrap_or_default().split("<tr>").skip(2);
    rows.map(|row| {
        let texts = row.split('>').filter_map(|piece| piece.split('<').next()).map(str::trim);
        texts.filter(|text| !text.is_empty()).collect::<Vec<_>>().join("|")
    })
    .collect()
}

#[test]
fn dead_letters_of_one_error_are_retried_or_deleted_together() {
    let server = Server::start();
    let mut c = server.client();
    for n in 0..4 {
        kill(&mut c, &format!("t{n}"), "timeout\nat line 7");
    }
    kill(&mut c, "gone", "no such user");
    kill(&mut c, "silent", "");
    kill(&mut c, "t4", "timeout\nat line 12");
    c.run("ZQ.PUSH mails payload ID alive");
    let ui = ui(&server, &["--write"]);
    let page = ui.get("/queue?key=mails&tab=errors").1;
    let found = rows(&page, "errors");
    let starts: Vec<_> = found.iter().map(|row| row.split('|').take(2).collect::<Vec<_>>().join(" ")).collect();
    assert_eq!(starts, ["timeout 5", "without an error 1", "no such user 1"], "{found:?}");

    let token = page.split("name=\"token\" value=\"").nth(1).and_then(|rest| rest.split('"').next()).expect("a form");
    let act = |fields: &str| {
        let body = format!("token={token}&key=mails&tab=errors&{fields}");
        fetch(&ui.address, "POST", "/act", &[], &body)
    };
    // The page asks first. The answer deletes at most the number of jobs that the question named.
    let (status, question) = act("do=delete&error=timeout");
    assert!(status == 200 && question.contains("Delete 5 jobs of mails that died of “timeout”?"), "{question}");
    assert!(question.contains("name=\"told\" value=\"5\""), "{question}");
    kill(&mut c, "t5", "timeout");
    let (status, answer) = act("do=delete&error=timeout&told=5&sure=yes");
    assert!(status == 303 && answer.contains("location: queue?key=mails&tab=errors&done=deleted&n=5"), "{answer}");
    assert_eq!(c.text_field("ZQ.GET mails t5", "state"), "dead");
    assert!(act("do=retry&error=").1.contains("done=retried&n=1"));
    assert_eq!(c.text_field("ZQ.GET mails silent", "state"), "ready");
    assert!(act("do=retry&error=no%2520such%2520user").1.contains("done=retried&n=1"));
    assert!(act("do=retry&error=another").1.contains("done=unchanged&n=0"));
    assert_eq!((c.field("ZQ.STATS mails", "dead"), c.field("ZQ.STATS mails", "ready")), (1, 3));
}

#[test]
fn of_many_dead_letters_a_bounded_number_is_looked_at() {
    let server = Server::start();
    let mut c = server.client();
    c.run("ZQ.CONFIG mails MAXATTEMPTS 1");
    let mut pipe = redis::pipe();
    for n in 0..1_200 {
        pipe.cmd("ZQ.PUSH").arg("mails").arg("payload").arg("ID").arg(n).ignore();
    }
    c.pipe(&pipe);
    c.run("ZQ.CLAIM 1 mails LEASE 1ms COUNT 1200");
    eventually("all are dead", || c.field("ZQ.STATS mails", "dead") == 1_200);
    let ui = ui(&server, &[]);
    let page = ui.get("/queue?key=mails&tab=errors").1;
    assert!(page.contains("Of 1,200 dead letters, the 1,000 that have been dead the longest"), "{page}");
    // The page does not fetch all large payloads.
    for n in 0..9 {
        cmd!(c, "ZQ.PUSH", "large", "x".repeat(1_000_000), "ID", n);
        let token = c.claim("ZQ.CLAIM 1 large LEASE 1h");
        cmd!(c, "ZQ.NACK", "large", n, token, "DEAD");
    }
    let page = ui.get("/queue?key=large&tab=errors").1;
    assert!(page.contains("Of 9 dead letters, the 3 that"), "{page}");
}

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
