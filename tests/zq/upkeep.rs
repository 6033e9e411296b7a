//! Background work in queues that no command changes: dead letters are dropped, unused queues are deleted, and `zq.dead`
//! is sent when the expiry of a lease makes the job a dead letter.

use std::time::Duration;
use testkit::{
    Client, PATIENCE, Server, Stream, assert_agree, eventually, start_keeping_aof, start_pair, start_with_clock,
};

/// If the upkeep has little work, its delay is shorter than this, even in a debug build on a busy machine.
const SOON: Duration = Duration::from_secs(30);

/// Pushes jobs to `key` and claims each for its last attempt. The leases expire after `lease`.
fn claimed_for_the_last_time(c: &mut Client, key: &str, jobs: usize, lease: &str) {
    let mut pushes = redis::pipe();
    for n in 0..jobs {
        pushes.cmd("ZQ.PUSH").arg(key).arg("x").arg("ID").arg(n).arg("MAXATTEMPTS").arg(1).ignore();
    }
    c.pipe(&pushes);
    c.run(&format!("ZQ.CLAIM 1 {key} LEASE {lease} COUNT {jobs}"));
}

fn dead(c: &mut Client, key: &str) -> String {
    let stats = c.reply(&format!("ZQ.STATS {key}"));
    let figure = |name: &str| {
        let (_, rest) = stats.split_once(&format!("'{name}' ")).expect("a figure");
        rest.split(' ').next().unwrap_or_default().to_owned()
    };
    format!("{} dead, {} dropped", figure("dead"), figure("dropped"))
}

fn eventually_dead(c: &mut Client, key: &str, expected: &str) {
    eventually(PATIENCE, &format!("{key}: {expected}"), || dead(c, key) == expected);
}

#[test]
fn a_job_that_dies_at_the_end_of_its_lease_is_announced_once() {
    let (server, mut c) = start_keeping_aof();
    c.run("CONFIG SET notify-keyspace-events Ed");
    let mut listener = server.resp3();
    listener.psubscribe("__keyevent@*__:zq.dead");
    let mut stream = Stream::attach(&server);
    let mut heard = Vec::new();
    let mut hear = |what: &str, count: usize| {
        eventually(PATIENCE, what, || {
            heard.extend(listener.pushes());
            heard.len() >= count
        });
        assert_eq!(heard.len(), count, "{what}: {heard:?}");
    };
    c.run("SELECT 3");
    claimed_for_the_last_time(&mut c, "q", 1, "20ms");
    c.run("WATCH q");
    stream.take();
    hear("the end of a last lease", 1);
    // The background work has replicated nothing, and WATCH sees no change.
    assert_eq!(stream.take(), Vec::<String>::new());
    c.run("MULTI");
    c.script(&[("PING", "+QUEUED"), ("EXEC", "[+PONG]")]);
    // One job has another attempt when its lease expires, which sends no event. The other one becomes a dead letter.
    c.run("ZQ.PUSH q x ID again");
    c.run("ZQ.CLAIM 1 q LEASE 1ms");
    c.run("ZQ.PUSH q x ID last MAXATTEMPTS 1 PRIORITY -1");
    c.run("ZQ.CLAIM 1 q LEASE 30ms");
    hear("the end of another one", 2);
    // The queue gets another key before the lease expires.
    c.run("ZQ.PUSH q x ID third MAXATTEMPTS 1 PRIORITY -1");
    let claim = c.reply("ZQ.CLAIM 1 q LEASE 1h");
    let token = claim.split(' ').nth(2).expect("a token").to_owned();
    c.run("RENAME q other");
    c.run(&format!("ZQ.EXTEND other 20ms third {token}"));
    hear("the end of a lease in a queue that was renamed", 3);
    assert_eq!(dead(&mut c, "other"), "3 dead, 0 dropped");
    assert_agree(&server, &[]);
}

