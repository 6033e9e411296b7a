//! Until the move of a slot is complete, the target has old copies of the keys. The target deletes no member of them
//! and serves no job from them. If a server is killed, the source still has all keys. Each test compares master,
//! replica and AOF.

use testkit::{AtomicMigration, Client, Cluster, FAR, PATIENCE, assert_drained, eventually, plant};

const SETS: usize = 40;

fn sets() -> impl Iterator<Item = String> {
    (0..SETS).map(|n| format!("{{m}}:k{n}"))
}

/// Creates sets of `a` and `b`. All members expire in `ms`. Returns the time of their expiry.
fn lease(source: &mut Client, ms: i64) -> i64 {
    let ends = source.now() + ms;
    for key in sets() {
        source.run(&format!("ZEXP.ADD {key} AT {ends}ms a {ends}ms b"));
    }
    ends
}

/// Checks at the owner that every set has `b`, which was renewed, and that `a` has expired.
fn only_the_renewed_hold(cluster: &Cluster, owner: usize) {
    let mut client = cluster.nodes[owner].client();
    for key in sets() {
        client.script(&[(format!("ZEXP.MEMBERS {key}"), "['b']")]);
        assert_drained(&mut client, &key, 1);
    }
    assert_eq!(client.int("DBSIZE"), SETS as i64);
    cluster.assert_agrees();
}

#[test]
fn leases_that_are_renewed_while_their_slot_moves_as_a_whole_hold() {
    let cluster = Cluster::start();
    let Some(how) = cluster.atomic_migration() else { return };
    let (from, slot) = (cluster.home("{m}"), cluster.slot("{m}"));
    let to = (from + 1) % 3;
    let (mut source, mut target) = (cluster.nodes[from].client(), cluster.nodes[to].client());
    // The leases expire before the move is complete.
    let ends = lease(&mut source, 6_000);
    cluster.begin_to_move_slowly(how, slot, from, to);
    // The snapshot for the target has the old expiry. The renewals follow it.
    for key in sets() {
        source.run(&format!("ZEXP.ADD {key} XX AT {FAR}ms b"));
    }
    source.wait_until(ends + 500);
    assert_eq!(target.info_number("zeitset", "zeitset_members_expired"), 0);
    cluster.let_move_end(how, from);
    cluster.await_move(how, slot, from, to);
    cluster.wait_for_owner(slot, to);
    only_the_renewed_hold(&cluster, to);
}

#[test]
fn leases_that_are_renewed_while_their_slot_moves_key_by_key_hold() {
    let cluster = Cluster::start();
    let (from, slot) = (cluster.home("{m}"), cluster.slot("{m}"));
    let to = (from + 1) % 3;
    let (mut source, mut target) = (cluster.nodes[from].client(), cluster.nodes[to].client());
    // Before the members expire, the test moves half of the keys, even on a slow machine.
    let ends = lease(&mut source, 10_000);
    target.run(&format!("CLUSTER SETSLOT {slot} IMPORTING {}", cluster.id(from)));
    source.run(&format!("CLUSTER SETSLOT {slot} MIGRATING {}", cluster.id(to)));
    let port = cluster.port(to);
    let keys: Vec<_> = sets().collect();
    let (first, last) = keys.split_at(SETS / 2);
    source.run_all(first.iter().map(|key| format!("MIGRATE 127.0.0.1 {port} {key} 0 10000")));
    for key in &keys {
        let is_there = first.contains(key);
        let client = if is_there { &mut target } else { &mut source };
        if is_there {
            client.run("ASKING");
        }
        client.run(&format!("ZEXP.ADD {key} XX AT {FAR}ms b"));
    }
    source.wait_until(ends + 500);
    // The source still owns all keys, so it deletes members of the keys that have not moved. The target deletes none.
    for key in last {
        assert_drained(&mut source, key, 1);
    }
    assert_eq!(target.info_number("zeitset", "zeitset_members_expired"), 0);
    source.run_all(last.iter().map(|key| format!("MIGRATE 127.0.0.1 {port} {key} 0 10000")));
    for client in [&mut target, &mut source] {
        client.run(&format!("CLUSTER SETSLOT {slot} NODE {}", cluster.id(to)));
    }
    cluster.wait_for_owner(slot, to);
    only_the_renewed_hold(&cluster, to);
}

