//! The page Limits of `zeitset ui --write`: why a key is denied, and how to give it room.

use crate::support::{eventually, rows, ui};
use testkit::{Server, cmd};

#[test]
fn the_page_says_why_a_key_is_denied_and_who_else_is() {
    let server = Server::start();
    let mut c = server.client();
    for (key, calls) in [("api:ann", 5), ("api:bob", 4), ("login:eve", 3)] {
        for _ in 0..calls {
            cmd!(c, "ZRL.CHECK", key, 2, "1h");
        }
    }
    for (key, algorithm) in [("fixed", "FIXED"), ("leaky", "LEAKY")] {
        cmd!(c, "ZRL.CHECK", key, 2, "1h", "COST", 2, algorithm);
    }
    let ui = ui(&server, &[]);
    let page = |query: &str| ui.get(&format!("/limits?{query}")).1;
    let ann = page("key=api:ann&limit=2&window=1h");
    assert!(ann.contains("The next such call is denied. It is allowed <time") && ann.contains("in 59m"), "{ann}");
    assert!(ann.contains("Denied 3 times; counted since") && ann.contains("0 of 2"), "{ann}");
    let why = ann.split("id=\"why\"").nth(1).expect("the part").split("</table>").next().expect("a table").to_owned();
    assert!(why.contains("key=api%3Abob") && !why.contains("login"), "{why}");
    assert!(page("key=api:ann&limit=3&window=1h").contains("The next such call is allowed."));
    assert!(page("key=api:ann&limit=3&window=1h&cost=4").contains("never allowed"));
    assert!(page("key=api:ann&limit=3&window=soon").contains("ERR invalid duration"));
    assert!(page("key=fixed&limit=2&window=1h").contains("is denied"));
    assert!(page("key=leaky&limit=2&window=1h").contains("is denied"));
    assert_eq!(c.field("ZRL.INFO api:ann", "units"), 2, "nothing was taken");
    assert!(page("key=api:zoe").contains("It is not among the keys that are denied most."));
}

#[test]
fn a_limit_is_reset_or_refunded() {
    let server = Server::start();
    let mut c = server.client();
    for (key, algorithm) in [("sliding", "SLIDING"), ("fixed", "FIXED"), ("leaky", "LEAKY")] {
        cmd!(c, "ZRL.CHECK", key, 10, "1h", "COST", 7, algorithm);
    }
    c.run("SET text value");
    let ui = ui(&server, &["--write"]);
    for key in ["sliding", "fixed", "leaky"] {
        let page = ui.get(&format!("/limits?key={key}")).1;
        let at = page.split("name=\"at\" value=\"").nth(1).and_then(|rest| rest.split('"').next()).expect("a form");
        let (_, to) = ui.act(&format!("key={key}&do=refund&units=3&at={at}"));
        assert_eq!(to, format!("limits?key={key}&done=refunded&n=3"));
        assert_eq!(c.field(&format!("ZRL.INFO {key}"), "units"), 4);
        assert_eq!(ui.act(&format!("key={key}&do=refund&units=many&at={at}")).0, 409);
        let (status, question) = ui.act(&format!("key={key}&do=reset"));
        assert!(status == 200 && question.contains(&format!("Reset the limit {key}?")), "{question}");
        assert_eq!(c.int(&format!("EXISTS {key}")), 1);
        assert_eq!(ui.act(&format!("key={key}&do=reset&sure=yes")).1, format!("limits?key={key}&done=reset&n=1"));
        assert_eq!(c.int(&format!("EXISTS {key}")), 0);
    }
    assert_eq!(ui.act("key=text&do=reset&sure=yes").0, 409, "a key that is no limit stays");
    assert_eq!(c.string("GET text"), "value");
    assert!(ui.act("key=nothing&do=reset&sure=yes").1.ends_with("done=unchanged&n=0"));
}

#[test]
fn the_usage_of_a_limit_is_drawn_while_its_page_is_open() {
    let server = Server::start();
    let mut c = server.client();
    let ui = ui(&server, &[]);
    let page = || ui.get("/limits?key=api").1;
    cmd!(c, "ZRL.CHECK", "api", 10, "1h");
    page();
    cmd!(c, "ZRL.CHECK", "api", 10, "1h", "COST", 6);
    eventually("a chart shows both numbers", || {
        let page = page();
        let Some((_, chart)) = page.split_once("Units in use, as long as this page is open") else { return false };
        let line = chart.split("points=\"").nth(2).and_then(|rest| rest.split('"').next()).unwrap_or_default();
        line.starts_with("0.0,90.0 ") && line.ends_with(",30.0")
    });
    assert_eq!(rows(&page(), "moments").len(), 2);
}
