//! Sets with many expired members, and a sweeper that is slow enough for tests.

use crate::client::Client;
use crate::expiring::{FAR, assert_tagged, card};
use crate::patience::{PATIENCE, eventually};

/// Creates an expiring set with one live member, and with `dead` others (`d0`, `d1`, ...) that plain commands add and
/// that expired a second ago. Switches the sweeper off.
pub fn backlog(client: &mut Client, key: &str, dead: usize) {
    const BATCH: usize = 10_000;
    client.run("CONFIG SET zeitset.sweep no");
    let at = client.now() - 1000;
    client.run(&format!("ZEXP.ADD {key} AT {FAR}ms live"));
    for batch in (0..dead).step_by(BATCH) {
        let mut command = redis::cmd("ZADD");
        command.arg(key);
        for n in batch..dead.min(batch + BATCH) {
            command.arg(at).arg(format!("d{n}"));
        }
        client.call(&command);
    }
}

/// Calls [`backlog`] and [`begin_draining`].
pub fn draining(client: &mut Client, key: &str, dead: usize) {
    backlog(client, key, dead);
    begin_draining(client, key, dead);
}

/// Switches the sweeper on at its slowest. Returns when it has deleted a few expired members of `key`.
pub fn begin_draining(client: &mut Client, key: &str, dead: usize) {
    client.run("CONFIG SET zeitset.sweep-slice-us 50 zeitset.sweep-max-duty 1");
    client.run("CONFIG SET zeitset.sweep yes");
    let dead = i64::try_from(dead).expect("a few");
    eventually(PATIENCE, "sweeping has begun", || card(client, key) <= dead);
}

pub fn at_full_speed(client: &mut Client) {
    client.run("CONFIG SET zeitset.sweep-slice-us 5000 zeitset.sweep-max-duty 90");
}

/// Waits until only the member `live` is left, and the tag.
#[track_caller]
pub fn drained(client: &mut Client, key: &str) {
    eventually(3 * PATIENCE, "it is drained", || card(client, key) == 1);
    client.script(&[(format!("ZRANGEBYSCORE {key} (-inf +inf"), "['live']")]);
    assert_tagged(client, key);
}
