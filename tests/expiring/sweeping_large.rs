//! Many members expire at the same time. The server keeps answering, replicas get few commands, and other changes of
//! the set do no harm.

use std::time::Duration;
use testkit::{
    Client, PATIENCE, Server, Stream, assert_drained, assert_tagged, at_full_speed, backlog, begin_draining, card,
    drained, draining, eventually, start, start_with_clock,
};

/// To delete this number of expired members, the slowest sweeper needs seconds.
const MANY: usize = 60_000;

/// The timeout for draining a large set on a busy machine.
const LONG: Duration = Duration::from_secs(120);

#[test]
fn two_hundred_thousand_dead_leave_in_few_commands_while_others_are_served() {
    const DEAD: usize = 200_000;
    let (server, mut c) = start();
    backlog(&mut c, "k", DEAD);
    let mut stream = Stream::attach(&server);
    let before = c.info_number("zeitset", "zeitset_sweep_slices");
    c.run("CONFIG SET zeitset.sweep yes");
    let mut seen = std::collections::BTreeSet::new();
    eventually(LONG, "it is drained", || {
        // The server runs both commands between slices.
        c.script(&[("ZEXP.CARD k", "1")]);
        seen.insert(card(&mut c, "k"));
        seen.contains(&1)
    });
    assert!(seen.len() > 10, "the server answered {} times on the way", seen.len());
    let slices = c.info_number("zeitset", "zeitset_sweep_slices") - before;
    let replicated = stream.take();
    // All members expired at the same time, so each is removed by its name, once. Only the last slice removes its
    // members as a range.
    let names = replicated.iter().filter_map(|command| command.strip_prefix("ZREM k "));
    let names: Vec<_> = names.flat_map(|names| names.split(' ')).collect();
    let distinct: std::collections::HashSet<_> = names.iter().collect();
    assert_eq!(distinct.len(), names.len());
    assert!(names.iter().all(|name| name.starts_with('d')));
    let others: Vec<_> = replicated.iter().filter(|command| !command.starts_with("ZREM k ")).collect();
    assert_eq!(others.len(), 1, "{:?}", others.iter().take(3).collect::<Vec<_>>());
    assert!(others[0].starts_with("ZREMRANGEBYSCORE k (-inf "));
    assert!(replicated.len() <= usize::try_from(slices).expect("a few"), "{} in {slices} slices", replicated.len());
    assert!(replicated.len() <= DEAD / 50, "{} commands", replicated.len());
    assert_tagged(&mut c, "k");
}

#[test]
fn a_set_all_dead_leaves_in_few_commands() {
    const DEAD: usize = 100_000;
    let (server, mut c) = start();
    backlog(&mut c, "k", DEAD);
    c.run("ZREM k live");
    let mut stream = Stream::attach(&server);
    c.run("CONFIG SET zeitset.sweep yes");
    eventually(LONG, "it is gone", || c.int("EXISTS k") == 0);
    let mut replicated = stream.take();
    replicated.retain(|command| !["MULTI", "EXEC"].contains(&command.as_str()));
    assert_eq!(replicated.last().map(String::as_str), Some("UNLINK k"));
    assert!(replicated.len() <= DEAD / 50, "{} commands", replicated.len());
    assert_eq!(c.info_number("zeitset", "zeitset_members_expired"), i64::try_from(DEAD).expect("a few"));
}

#[test]
fn a_backlog_neither_hides_nor_revives_members() {
    let (_server, mut c) = start();
    draining(&mut c, "k", MANY);
    c.script(&[
        ("ZEXP.CARD k", "1"),
        ("ZEXP.MEMBERS k", "['live']"),
        // The sweeper deletes this member last.
        ("ZEXP.ISMEMBER k d9999", "0"),
        ("ZEXP.ADD k 1h d9999 1h new", "2"),
        ("ZEXP.CARD k", "3"),
        ("ZEXP.REM k new", "1"),
    ]);
    at_full_speed(&mut c);
    eventually(LONG, "it is drained", || card(&mut c, "k") == 2);
    c.script(&[("ZEXP.MEMBERS k", "['d9999' 'live']")]);
    assert_tagged(&mut c, "k");
}

#[test]
fn the_sweeper_waits_while_writes_are_paused() {
    for pause in ["CLIENT PAUSE 600000 WRITE", "CLIENT PAUSE 31500 ALL"] {
        let (clock, server, mut c) = start_with_clock("");
        // The sweeper's writes are replicated.
        let replica = Server::builder().plain().replica_of(&server);
        backlog(&mut c, "k", MANY);
        c.run("ZEXP.ADD other 20s dead 1h live");
        begin_draining(&mut c, "k", MANY);
        c.run(pause);
        clock.advance(Duration::from_secs(30));
        if pause.ends_with("WRITE") {
            let (left, offset) = (c.int("ZCARD k"), c.info_number("replication", "master_repl_offset"));
            let until = c.now() + 1000;
            c.wait_until(until);
            // Reads continue.
            c.script(&[("ZEXP.CARD k", "1"), ("ZCARD k", &left.to_string()), ("ZCARD other", "3")]);
            assert_eq!(c.info_number("replication", "master_repl_offset"), offset);
            c.run("CLIENT UNPAUSE");
        }
        at_full_speed(&mut c);
        drained(&mut c, "k");
        assert_drained(&mut c, "other", 1);
        replica.wait_for_sync(&server);
        drained(&mut replica.client(), "k");
    }
}

