//! Sets with many dead members, and a sweeper slow enough to be caught in the middle of them.

use crate::client::Client;
use crate::expiring::{FAR, GRACE_MS};
use crate::patience::{PATIENCE, eventually};

/// Writes an expiring set with plain commands: `dead` members whose time was a second ago (named `d0`, `d1`, ...), and one
/// that lives. The sweeper is switched off.
pub fn backlog(client: &mut Client, key: &str, dead: usize) {
    const BATCH: usize = 10_000;
    client.run("CONFIG SET zeitset.sweep no");
    // From the first command on, the module is told what becomes of keys.
    client.run(&format!("ZEXP.CARD {key}"));
    let at = client.now() - 1000;
    client.run(&format!("ZADD {key} {FAR} live"));
    client.run(&format!("PEXPIREAT {key} {}", FAR + GRACE_MS));
    for batch in (0..dead).step_by(BATCH) {
        let mut command = redis::cmd("ZADD");
        command.arg(key);
        for n in batch..dead.min(batch + BATCH) {
            command.arg(at).arg(format!("d{n}"));
        }
        client.call(&command);
    }
}

/// Switches the sweeper on at its slowest, and returns when it has deleted some of `dead` members of `key`, but has by far
/// not done.
pub fn amid_backlog(client: &mut Client, key: &str, dead: usize) {
    client.run("CONFIG SET zeitset.sweep-slice-us 50 zeitset.sweep-max-duty 1");
    client.run("CONFIG SET zeitset.sweep yes");
    let dead = i64::try_from(dead).expect("a few");
    eventually(PATIENCE, "sweeping has begun", || client.int(&format!("ZCARD {key}")) <= dead);
}

/// Lets the sweeper run as fast as it can.
pub fn at_full_speed(client: &mut Client) {
    client.run("CONFIG SET zeitset.sweep-slice-us 5000 zeitset.sweep-max-duty 90");
}