#[test]
fn deadlen_holds_at_the_ends_of_leases() {
    let (server, replica, mut c) = start_pair();
    c.run("ZQ.CONFIG q DEADLEN 10");
    claimed_for_the_last_time(&mut c, "q", 700, "20ms");
    eventually_dead(&mut c, "q", "10 dead, 690 dropped");
    replica.wait_for_sync(&server);
    assert_eq!(dead(&mut replica.client(), "q"), "10 dead, 690 dropped");
    assert_agree(&server, &[&replica]);
}

/// The queues came to their keys in different ways.
#[test]
fn deadttl_holds_in_a_queue_that_nobody_touches() {
    let (clock, mut server, mut c) = start_with_clock("appendonly yes");
    let keys = [(0, "plain"), (0, "renamed"), (0, "copied"), (0, "moved"), (0, "restored"), (5, "swapped")];
    for (database, key) in keys {
        c.run(&format!("SELECT {database}"));
        c.run(&format!("ZQ.CONFIG {key} DEADTTL 1h"));
        claimed_for_the_last_time(&mut c, key, 3, "1m");
    }
    c.run("SELECT 0");
    c.run("RENAME renamed renamed:to");
    c.run("COPY copied copied:to");
    c.run("MOVE moved 2");
    c.run("SWAPDB 5 6");
    let dump = c.dump("restored");
    c.restore("restored:to", 0, &dump);
    let places = [
        (0, "plain"),
        (0, "renamed:to"),
        (0, "copied"),
        (0, "copied:to"),
        (2, "moved"),
        (0, "restored:to"),
        (6, "swapped"),
    ];
    let all = |c: &mut Client, expected: &str| {
        for (database, key) in places {
            c.run(&format!("SELECT {database}"));
            eventually_dead(c, key, expected);
        }
    };
    clock.advance(Duration::from_secs(600));
    c.wait_for_cron();
    all(&mut c, "3 dead, 0 dropped");
    // DEADTTL also applies after the dataset was loaded again.
    server.restart();
    let mut c = server.client();
    clock.advance(Duration::from_secs(7200));
    all(&mut c, "0 dead, 3 dropped");
    assert_agree(&server, &[]);
}

/// Subscribes to `zq.dead` in a database.
fn hear_deaths(server: &Server, database: usize) -> Client {
    let mut listener = server.resp3();
    listener.psubscribe(&format!("__keyevent@{database}__:zq.dead"));
    listener
}

fn hear(listener: &mut Client, patience: Duration, key: &str) {
    eventually(patience, &format!("zq.dead of {key}"), || {
        listener.pushes().iter().any(|message| message.contains(&format!("'{key}'")))
    });
}

#[test]
fn a_queue_with_much_to_drop_holds_up_no_other_queue_in_whatever_database() {
    const LETTERS: usize = 15_000;
    let (clock, server, mut c) = start_with_clock("notify-keyspace-events Ed");
    for database in [2, 0, 1, 3] {
        c.run(&format!("SELECT {database}"));
        c.run("ZQ.CONFIG large DEADTTL 1h");
        claimed_for_the_last_time(&mut c, "large", LETTERS, "1m");
    }
    claimed_for_the_last_time(&mut c, "small", 1, "90m");
    let mut listener = hear_deaths(&server, 3);
    clock.advance(Duration::from_secs(7200));
    hear(&mut listener, PATIENCE, "small");
    for database in 0..4 {
        c.run(&format!("SELECT {database}"));
        assert!(!dead(&mut c, "large").starts_with("0 dead"), "the others were still at it");
    }
    for database in 0..4 {
        c.run(&format!("SELECT {database}"));
        eventually_dead(&mut c, "large", &format!("0 dead, {LETTERS} dropped"));
    }
}

#[test]
fn thousands_of_queues_with_one_dead_letter_each_hold_up_no_other() {
    const QUEUES: usize = 5000;
    let (clock, server, mut c) = start_with_clock("notify-keyspace-events Ed");
    let mut made = redis::pipe();
    for n in 0..QUEUES {
        made.cmd("ZQ.CONFIG").arg(n).arg(&["DEADTTL", "1h"]).ignore();
        made.cmd("ZQ.PUSH").arg(n).arg(&["x", "MAXATTEMPTS", "1"]).ignore();
        made.cmd("ZQ.CLAIM").arg(1).arg(n).arg(&["LEASE", "1m"]).ignore();
    }
    c.pipe(&made);
    claimed_for_the_last_time(&mut c, "last", 1, "90m");
    let mut listener = hear_deaths(&server, 0);
    clock.advance(Duration::from_secs(7200));
    hear(&mut listener, SOON, "last");
}