#[test]
fn a_snapshot_during_a_backlog_is_whole() {
    let (mut server, mut c) = start();
    draining(&mut c, "k", MANY);
    c.run("BGSAVE");
    eventually(PATIENCE, "it is saved", || c.info_number("persistence", "rdb_bgsave_in_progress") == 0);
    c.script(&[("ZEXP.CARD k", "1")]);
    server.crash_and_restart();
    let mut c = server.client();
    c.script(&[("ZEXP.CARD k", "1")]);
    at_full_speed(&mut c);
    drained(&mut c, "k");
}

#[test]
fn an_aof_rewritten_during_a_backlog_is_whole() {
    for preamble in ["yes", "no"] {
        let mut server = Server::builder()
            .config("appendonly yes")
            .config("auto-aof-rewrite-percentage 0")
            .config(&format!("aof-use-rdb-preamble {preamble}"))
            .start();
        let mut c = server.client();
        draining(&mut c, "k", MANY);
        c.run("BGREWRITEAOF");
        c.run("ZEXP.ADD k AT 4102444800000ms late");
        eventually(PATIENCE, "it is rewritten", || {
            c.info_number("persistence", "aof_rewrite_in_progress") == 0
                && c.info_number("persistence", "aof_rewrite_scheduled") == 0
        });
        at_full_speed(&mut c);
        eventually(LONG, "it is drained", || card(&mut c, "k") == 2);
        server.remove_module();
        server.restart();
        let mut c = server.client();
        c.script(&[("ZRANGE k 1 -1", "['late' 'live']")]);
        assert_tagged(&mut c, "k");
    }
}

#[test]
fn a_replica_that_comes_during_a_backlog_gets_the_rest_of_it() {
    let (server, mut c) = start();
    draining(&mut c, "k", MANY);
    let replica = Server::builder().plain().replica_of(&server);
    at_full_speed(&mut c);
    drained(&mut c, "k");
    replica.wait_for_sync(&server);
    let mut r = replica.client();
    drained(&mut r, "k");
}

#[test]
fn a_set_taken_away_during_its_backlog_is_forgotten() {
    for (away, left) in [
        ("DEL k", Some(0)),
        ("FLUSHALL", Some(0)),
        ("SET k text", None),
        // The tag is one of the eleven members.
        ("ZRANGESTORE k k 0 10", Some(10)),
        // The set is ordinary, and keeps the members that it still has.
        ("ZREM k zeitset:expiring", None),
        ("ZADD k 1 zeitset:expiring", None),
    ] {
        let (_server, mut c) = start();
        draining(&mut c, "k", MANY);
        c.run(away);
        let (ttl, left) = (c.int("PEXPIRETIME k"), left.map_or_else(|| c.reply("ZCARD k"), |left| left.to_string()));
        at_full_speed(&mut c);
        testkit::after_scan(&mut c);
        assert_eq!((c.reply("ZCARD k"), c.int("PEXPIRETIME k")), (left, ttl), "{away}");
        let fields = ["sweep_backlog_sets", "sweep_backlog_members"];
        assert_eq!(fields.map(|field| c.info_number("zeitset", &format!("zeitset_{field}"))), [0, 0], "{away}");
    }
}

#[test]
fn a_set_moved_during_its_backlog_is_drained_where_it_is() {
    for (way, database, key) in [("RENAME k new", 0, "new"), ("MOVE k 3", 3, "k"), ("SWAPDB 0 3", 3, "k")] {
        let (_server, mut c) = start();
        draining(&mut c, "k", MANY);
        c.run(way);
        at_full_speed(&mut c);
        c.run(&format!("SELECT {database}"));
        drained(&mut c, key);
    }
}

/// Drains `k`. Returns the sweeper's share of the time in percent.
fn share_of_draining(c: &mut Client) -> i64 {
    let busy = |c: &mut Client| c.info_number("zeitset", "zeitset_sweep_cpu_us");
    let (before, began) = (busy(c), c.now());
    c.run("CONFIG SET zeitset.sweep yes");
    drained(c, "k");
    (busy(c) - before) / 10 / (c.now() - began).max(1)
}

#[test]
fn the_sweeper_takes_no_more_than_its_share() {
    let (_server, mut c) = start();
    backlog(&mut c, "k", MANY);
    c.run("CONFIG SET zeitset.sweep-slice-us 2000 zeitset.sweep-max-duty 10");
    let share = share_of_draining(&mut c);
    // The share can exceed 10 %, because no pause follows the last slice.
    assert!(share <= 20, "{share} %");
}

#[test]
fn the_sweeper_goes_on_gently_while_a_child_saves() {
    let (_server, mut c) = start();
    backlog(&mut c, "k", 2 * MANY);
    c.run_all((0..3000).map(|n| format!("SET s{n} x")));
    // The child process would run for five minutes.
    c.run("CONFIG SET rdb-key-save-delay 100000");
    c.run("BGSAVE");
    at_full_speed(&mut c);
    let share = share_of_draining(&mut c);
    assert_eq!(c.info_number("persistence", "rdb_bgsave_in_progress"), 1);
    // While a child saves, the sweeper may use a quarter of its usual 90 %.
    assert!(share <= 50, "{share} %");
    c.run("FLUSHALL");
    eventually(PATIENCE, "the child is gone", || c.info_number("persistence", "rdb_bgsave_in_progress") == 0);
}
