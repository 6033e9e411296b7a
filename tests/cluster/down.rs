//! A cluster whose state is `fail` refuses commands, even commands of the module's timers. Then the module deletes no
//! member, replicates nothing and serves no client. It continues when the cluster is up again.

use testkit::{Client, Cluster, FAR, PATIENCE, assert_drained, eventually};

fn state(client: &mut Client) -> String {
    client.info_of("CLUSTER INFO")["cluster_state"].clone()
}

/// Takes a slot from the node, so that the node considers the cluster down.
fn take_down(client: &mut Client, slot: i64) {
    client.run(&format!("CLUSTER DELSLOTS {slot}"));
    eventually(PATIENCE, "the cluster is down", || state(client) == "fail");
}

fn bring_up(client: &mut Client, slot: i64) {
    client.run(&format!("CLUSTER ADDSLOTS {slot}"));
    eventually(3 * PATIENCE, "the cluster is up", || state(client) == "ok");
}

#[test]
fn a_cluster_that_is_down_sweeps_nothing_and_replicates_nothing() {
    // With `cluster-allow-reads-when-down yes`, the cluster allows reads but no writes.
    for reads in ["no", "yes"] {
        let config = "cluster-node-timeout 15000\ncluster-replica-no-failover yes\ncluster-allow-reads-when-down";
        let cluster = Cluster::with(&format!("{config} {reads}"));
        let home = cluster.home("{d}");
        let mut c = cluster.nodes[home].client();
        // This slot of the same node has no keys.
        let slot = if cluster.slot("{d}") > 16_000 { 16_000 } else { cluster.slot("{d}") + 1 };
        assert_eq!(cluster.nodes[home].client().int(&format!("CLUSTER COUNTKEYSINSLOT {slot}")), 0);
        // Before this time, the test takes the cluster down, even on a busy machine.
        let soon = c.now() + 5000;
        for n in 0..10 {
            c.run(&format!("ZEXP.ADD {{d}}:set AT {soon}ms dead{n} {FAR}ms live{n} {}ms more{n}", FAR + 1));
            c.run(&format!("ZEXP.ADD {{d}}:all AT {soon}ms a{n}"));
        }
        take_down(&mut c, slot);
        let sent = c.info_number("replication", "master_repl_offset");
        let (slices, before) = (c.info_number("zeitset", "zeitset_sweep_slices"), std::time::Instant::now());
        c.wait_until(soon + 1500);
        assert_eq!(c.info_number("zeitset", "zeitset_members_expired"), 0);
        assert_eq!(c.info_number("replication", "master_repl_offset"), sent, "something was replicated");
        let slices = c.info_number("zeitset", "zeitset_sweep_slices") - slices;
        assert!(slices <= 4 + 2 * before.elapsed().as_secs() as i64, "{slices} slices in {:?}", before.elapsed());
        bring_up(&mut c, slot);
        assert_drained(&mut c, "{d}:set", 20);
        assert_drained(&mut c, "{d}:all", 0);
        assert_eq!(c.info_number("zeitset", "zeitset_members_expired"), 20);
        cluster.assert_agrees();
    }
}

#[test]
fn clients_that_wait_in_a_cluster_that_is_down_are_served_when_it_is_up() {
    let cluster = Cluster::start();
    let home = cluster.home("{d}");
    let mut c = cluster.nodes[home].client();
    let slot = if cluster.slot("{d}") > 16_000 { 16_000 } else { cluster.slot("{d}") + 1 };
    c.run("ZQ.PUSH {d}:queue job ID due DELAY 5s");
    let due = c.now() + 5000;
    let mut client = cluster.client();
    let waiting = std::thread::spawn(move || {
        loop {
            // The server may reply CLUSTERDOWN to waiting clients. Then the worker claims again.
            match client.try_run("ZQ.CLAIM 1 {d}:queue LEASE 1000h BLOCK 0") {
                Ok(jobs) => return testkit::show(&jobs),
                Err(error) => assert!(error.starts_with("CLUSTERDOWN"), "{error}"),
            }
        }
    });
    c.wait_for_blocked(1);
    take_down(&mut c, slot);
    c.wait_until(due + 500);
    assert_eq!(c.info_number("zeitset", "zeitset_clients_served"), 0);
    bring_up(&mut c, slot);
    assert!(waiting.join().expect("an answer").contains("'due'"));
    assert!(c.reply("ZQ.GET {d}:queue due").contains("'attempts' 1"));
    cluster.assert_agrees();
}
