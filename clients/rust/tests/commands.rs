//! The typed commands: none is missing, and the replies are read in RESP2 and RESP3.

use std::collections::BTreeMap;
use std::time::Duration;
use testkit::Server;
use zeitset_client::zexp::{Expired, Ttl, WithTtl};
use zeitset_client::zlb::{Entry, Ranked, Ranking};
use zeitset_client::{Code, Error, zexp, zlb, zq, zrl};

/// Commands for replication, which clients do not call.
const INTERNAL: [&str; 2] = ["ZQ.APPLY", "ZLB.APPLY"];

/// Collects the tokens of arguments in a reply of COMMAND DOCS.
fn tokens(value: &redis::Value, found: &mut Vec<String>) {
    let redis::Value::Array(items) = value else { return };
    for pair in items.chunks_exact(2) {
        if let (Ok("token"), Ok(token)) = (text(&pair[0]).as_deref(), text(&pair[1])) {
            found.push(token);
        }
    }
    items.iter().for_each(|item| tokens(item, found));
}

fn text(value: &redis::Value) -> Result<String, redis::ParsingError> {
    redis::from_redis_value_ref(value)
}

#[test]
fn every_command_and_every_token_of_command_docs_has_a_builder() {
    let server = Server::start();
    let mut connection = super::support::client(&server).get_connection().expect("a connection");
    let names: Vec<String> = redis::cmd("COMMAND")
        .arg("LIST")
        .arg("FILTERBY")
        .arg("MODULE")
        .arg("zeitset")
        .query(&mut connection)
        .expect("names");
    let mut documented = BTreeMap::new();
    for name in names.into_iter().map(|name| name.to_uppercase()).filter(|name| !INTERNAL.contains(&name.as_str())) {
        let docs: redis::Value = redis::cmd("COMMAND").arg("DOCS").arg(&name).query(&mut connection).expect("docs");
        let mut found = Vec::new();
        tokens(&docs, &mut found);
        found.sort();
        found.dedup();
        documented.insert(name, found);
    }
    assert!(documented.len() > 40, "{documented:?}");
    let families = [zexp::COMMANDS, zrl::COMMANDS, zq::COMMANDS, zlb::COMMANDS].concat();
    let typed: BTreeMap<String, Vec<String>> = families
        .into_iter()
        .map(|(name, tokens)| {
            let mut tokens: Vec<_> = tokens.iter().map(|token| (*token).to_owned()).collect();
            tokens.sort();
            (name.to_owned(), tokens)
        })
        .collect();
    // One by one, so that a failure names the command.
    for (name, tokens) in &documented {
        assert_eq!(typed.get(name), Some(tokens), "{name}");
    }
    assert_eq!(typed.keys().collect::<Vec<_>>(), documented.keys().collect::<Vec<_>>());
}

/// Runs a test with RESP2 and with RESP3.
fn with_both(test: impl Fn(&mut redis::Connection)) {
    let server = Server::start();
    for protocol in ["", "?protocol=resp3"] {
        let client = redis::Client::open(format!("{}/0{protocol}", server.url())).expect("a URL");
        let mut connection = client.get_connection().expect("a connection");
        redis::cmd("FLUSHALL").exec(&mut connection).expect("an empty server");
        test(&mut connection);
    }
}