#[test]
fn queues_are_listed_where_their_slot_is() {
    let cluster = Cluster::start();
    let (from, slot) = (cluster.home("{q}"), cluster.slot("{q}"));
    let to = (from + 1) % 3;
    let lists = || [from, to].map(|node| cluster.nodes[node].client().reply("ZQ.LIST"));
    cluster.client().run("ZQ.PUSH {q}:mails x");
    assert_eq!(lists(), ["['{q}:mails']", "[]"]);
    cluster.move_slot(slot, from, to);
    assert_eq!(lists(), ["[]", "['{q}:mails']"], "key by key");
    if let Some(how) = cluster.atomic_migration() {
        cluster.migrate_slot_atomically(how, slot, to, from);
        cluster.wait_for_owner(slot, from);
        eventually(PATIENCE, "as a whole", || lists() == ["['{q}:mails']", "[]"]);
    }
}

#[test]
fn sets_whose_slot_is_still_arriving_when_the_target_is_restarted_are_sets_afterwards() {
    let mut cluster = Cluster::start();
    let (from, slot) = (cluster.home("{m}"), cluster.slot("{m}"));
    let to = (from + 1) % 3;
    let (mut source, mut target) = (cluster.nodes[from].client(), cluster.nodes[to].client());
    for key in sets() {
        plant(&mut source, &key, &[("a", 1000), ("b", FAR)]);
    }
    target.run(&format!("CLUSTER SETSLOT {slot} IMPORTING {}", cluster.id(from)));
    source.run(&format!("CLUSTER SETSLOT {slot} MIGRATING {}", cluster.id(to)));
    let port = cluster.port(to);
    for key in sets() {
        source.run(&format!("MIGRATE 127.0.0.1 {port} {key} 0 10000"));
    }
    target.rewrite_aof();
    cluster.nodes[to].crash_and_restart();
    cluster.wait_until_up();
    let mut target = cluster.nodes[to].client();
    for client in [&mut target, &mut source] {
        client.run(&format!("CLUSTER SETSLOT {slot} NODE {}", cluster.id(to)));
    }
    cluster.wait_for_owner(slot, to);
    only_the_renewed_hold(&cluster, to);
}

/// The server checks each client once a second, and redirects blocked clients whose slot has moved. By that time, the
/// slot may be on its way back.
#[test]
fn a_client_that_waits_where_a_slot_comes_back_gets_nothing_of_it_before_it_is_there() {
    let cluster = Cluster::start();
    let Some(how) = cluster.atomic_migration() else { return };
    let (home, slot) = (cluster.home("{w}"), cluster.slot("{w}"));
    let away = (home + 1) % 3;
    let (mut here, mut there) = (cluster.nodes[home].client(), cluster.nodes[away].client());
    // With fewer clients, the server checks each client more often.
    let _others: Vec<_> = (0..300).map(|_| cluster.nodes[home].client()).collect();
    here.run("ZQ.PUSH {w}:queue job ID first DELAY 1000h");
    let mut caught = 0;
    for round in 0..40 {
        if caught == 2 {
            break;
        }
        here.run(&format!("ZQ.PUSH {{w}}:queue job ID early{round} DELAY 1000h"));
        let mut waiter = cluster.nodes[home].client();
        let waiting = std::thread::spawn(move || waiter.reply("ZQ.CLAIM 1 {w}:queue LEASE 1000h BLOCK 0"));
        let waits = |here: &mut Client| here.info_number("zeitset", "zeitset_clients_waiting") == 1;
        eventually(PATIENCE, "it waits", || waits(&mut here));
        cluster.migrate_slot_atomically(how, slot, home, away);
        there.run(&format!("ZQ.RESCHEDULE {{w}}:queue early{round} DELAY 0"));
        cluster.begin_to_move_slowly(how, slot, away, home);
        // A copy of the queue with the job is at the target. The source still owns the queue, and one of its workers
        // claims the job.
        let claimed = there.reply("ZQ.CLAIM 1 {w}:queue LEASE 1000h");
        let was_there = waits(&mut here);
        cluster.let_move_end(how, away);
        cluster.await_move(how, slot, away, home);
        cluster.wait_for_owner(slot, home);
        here.run(&format!("ZQ.PUSH {{w}}:queue job ID late{round}"));
        let told = waiting.join().expect("an answer");
        if !claimed.starts_with("!MOVED ") {
            assert!(claimed.contains(&format!("'early{round}'")), "{claimed}");
            assert!(!told.contains(&format!("'early{round}'")), "given to two: {claimed} {told}");
            caught += i32::from(was_there);
        }
        here.run(&format!("ZQ.CANCEL {{w}}:queue late{round} early{round}"));
    }
    assert!(caught > 0, "the client was sent away every time before the slot came back");
    for node in &cluster.nodes {
        assert!(!node.log().contains("zeitset: rejected"));
    }
    cluster.assert_agrees();
}