#[test]
fn a_replica_drops_nothing_by_itself_until_it_is_promoted() {
    let (clock, server, mut c) = start_with_clock("appendonly yes");
    c.run("ZQ.CONFIG q DEADTTL 1h");
    let replica = Server::builder().clock(&clock).replica_of(&server);
    claimed_for_the_last_time(&mut c, "q", 3, "1m");
    replica.wait_for_sync(&server);
    c.run("CLIENT PAUSE 100000000 WRITE");
    clock.advance(Duration::from_secs(7200));
    let mut there = replica.client();
    there.wait_for_cron();
    assert_eq!(dead(&mut there, "q"), "3 dead, 0 dropped");
    assert_eq!(dead(&mut c, "q"), "3 dead, 0 dropped", "writes are paused");
    there.run("REPLICAOF NO ONE");
    eventually_dead(&mut there, "q", "0 dead, 3 dropped");
    c.run("CLIENT UNPAUSE");
    eventually_dead(&mut c, "q", "0 dead, 3 dropped");
    assert_agree(&server, &[]);
}

fn groups(c: &mut Client, key: &str) -> String {
    let stats = c.reply(&format!("ZQ.STATS {key}"));
    let (_, rest) = stats.split_once("'groups' ").expect("the number of groups");
    rest.split([' ', ']']).next().unwrap_or_default().to_owned()
}

#[test]
fn groups_without_jobs_go_within_a_minute_after_their_units_are_back() {
    const GROUPS: usize = 1000;
    let (clock, mut server, mut c) = start_with_clock("appendonly yes");
    let replica = Server::builder().clock(&clock).replica_of(&server);
    c.run("ZQ.CONFIG q GROUPRATE 5 10m");
    let mut pushes = redis::pipe();
    for n in 0..GROUPS {
        pushes.cmd("ZQ.PUSH").arg("q").arg(&["x", "GROUP"]).arg(n).arg("ID").arg(n).ignore();
    }
    c.pipe(&pushes);
    c.run(&format!("ZQ.CLAIM 1 q LEASE 1h COUNT {GROUPS}"));
    c.run_all((1..GROUPS).map(|n| format!("ZQ.CANCEL q {n}")));
    clock.advance(Duration::from_secs(590));
    c.wait_for_cron();
    assert_eq!(groups(&mut c, "q"), GROUPS.to_string(), "their units are out");
    clock.advance(Duration::from_secs(70));
    eventually(PATIENCE, "one group is left, which has a job", || groups(&mut c, "q") == "1");
    replica.wait_for_sync(&server);
    assert_eq!(groups(&mut replica.client(), "q"), "1");
    assert_agree(&server, &[&replica]);
    // The last group is dropped on the promoted replica, and on a server that has loaded the dataset.
    c.run("ZQ.CANCEL q 0");
    replica.wait_for_sync(&server);
    clock.advance(Duration::from_secs(700));
    replica.client().run("REPLICAOF NO ONE");
    server.restart();
    for server in [&server, &replica] {
        let mut c = server.client();
        eventually(PATIENCE, "no group is left", || groups(&mut c, "q") == "0");
    }
    assert_agree(&server, &[]);
}

const HOUR: Duration = Duration::from_secs(3600);
const MINUTE: Duration = Duration::from_secs(60);

/// Pushes a job to `key`, and cancels it.
fn used_once(c: &mut Client, key: &str) {
    c.run(&format!("ZQ.PUSH {key} x ID 1"));
    c.run(&format!("ZQ.CANCEL {key} 1"));
}

