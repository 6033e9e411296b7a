//! From the module under test to the earlier release: what it does not read, it refuses by name.

use super::super::start_with;
use super::*;
use crate::data::failover::fail_over;
use testkit::{Cli, PATIENCE, Page, Program, blocks, eventually, root};

/// docs/upgrading.md, "Queues and boards": a replica refuses the effects, and gets everything after its upgrade.
#[test]
#[ignore = "needs a build of an earlier release: make test-versions"]
fn a_replica_names_and_counts_what_it_refuses_and_gets_everything_after_its_upgrade() {
    for (seed, kept) in KEPT.into_iter().enumerate() {
        let master = Server::builder().config(kept).start();
        let mut replica = earlier().panicking().config(kept).replica_of(&master);
        run(&mut Traffic::new(seed as u64, &DURATIONS), &master);
        replica.wait_for_sync(&master);
        assert_effects_are_refused(&replica);
        assert!(replica.client().info("errorstats")["errorstat_ERR"] != "count=0", "the server counts refusals");
        assert_only_plain_keys_are_there(&master, &replica);
        shut_down(&mut replica);
        delete_files(&replica);
        replica.upgrade_module();
        replica.crash_and_restart();
        replica.wait_for_sync(&master);
        assert_same(&master, &replica);
    }
}

/// docs/upgrading.md, "Back to 0.3".
#[test]
#[ignore = "needs a build of an earlier release: make test-versions"]
fn a_failover_to_the_earlier_release_and_back_loses_only_what_it_has_refused() {
    let kept = KEPT[0];
    let mut traffic = Traffic::new(7, &DURATIONS);
    // As a replica of the earlier release, it rejects changes of queues that the earlier release does not have.
    let mut new = Server::builder().panicking().config(kept).start();
    let old = earlier().panicking().config(kept).replica_of(&new);
    run(&mut traffic, &new);
    fail_over(&mut new.client(), &old);
    convert_sets(&old);
    let mut c = old.client();
    for key in c.strings("KEYS *") {
        let is_expiring = c.reply(&format!("ZEXP.CARD {key}")).parse::<i64>().is_ok();
        assert!(kind(&mut c, &key) != "zset" || is_expiring, "{key}");
    }
    run(&mut traffic, &old);
    new.wait_for_sync(&old);
    assert!(
        Dataset::of(&mut new.client()) != Dataset::of(&mut old.client()),
        "the earlier release has refused effects"
    );
    shut_down(&mut new);
    delete_files(&new);
    new.crash_and_restart();
    new.follow(&old);
    assert_files_agree(kept, &old, &new);
    fail_over(&mut old.client(), &new);
    run(&mut traffic, &new);
}

/// docs/upgrading.md, "Queues and boards": a snapshot goes back, an AOF with effects does not.
#[test]
#[ignore = "needs a build of an earlier release: make test-versions"]
fn the_earlier_release_loads_snapshots_and_names_the_effects_that_it_does_not_read() {
    for (seed, kept) in KEPT.into_iter().enumerate() {
        let server = Server::builder().config(kept).start();
        let mut c = server.client();
        run(&mut Traffic::new(seed as u64, &DURATIONS), &server);
        if c.info("persistence")["aof_enabled"] == "1" {
            let back = loaded(earlier().panicking(), kept, &server);
            assert_effects_are_refused(&back);
            assert_only_plain_keys_are_there(&server, &back);
        }
        let unknown = unknown(&mut c);
        if unknown.is_empty() {
            eventually(PATIENCE, "the earlier release reads snapshots, and so do we", || goes_and_comes(kept, &server));
        } else {
            c.run("SAVE");
            let snapshot = read(&server.folder().join("dump.rdb"));
            let back = start_with(earlier().panicking(), "appendonly no", &[]);
            fs::write(back.folder().join("dump.rdb"), snapshot).expect("the folder can be written");
            assert!(back.client().try_run("DEBUG RELOAD NOSAVE").is_err(), "the earlier release loads the snapshot");
            let log = back.log();
            assert!(unknown.iter().any(|key| log.contains(key.as_str())), "{unknown:?}: {log}");
        }
    }
}

