//! The search in the head of every page of `zeitset ui`.

use crate::support::{Running, ui};
use testkit::{Server, cmd};

fn found(ui: &Running, text: &str) -> String {
    let (status, page) = ui.get(&format!("/search?q={text}"));
    assert_eq!(status, 200, "{page}");
    page
}

#[test]
fn a_name_is_found_wherever_it_is() {
    let server = Server::start();
    let mut c = server.client();
    for n in 0..1_000 {
        cmd!(c, "ZQ.PUSH", format!("tenant:{n:03}"), "payload", "ID", format!("job{n}"));
    }
    for queue in ["tenant:500", "tenant:999"] {
        cmd!(c, "ZQ.PUSH", queue, "payload", "ID", "order-7", "DELAY", "1h");
    }
    cmd!(c, "ZRL.CHECK", "order-7", 1, "1h");
    cmd!(c, "ZRL.CHECK", "api:order-7:x", 1, "1h");
    cmd!(c, "ZRL.CHECK", "api:order-7:x", 1, "1h");
    cmd!(c, "ZLB.CREATE", "board", "DIM", "points");
    cmd!(c, "ZLB.SET", "board", "ann", 4, "order-7", 3);
    cmd!(c, "ZEXP.ADD", "sessions", "1h", "order-7");
    cmd!(c, "ZADD", "ordinary", 9e15, "order-7");
    let ui = ui(&server, &[]);
    let page = found(&ui, "order-7");
    for link in [
        "job?key=tenant%3A500&amp;id=order%2D7",
        "job?key=tenant%3A999&amp;id=order%2D7",
        "limits?key=order%2D7",
        "limits?key=api%3Aorder%2D7%3Ax",
        "sets?key=sessions&amp;member=order%2D7",
        "boards?key=board&amp;member=order%2D7",
    ] {
        assert!(page.contains(&format!("href=\"{link}\"")), "{link}: {page}");
    }
    assert!(page.contains("place 2") && page.contains("1,000 queues were searched"), "{page}");
    assert!(!page.contains("key=ordinary"), "a sorted set that is no expiring set: {page}");
    assert!(ui.get("/sets?key=sessions&member=order-7").1.contains("expires in 59m"));
    // A queue by its name, and by a part of it.
    let page = found(&ui, "tenant:50");
    assert!(page.matches("href=\"queue?key=tenant").count() == 10, "{page}");
    let page = found(&ui, "TENANT");
    assert!(page.contains("and 975 more"), "{page}");
    let page = found(&ui, "nothing");
    for nothing in ["No job has this ID.", "No queue has", "No limit has", "No expiring set has", "No board has"] {
        assert!(page.contains(nothing), "{nothing}: {page}");
    }
    // Every page has the search.
    for path in ["/", "/queues", "/queue?key=tenant:500", "/limits", "/search"] {
        assert!(ui.get(path).1.contains("action=\"search\""), "{path}");
    }
}

#[test]
fn many_keys_are_searched_in_parts() {
    let server = Server::start();
    let mut c = server.client();
    let mut pipe = redis::pipe();
    for n in 0..30_000 {
        pipe.cmd("SET").arg(format!("key{n}")).arg("").ignore();
    }
    for n in 0..20 {
        pipe.cmd("ZEXP.ADD").arg(format!("set{n}")).arg("1h").arg("ann").ignore();
    }
    c.pipe(&pipe);
    let ui = ui(&server, &[]);
    let (mut path, mut sets) = ("/search?q=ann".to_owned(), 0);
    let mut pages = 0;
    loop {
        let page = ui.get(&path).1;
        sets += page.matches("href=\"sets?key=set").count();
        pages += 1;
        let Some(next) = page.split("id=\"next\" href=\"").nth(1).and_then(|rest| rest.split('"').next()) else {
            break;
        };
        assert!(page.contains("Only some keys were searched"), "{page}");
        path = format!("/{}", next.replace("&amp;", "&"));
    }
    assert!(sets == 20 && pages > 1, "each set is found once: {sets} on {pages} pages");
}
