//! Functions that set up or check expiring sets.

use crate::client::Client;
use crate::patience::{PATIENCE, eventually};

/// The marker of an expiring set is a TTL. The key expires this many ms after its last member.
pub const GRACE_MS: i64 = 47_111;

/// The score of a member without expiry, 2^53-1.
pub const NEVER: i64 = 9_007_199_254_740_991;

/// A time after every test (1 January 2100, Unix ms).
pub const FAR: i64 = 4_102_444_800_000;

/// Writes an expiring set with ZADD and PEXPIREAT, as if the set came from an RDB file or another server. The scores
/// may be in the past.
pub fn plant(client: &mut Client, key: &str, members: &[(&str, i64)]) {
    let scored: Vec<_> = members.iter().map(|(member, at)| format!("{at} {member}")).collect();
    let highest = members.iter().map(|(_, at)| at).max().expect("a member");
    client.run("MULTI");
    client.run(&format!("DEL {key}"));
    client.run(&format!("ZADD {key} {}", scored.join(" ")));
    client.run(&format!("PEXPIREAT {key} {}", highest + GRACE_MS));
    client.run("EXEC");
}

/// Returns `ttl member ttl member ...`, the arguments of ZEXP.ADD.
pub fn pairs(ttl: &str, members: &[impl std::fmt::Display]) -> String {
    let pairs: Vec<_> = members.iter().map(|member| format!("{ttl} {member}")).collect();
    pairs.join(" ")
}

/// Returns the marker that `key` should have: the highest score plus [`GRACE_MS`].
pub fn marker(client: &mut Client, key: &str) -> i64 {
    let last = client.strings(&format!("ZRANGE {key} -1 -1 WITHSCORES"));
    let highest: f64 = last[1].parse().expect("a score");
    highest as i64 + GRACE_MS
}

#[track_caller]
pub fn assert_marked(client: &mut Client, key: &str) {
    assert_eq!(
        client.int(&format!("PEXPIRETIME {key}")),
        marker(client, key),
        "{key} does not carry the TTL of an expiring set"
    );
}

/// Waits until plain commands find `members` members in `key`. With 0, waits until the key is gone.
#[track_caller]
pub fn assert_drained(client: &mut Client, key: &str, members: i64) {
    let what = format!("{key} is drained to {members} members");
    eventually(PATIENCE, &what, || client.int(&format!("ZCARD {key}")) == members);
}

/// Waits until `key` has the marker of a set whose highest score is `highest`.
#[track_caller]
pub fn assert_restored(client: &mut Client, key: &str, highest: i64) {
    let what = format!("the TTL of {key} is set right");
    eventually(PATIENCE, &what, || client.int(&format!("PEXPIRETIME {key}")) == highest + GRACE_MS);
}

/// Waits until the module has scanned all keys of the server. Then adds a member that expires soon, and waits until the
/// sweeper deletes it. If a member that expired earlier still exists after this, the module has overlooked it.
#[track_caller]
pub fn after_scan(client: &mut Client) {
    const WITNESS: &str = "test:witness";
    let scans = |client: &mut Client| client.info_number("zeitset", "zeitset_scans_completed");
    client.run(&format!("ZEXP.CARD {WITNESS}"));
    let before = scans(client);
    eventually(PATIENCE, "two scans", || scans(client) >= before + 2);
    client.run(&format!("ZEXP.ADD {WITNESS} 50ms x 5m y"));
    assert_drained(client, WITNESS, 1);
    client.run(&format!("DEL {WITNESS}"));
}
