//! Random well-formed commands of all four families on a few keys. (tests/torture/fuzz creates malformed commands.)

use crate::client::Client;
use crate::expiring::TAG;
use crate::reply::show;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng, seq::IndexedRandom};
use redis::Value;

/// A seeded source of commands. Remembers claimed jobs, so that later commands acknowledge some of them.
pub struct Traffic {
    pub random: StdRng,
    durations: &'static [&'static str],
    /// Queue, ID and token of claimed jobs.
    claims: Vec<(String, String, String)>,
    calls: u64,
}

pub const SETS: [&str; 3] = ["{k}set0", "{k}set1", "{k}set2"];
pub const LIMITS: [&str; 6] = ["{k}slide0", "{k}slide1", "{k}fixed0", "{k}leaky0", "{k}leaky1", "{k}cell0"];
pub const QUEUES: [&str; 3] = ["{k}queue0", "{k}queue1", "{k}queue2"];
pub const BOARDS: [&str; 2] = ["{k}board0", "{k}board1"];
const PLAIN: [&str; 1] = ["{k}plain0"];

impl Traffic {
    pub fn new(seed: u64, durations: &'static [&'static str]) -> Self {
        Self { random: StdRng::seed_from_u64(seed), durations, claims: Vec::new(), calls: 0 }
    }

    pub fn any_key(&mut self) -> &'static str {
        let keys: Vec<_> = [&SETS[..], &LIMITS, &QUEUES, &BOARDS, &PLAIN].concat();
        keys.choose(&mut self.random).expect("keys")
    }

    fn one<'a>(&mut self, list: &[&'a str]) -> &'a str {
        list.choose(&mut self.random).expect("something to choose from")
    }

    /// Returns a random key of `family`. With a chance of 1 in 40, returns a random key of any family.
    fn key(&mut self, family: &[&'static str]) -> &'static str {
        if self.random.random_ratio(1, 40) { self.any_key() } else { self.one(family) }
    }

    fn ttl(&mut self) -> &'static str {
        self.one(self.durations)
    }

    fn member(&mut self) -> String {
        format!("m{}", self.random.random_range(0..30))
    }

    fn number(&mut self, below: i64) -> i64 {
        self.random.random_range(0..below)
    }

    /// Returns the next command. `now` is approximately the server's time in ms.
    pub fn line(&mut self, now: i64) -> String {
        self.calls += 1;
        match self.random.random_range(0..100) {
            0..35 => self.zexp(now),
            35..55 => self.zrl(now),
            55..85 => self.zq(now),
            _ => self.zlb(),
        }
    }

    fn zexp(&mut self, now: i64) -> String {
        let key = self.key(&SETS);
        let (one, two, ttl, other) = (self.member(), self.member(), self.ttl(), self.ttl());
        match self.number(15) {
            0..5 => format!("ZEXP.ADD {key} {ttl} {one} {other} {two}"),
            5 => {
                let option = self.one(&["NX", "XX", "GT", "LT CH", "CAP 5", "XX CH", "NX CAP 20"]);
                format!("ZEXP.ADD {key} {option} {ttl} {one} {other} {two}")
            }
            6 => {
                let at = now + self.random.random_range(-1000..3_000);
                format!("ZEXP.ADD {key} AT {at}ms {one}")
            }
            7 => format!("ZEXP.EXPIRE {key} {} {ttl} {one} {two}", self.one(&["", "GT", "LT"])),
            8 => format!("ZEXP.REM {key} {one} {two}"),
            9 => format!("ZEXP.POP {key} {}", self.number(4)),
            10 => match self.number(4) {
                0 => format!("ZEXP.PERSIST {key} {one}"),
                1 => format!("ZEXP.ADOPT {key}"),
                _ => format!("ZEXP.RANDMEMBER {key} {}", self.number(9) - 4),
            },
            11 => format!("ZEXP.CARD {key}"),
            12 => format!("ZEXP.MEMBERS {key} WITHPTTL"),
            13 => format!("ZEXP.ISMEMBER {key} {one}"),
            _ => format!("{} {key} {one} {two}", self.one(&["ZEXP.TTL", "ZEXP.PTTL", "ZEXP.MISMEMBER"])),
        }
    }

    fn zrl(&mut self, now: i64) -> String {
        let key = self.key(&LIMITS);
        let (cost, limit) = (1 + self.number(3), self.one(&["5", "10", "200"]));
        let window = self.ttl();
        let algorithm = algorithm_of(key);
        match self.number(10) {
            0..5 if key.ends_with("cell0") => format!("ZRL.THROTTLE {key} 15 1 {} {cost}", seconds(window)),
            0..5 => format!("ZRL.CHECK {key} {limit} {window} COST {cost} {algorithm}"),
            5 => format!("ZRL.PEEK {key} {limit} {window} COST {cost} {algorithm}"),
            6 => {
                let at = now + self.random.random_range(0..5_000);
                format!("ZRL.REFUND {key} {cost} AT {at}ms")
            }
            7 => self.one(&["ZRL.TOP", &format!("ZRL.INFO {key}")]).into(),
            _ => {
                let [one, other] = [LIMITS[0], LIMITS[1]];
                let third = self.one(&[LIMITS[2], LIMITS[3], "{k}slide2"]);
                let (limits, algorithms) = (
                    format!("{limit} {window} 50 {window} 20 {window}"),
                    format!("SLIDING SLIDING {}", algorithm_of(third)),
                );
                format!("ZRL.MCHECK 3 {one} {other} {third} {limits} COST {cost} {algorithms}")
            }
        }
    }

    fn zq(&mut self, now: i64) -> String {
        let key = self.key(&QUEUES);
        let (delay, lease) = (self.ttl(), self.ttl());
        let id = format!("j{}", self.number(40));
        match self.number(28) {
            // The caller chooses the durations. A caller that compares states at two times must choose durations that
            // do not end in between.
            25 => format!(
                "ZQ.PUSH {key} p ID {id} TTL {lease} {}",
                self.one(&["AGAIN", "REPLACE", "DELAY 1ms", "EVERY 1s"])
            ),
            26 => {
                let option = self.one(&["", "MAXATTEMPTS 1", "GROUP g1", "PRIORITY 3 DELAY 20ms"]);
                format!("ZQ.PUSH {key} again-{} ID {id} AGAIN {option}", self.calls)
            }
            27 => format!("ZQ.PUSH {key} again-{} ID {id} AGAIN EVERY {delay} TTL {lease}", self.calls),
            0..3 => format!("ZQ.PUSH {key} payload-{id}"),
            3..5 => format!("ZQ.PUSH {key} payload-{id} GROUP g{}", self.number(5)),
            5..8 => {
                let option = self.one(&["REPLACE", "PRIORITY -3", "MAXATTEMPTS 2", "PRIORITY 5 MAXATTEMPTS 1", ""]);
                format!("ZQ.PUSH {key} p ID {id} DELAY {delay} {option}")
            }
            8 => format!("ZQ.PUSH {key} p ID {id} DELAY {delay} EVERY {lease}"),
            9 => {
                let at = now + self.random.random_range(-5_000..5_000);
                format!("ZQ.PUSH {key} p ID {id} AT {at}ms")
            }
            10..13 => format!("ZQ.CLAIM 1 {key} LEASE {lease} COUNT {}", 1 + self.number(4)),
            13 => format!("ZQ.CLAIM 3 {} LEASE {lease} COUNT 2", QUEUES.join(" ")),
            14..18 => {
                let Some((key, id, token)) = self.take_claim() else { return format!("ZQ.STATS {key}") };
                match self.number(7) {
                    0 => format!("ZQ.NACK {key} {id} {token} DELAY {delay}"),
                    6 => format!("ZQ.NACK {key} {id} {token} FREE HOLD {delay} ERROR 429"),
                    1 => format!("ZQ.NACK {key} {id} {token} {}", self.one(&["DEAD", ""])),
                    2 => format!("ZQ.EXTEND {key} {lease} {id} {token}"),
                    _ => format!("ZQ.ACK {key} {id} {token}"),
                }
            }
            18 => format!("ZQ.CANCEL {key} {id}"),
            19 => format!("ZQ.RESCHEDULE {key} {id} DELAY {delay}"),
            20 => format!("ZQ.REDRIVE {key} COUNT 2 {}", self.one(&["", "", "GROUP g1", "GROUP \"\""])),
            21 => {
                let option = self.one(&[
                    "MAXATTEMPTS 3",
                    "BACKOFF 10ms 1s",
                    "AGING 1s",
                    "AGING 0",
                    "CONCURRENCY 2",
                    "CONCURRENCY 0",
                    "RATE 5 1s",
                    "RATE 0 1s",
                    "GROUPCONCURRENCY 2",
                    "GROUPCONCURRENCY 0",
                    "GROUPRATE 3 1s",
                    "GROUPRATE 0 1s",
                    "ORDERED yes",
                    "ORDERED no",
                    "PAUSED yes",
                    "PAUSED no",
                    "PAUSED no",
                ]);
                format!("ZQ.CONFIG {key} {option}")
            }
            22 => format!("ZQ.PEEK {key} {}", self.one(&["READY", "DELAYED", "CLAIMED", "DEAD"])),
            23 => {
                let group = self.one(&["\"\"", "g0", "g1", "g2", "g3", "g4"]);
                match self.number(6) {
                    0 => format!("ZQ.PEEK {key} CLAIMED GROUP {group} WITHLEASE"),
                    1 => format!("ZQ.CLEAN {key} {} GROUP {group} COUNT 1", self.one(&["READY", "DELAYED", "DEAD"])),
                    2..4 => format!("ZQ.HOLD {key} {group} 0"),
                    _ => format!("ZQ.HOLD {key} {group} {delay}"),
                }
            }
            _ => self.one(&["ZQ.LIST", &format!("ZQ.GROUPS {key}"), &format!("ZQ.GET {key} {id}")]).into(),
        }
    }

    fn take_claim(&mut self) -> Option<(String, String, String)> {
        if self.claims.is_empty() {
            return None;
        }
        let at = self.random.random_range(0..self.claims.len());
        // Some tokens are used twice. The second time, they are stale.
        if self.random.random_ratio(1, 8) { Some(self.claims[at].clone()) } else { Some(self.claims.swap_remove(at)) }
    }

    fn zlb(&mut self) -> String {
        let key = self.key(&BOARDS);
        let (one, two) = (self.member(), self.member());
        let (x, y) = (self.number(20) - 10, self.number(20) - 10);
        match self.number(18) {
            0 => format!("ZLB.CREATE {key} DIM x DIM y ASC {}", self.one(&["", "KEEP 10"])),
            1..4 => format!("ZLB.SET {key} {one} {x} {y} {two} {y} {x}"),
            4 => format!("ZLB.SET {key} {} {one} {x} {y}", self.one(&["NX", "XX", "BEST"])),
            5 => format!("ZLB.INCR {key} {one} x {x}"),
            6 => format!("ZLB.REM {key} {one} {two}"),
            7 => format!("ZLB.RANGE {key} 0 -1 WITHVALUES"),
            8 => format!("ZLB.AROUND {key} {one} 2"),
            9 => format!("ZLB.RANK {key} {one}"),
            10 => format!("ZLB.MERGE {key} 2 {} {} {}", self.key(&BOARDS), self.key(&BOARDS), self.one(&["", "BEST"])),
            11 => format!("ZLB.REMRANGE {key} {} {}", self.number(8), self.number(12)),
            12 => format!("ZLB.CLEAR {key}"),
            13 => format!("ZLB.SET {key} WITHRANK {one} {x} {y}"),
            14 => format!("ZLB.RANGE {key} 0 -1 REV WITHRANK COMPETITION"),
            15 => format!("{} {key}", self.one(&["ZLB.CARD", "ZLB.INFO"])),
            16 => format!("ZLB.RANKOF {key} {x} {y}"),
            _ => format!("ZLB.GET {key} {one} {two}"),
        }
    }

    /// Returns a command of the server itself, such as DEL. Usually, the module's commands use the key of this command,
    /// too.
    pub fn native(&mut self, now: i64) -> String {
        let (key, other, member) = (self.any_key(), self.any_key(), self.member());
        let set = self.one(&SETS);
        let at = now + self.random.random_range(-60_000..60_000);
        match self.number(20) {
            0 => format!("DEL {key}"),
            1 => format!("UNLINK {key}"),
            2 => format!("ZADD {set} {at} {member}"),
            3 => format!("ZADD {key} {at} {member}"),
            4 => format!("ZREM {set} {member}"),
            5 => format!("ZREMRANGEBYSCORE {set} -inf {now}"),
            6 => format!("RENAME {key} {other}"),
            7 => format!("COPY {key} {other} REPLACE"),
            8 => format!("SET {key} x"),
            9 => format!("EXPIRE {key} {}", self.one(&["100", "100000"])),
            10 => format!("PERSIST {key}"),
            11 => format!("PEXPIREAT {key} {at}"),
            12 => format!("ZPOPMIN {set}"),
            13 => format!("ZADD {set} {} {member}", self.one(&["inf", "9007199254740992", "-inf", "4102444800000"])),
            14 => format!("ZADD {} {at} {at}", PLAIN[0]),
            15 => format!("ZADD {set} {} {TAG}", self.one(&["-inf", "-inf", "1"])),
            16 => format!("ZREM {set} {TAG}"),
            17 => format!("ZUNIONSTORE {set} 2 {set} {}", self.one(&SETS)),
            18 => format!("ZRANGESTORE {} {set} 0 -1", PLAIN[0]),
            _ => self.one(&["FLUSHDB", "SWAPDB 0 1", "SWAPDB 0 1", "FLUSHALL"]).into(),
        }
    }

    /// Like [`native`](Self::native), but returns no command that changes a whole database.
    pub fn native_on_one(&mut self, now: i64) -> String {
        loop {
            let line = self.native(now);
            if !["FLUSH", "SWAPDB"].iter().any(|word| line.starts_with(word)) {
                return line;
            }
        }
    }

    /// Sends a command, whose reply may be an error. Fails if the error shows a defect of the server or the module.
    #[track_caller]
    pub fn send(&mut self, c: &mut Client, line: &str, here: &str) {
        match c.try_run(line) {
            Ok(reply) => self.note(line, &reply),
            Err(error) => {
                let is_defect = error.contains("connection lost") || error.contains("internal error");
                assert!(!is_defect, "{line}: {error}: {here}");
            }
        }
    }

    pub fn note(&mut self, line: &str, reply: &Value) {
        if !line.starts_with("ZQ.CLAIM") {
            return;
        }
        let Value::Array(jobs) = reply else { panic!("{}", show(reply)) };
        for job in jobs {
            let Value::Array(fields) = job else { panic!("{}", show(job)) };
            let text = |at: usize| show(&fields[at]).trim_matches('\'').to_owned();
            self.claims.push((text(0), text(1), text(2)));
        }
        let excess = self.claims.len().saturating_sub(200);
        self.claims.drain(..excess);
    }

    pub fn calls(&self) -> u64 {
        self.calls
    }
}

/// Returns a duration in seconds, rounded up: the period of ZRL.THROTTLE has no unit.
fn seconds(duration: &str) -> u64 {
    let (number, unit) = duration.split_at(duration.find(char::is_alphabetic).expect("a unit"));
    let number: u64 = number.parse().expect("a whole number");
    match unit {
        "ms" => number.div_ceil(1000),
        "s" => number,
        "m" => 60 * number,
        "h" => 3600 * number,
        "d" => 86_400 * number,
        "w" => 7 * 86_400 * number,
        other => panic!("unknown unit {other}"),
    }
}

fn algorithm_of(key: &str) -> &'static str {
    match key {
        _ if key.contains("fixed") => "FIXED",
        _ if key.contains("leaky") => "LEAKY",
        _ => "SLIDING",
    }
}
