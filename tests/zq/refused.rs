//! While a server refuses all clients' writes, it serves no waiting client. It would also refuse the ACKs, so leases
//! would expire and jobs would become dead letters. When the server accepts writes again, it serves all waiting
//! clients.

use std::thread::JoinHandle;
use std::time::Duration;
use testkit::{Client, Clock, PATIENCE, Server, assert_agree, eventually, start_with_clock};

const WORKERS: usize = 3;

/// Jobs are due after this time.
const HOUR: Duration = Duration::from_secs(3600);

/// Pushes jobs with one attempt that are due in an hour, and starts workers that wait for them.
fn wait_for_jobs(server: &Server, c: &mut Client) -> Vec<JoinHandle<String>> {
    c.run("ZQ.CONFIG q MAXATTEMPTS 1");
    c.run_all((0..WORKERS).map(|n| format!("ZQ.PUSH q job ID j{n} DELAY 1h")));
    let workers: Vec<_> = (0..WORKERS)
        .map(|_| {
            let mut worker = server.client();
            std::thread::spawn(move || {
                let reply = worker.reply("ZQ.CLAIM 1 q LEASE 1000h BLOCK 0");
                let mut words = reply.split(['[', ']', ' ', '\'']).filter(|word| !word.is_empty()).skip(1);
                let (id, token) = (words.next().expect("an id"), words.next().expect("a token"));
                worker.script(&[(format!("ZQ.ACK q {id} {token}"), "1")]);
                id.to_owned()
            })
        })
        .collect();
    eventually(PATIENCE, "they wait", || c.info_number("zeitset", "zeitset_clients_waiting") == WORKERS as i64);
    workers
}

/// Lets the jobs become due. Checks that no client is served, and that the clients keep waiting.
fn nobody_is_served(server: &Server, c: &mut Client, clock: &Clock, error: &str) {
    c.script(&[("ZQ.CLAIM 1 q LEASE 1h", format!("!{error}"))]);
    pass_an_hour(c, clock);
    // A claim of a new client is refused immediately, and wakes no other client.
    server
        .client()
        .script(&[("ZQ.CLAIM 1 q LEASE 1h BLOCK 1s", format!("!{error}")), ("ZQ.PUSH q job", format!("!{error}"))]);
    assert_eq!(c.info_number("zeitset", "zeitset_clients_served"), 0);
    assert_eq!(c.info_number("zeitset", "zeitset_clients_waiting"), WORKERS as i64);
    assert!(c.reply("ZQ.GET q j0").contains("'attempts' 0"));
}

/// Lets the jobs become due. Lets the server's timers and cron run.
fn pass_an_hour(c: &mut Client, clock: &Clock) {
    clock.advance(HOUR);
    let later = c.now() + 500;
    c.wait_until(later);
    c.wait_for_cron();
}

fn all_are_served(c: &mut Client, workers: Vec<JoinHandle<String>>) {
    let mut ids: Vec<_> = workers.into_iter().map(|worker| worker.join().expect("a job, and its ACK")).collect();
    ids.sort();
    assert_eq!(ids, ["j0", "j1", "j2"]);
    assert_eq!(c.info_number("zeitset", "zeitset_clients_waiting"), 0);
    c.script(&[("EXISTS q", "1"), ("ZQ.PEEK q DEAD", "[]"), ("ZQ.PEEK q READY", "[]")]);
}

#[test]
fn clients_that_wait_are_served_only_with_as_many_replicas_as_writes_need() {
    let (clock, server, mut c) = start_with_clock("appendonly yes");
    let workers = wait_for_jobs(&server, &mut c);
    c.run("CONFIG SET min-replicas-to-write 1");
    nobody_is_served(&server, &mut c, &clock, "NOREPLICAS ");
    let replica = Server::builder().clock(&clock).replica_of(&server);
    all_are_served(&mut c, workers);
    assert_agree(&server, &[&replica]);
}

#[test]
fn clients_that_wait_are_served_only_when_saves_succeed() {
    let (clock, server, mut c) = start_with_clock("appendonly yes\nsave 3600 1000000");
    let workers = wait_for_jobs(&server, &mut c);
    // A folder with the name of the RDB file makes the save fail.
    let dir = c.strings("CONFIG GET dir")[1].clone();
    let dump = std::path::Path::new(&dir).join("dump.rdb");
    std::fs::create_dir(&dump).expect("the folder of the server");
    c.run("BGSAVE");
    eventually(PATIENCE, "the save fails", || c.info("persistence")["rdb_last_bgsave_status"] == "err");
    nobody_is_served(&server, &mut c, &clock, "MISCONF ");
    std::fs::remove_dir(&dump).expect("an empty folder");
    c.run("BGSAVE");
    all_are_served(&mut c, workers);
    assert_agree(&server, &[]);
}

#[test]
fn clients_that_wait_are_served_only_when_the_aof_can_be_written() {
    let clock = Clock::new();
    let server = Server::builder().keeping_aof().clock(&clock).on_a_disk_that_fills_up().start();
    let mut c = server.client();
    let workers = wait_for_jobs(&server, &mut c);
    if !server.fill_disk(Some(1)) {
        eprintln!("skipped: needs prlimit");
        return;
    }
    // The write during which the disk becomes full is not refused. Later ones are.
    c.run("SET witness x");
    eventually(PATIENCE, "the AOF is not written", || c.info("persistence")["aof_last_write_status"] == "err");
    nobody_is_served(&server, &mut c, &clock, "MISCONF ");
    assert!(server.fill_disk(None));
    all_are_served(&mut c, workers);
    assert_agree(&server, &[]);
}

#[test]
fn clients_that_wait_are_served_only_when_writes_are_not_paused() {
    let (clock, server, mut c) = start_with_clock("appendonly yes");
    let workers = wait_for_jobs(&server, &mut c);
    c.run("CLIENT PAUSE 100000000 WRITE");
    pass_an_hour(&mut c, &clock);
    assert_eq!(c.info_number("zeitset", "zeitset_clients_served"), 0);
    c.run("CLIENT UNPAUSE");
    all_are_served(&mut c, workers);
    assert_agree(&server, &[]);
}
