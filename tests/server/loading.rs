//! Reasons for which the module refuses to load. The server logs the reason, and a running server keeps running.

use testkit::{Client, Server, assert_agree, assert_drained, module};

/// Starts a server without the module, with data that it must keep.
fn running() -> (Server, Client) {
    let server = Server::builder().plain().without_aof().config("enable-module-command yes").start();
    let mut c = server.client();
    c.run("SET precious data");
    (server, c)
}

/// Loads the module with these arguments.
fn load(c: &mut Client, words: &str) -> String {
    let mut command = redis::cmd("MODULE");
    command.arg("LOADEX").arg(module().as_os_str().as_encoded_bytes());
    for word in words.split_whitespace() {
        command.arg(word);
    }
    c.try_call(&command).map_or_else(|error| format!("!{error}"), |reply| testkit::show(&reply))
}

const WRONG_VALUES: [&str; 4] =
    ["zeitset.sweep perhaps", "zeitset.sweep-slice-us 49", "zeitset.sweep-max-duty all", "zeitset.announce-members 2"];

#[test]
fn a_wrong_value_and_an_unknown_setting_are_refused_by_a_server_that_runs_on() {
    let (server, mut c) = running();
    for setting in WRONG_VALUES.iter().chain(&["zeitset.swep no", "other.sweep no"]) {
        for plain in ["", " ARGS plain"] {
            let reply = load(&mut c, &format!("CONFIG {setting}{plain}"));
            assert!(reply.starts_with("!ERR"), "{setting}{plain}: {reply}");
            assert!(!c.reply("MODULE LIST").contains("zeitset"), "{setting}{plain}");
            c.script(&[
                ("GET precious", "'data'"),
                ("ZEXP.CARD k", "!ERR unknown command"),
                ("CONFIG GET zeitset.*", "[]"),
            ]);
        }
    }
    assert!(server.log().contains("zeitset: invalid value for a setting"), "{}", server.log());
    assert_eq!(load(&mut c, "CONFIG zeitset.sweep no CONFIG zeitset.sweep-slice-us 1000"), "+OK");
    c.script(&[
        ("CONFIG GET zeitset.sweep", "['zeitset.sweep' 'no']"),
        ("CONFIG GET zeitset.sweep-slice-us", "['zeitset.sweep-slice-us' '1000']"),
        ("CONFIG GET zeitset.sweep-max-duty", "['zeitset.sweep-max-duty' '25']"),
        ("ZQ.PUSH q x ID a", "'a'"),
        ("GET precious", "'data'"),
    ]);
}

#[test]
fn a_wrong_value_of_a_setting_in_the_configuration_file_keeps_the_server_from_starting() {
    for setting in WRONG_VALUES {
        let log = Server::builder().config(setting).start_and_fail();
        assert!(log.contains("zeitset: invalid value for a setting"), "{setting}: {log}");
        assert!(log.contains("Can't load module"), "{setting}: {log}");
    }
}

#[test]
fn a_second_loadmodule_is_named_in_the_log() {
    const LINE: &str = "zeitset: the module is loaded already; remove the second 'loadmodule'";
    let line = format!("loadmodule \"{}\"", module().display());
    let log = Server::builder().config(&line).start_and_fail();
    assert!(log.contains(LINE), "{log}");

    let server = Server::builder().config("enable-module-command yes").start();
    let mut c = server.client();
    assert!(load(&mut c, "").starts_with("!ERR"));
    assert!(server.log().contains(LINE), "{}", server.log());
    c.script(&[("ZEXP.ADD k 1h a", "1")]);
}

/// The commands that the module replicates or calls. If one is missing, replicas and the AOF would silently differ.
const NEEDED: [&str; 11] = [
    "DUMP",
    "PERSIST",
    "PEXPIREAT",
    "RESTORE",
    "SET",
    "SETRANGE",
    "ZADD",
    "ZCOUNT",
    "ZRANGE",
    "ZREM",
    "ZREMRANGEBYSCORE",
];

#[test]
fn where_a_command_that_is_replicated_was_renamed_away_the_server_does_not_start() {
    for away in NEEDED {
        for to in ["", "other"] {
            let log = Server::builder().config(&format!("rename-command {away} \"{to}\"")).start_and_fail();
            assert!(log.contains(&format!("zeitset: the server lacks {away};")), "{away}: {log}");
        }
    }
    let log = Server::builder().config("rename-command UNLINK \"\"\nrename-command DEL \"\"").start_and_fail();
    assert!(log.contains("zeitset: the server lacks UNLINK;"), "{log}");
}

#[test]
fn where_commands_were_renamed_away_a_running_server_refuses_the_module_and_runs_on() {
    let config =
        "enable-module-command yes\nrename-command ZADD \"\"\nrename-command COMMAND \"\"\nrename-command ZREM \"\"";
    let server = Server::builder().plain().without_aof().config(config).start();
    let mut c = server.client();
    assert!(load(&mut c, "").starts_with("!ERR"));
    c.script(&[("PING", "+PONG"), ("ZEXP.CARD k", "!ERR unknown command")]);
    assert!(server.log().contains("zeitset: the server lacks ZADD, ZREM;"), "{}", server.log());
}

#[test]
fn with_either_unlink_or_del_keys_go_everywhere() {
    for away in ["UNLINK", "DEL"] {
        let rename = format!("rename-command {away} \"\"");
        let server = Server::builder().keeping_aof().config(&rename).start();
        let replica = Server::builder().config(&rename).replica_of(&server);
        let mut c = server.client();
        c.run("ZEXP.ADD deleted 100ms x 100ms y");
        assert_drained(&mut c, "deleted", 0);
        assert_agree(&server, &[&replica]);
    }
}
