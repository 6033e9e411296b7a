//! A cluster loses a master, or a slot moves while clients wait for its keys. Acknowledged writes that a replica had
//! received are kept, the new owner continues the work, and no client waits forever.

use redis::Value;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use testkit::{Client, Cluster, ClusterClient, FAR, PATIENCE, assert_agree, assert_drained, eventually, show};

/// Starts a cluster that replaces a master after two seconds of silence.
fn watchful() -> Cluster {
    Cluster::with("cluster-node-timeout 2000\ncluster-replica-validity-factor 0")
}

/// Writes that were acknowledged, and confirmed by a replica.
#[derive(Default)]
struct Kept {
    members: BTreeSet<String>,
    pushed: BTreeSet<String>,
    board: BTreeSet<String>,
    units: i64,
}

const LIMIT: i64 = 1_000_000_000;

/// Writes until `stop`, across failovers. If the reply to a write was lost, the write does not count as kept.
fn write(mut client: ClusterClient, worker: usize, stop: Arc<AtomicBool>) -> JoinHandle<Kept> {
    std::thread::spawn(move || {
        let mut kept = Kept::default();
        for n in 0.. {
            if stop.load(Ordering::Relaxed) {
                break;
            }
            let id = format!("{worker}-{n}");
            let lines = [
                format!("ZEXP.ADD {{f}}:set 1000h {id}"),
                format!("ZQ.PUSH {{f}}:queue job ID {id}"),
                format!("ZLB.SET {{f}}:board {id} {n}"),
                format!("ZRL.CHECK {{f}}:limit {LIMIT} 1000h"),
            ];
            // WAIT applies only to its own connection, so one connection sends all four writes.
            let wrote = lines.iter().all(|line| client.try_run(line).is_ok());
            let is_kept = wrote && client.owner().try_run("WAIT 1 500").is_ok_and(|replicas| replicas == Value::Int(1));
            if is_kept {
                kept.members.insert(id.clone());
                kept.pushed.insert(id.clone());
                kept.board.insert(id);
                kept.units += 1;
            }
        }
        kept
    })
}

fn names(value: &Value) -> BTreeSet<String> {
    let Value::Array(items) = value else { panic!("no array: {}", show(value)) };
    items.iter().map(|item| show(item).trim_matches('\'').to_owned()).collect()
}

fn role(client: &mut Client) -> String {
    client.info("replication")["role"].clone()
}

/// Repeats a blocking claim until a master returns a job, as a worker does.
fn claim(mut client: ClusterClient, key: &'static str) -> JoinHandle<String> {
    std::thread::spawn(move || {
        loop {
            match client.try_run(&format!("ZQ.CLAIM 1 {key} LEASE 1h BLOCK 10s")) {
                Ok(Value::Array(jobs)) if jobs.is_empty() => {}
                Ok(jobs) => return show(&jobs),
                Err(error) => assert!(error.starts_with("connection lost"), "{error}"),
            }
        }
    })
}

#[test]
fn a_killed_master_is_replaced_and_what_was_replicated_is_there() {
    let mut cluster = watchful();
    let home = cluster.home("{f}");
    let heir = cluster.replica_of(home);
    let mut client = cluster.client();
    client.run("ZLB.CREATE {f}:board DIM points");
    let (mut master, mut replica) = (cluster.nodes[home].client(), cluster.nodes[heir].client());
    replica.run("READONLY");
    // This work is due later, at the new owner: a member expires, a lease expires, a delayed job is due.
    let dies = master.now() + 3000;
    client.run(&format!("ZEXP.ADD {{f}}:later AT {dies}ms dead {FAR}ms live"));
    client.run("ZQ.PUSH {f}:leased job ID leased");
    client.run("ZQ.CLAIM 1 {f}:leased LEASE 5s");
    client.run("ZQ.PUSH {f}:due job ID due DELAY 5s");
    master.run("WAIT 1 20000");
    let waiting = [claim(cluster.client(), "{f}:leased"), claim(cluster.client(), "{f}:due")];

    let stop = Arc::new(AtomicBool::new(false));
    let writers: Vec<_> = (0..3).map(|worker| write(cluster.client(), worker, Arc::clone(&stop))).collect();
    eventually(PATIENCE, "the clients are at work", || replica.int("ZLB.CARD {f}:board") > 100);
    cluster.nodes[home].kill();
    eventually(3 * PATIENCE, "the replica takes over", || role(&mut replica) == "master");
    let before = replica.int("ZLB.CARD {f}:board");
    // (The writers count nothing now, because the new master has no replica and WAIT returns 0.)
    eventually(3 * PATIENCE, "the clients are at work again", || replica.int("ZLB.CARD {f}:board") > before + 30);
    stop.store(true, Ordering::Relaxed);
    let mut kept = Kept::default();
    for writer in writers {
        let writes = writer.join().expect("nothing but broken connections");
        kept.members.extend(writes.members);
        kept.pushed.extend(writes.pushed);
        kept.board.extend(writes.board);
        kept.units += writes.units;
    }
    assert!(kept.members.len() > 10, "{} writes were confirmed", kept.members.len());
    assert!(kept.members.is_subset(&names(&replica.run("ZEXP.MEMBERS {f}:set"))));
    assert!(kept.board.is_subset(&names(&replica.run("ZLB.RANGE {f}:board 0 -1"))));
    assert!(replica.verdict(&format!("ZRL.PEEK {{f}}:limit {LIMIT} 1000h")).remaining <= LIMIT - kept.units);
    let Value::Array(jobs) = replica.run("ZQ.CLAIM 1 {f}:queue LEASE 1h COUNT 1000000") else { panic!("no jobs") };
    let ids: BTreeSet<_> = jobs.iter().filter_map(|job| names(job).into_iter().find(|id| id.contains('-'))).collect();
    assert!(kept.pushed.is_subset(&ids));

    let answers = waiting.map(|waiting| waiting.join().expect("an answer"));
    assert!(answers[0].contains("'leased'") && answers[1].contains("'due'"), "{answers:?}");
    assert_drained(&mut replica, "{f}:later", 1);
    assert_agree(&cluster.nodes[heir], &[]);
}

