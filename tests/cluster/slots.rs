//! A cluster of three masters and three replicas. Clients are redirected to the owner of their keys. While slots move
//! under load, no data are lost and no work is done twice.

use crate::server::surface::COMMANDS;
use redis::Value;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use testkit::{Client, Cluster, ClusterClient, FAR, PATIENCE, assert_drained, eventually, plant, show};

#[test]
fn every_command_is_sent_to_the_owner_of_its_keys() {
    let cluster = Cluster::start();
    let home = cluster.home("{a}");
    let (mut owner, mut replica) = (cluster.nodes[home].client(), cluster.nodes[cluster.replica_of(home)].client());
    let mut stranger = cluster.nodes[(home + 1) % 3].client();
    replica.run("READONLY");
    let moved = format!("!MOVED {} 127.0.0.1:{}", cluster.slot("{a}"), cluster.port(home));
    for (name, flags, call, _) in COMMANDS {
        let call = call.replace("a:", "{a}:");
        stranger.script(&[(&call, &moved)]);
        owner.run(&call);
        if flags.contains(&"readonly") {
            owner.run("WAIT 1 20000");
            replica.run(&call);
        } else {
            replica.script(&[(&call, &moved)]);
        }
        // Replaces one of the call's keys by a key of another slot.
        if ["zrl.mcheck", "zq.claim", "zlb.merge"].contains(name) {
            for client in [&mut owner, &mut stranger] {
                client.script(&[(call.replacen("{a}", "{b}", 1), "!CROSSSLOT")]);
            }
        }
    }
    cluster.assert_agrees();
}

/// What a client has done under load, according to the server's replies.
#[derive(Default)]
struct Done {
    members: BTreeSet<String>,
    pushed: BTreeSet<String>,
    acked: Vec<String>,
    units: i64,
    increments: i64,
}

const LIMIT: i64 = 1_000_000_000;

/// Works with the keys of one slot until `stop`. Every reply must be the same as from a single server.
fn load(mut client: ClusterClient, tag: String, worker: usize, stop: Arc<AtomicBool>) -> JoinHandle<Done> {
    std::thread::spawn(move || {
        let mut done = Done::default();
        for n in 0.. {
            if stop.load(Ordering::Relaxed) {
                break;
            }
            let id = format!("{worker}-{n}");
            // This set has members that expire during the test.
            client.run(&format!("ZEXP.ADD {tag}:brief 50ms {id} 1h stays"));
            assert_eq!(client.reply(&format!("ZEXP.ADD {tag}:set 1000h {id}")), "1", "{id} was there already");
            done.members.insert(id.clone());
            for call in [
                format!("ZRL.CHECK {tag}:limit {LIMIT} 1000h"),
                format!("ZRL.MCHECK 2 {tag}:limit {tag}:other {LIMIT} 1000h {LIMIT} 1000h"),
            ] {
                let reply = client.reply(&call);
                assert!(reply.starts_with("[1 "), "{call}: {reply}");
            }
            done.units += 2;
            assert_eq!(client.reply(&format!("ZQ.PUSH {tag}:queue job ID {id}")), format!("'{id}'"));
            done.pushed.insert(id.clone());
            done.acked.extend(work(&mut client, &tag));
            client.run(&format!("ZLB.INCR {tag}:board x points 1"));
            done.increments += 1;
        }
        done
    })
}

/// Claims a job and finishes it.
fn work(client: &mut ClusterClient, tag: &str) -> Option<String> {
    let Value::Array(jobs) = client.run(&format!("ZQ.CLAIM 1 {tag}:queue LEASE 10h")) else { panic!("no array") };
    let Some(Value::Array(job)) = jobs.first() else { return None };
    let (id, token) = (show(&job[1]).trim_matches('\'').to_owned(), show(&job[2]));
    assert_eq!(
        client.reply(&format!("ZQ.ACK {tag}:queue {id} {token}")),
        "1",
        "{id} was claimed by somebody else, too"
    );
    Some(id)
}

