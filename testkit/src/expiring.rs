//! Expiring sets as they look from outside: the marker, and ways to bring a set into a certain state.

use crate::client::Client;
use crate::patience::{PATIENCE, eventually};

/// An expiring set's own TTL: so long after its last member's expiry.
pub const GRACE_MS: i64 = 47_111;

/// The score of a member without expiry, 2^53-1.
pub const NEVER: i64 = 9_007_199_254_740_991;

/// An instant that no test lives to see (1 January 2100, Unix ms).
pub const FAR: i64 = 4_102_444_800_000;

/// Writes an expiring set with plain commands, as an RDB file or another server's module may have left it: marked, and
/// with any scores, those of dead members among them.
pub fn plant(client: &mut Client, key: &str, members: &[(&str, i64)]) {
    let scored: Vec<_> = members.iter().map(|(member, at)| format!("{at} {member}")).collect();
    let highest = members.iter().map(|(_, at)| at).max().expect("a member");
    client.run("MULTI");
    client.run(&format!("DEL {key}"));
    client.run(&format!("ZADD {key} {}", scored.join(" ")));
    client.run(&format!("PEXPIREAT {key} {}", highest + GRACE_MS));
    client.run("EXEC");
}

/// `ttl member ttl member ...`, as ZEXP.ADD wants its members.
pub fn pairs(ttl: &str, members: &[impl std::fmt::Display]) -> String {
    let pairs: Vec<_> = members.iter().map(|member| format!("{ttl} {member}")).collect();
    pairs.join(" ")
}

/// The TTL that marks `key` as an expiring set, computed from its last member.
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

/// Waits until plain commands, too, see no more than `members` in `key`; with 0, until the key is gone.
#[track_caller]
pub fn assert_swept(client: &mut Client, key: &str, members: i64) {
    let what = format!("{key} is swept to {members} members");
    eventually(PATIENCE, &what, || client.int(&format!("ZCARD {key}")) == members);
}

/// Waits until `key` bears the TTL of an expiring set whose last member expires at `highest`.
#[track_caller]
pub fn assert_healed(client: &mut Client, key: &str, highest: i64) {
    let what = format!("the TTL of {key} is set right");
    eventually(PATIENCE, &what, || client.int(&format!("PEXPIRETIME {key}")) == highest + GRACE_MS);
}

/// Waits until the module, which is told what becomes of keys from now on, has looked at every key of the server from the first to the
/// last, and a set that was due after that has been swept: what was not swept by then never will be.
#[track_caller]
pub fn after_patrol(client: &mut Client) {
    const WITNESS: &str = "test:witness";
    let patrols = |client: &mut Client| client.info_number("zeitset", "zeitset_patrols_completed");
    client.run(&format!("ZEXP.CARD {WITNESS}"));
    let before = patrols(client);
    eventually(PATIENCE, "two patrols", || patrols(client) >= before + 2);
    client.run(&format!("ZEXP.ADD {WITNESS} 50ms x 5m y"));
    assert_swept(client, WITNESS, 1);
    client.run(&format!("DEL {WITNESS}"));
}