/// Whether the earlier release loads the server's data, and this version loads it from there. An AOF becomes a snapshot
/// first, without effects. Returns false if the upkeep has changed the server meanwhile.
fn goes_and_comes(kept: &str, server: &Server) -> bool {
    let mut c = server.client();
    if c.info("persistence")["aof_enabled"] == "1" {
        c.rewrite_aof();
    }
    let back = loaded(earlier().panicking(), kept, server);
    let loaded = loaded(Server::builder(), kept, &back);
    Dataset::of(&mut loaded.client()) == Dataset::of(&mut c)
}

/// docs/upgrading.md, "Back to 0.3".
#[test]
#[ignore = "needs a build of an earlier release: make test-versions"]
fn migrate_moves_what_the_earlier_release_reads_and_sets_can_be_converted() {
    let kept = KEPT[1];
    let new = Server::builder().config(kept).start();
    let old = earlier().config(kept).start();
    run(&mut Traffic::new(3, &DURATIONS), &new);
    let mut c = new.client();
    let unknown = unknown(&mut c);
    migrate(&mut c, &old, &unknown);
    for key in &unknown {
        assert!(old.log().contains(key.as_str()), "{key}: {}", old.log());
    }
    // The expiries of limits have moved by some milliseconds.
    let mut o = old.client();
    let mut sets = 0;
    for key in c.strings("KEYS *").iter().filter(|key| !unknown.contains(key)) {
        if kind(&mut c, key) == "zset" {
            sets += 1;
            o.script(&[(format!("ZEXP.CARD {key}"), "!NOTEXPIRING")]);
            assert_eq!(members(&mut o, key), members(&mut c, key), "{key}");
        } else {
            assert_eq!(o.dump(key), c.dump(key), "{key}");
        }
    }
    assert!(sets > 0);
    convert_sets(&old);
    for key in c.strings("KEYS *") {
        if kind(&mut c, &key) == "zset" {
            assert_eq!(o.int(&format!("ZEXP.CARD {key}")), c.int(&format!("ZEXP.CARD {key}")), "{key}");
        }
    }
}

/// Makes sets of 0.3 from a server's sets, as the page says.
fn convert_sets(server: &Server) {
    let page = Page::read(&root().join("docs/upgrading.md"));
    let [script] = &blocks(page.section("From 0.3 to 0.4"), "sh")[..] else { panic!("one script") };
    let cli = format!("{} -p {}", Cli::program().display(), server.address().1);
    Program::output(std::process::Command::new("sh").args(["-euc", &script.replace("redis-cli", &cli)]));
}

/// Returns the names of the queues and boards whose format the earlier release does not know.
fn unknown(c: &mut Client) -> Vec<String> {
    // The type of the value, and the number of the format.
    let form = |c: &mut Client, key: &str| c.dump(key)[..12].to_vec();
    let server = earlier().start();
    let mut e = server.client();
    e.run_all(["ZQ.PUSH queue x", "ZLB.CREATE board DIM x"]);
    let known = ["queue", "board"].map(|key| form(&mut e, key));
    let mut keys = c.strings("KEYS *");
    keys.retain(|key| kind(c, key).starts_with("zeit") && !known.contains(&form(c, key)));
    keys
}

#[track_caller]
fn assert_effects_are_refused(server: &Server) {
    let log = server.log();
    for command in ["ZQ.APPLY", "ZLB.APPLY"] {
        let is_refusal = |line: &str| line.contains("== CRITICAL ==") && line.contains(&format!("'{command}'"));
        assert!(log.lines().any(is_refusal), "{command}: {log}");
    }
    for crash in ["BUG REPORT", "ASSERTION FAILED", "crashed by signal", "panicked at"] {
        assert!(!log.contains(crash), "{log}");
    }
}

/// Asserts that a server of the earlier release has the sets and limits of `master`, but no queue and no board. ZEXP
/// commands do not take the sets for expiring sets.
#[track_caller]
fn assert_only_plain_keys_are_there(master: &Server, earlier: &Server) {
    let (mut c, mut e) = (master.client(), earlier.client());
    for key in c.strings("KEYS *") {
        match &*kind(&mut c, &key) {
            "zset" => {
                assert_eq!(members(&mut e, &key), members(&mut c, &key), "{key}");
                e.script(&[(format!("ZEXP.CARD {key}"), "!NOTEXPIRING")]);
            }
            "string" => assert_eq!(e.reply(&format!("GET {key}")), c.reply(&format!("GET {key}")), "{key}"),
            _ => assert_eq!(kind(&mut e, &key), "none", "{key}"),
        }
    }
}
