//! Replicas with `repl-diskless-load swapdb` serve their old dataset while they load the new one, and then serve the
//! new one.

use testkit::{Client, PATIENCE, Server, assert_agree, assert_drained, eventually};

/// With this number of keys, loading takes five seconds: 5 ms per key.
const KEYS: usize = 1000;

fn start() -> (Server, Server) {
    let master =
        Server::builder().keeping_aof().config("repl-diskless-sync yes").config("repl-backlog-size 16kb").start();
    let replica = Server::builder()
        .keeping_aof()
        .config("repl-diskless-load swapdb")
        .config("replica-read-only no")
        .config("loading-process-events-interval-bytes 1024")
        .replica_of(&master);
    replica.wait_for_sync(&master);
    (master, replica)
}

/// Disconnects the replica and runs the commands. Writes more than the backlog holds, so that the replica needs a full
/// synchronization.
fn part(m: &mut Client, commands: &[&str]) {
    m.run("MULTI");
    m.run("CLIENT KILL TYPE replica");
    for command in commands {
        m.run(command);
    }
    m.run(&format!("SET filler {}", "x".repeat(100_000)));
    m.run("EXEC");
}

#[test]
fn the_old_dataset_is_served_while_the_new_one_is_loaded() {
    let (master, replica) = start();
    let (mut m, mut r) = (master.client(), replica.client());
    let old = [
        ("ZEXP.ADD set 1h a 1h b", "ZEXP.CARD set", "2"),
        ("ZRL.CHECK limit 10 1h COST 4", "ZRL.PEEK limit 5 1h COST 2", "[0 5 1 "),
        ("ZQ.PUSH queue x ID a", "ZQ.PEEK queue", "[['a' "),
        ("ZLB.CREATE board DIM x", "ZLB.INFO board", "['members' 0 "),
    ];
    old.iter().for_each(|(write, ..)| drop(m.run(write)));
    m.run_all((0..KEYS).map(|key| format!("SET key{key} {}", "x".repeat(100))));
    replica.wait_for_sync(&master);
    r.run("CONFIG SET key-load-delay 5000");
    part(&mut m, &["ZEXP.ADD set 1h c", "ZQ.PUSH queue x ID b", "ZLB.SET board m 1", "ZRL.CHECK limit 10 1h COST 6"]);
    eventually(PATIENCE, "the replica loads", || r.info_number("persistence", "async_loading") == 1);
    for (_, read, reply) in old {
        let got = r.reply(read);
        assert!(got.starts_with(reply), "{read}: {got}");
    }
    assert_eq!(r.info_number("persistence", "async_loading"), 1, "all of that was read from the old dataset");
    r.run("CONFIG SET key-load-delay 0");
    replica.wait_for_sync(&master);
    for (read, reply) in [
        ("ZEXP.CARD set", "3"),
        ("ZRL.PEEK limit 10 1h", "[0 10 0 "),
        ("ZQ.GET queue b", "['state' 'ready' "),
        ("ZLB.INFO board", "['members' 1 "),
    ] {
        let got = r.reply(read);
        assert!(got.starts_with(reply), "{read}: {got}");
    }
    assert!(!replica.log().contains("not aware of async replication"), "the server loads as it was told to");
    assert_agree(&master, &[&replica]);
}

/// The module has data about a set of the old dataset. These data must not apply to a set with the same name in the new
/// dataset.
#[test]
fn an_ordinary_set_that_takes_the_place_of_an_expiring_one_is_left_alone() {
    let (master, replica) = start();
    let (mut m, mut r) = (master.client(), replica.client());
    m.run("ZEXP.ADD set 1h a");
    replica.wait_for_sync(&master);
    eventually(PATIENCE, "the replica knows the set", || r.info_number("zeitset", "zeitset_sets_tracked") == 1);
    // A replica does not add the tag again, so it stays pending.
    r.run("ZPOPMIN set");
    part(&mut m, &["DEL set", "ZADD set 1 x 2 y 3 z", "EXPIRE set 1000", "ZEXP.ADD other 1s gone 1h stays"]);
    replica.wait_for_sync(&master);
    eventually(PATIENCE, "the new dataset", || r.int("ZCARD set") == 3);
    r.run("REPLICAOF NO ONE");
    assert_drained(&mut r, "other", 1);
    r.script(&[("ZRANGE set 0 -1", "['x' 'y' 'z']"), ("ZEXP.CARD set", "!NOTEXPIRING")]);
    let ttl = r.int("PTTL set");
    assert!((900_000..=1_000_000).contains(&ttl), "nobody sets another TTL: {ttl}");
    // Both servers are masters now, with different data.
    assert_agree(&master, &[]);
    assert_agree(&replica, &[]);
}

/// The replica is writable, so that commands can move keys while it loads the new dataset.
#[test]
fn moves_on_a_replica_that_loads_next_to_its_old_data_lose_no_queue() {
    const QUEUES: usize = 300;
    let (master, replica) = start();
    let (mut m, mut r) = (master.client(), replica.client());
    m.run("ZQ.PUSH old x");
    m.run_all((0..QUEUES).map(|n| format!("ZQ.PUSH queue{n} x")));
    replica.wait_for_sync(&master);
    r.run("SET a0 1");
    r.run("CONFIG SET key-load-delay 10000");
    part(&mut m, &["DEL old", "ZQ.PUSH new x"]);
    eventually(PATIENCE, "the replica loads", || r.info_number("persistence", "async_loading") == 1);
    let mut moves = 0;
    while moves < 20 && r.info_number("persistence", "async_loading") == 1 {
        moves += usize::from(r.try_run(&format!("RENAME a{moves} a{}", moves + 1)).is_ok());
    }
    assert!(moves > 0, "keys were renamed meanwhile");
    r.run("CONFIG SET key-load-delay 0");
    replica.wait_for_sync(&master);
    let mut names: Vec<_> = (0..QUEUES).map(|n| format!("queue{n}")).chain(["new".into()]).collect();
    names.sort();
    assert_eq!(r.strings("ZQ.LIST COUNT 1000"), names);
}