#[test]
fn sets_are_read_in_both_protocols() {
    with_both(|redis| {
        assert_eq!(zexp::add("s", "5m", ["a", "b"]).cap(2).query(redis).expect("a reply"), Some(2));
        assert_eq!(zexp::add("s", "5m", ["c"]).cap(2).query(redis).expect("a reply"), None);
        assert_eq!(zexp::add_until("s", "4102444800", ["a"]).ch().query(redis).expect("a reply"), Some(1));
        assert_eq!(zexp::add_each("s", [(60, "d"), (600, "e")]).query(redis).expect("a reply"), Some(2));
        assert_eq!(zexp::card("s").query(redis).expect("a reply"), 4);
        let expired = zexp::expire("s", Duration::from_secs(30), &["b", "x"]).query(redis).expect("a reply");
        assert_eq!(expired, [Expired::Set, Expired::Missing]);
        assert_eq!(zexp::expire("s", "1h", &["b"]).lt().query(redis).expect("a reply"), [Expired::Kept]);
        assert_eq!(zexp::expire_at("s", 1000_u64, &["e"]).query(redis).expect("a reply"), [Expired::Removed]);
        assert_eq!(zexp::persist("s", &["d"]).query(redis).expect("a reply"), [1]);
        let ttls = zexp::pttl("s", &["b", "d", "x"]).query(redis).expect("a reply");
        assert!(matches!(ttls[..], [Ttl::Remaining(_), Ttl::Endless, Ttl::Missing]), "{ttls:?}");
        let WithTtl(members) = zexp::members("s").with_ttl().query(redis).expect("a reply");
        let names: Vec<_> = members.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["b", "a", "d"]);
        assert_eq!(members[2].1, Ttl::Endless);
        assert_eq!(zexp::members("s").limit(1, 1).query(redis).expect("a reply"), ["a"]);
        assert_eq!(zexp::mismember("s", &["a", "x"]).query(redis).expect("a reply"), [true, false]);
        assert!(zexp::ismember("s", "a").query(redis).expect("a reply"));
        assert_eq!(zexp::randmember("s", -9).query(redis).expect("a reply").len(), 9);
        assert_eq!(zexp::pop("s", 2).query(redis).expect("a reply"), ["b", "a"]);
        assert_eq!(zexp::rem("s", &["d", "x"]).query(redis).expect("a reply"), 1);
    });
}

#[test]
fn limits_are_read_in_both_protocols() {
    with_both(|redis| {
        let check = zrl::check("l", 5, "1m").cost(2).query(redis).expect("a reply");
        assert!(check.allowed && check.charged_until_ms > 0, "{check:?}");
        assert_eq!((check.limit, check.remaining, check.debt, check.retry_after), (5, 3, 0, Some(Duration::ZERO)));
        let denied = zrl::check("l", 5, "1m").cost(4).query(redis).expect("a reply");
        assert!(!denied.allowed && denied.retry_after.is_some_and(|wait| wait > Duration::ZERO), "{denied:?}");
        assert_eq!(zrl::peek("l", 5, "1m").cost(6).query(redis).expect("a reply").retry_after, None);
        let forced = zrl::check("l", 5, "1m").cost(5).force().query(redis).expect("a reply");
        assert_eq!((forced.remaining, forced.debt), (0, 2));
        assert_eq!(zrl::refund("l", 2, check.charged_until_ms).query(redis).expect("a reply"), 2);
        let info = zrl::info("l").query(redis).expect("a reply").expect("a limit");
        assert_eq!((info.algorithm.as_str(), info.units), ("sliding", Some(5)));
        assert_eq!(zrl::info("none").query(redis).expect("a reply"), None);
        let both = zrl::mcheck([("m1", 5, "1m"), ("m2", 1, "1h")]).cost(&[1, 1]).algorithms(&["SLIDING", "LEAKY"]);
        let checks = both.clone().query(redis).expect("a reply");
        assert!(checks.allowed && checks.checks.len() == 2, "{checks:?}");
        let checks = both.query(redis).expect("a reply");
        assert_eq!((checks.allowed, checks.checks[0].allowed, checks.checks[1].allowed), (false, true, false));
        let throttle = zrl::throttle("t", 2, 1, 60, 1).query(redis).expect("a reply");
        assert_eq!((throttle.limited, throttle.limit, throttle.remaining), (false, 3, 2));
        let top = zrl::top().count(1).query(redis).expect("a reply");
        assert_eq!(top.len(), 1);
    });
}