/// Creates keys of every family.
fn fill(client: &mut Client) -> Vec<(String, String)> {
    client.run("ZLB.CREATE {m}:board DIM points");
    for n in 0..20 {
        client.run(&format!("ZEXP.ADD {{m}}:set AT {FAR}ms m{n}"));
        client.run(&format!("ZEXP.ADD {{m}}:k{n} AT {FAR}ms a"));
        client.run("ZRL.CHECK {m}:limit 1000 1000h");
        client.run(&format!("ZQ.PUSH {{m}}:queue job ID j{n}"));
        client.run(&format!("ZLB.SET {{m}}:board p{n} {n}"));
    }
    client.run("ZQ.CLAIM 1 {m}:queue LEASE 1000h COUNT 5");
    let lines = [
        "ZEXP.MEMBERS {m}:set",
        "GET {m}:limit",
        "ZQ.PEEK {m}:queue CLAIMED",
        "ZQ.PEEK {m}:queue READY COUNT 100",
        "ZLB.RANGE {m}:board 0 -1 WITHVALUES",
    ];
    lines.map(|line| (line.to_owned(), client.reply(line))).into()
}

fn cancel_moves(how: AtomicMigration, client: &mut Client) {
    match how {
        AtomicMigration::Valkey => drop(client.try_run("CLUSTER CANCELSLOTMIGRATIONS")),
        AtomicMigration::Redis => drop(client.run("CLUSTER MIGRATION CANCEL ALL")),
    }
}

#[test]
fn a_source_that_is_killed_during_the_move_of_a_slot_keeps_all_and_can_send_it_again() {
    let mut cluster = Cluster::start();
    let Some(how) = cluster.atomic_migration() else { return };
    let (from, slot) = (cluster.home("{m}"), cluster.slot("{m}"));
    let to = (from + 1) % 3;
    let before = fill(&mut cluster.nodes[from].client());
    cluster.begin_to_move_slowly(how, slot, from, to);
    cluster.nodes[from].kill();
    cancel_moves(how, &mut cluster.nodes[to].client());
    cluster.nodes[from].crash_and_restart();
    cluster.wait_until_up();
    cluster.wait_for_owner(slot, from);
    cluster.nodes[from].client().script(&before);
    let mut target = cluster.nodes[to].client();
    eventually(PATIENCE, "the target has dropped what had arrived", || target.int("DBSIZE") == 0);
    cluster.assert_agrees();
    cluster.migrate_slot_atomically(how, slot, from, to);
    cluster.wait_for_owner(slot, to);
    target.script(&before);
    let claimed = target.reply("ZQ.CLAIM 1 {m}:queue LEASE 1h");
    assert!(claimed.contains("'j5'"), "{claimed}");
    cluster.assert_agrees();
}
