//! Queues: payloads, options of pushes, shards.

use super::support::connect;
use serde::{Deserialize, Serialize};
use serde_json::json;
use testkit::Server;
use zeitset_client::{Queue, Raw, zq};

#[derive(Debug, Serialize, Deserialize, PartialEq)]
struct Mail {
    to: String,
}

fn mail(to: &str) -> Mail {
    Mail { to: to.into() }
}

#[tokio::test]
async fn payloads_are_json_with_an_optional_header() {
    let server = Server::start();
    let mails = Queue::<_, Mail>::new(connect(&server).await, "mails");
    let parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    let id = mails.push(&mail("ann")).id("a").traceparent(parent).timeout("1m").await.expect("a push");
    assert_eq!(id.as_deref(), Some("a"));
    assert_eq!(mails.push(&mail("bob")).id("a").await.expect("a push"), None);
    let raw = zq::get("mails", "a").query_async(&mut connect(&server).await).await.expect("a reply").expect("a job");
    let text = format!("traceparent: {parent}\ntimeout: 60000ms\n{{\"to\":\"ann\"}}");
    assert_eq!(String::from_utf8_lossy(&raw.payload), text);
    let job = mails.get("a", None).await.expect("a reply").expect("a job");
    assert_eq!(job.payload.expect("a payload"), mail("ann"));
    let own = mails.push(&mail("eve")).delay("1h").priority(-3).await.expect("a push").expect("an ID");
    assert_eq!(own.len(), 16);
    let bytes = Queue::<_, Raw>::new(connect(&server).await, "mails");
    bytes.push(&Raw(b"\xff".to_vec())).id("raw").await.expect("a push");
    let broken = mails.get("raw", None).await.expect("a reply").expect("a job").payload.expect_err("no JSON");
    assert_eq!(broken.raw, b"\xff");
    assert!(bytes.push(&Raw(Vec::new())).timeout("1s").await.is_err(), "a header precedes JSON only");
}

#[tokio::test]
async fn jobs_are_listed_changed_and_removed() {
    let server = Server::start();
    let queue = Queue::<_, serde_json::Value>::new(connect(&server).await, "q");
    let jobs: Vec<_> = (0..5).map(|n| json!({ "n": n })).collect();
    let pushes = jobs.iter().enumerate().map(|(n, job)| queue.push(job).id(format!("j{n}")).group("g"));
    let ids = queue.push_many(pushes).await.expect("pushes");
    assert_eq!(ids.iter().flatten().collect::<Vec<_>>(), ["j0", "j1", "j2", "j3", "j4"]);
    assert!(queue.reschedule("j0", None, |call| call.delay("1h")).await.expect("a reply"));
    let ready = queue.peek("READY", 10).await.expect("jobs");
    assert_eq!(ready[0].payload.as_ref().expect("a payload"), &json!({ "n": 1 }));
    assert_eq!(ready.len(), 4);
    assert_eq!(queue.cancel(["j1", "none"]).await.expect("a reply"), 1);
    assert_eq!(queue.clean("READY", Some(2)).await.expect("a reply"), 2);
    queue.pause().await.expect("a reply");
    let stats = queue.stats().await.expect("a reply").expect("a queue");
    assert_eq!((stats.get("ready"), stats.get("delayed"), stats.get("pushed")), (Some(1), Some(1), Some(5)));
    queue.resume().await.expect("a reply");
    let mut redis = connect(&server).await;
    let claim = zq::claim(["q"], "30s").query_async(&mut redis).await.expect("a reply").remove(0);
    zq::nack("q", &claim.id, claim.token).dead().query_async(&mut redis).await.expect("a reply");
    assert!(queue.redrive_one(&claim.id, None).await.expect("a reply"));
    assert_eq!(queue.redrive(None).await.expect("a reply"), 0);
    assert!(queue.hold("g", "1m").await.expect("a reply"));
    let groups = queue.groups(10).await.expect("a reply");
    assert!(groups[0].name == "g" && groups[0].held_until_ms.is_some(), "{groups:?}");
}

#[tokio::test]
async fn a_queue_with_shards_acts_as_one() {
    let server = Server::start();
    let queue = Queue::<_, u32>::with_shards(connect(&server).await, "s", 7).expect("a queue");
    let pushes = (0..40).map(|n| queue.push(&n).id(format!("j{n}"))).collect::<Vec<_>>();
    assert_eq!(queue.push_many(pushes).await.expect("pushes").iter().flatten().count(), 40);
    queue.push(&99).id("grouped").group("acme").await.expect("a push");
    let keys = server.client().strings("ZQ.LIST");
    assert!(keys.len() > 3 && keys.iter().all(|key| key.starts_with("{s:")), "{keys:?}");
    let found = queue.get("grouped", None).await.expect("a reply").expect("found in the shard of its group");
    assert_eq!(found.payload.expect("a payload"), 99);
    assert!(queue.reschedule("grouped", Some("acme"), |call| call.delay("1h")).await.expect("a reply"));
    assert_eq!(queue.peek("READY", 15).await.expect("jobs").len(), 15);
    let stats = queue.stats().await.expect("a reply").expect("a queue");
    assert_eq!((stats.get("ready"), stats.get("delayed"), stats.get("pushed")), (Some(40), Some(1), Some(41)));
    assert_eq!(queue.cancel(["j1", "grouped"]).await.expect("a reply"), 2);
    assert_eq!(queue.clean("READY", Some(5)).await.expect("a reply"), 5);
    let total: Vec<_> = queue.groups(10).await.expect("a reply").iter().map(|group| group.ready).collect();
    assert_eq!(total, [34]);
    for group in ["a", "b", "b"] {
        queue.push(&1).group(group).await.expect("a push");
    }
    let largest = queue.largest_groups(2).await.expect("a reply");
    assert_eq!(largest.iter().map(|group| (&*group.name, group.ready)).collect::<Vec<_>>(), [("", 34), ("b", 2)]);
    assert!(Queue::<_, u32>::with_shards(connect(&server).await, "{s}", 7).is_err());
    assert!(Queue::<_, u32>::with_shards(connect(&server).await, "s", 0).is_err());
}
