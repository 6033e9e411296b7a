//! Limits of all algorithms move between nodes with different clocks, key by key as with `redis-cli --cluster reshard`,
//! and keep their usage.

use testkit::{Client, Clock, Cluster, assert_agree};

const KEYS: usize = 20;

/// The windows are long, so no unit becomes available again during a test.
const POLICIES: [&str; 5] = ["10 1000h", "100000 1000h", "10 1000h EXACT", "10 1000w FIXED", "10 1000h LEAKY"];

fn limits() -> impl Iterator<Item = (String, &'static str)> {
    (0..KEYS * POLICIES.len()).map(|n| (format!("{{m}}:k{n}"), POLICIES[n % POLICIES.len()]))
}

fn throttles() -> impl Iterator<Item = String> {
    (0..KEYS).map(|n| format!("{{m}}:t{n}"))
}

/// Checks that every limit has `used` units in use, and takes one more.
fn each_takes_one_more(client: &mut Client, used: i64) {
    for (key, policy) in limits() {
        let verdict = client.verdict(&format!("ZRL.PEEK {key} {policy}"));
        assert_eq!(verdict.remaining, verdict.limit - used, "{key} {policy}");
        let verdict = client.verdict(&format!("ZRL.CHECK {key} {policy}"));
        assert_eq!((verdict.allowed, verdict.remaining), (1, verdict.limit - used - 1), "{key} {policy}");
        assert_eq!(client.int(&format!("ZRL.REFUND {key} 1 AT {}ms", verdict.charged_until)), 1, "{key} {policy}");
        let verdict = client.verdict(&format!("ZRL.CHECK {key} {policy}"));
        assert_eq!((verdict.allowed, verdict.remaining), (1, verdict.limit - used - 1), "{key} {policy}");
    }
    for key in throttles() {
        let fields = client.ints(&format!("ZRL.THROTTLE {key} 9 1 10000000"));
        assert_eq!(fields[..3], [0, 10, 10 - used - 1], "{key}");
    }
}

fn limits_keep_answering(ahead: [i64; 3], restart: fn(&mut testkit::Server)) {
    let clocks = [(); 3].map(|()| Clock::new());
    clocks.iter().zip(ahead).for_each(|(clock, ahead)| clock.step_wall(ahead));
    let mut cluster = Cluster::with_clocks(&clocks);
    let (mut at, slot) = (cluster.home("{m}"), cluster.slot("{m}"));
    each_takes_one_more(&mut cluster.nodes[at].client(), 0);
    for used in 1..6 {
        let to = (at + 1) % 3;
        cluster.move_slot(slot, at, to);
        cluster.wait_for_owner(slot, to);
        at = to;
        // Valkey 8.1 may crash while it reads its own nodes.conf, before it loads any module.
        if used % 2 == 0 && !cluster.nodes[at].client().is_valkey_before([9, 0, 0]) {
            restart(&mut cluster.nodes[at]);
            cluster.wait_until_up();
        }
        each_takes_one_more(&mut cluster.nodes[at].client(), used);
    }
    assert_agree(&cluster.nodes[at], &[&cluster.nodes[cluster.replica_of(at)]]);
    cluster.assert_agrees();
}

#[test]
fn limits_keep_answering_when_they_move_between_clocks_some_ms_apart() {
    limits_keep_answering([0, 5, -7], testkit::Server::restart);
}

#[test]
fn limits_keep_answering_when_they_move_between_clocks_seconds_apart_and_nodes_crash() {
    limits_keep_answering([0, 1900, -1700], testkit::Server::crash_and_restart);
}