#[test]
fn a_master_that_hands_over_redirects_waiting_clients() {
    let cluster = Cluster::start();
    let home = cluster.home("{f}");
    let (mut master, mut replica) = (cluster.nodes[home].client(), cluster.nodes[cluster.replica_of(home)].client());
    let mut client = cluster.client();
    client.run("ZQ.PUSH {f}:queue job ID later DELAY 1000h");
    let mut waiter = cluster.nodes[home].client();
    let told = std::thread::spawn(move || waiter.reply("ZQ.CLAIM 1 {f}:queue LEASE 1h BLOCK 0"));
    let answered = claim(cluster.client(), "{f}:queue");
    eventually(PATIENCE, "they wait", || master.info_number("zeitset", "zeitset_clients_waiting") == 2);
    replica.run("CLUSTER FAILOVER");
    eventually(3 * PATIENCE, "the roles have changed", || {
        role(&mut replica) == "master" && role(&mut master) == "slave"
    });
    assert_eq!(replica.int("ZQ.RESCHEDULE {f}:queue later DELAY 0"), 1);
    let told = told.join().expect("an answer");
    assert!(told.starts_with("!UNBLOCKED ") || told.starts_with("!MOVED "), "{told}");
    assert!(answered.join().expect("an answer").contains("'later'"));
    assert_agree(&cluster.nodes[cluster.replica_of(home)], &[&cluster.nodes[home]]);
    assert_eq!(master.info_number("zeitset", "zeitset_clients_waiting"), 0);
}

/// Lets a client wait for a job while the queue's slot moves to another master.
fn who_waits_is_sent_after_the_slot(cluster: &Cluster, keys: &str, move_slot: impl Fn(i64, usize, usize)) {
    let (home, slot) = (cluster.home("{w}"), cluster.slot("{w}"));
    let to = (home + 1) % 3;
    let mut source = cluster.nodes[home].client();
    source.run("ZQ.PUSH {w}:delayed job ID later DELAY 1000h");
    let mut waiter = cluster.nodes[home].client();
    let line = format!("ZQ.CLAIM {} {keys} LEASE 1h BLOCK 0", keys.split(' ').count());
    let told = std::thread::spawn(move || waiter.reply(&line));
    eventually(PATIENCE, "it waits", || source.info_number("zeitset", "zeitset_clients_waiting") == 1);
    move_slot(slot, home, to);
    assert_eq!(told.join().expect("an answer"), format!("!MOVED {slot} 127.0.0.1:{}", cluster.port(to)));
    assert_eq!(source.info_number("zeitset", "zeitset_clients_waiting"), 0);
    let mut target = cluster.nodes[to].client();
    assert_eq!(target.int("ZQ.RESCHEDULE {w}:delayed later DELAY 0"), 1);
    assert!(target.reply("ZQ.CLAIM 1 {w}:delayed LEASE 1h").contains("'later'"));
    cluster.assert_agrees();
}

#[test]
fn clients_that_wait_for_queues_or_missing_keys_are_redirected_to_the_new_owner_of_their_slot() {
    for keys in ["{w}:delayed", "{w}:none {w}:delayed {w}:nothing"] {
        let cluster = Cluster::start();
        who_waits_is_sent_after_the_slot(&cluster, keys, |slot, from, to| cluster.move_slot(slot, from, to));
    }
    let cluster = Cluster::start();
    if let Some(how) = cluster.atomic_migration() {
        let move_slot = |slot, from, to| cluster.migrate_slot_atomically(how, slot, from, to);
        who_waits_is_sent_after_the_slot(&cluster, "{w}:delayed", move_slot);
    }
}
