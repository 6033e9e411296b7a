//! The content of the keys for the table.

use super::cpu::{Served, words};
use redis::Pipeline;

const BATCH: u64 = 1000;

/// Calls `add` for each number below `count`, and sends the pipeline.
pub fn each(served: &mut Served, count: u64, mut add: impl FnMut(&mut Pipeline, u64)) {
    let mut pipe = Pipeline::new();
    for n in 0..count {
        add(&mut pipe, n);
        if (n + 1) % BATCH == 0 || n + 1 == count {
            pipe.exec(&mut served.con).expect("the server takes it");
            pipe.clear();
        }
    }
}

/// Like [`each`], with a script: the server runs the Lua code `calls` for each number `n`.
pub fn by_script(served: &mut Served, count: u64, calls: &str) {
    let script =
        format!("for n = tonumber(ARGV[1]), tonumber(ARGV[2]) do local n = string.format('%d', n) {calls} end");
    for from in (0..count).step_by(BATCH as usize) {
        let last = (from + BATCH).min(count) - 1;
        let call = redis::cmd("EVAL").arg(&script).arg(0).arg(from).arg(last).exec(&mut served.con);
        call.expect("the server takes it");
    }
}

pub fn now(served: &mut Served) -> u64 {
    let (seconds, micros): (u64, u64) = redis::cmd("TIME").query(&mut served.con).expect("TIME");
    seconds * 1000 + micros / 1000
}

/// Fills the keys. Returns the time at which the last unit of `exact` becomes available again.
pub fn all(served: &mut Served, scale: u64) -> u64 {
    let now = now(served);
    let far = now + 86_400_000;
    each(served, scale / 100, |pipe, n| {
        let mut set = redis::cmd("ZEXP.ADD");
        set.arg("set").arg("AT");
        let mut zset = redis::cmd("ZADD");
        zset.arg("zset");
        let mut adopted = redis::cmd("ZADD");
        adopted.arg("adopted");
        let mut hash = redis::cmd("HSET");
        hash.arg("hash");
        let mut list = redis::cmd("RPUSH");
        list.arg("list");
        let mut board = redis::cmd("ZLB.SET");
        board.arg("board");
        for member in n * 100..(n + 1) * 100 {
            let name = format!("m:{member}");
            set.arg(format!("{}ms", far + member)).arg(&name);
            zset.arg(member).arg(&name);
            adopted.arg(now - member).arg(&name);
            hash.arg(format!("f:{member}")).arg("x");
            list.arg("x");
            board.arg(&name).arg(member).arg(member % 7);
        }
        if n == 0 {
            pipe.add_command(words("ZLB.CREATE board DIM first DIM second")).ignore();
        }
        for command in [set, zset, adopted, hash, list, board] {
            pipe.add_command(command).ignore();
        }
    });
    by_script(
        served,
        scale,
        "redis.call('ZEXP.ADD', 'sets:' .. n, '1d', 'm') redis.call('ZQ.PUSH', 'jobs', 'payload', 'ID', 'j:' .. n)",
    );
    by_script(
        served,
        scale / 10,
        "redis.call('ZQ.PUSH', 'grouped', 'payload', 'GROUP', 'g:' .. n) redis.call('ZQ.PUSH', 'queues:' .. n, 'payload') \
         redis.call('HSET', 'groups', 'g:' .. n, 1)",
    );
    // The queue is small, because ZQ.CONFIG refuses to change AGING for a larger queue.
    by_script(served, scale.min(100_000), "redis.call('ZQ.PUSH', 'aging', 'payload')");
    dead(served, scale / 4);
    exact(served, now, scale.min(300_000))
}

fn dead(served: &mut Served, count: u64) {
    each(served, count, |pipe, n| {
        pipe.cmd("ZQ.PUSH").arg("dead").arg("x").arg("ID").arg(n).arg("MAXATTEMPTS").arg(1).ignore();
    });
    each(served, count / 1000 + 1, |pipe, _| {
        pipe.add_command(words("ZQ.CLAIM 1 dead LEASE 1ms COUNT 1000")).ignore();
    });
}

/// Fills a limit with a slot for each of `slots` ms, as if clients had taken a unit every ms. Half of the ring is
/// unused. Returns when the last unit becomes available again.
fn exact(served: &mut Served, now: u64, slots: u64) -> u64 {
    let first = now + 86_400_000;
    let slot = |(at, taken): (u64, u64)| [at.to_le_bytes(), taken.to_le_bytes()].concat();
    let written = (0..=slots).map(|n| (first + n - 1, n)).chain(std::iter::repeat_n((0, 0), slots as usize));
    let ring: Vec<u8> = b"sliding:".iter().copied().chain(written.flat_map(slot)).collect();
    let last = first + slots - 1;
    redis::cmd("SET").arg("exact").arg(ring).arg("PXAT").arg(last).exec(&mut served.con).expect("SET");
    last
}
