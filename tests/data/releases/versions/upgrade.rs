//! From the earlier release to the module under test. Everything must arrive.

use super::super::{assert_aof_is_loaded, assert_dumps_are_restored, assert_loaded, assert_rdb_is_loaded};
use super::*;
use crate::data::failover::fail_over;
use testkit::{TAG, assert_agree};

/// Every change of every family, with files, replicas and payloads.
#[test]
#[ignore = "needs a build of an earlier release: make test-versions"]
fn servers_of_the_earlier_release_are_upgraded() {
    let folder = empty_folder("versions-upgrade");
    let (clock, master) = making::start(earlier());
    let of_master = || Server::builder().keeping_aof().clock(&clock).config("zeitset.sweep no").replica_of(&master);
    let (replica, mut late) = (of_master(), None);
    making::write(&folder, &master, &clock, || {
        // This replica gets all data in a snapshot.
        for replica in [&replica, late.insert(of_master())] {
            replica.wait_for_sync(&master);
            replica.client().run_all(["REPLICAOF NO ONE", "CONFIG SET zeitset.sweep yes"]);
        }
    });
    for (replica, way) in [(&replica, "replication"), (&late.expect("a replica"), "a full sync")] {
        assert_loaded(replica, &folder, way);
        assert_agree(replica, &[]);
    }
    assert_rdb_is_loaded(&folder);
    assert_aof_is_loaded(&folder);
    assert_dumps_are_restored(&folder);
}

/// docs/upgrading.md, "Order".
#[test]
#[ignore = "needs a build of an earlier release: make test-versions"]
fn the_replica_first_then_a_failover_then_the_old_master_which_gets_everything() {
    for (seed, kept) in KEPT.into_iter().enumerate() {
        let mut traffic = Traffic::new(seed as u64, &DURATIONS);
        // As a replica, it logs what it does not understand as critical.
        let mut old = earlier().panicking().config(kept).start();
        run(&mut traffic, &old);
        let new = Server::builder().config(kept).replica_of(&old);
        run(&mut traffic, &old);
        new.wait_for_sync(&old);
        assert_files_agree(kept, &old, &new);

        fail_over(&mut old.client(), &new);
        run(&mut traffic, &new);
        old.wait_for_sync(&new);
        shut_down(&mut old);
        delete_files(&old);
        old.upgrade_module();
        // As CONFIG REWRITE writes it, or Sentinel.
        old.edit_config(|lines| format!("{lines}replicaof 127.0.0.1 {}\n", new.address().1));
        old.crash_and_restart();
        old.wait_for_sync(&new);
        assert_same(&new, &old);

        fail_over(&mut new.client(), &old);
        run(&mut traffic, &old);
        new.wait_for_sync(&old);
        assert_same(&old, &new);
        for server in [&new, &old] {
            for field in ["zeitset_queue_effects_rejected", "zeitset_board_effects_rejected"] {
                assert_eq!(server.client().info_number("zeitset", field), 0, "{field}");
            }
        }
    }
}

/// docs/upgrading.md, "Expiring sets of 0.3": MIGRATE sends the remaining milliseconds, by which a set of 0.3 may no
/// longer be recognized.
#[test]
#[ignore = "needs a build of an earlier release: make test-versions"]
fn migrate_moves_everything_and_sets_can_be_adopted() {
    let kept = KEPT[1];
    let mut traffic = Traffic::new(3, &DURATIONS);
    let old = earlier().config(kept).start();
    let new = Server::builder().config(kept).start();
    run(&mut traffic, &old);
    migrate(&mut old.client(), &new, &[]);
    let expected = loaded(Server::builder(), kept, &old);
    let (mut expected, mut c) = (expected.client(), new.client());
    let keys = expected.strings("KEYS *");
    assert_eq!(c.int("DBSIZE"), keys.len() as i64);
    for key in keys {
        if kind(&mut c, &key) == "zset" {
            // A set that arrived in the same millisecond is still recognized: ADOPT only adds its tag.
            if c.reply(&format!("ZEXP.CARD {key}")).starts_with("!NOTEXPIRING") {
                c.run(&format!("PERSIST {key}"));
            }
            c.run(&format!("ZEXP.ADOPT {key}"));
            let all = members(&mut c, &key);
            assert_eq!((&*all[0], &*all[1], &all[2..]), (TAG, "-inf", &members(&mut expected, &key)[..]), "{key}");
            c.script(&[(format!("PTTL {key}"), "-1")]);
        } else {
            assert_eq!(c.dump(&key), expected.dump(&key), "{key}");
            let [after, before] = [&mut c, &mut expected].map(|c| c.int(&format!("PTTL {key}")) > 0);
            assert_eq!(after, before, "{key}");
        }
    }
}