/// Moves a slot back and forth while clients work with its keys, and then compares the data with what they have done.
/// `move_slot` returns the master that owns the slot afterwards.
fn nothing_gets_lost(cluster: &mut Cluster, mut move_slot: impl FnMut(&mut Cluster, i64, usize, usize) -> usize) {
    const WORKERS: usize = 3;
    let tag = "{m}";
    let (home, slot) = (cluster.home(tag), cluster.slot(tag));
    let mut client = cluster.client();
    client.run(&format!("ZLB.CREATE {tag}:board DIM points"));
    let stop = Arc::new(AtomicBool::new(false));
    let workers: Vec<_> =
        (0..WORKERS).map(|worker| load(cluster.client(), tag.to_owned(), worker, Arc::clone(&stop))).collect();
    let mut at = home;
    for round in 0..6 {
        let to = (at + 1 + round % 2) % 3;
        // Waits until the keys exist and are in use.
        let before = client.reply(&format!("ZEXP.CARD {tag}:set"));
        eventually(PATIENCE, "the clients are at work", || client.reply(&format!("ZEXP.CARD {tag}:set")) != before);
        at = move_slot(cluster, slot, at, to);
        cluster.wait_for_owner(slot, at);
    }
    stop.store(true, Ordering::Relaxed);
    let mut all = Done::default();
    for worker in workers {
        let done = worker.join().expect("the worker saw nothing that cannot be");
        all.members.extend(done.members);
        all.pushed.extend(done.pushed);
        all.acked.extend(done.acked);
        all.units += done.units;
        all.increments += done.increments;
    }
    while let Some(id) = work(&mut client, tag) {
        all.acked.push(id);
    }
    let Value::Array(members) = client.run(&format!("ZEXP.MEMBERS {tag}:set")) else { panic!("no members") };
    let members: BTreeSet<_> = members.iter().map(|member| show(member).trim_matches('\'').to_owned()).collect();
    assert_eq!(members, all.members);
    let acked: BTreeSet<_> = all.acked.iter().cloned().collect();
    assert_eq!(acked.len(), all.acked.len(), "a job was done twice");
    assert_eq!(acked, all.pushed);
    for (key, units) in [("limit", all.units), ("other", all.units / 2)] {
        let Value::Array(fields) = client.run(&format!("ZRL.PEEK {tag}:{key} {LIMIT} 1000h")) else { panic!() };
        assert_eq!(fields[2], Value::Int(LIMIT - units), "{key}");
    }
    assert_eq!(client.reply(&format!("ZLB.GET {tag}:board x")), format!("[[0 {}]]", all.increments));
    // The new owner continues the module's work.
    assert_drained(client.owner(), &format!("{tag}:brief"), 1);
    for n in 0..3 {
        let keys = cluster.nodes[n].client().int(&format!("CLUSTER COUNTKEYSINSLOT {slot}"));
        assert_eq!(keys, if n == at { 6 } else { 0 }, "node {n}, and the slot is at {at}");
    }
    cluster.assert_agrees();
}

#[test]
fn slots_move_key_by_key_under_load() {
    nothing_gets_lost(&mut Cluster::start(), |cluster, slot, from, to| {
        cluster.move_slot(slot, from, to);
        to
    });
}

#[test]
fn slots_move_as_a_whole_under_load() {
    let mut cluster = Cluster::start();
    let Some(how) = cluster.atomic_migration() else { return };
    nothing_gets_lost(&mut cluster, |cluster, slot, from, to| {
        cluster.migrate_slot_atomically(how, slot, from, to);
        to
    });
}

#[test]
fn a_target_that_is_killed_during_the_move_of_a_slot_leaves_all_at_the_source_under_load() {
    let mut cluster = Cluster::start();
    let Some(how) = cluster.atomic_migration() else { return };
    nothing_gets_lost(&mut cluster, |cluster, slot, from, to| {
        cluster.begin_to_move_slowly(how, slot, from, to);
        cluster.nodes[to].crash_and_restart();
        cluster.let_move_end(how, from);
        cluster.wait_until_up();
        from
    });
}

/// Keys that arrive still belong to the source, which may keep them if the move fails.
#[test]
fn sets_that_arrive_with_their_slot_are_left_alone_until_they_are_here() {
    let cluster = Cluster::start();
    let Some(how) = cluster.atomic_migration() else { return };
    let (from, slot) = (cluster.home("{m}"), cluster.slot("{m}"));
    let to = (from + 1) % 3;
    let (mut source, mut target) = (cluster.nodes[from].client(), cluster.nodes[to].client());
    source.run("CONFIG SET zeitset.sweep no");
    plant(&mut source, "{m}:before", &[("dead", 1000), ("live", FAR)]);
    // With many keys, a slowed snapshot takes a while.
    source.run_all((0..30).map(|n| format!("SET {{m}}:{n} x")));
    cluster.begin_to_move_slowly(how, slot, from, to);
    // These changes follow the snapshot, key by key.
    plant(&mut source, "{m}:during", &[("dead", 2000), ("live", FAR)]);
    source.run(&format!("ZADD {{m}}:before {} later", FAR + 9000));
    let scans = |c: &mut Client| c.info_number("zeitset", "zeitset_scans_completed");
    let before = scans(&mut target);
    eventually(PATIENCE, "scans", || scans(&mut target) > before + 2);
    let figures = target.info("zeitset");
    assert_eq!((&*figures["zeitset_sets_tracked"], &*figures["zeitset_members_expired"]), ("0", "0"));
    cluster.let_move_end(how, from);
    cluster.await_move(how, slot, from, to);
    assert_drained(&mut target, "{m}:during", 1);
    assert_drained(&mut target, "{m}:before", 2);
    let replica = &cluster.nodes[cluster.replica_of(to)];
    replica.wait_for_sync(&cluster.nodes[to]);
    let mut replica = replica.client();
    replica.run("READONLY");
    replica.script(&[("ZCARD {m}:during", "2"), ("ZCARD {m}:before", "3")]);
    cluster.assert_agrees();
}