#[test]
fn queues_are_read_in_both_protocols() {
    with_both(|redis| {
        let id = zq::push("q", "one").id("a").group("acme").priority(-1).max_attempts(2).query(redis).expect("a reply");
        assert_eq!(id.as_deref(), Some("a"));
        assert_eq!(zq::push("q", "two").id("a").query(redis).expect("a reply"), None);
        zq::push("q", "later").id("b").delay("1h").ttl("1d").query(redis).expect("a reply");
        let listed = zq::peek("q", "READY").count(10).query(redis).expect("a reply");
        assert_eq!(listed.iter().map(|job| job.id.as_str()).collect::<Vec<_>>(), ["a"]);
        let claims = zq::claim(["q", "other"], "30s").count(5).as_worker("me").query(redis).expect("a reply");
        let [claim] = &claims[..] else { panic!("{claims:?}") };
        assert_eq!(
            (claim.key.as_str(), claim.id.as_str(), claim.attempt, &claim.payload[..]),
            ("q", "a", 1, &b"one"[..])
        );
        let held = zq::peek("q", "CLAIMED").with_lease().no_payload().query(redis).expect("a reply");
        let lease = held[0].lease.as_ref().expect("a lease");
        assert_eq!((lease.worker.as_deref(), lease.token, held[0].payload.as_ref()), (Some("me"), claim.token, None));
        let deadlines = zq::extend("q", "1m", [("a", claim.token), ("a", 1)]).query(redis).expect("a reply");
        assert!(deadlines[0] > Some(claim.deadline_ms) && deadlines[1].is_none(), "{deadlines:?}");
        assert!(zq::nack("q", "a", claim.token).dead().error("no").query(redis).expect("a reply"));
        let job = zq::get("q", "a").query(redis).expect("a reply").expect("a job");
        assert_eq!(
            (job.state.as_str(), job.error.as_deref(), job.group.as_deref()),
            ("dead", Some("no"), Some("acme"))
        );
        assert_eq!((job.max_attempts, job.priority, job.attempts), (Some(2), -1, 1));
        assert_eq!(zq::redrive("q").ids("a").query(redis).expect("a reply"), 1);
        let claim = zq::claim(["q"], "30s").query(redis).expect("a reply").remove(0);
        assert!(zq::ack("q", "a", claim.token).query(redis).expect("a reply"));
        assert!(zq::reschedule("q", "b").delay(0).query(redis).expect("a reply"));
        zq::config("q").backoff("1s", "1m").paused(true).query(redis).expect("a reply");
        let settings = zq::settings("q").query(redis).expect("a reply").expect("settings");
        assert!(settings.0.contains_key("maxlen"), "{settings:?}");
        let stats = zq::stats("q").query(redis).expect("a reply").expect("a queue");
        assert_eq!(
            (stats.get("ready"), stats.get("acked"), stats.get("backoff_base_ms")),
            (Some(1), Some(1), Some(1000))
        );
        let groups = zq::groups("q").query(redis).expect("a reply");
        assert_eq!((groups[0].name.as_str(), groups[0].ready), ("", 1));
        assert!(zq::hold("q", "", "1m").query(redis).expect("a reply"));
        assert_eq!(zq::list().count(5).query(redis).expect("a reply"), ["q"]);
        assert_eq!(zq::clean("q", "READY").older(0).query(redis).err().map(|error| error.to_string()), None);
        assert_eq!(zq::cancel("q", &["b", "x"]).query(redis).expect("a reply"), 0);
    });
}

#[test]
fn boards_are_read_in_both_protocols() {
    with_both(|redis| {
        let create = || zlb::create("b", ["gold", "seconds ASC FLOAT"]).keep(2);
        create().query(redis).expect("a reply");
        create().query(redis).expect("the same schema");
        assert_eq!(zlb::set("b", [("ann", &["1", "2.5"]), ("bob", &["1", "1.5"])]).query(redis).expect("a reply"), 2);
        assert_eq!(zlb::set("b", [("eve", &["9", "9"])]).with_rank().query(redis).expect("a reply"), (1, Some(0)));
        let board =
            zlb::range("b", 0, -1).entries(Ranking::Dense).reply_as::<Vec<Entry<f64>>>().query(redis).expect("a reply");
        let names: Vec<_> = board.iter().map(|entry| (entry.rank, entry.member.as_str(), entry.values[1])).collect();
        assert_eq!(names, [(0, "eve", 9.0), (1, "bob", 1.5)]);
        let raised = zlb::incr("b", "bob", [("gold", 9)]).reply_as::<Ranked<f64>>().query(redis).expect("a reply");
        assert_eq!(raised, Ranked { rank: Some(0), values: vec![10.0, 1.5] });
        let found =
            zlb::get("b", &["eve", "ann"]).reply_as::<Vec<Option<Ranked<f64>>>>().query(redis).expect("a reply");
        assert_eq!(found, [Some(Ranked { rank: Some(1), values: vec![9.0, 9.0] }), None]);
        assert_eq!(zlb::rank("b", "eve", Ranking::Competition).query(redis).expect("a reply"), Some(1));
        assert_eq!(zlb::rank("b", "ann", Ranking::Position).query(redis).expect("a reply"), None);
        assert_eq!(zlb::rankof("b", &["9", "1"]).query(redis).expect("a reply"), 1);
        assert_eq!(zlb::around("b", "eve", 1).query(redis).expect("a reply"), Some(vec!["bob".into(), "eve".into()]));
        let around = zlb::around("b", "none", 1).entries(Ranking::Position).query(redis).expect("a reply");
        assert_eq!(around, None);
        let info = zlb::info("b").query(redis).expect("a reply").expect("a board");
        assert_eq!((info.members, info.keep, info.ties.as_str()), (2, Some(2), "first"));
        assert_eq!((info.dimensions[1].name.as_str(), info.dimensions[1].direction.as_str()), ("seconds", "asc"));
        assert_eq!(zlb::merge("all", &["b"], true).query(redis).expect("a reply"), 2);
        assert_eq!(zlb::remrange("all", 0, 0).query(redis).expect("a reply"), 1);
        assert_eq!(zlb::rem("all", &["eve"]).query(redis).expect("a reply"), 1);
        assert_eq!((zlb::card("b").query(redis).ok(), zlb::clear("b").query(redis).ok()), (Some(2), Some(2)));
    });
}