/// Adds a queue whose dead letter the upkeep drops an hour from now. When it has done so, it has checked all queues whose
/// checks were due before.
fn witness(c: &mut Client, key: &str) {
    c.run(&format!("ZQ.CONFIG {key} DEADTTL {}ms", HOUR.as_millis() - 2));
    claimed_for_the_last_time(c, key, 1, "1ms");
}

const SEEN: &str = "0 dead, 1 dropped";

#[test]
fn a_queue_without_settings_goes_an_hour_after_its_last_job() {
    let (clock, server, mut c) = start_with_clock("appendonly yes\nnotify-keyspace-events Eg");
    let replica = Server::builder().clock(&clock).replica_of(&server);
    c.run("SELECT 3");
    for key in ["plain", "watched", "renamed", "later"] {
        used_once(&mut c, key);
    }
    c.run("ZQ.CONFIG defaults MAXLEN 0");
    c.run("ZQ.CONFIG configured MAXLEN 10");
    c.run("ZQ.PUSH job x DELAY 30d");
    c.run("ZQ.PUSH letter x ID 1 MAXATTEMPTS 1");
    c.run("ZQ.CLAIM 1 letter LEASE 1s");
    // A queue that has had settings, groups, holds and units.
    c.run("ZQ.CONFIG past RATE 5 1d GROUPRATE 5 2h");
    c.run("ZQ.PUSH past x ID 1 GROUP g");
    c.run("ZQ.CLAIM 1 past LEASE 1s");
    c.run("ZQ.HOLD past g 1d");
    c.run("ZQ.CANCEL past 1");
    c.run("ZQ.CONFIG past RATE 0 0 GROUPRATE 0 0");
    eventually(PATIENCE, "the upkeep clears the units", || groups(&mut c, "past") == "0");
    let mut listener = server.resp3();
    listener.psubscribe("__keyevent@3__:*");
    clock.pass(59 * MINUTE, 59 * MINUTE, &mut c);
    c.run("RENAME renamed renamed:to");
    c.run("ZQ.PUSH later x ID 1");
    c.run("ZQ.CANCEL later 1");
    c.run("WATCH watched");
    witness(&mut c, "witness");
    assert_eq!(c.int("DBSIZE"), 10);
    clock.advance(2 * MINUTE);
    eventually(PATIENCE, "the unused queues go", || c.int("DBSIZE") == 6);
    c.script(&[("ZQ.LIST", "['configured' 'job' 'later' 'letter' 'renamed:to' 'witness']")]);
    c.run("MULTI");
    c.script(&[("PING", "+QUEUED"), ("EXEC", "nil")]);
    let mut deleted = Vec::new();
    eventually(PATIENCE, "the events", || {
        let pushes = listener.pushes();
        deleted.extend(pushes.into_iter().filter(|message| message.contains(":del'")));
        deleted.len() == 4
    });
    assert_agree(&server, &[&replica]);
    // The dead letter goes away. Its queue is then unused, too.
    c.run("ZQ.CLEAN letter DEAD");
    clock.advance(61 * MINUTE);
    eventually(PATIENCE, "three more queues go", || c.reply("ZQ.LIST") == "['configured' 'job' 'witness']");
    assert_agree(&server, &[&replica]);
}

#[test]
fn a_step_of_the_wall_clock_deletes_no_queue() {
    let (clock, server, mut c) = start_with_clock("appendonly yes");
    used_once(&mut c, "q");
    witness(&mut c, "witness");
    clock.step_wall(86_400_000);
    eventually_dead(&mut c, "witness", SEEN);
    assert_eq!(c.int("EXISTS q"), 1);
    clock.advance(61 * MINUTE);
    eventually(PATIENCE, "the queue goes", || c.int("EXISTS q") == 0);
    // The clock is set back. The last ID, which must not be generated again, is then ahead of the clock.
    for step in [0, -7_200_000] {
        clock.step_wall(step);
        c.run("ZQ.PUSH q x");
        c.run("ZQ.CLEAN q READY");
    }
    witness(&mut c, "other");
    clock.advance(61 * MINUTE);
    eventually_dead(&mut c, "other", SEEN);
    assert_eq!(c.int("EXISTS q"), 1);
    eventually(PATIENCE, "the queue goes later", || {
        clock.pass(HOUR, HOUR, &mut c);
        c.int("EXISTS q") == 0
    });
    assert_agree(&server, &[]);
}

