//! The module is loaded into a running server and unloaded again. The data stay and remain usable.

use testkit::{
    Client, Dataset, FAR, NEVER, PATIENCE, Server, TAG, after_scan, assert_drained, assert_tagged, command, eventually,
    module, plant,
};

/// Starts a server without the module in its configuration. It keeps no AOF, because it could not load one with
/// commands of the module.
fn modular() -> Server {
    Server::builder().plain().without_aof().config("enable-module-command yes").start()
}

/// Loads only the families that store plain values. With its own data types, the module could not be unloaded.
fn load(c: &mut Client) {
    c.call(load_command().arg("plain"));
}

fn load_command() -> redis::Cmd {
    let mut command = redis::cmd("MODULE");
    command.arg("LOAD").arg(module().as_os_str().as_encoded_bytes());
    command
}

#[test]
fn with_its_own_data_types_it_stays() {
    let server = modular();
    let mut c = server.client();
    c.call(&load_command());
    let refused = c.reply("MODULE UNLOAD zeitset");
    assert!(refused.starts_with("!ERR"), "{refused}");
    c.script(&[("ZEXP.CARD k", "0"), ("ZQ.PUSH q x ID a", "'a'")]);
}

#[test]
fn by_default_a_server_lets_nobody_unload_a_module() {
    let server = Server::builder().arguments("plain").start();
    server.client().script(&[("MODULE UNLOAD zeitset", "!ERR MODULE command not allowed")]);
}

#[test]
fn plain_means_without_queues_and_boards_and_nothing_else_is_known() {
    let server = modular();
    let mut c = server.client();
    for wrong in ["nonsense", ""] {
        assert!(c.try_call(load_command().arg(wrong)).is_err());
    }
    assert!(c.try_call(load_command().arg("plain").arg("plain")).is_err());
    load(&mut c);
    c.script(&[
        ("ZEXP.ADD k 5m a", "1"),
        ("ZQ.PUSH q x", "!ERR unknown command"),
        ("ZLB.CARD b", "!ERR unknown command"),
    ]);
}

/// Unloads the module as soon as no timer is armed. The first keyspace scan after loading may still run, even if no set
/// is due.
#[track_caller]
fn unload(c: &mut Client) {
    eventually(PATIENCE, "the module is unloaded", || c.reply("MODULE UNLOAD zeitset") == "+OK");
    // Newer servers list their built-in modules, too.
    assert!(!c.reply("MODULE LIST").contains("zeitset"));
    c.script(&[("ZEXP.CARD k", "!ERR unknown command")]);
}

#[test]
fn loaded_into_a_running_server_it_finds_what_is_there() {
    let server = modular();
    let mut c = server.client();
    let soon = c.now() + 1000;
    for database in 0..16 {
        c.run(&format!("SELECT {database}"));
        plant(&mut c, "dead", &[("a", soon - 10_000), ("b", soon - 9000)]);
        plant(&mut c, "mixed", &[("a", 1), ("live", FAR)]);
        plant(&mut c, "soon", &[("a", soon), ("live", FAR)]);
        c.run("ZADD plain 1000 x");
    }
    c.run_all((0..2000).map(|n| format!("SET s{n} x")));
    load(&mut c);
    for database in 0..16 {
        c.run(&format!("SELECT {database}"));
        assert_drained(&mut c, "dead", 0);
        for key in ["mixed", "soon"] {
            assert_drained(&mut c, key, 1);
            c.script(&[(format!("ZEXP.MEMBERS {key}"), "['live']")]);
            assert_tagged(&mut c, key);
        }
        c.script(&[("ZRANGE plain 0 -1", "['x']")]);
    }
}

/// No event reaches code of the module after it was unloaded.
#[test]
fn it_can_be_unloaded_while_nothing_is_due_soon_and_takes_nothing_with_it() {
    let server = modular();
    let mut c = server.client();
    load(&mut c);
    plant(&mut c, "never", &[("m", NEVER)]);
    c.run_all(["ZADD plain 1000 x", "ZRL.CHECK limit 10 1h", &format!("ZEXP.ADD k AT {FAR}ms m")]);
    after_scan(&mut c);
    let before = Dataset::of(&mut c);
    unload(&mut c);
    assert_eq!(Dataset::of(&mut c), before);
    c.script(&[("ZADD k 1000 dead", "1"), ("ZCARD k", "3")]);
    c.run_all(["RENAME k l", "COPY l k", "MOVE l 3", "EXPIRE k 100", "PERSIST k", "SWAPDB 0 3", "FLUSHALL"]);
    assert!(c.info("everything").keys().all(|field| !field.starts_with("zeitset")));
    // Waits until the server's cron has run, too.
    let later = c.now() + 300;
    c.wait_until(later);
    c.script(&[("CONFIG GET zeitset.*", "[]"), ("PING", "+PONG")]);
}

/// The list of the expiring sets takes some 4 MB.
#[test]
fn unloaded_it_has_freed_the_memory_of_the_sets() {
    const SETS: usize = 50_000;
    let server = modular();
    let mut c = server.client();
    let name = "n".repeat(40);
    let lines: Vec<_> = (0..SETS).map(|n| command(&format!("ZADD {name}{n} -inf {TAG} {FAR} m"))).collect();
    lines.chunks(5000).for_each(|lines| drop(c.burst(lines)));
    let used = |c: &mut Client| c.info_number("memory", "used_memory");
    for round in 0..3 {
        let before = used(&mut c);
        load(&mut c);
        eventually(PATIENCE, "all sets are found", || c.info_number("zeitset", "zeitset_sets_tracked") == SETS as i64);
        let loaded = used(&mut c);
        assert!(loaded > before + 3_000_000, "round {round}: from {before} to {loaded} bytes");
        unload(&mut c);
        let after = used(&mut c);
        assert!(after < before + 1_000_000, "round {round}: from {before} to {after} bytes");
    }
}

#[test]
fn unloaded_during_a_backlog_it_leaves_a_set_that_the_next_one_drains() {
    let server = modular();
    let mut c = server.client();
    load(&mut c);
    testkit::draining(&mut c, "k", 50_000);
    // The server refuses, because a timer is armed.
    let refused = c.reply("MODULE UNLOAD zeitset");
    assert!(refused.starts_with("!ERR "), "{refused}");
    c.run("CONFIG SET zeitset.sweep no");
    unload(&mut c);
    let left = c.int("ZCARD k");
    let mut plain = server.client();
    plain.script(&[("PING", "+PONG"), ("ZCARD k", &left.to_string())]);
    load(&mut c);
    assert_drained(&mut c, "k", 1);
    assert_tagged(&mut c, "k");
}

#[test]
fn it_comes_and_goes_many_times() {
    let server = modular();
    let mut c = server.client();
    for round in 0..5 {
        let soon = c.now() + 200;
        plant(&mut c, "k", &[("dead", soon), ("live", FAR)]);
        load(&mut c);
        assert_eq!(c.strings("CONFIG GET zeitset.sweep"), ["zeitset.sweep", "yes"], "round {round}");
        c.run(&format!("SET touched{round} x"));
        assert_drained(&mut c, "k", 1);
        c.run("ZEXP.ADD k 50ms brief");
        assert_drained(&mut c, "k", 1);
        c.run("CONFIG SET zeitset.sweep no");
        unload(&mut c);
        c.run("ZADD k 1000 after");
    }
}