#[test]
fn errors_are_told_apart_by_their_codes() {
    with_both(|redis| {
        redis::cmd("SET").arg("text").arg("x").exec(redis).expect("a string");
        redis::cmd("ZADD").arg("plain").arg(1).arg("x").exec(redis).expect("a sorted set");
        let code = |error: Error| error.code().cloned();
        assert_eq!(zexp::card("text").query(redis).map_err(code), Err(Some(Code::WrongType)));
        assert_eq!(zexp::card("plain").query(redis).map_err(code), Err(Some(Code::NotExpiring)));
        assert_eq!(zrl::check("text", 1, "1s").query(redis).map_err(code), Err(Some(Code::NotLimit)));
        assert_eq!(zlb::set("none", [("ann", &[1])]).query(redis).map_err(code), Err(Some(Code::NoBoard)));
        zq::config("full").maxlen(1).query(redis).expect("a queue");
        zq::push("full", "x").query(redis).expect("a job");
        assert_eq!(zq::push("full", "x").query(redis).map_err(code), Err(Some(Code::QueueFull)));
        let error = zrl::check("l", 1, "soon").query(redis).expect_err("no duration");
        assert!(error.code() == Some(&Code::Err) && !error.is_temporary(), "{error}");
    });
}

#[test]
fn keys_and_ids_that_are_no_text_are_read_as_bytes() {
    let server = Server::start();
    let mut redis = super::support::client(&server).get_connection().expect("a connection");
    let (key, id) = (&b"q\xff"[..], &b"\xfe"[..]);
    zq::push(key, "x").id(id).reply_as::<Vec<u8>>().query(&mut redis).expect("a push");
    let listed: Vec<zq::Listed<Vec<u8>>> = zq::peek(key, "READY").reply_as().query(&mut redis).expect("a reply");
    assert_eq!(listed[0].id, id);
    let claims: Vec<zq::Claim<Vec<u8>>> = zq::claim([key], "30s").reply_as().query(&mut redis).expect("a reply");
    assert_eq!((&claims[0].key[..], &claims[0].id[..]), (key, id));
    let held: Vec<zq::Listed<Vec<u8>>> =
        zq::peek(key, "CLAIMED").with_lease().reply_as().query(&mut redis).expect("a reply");
    assert_eq!(held[0].lease.as_ref().map(|lease| lease.token), Some(claims[0].token));
    assert!(zq::peek(key, "CLAIMED").query(&mut redis).is_err(), "a String is text");
}

#[test]
fn later_versions_may_add_items_to_a_reply() {
    let array = |items: &[i64]| redis::Value::Array(items.iter().copied().map(redis::Value::Int).collect());
    let check: zrl::Check = redis::from_redis_value(array(&[1, 5, -2, -1, 1500, 9, 77])).expect("a check");
    assert_eq!((check.allowed, check.remaining, check.debt, check.retry_after), (true, 0, 2, None));
    assert!(redis::from_redis_value::<zrl::Check>(array(&[1, 5, 4])).is_err(), "an item is missing");
}