#[test]
fn the_hour_of_an_unused_queue_begins_again_with_a_restart_and_a_promotion() {
    let (clock, mut server, mut c) = start_with_clock("appendonly yes");
    let replica = Server::builder().clock(&clock).replica_of(&server);
    used_once(&mut c, "q");
    witness(&mut c, "witness");
    replica.wait_for_sync(&server);
    c.run("CLIENT PAUSE 100000000 WRITE");
    clock.advance(2 * HOUR);
    let mut there = replica.client();
    there.wait_for_cron();
    c.wait_for_cron();
    assert_eq!([c.int("EXISTS q"), there.int("EXISTS q")], [1, 1], "a replica, and a master whose writes are paused");
    there.run("REPLICAOF NO ONE");
    server.restart();
    let mut c = server.client();
    for c in [&mut c, &mut there] {
        eventually_dead(c, "witness", SEEN);
        assert_eq!(c.int("EXISTS q"), 1);
    }
    clock.advance(61 * MINUTE);
    for c in [&mut c, &mut there] {
        eventually(PATIENCE, "the queue goes", || c.int("EXISTS q") == 0);
    }
    assert_agree(&server, &[]);
}

#[test]
fn an_unused_queue_stays_while_clients_wait_for_it() {
    let (clock, server, mut c) = start_with_clock("");
    used_once(&mut c, "q");
    witness(&mut c, "witness");
    let waiter = server.waiting("ZQ.CLAIM 1 q LEASE 1m BLOCK 0");
    clock.advance(61 * MINUTE);
    eventually_dead(&mut c, "witness", SEEN);
    witness(&mut c, "other");
    assert_eq!(c.int("EXISTS q"), 1);
    drop(waiter);
    eventually(PATIENCE, "the client has gone", || super::blocking::blocked(&mut c) == 0);
    clock.advance(59 * MINUTE);
    c.wait_for_cron();
    assert_eq!(c.int("EXISTS q"), 1, "nobody has waited for less than an hour");
    clock.advance(2 * MINUTE);
    eventually_dead(&mut c, "other", SEEN);
    clock.advance(61 * MINUTE);
    eventually(PATIENCE, "the queue goes", || c.int("EXISTS q") == 0);
}

#[test]
fn an_unused_queue_stays_for_an_hour_after_a_client_has_waited() {
    let (clock, server, mut c) = start_with_clock("");
    used_once(&mut c, "q");
    witness(&mut c, "witness");
    let waiter = server.waiting("ZQ.CLAIM 1 q LEASE 1m BLOCK 0");
    clock.advance(58 * MINUTE);
    c.wait_for_cron();
    drop(waiter);
    eventually(PATIENCE, "the client has gone", || super::blocking::blocked(&mut c) == 0);
    clock.advance(3 * MINUTE);
    eventually_dead(&mut c, "witness", SEEN);
    assert_eq!(c.int("EXISTS q"), 1);
    clock.advance(61 * MINUTE);
    eventually(PATIENCE, "the queue goes", || c.int("EXISTS q") == 0);
}

#[test]
fn thousands_of_unused_queues_hold_up_no_other() {
    const QUEUES: usize = 5000;
    let (clock, server, mut c) = start_with_clock("notify-keyspace-events Ed");
    let mut made = redis::pipe();
    for n in 0..QUEUES {
        made.cmd("ZQ.PUSH").arg(n).arg(&["x", "ID", "1"]).ignore();
        made.cmd("ZQ.CANCEL").arg(n).arg(1).ignore();
    }
    c.pipe(&made);
    claimed_for_the_last_time(&mut c, "last", 1, "90m");
    let mut listener = hear_deaths(&server, 0);
    clock.advance(2 * HOUR);
    hear(&mut listener, SOON, "last");
    eventually(PATIENCE, "all of them go", || c.int("DBSIZE") == 1);
}
