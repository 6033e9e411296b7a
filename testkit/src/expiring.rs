//! Functions that set up or check expiring sets.

use crate::client::Client;
use crate::patience::{PATIENCE, eventually};

/// The member with the score `-inf` that makes a sorted set an expiring set.
pub const TAG: &str = "zeitset:expiring";

/// The score of a member without expiry, 2^53-1.
pub const NEVER: i64 = 9_007_199_254_740_991;

/// A time after every test (1 January 2100, Unix ms).
pub const FAR: i64 = 4_102_444_800_000;

/// Writes an expiring set with ZADD, as if the set came from an RDB file or another server. The scores may be in the past.
/// On a master, the module knows the set when a keyspace scan has found it, or when a ZEXP command has changed it.
pub fn plant(client: &mut Client, key: &str, members: &[(&str, i64)]) {
    let scored: Vec<_> = members.iter().map(|(member, at)| format!("{at} {member}")).collect();
    client.run("MULTI");
    client.run(&format!("DEL {key}"));
    client.run(&format!("ZADD {key} -inf {TAG} {}", scored.join(" ")));
    client.run("EXEC");
}

/// Returns `ttl member ttl member ...`, the arguments of ZEXP.ADD.
pub fn pairs(ttl: &str, members: &[impl std::fmt::Display]) -> String {
    let pairs: Vec<_> = members.iter().map(|member| format!("{ttl} {member}")).collect();
    pairs.join(" ")
}

/// Checks that `key` has the tag, and no TTL.
#[track_caller]
pub fn assert_tagged(client: &mut Client, key: &str) {
    client.script(&[(format!("ZSCORE {key} {TAG}"), "'-inf'"), (format!("PTTL {key}"), "-1")]);
}

/// Returns the number of members in `key`, including expired ones, without the tag.
pub fn card(client: &mut Client, key: &str) -> i64 {
    let tags = i64::from(client.reply(&format!("ZSCORE {key} {TAG}")) == "'-inf'");
    client.int(&format!("ZCARD {key}")) - tags
}

/// Waits until plain commands find `members` members in `key`, without the tag. With 0, waits until the key is gone.
#[track_caller]
pub fn assert_drained(client: &mut Client, key: &str, members: i64) {
    let what = format!("{key} is drained to {members} members");
    eventually(PATIENCE, &what, || {
        if members == 0 { client.int(&format!("EXISTS {key}")) == 0 } else { card(client, key) == members }
    });
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
