//! While a server has no expiring set, the module gets no events and so costs nothing. The first ZEXP command finds
//! sets that already exist.

use testkit::{Client, FAR, PATIENCE, Server, TAG, assert_drained, assert_tagged, eventually, plant, start};

/// Returns the payload of an expiring set with these members.
fn dump(members: &[(&str, i64)]) -> Vec<u8> {
    let (_server, mut c) = start();
    plant(&mut c, "k", members);
    c.dump("k")
}

#[test]
fn sets_that_were_restored_are_found_by_the_first_command_on_any_key() {
    let dump = dump(&[("dead", 1000), ("live", FAR)]);
    for command in ["ZEXP.CARD other", "ZEXP.ADD other 5m m", "ZEXP.MEMBERS restored", "ZEXP.ADOPT restored"] {
        let (_server, mut c) = start();
        for key in ["restored", "a", "b", "c"] {
            c.restore(key, 0, &dump);
        }
        c.run_all(["COPY a copied", "RENAME b renamed", "MOVE c 9"]);
        let reply = c.reply(command);
        assert!(!reply.starts_with('!'), "{command}: {reply}");
        for key in ["restored", "a", "copied", "renamed", "c"] {
            c.run(if key == "c" { "SELECT 9" } else { "SELECT 0" });
            assert_drained(&mut c, key, 1);
        }
    }
}

/// When the command comes, the keyspace scan may not have reached the set yet.
#[test]
fn a_set_that_was_restored_is_one_for_the_very_command_that_is_the_first() {
    let dump = dump(&[("dead", 1000), ("live", FAR)]);
    for (command, expected, left) in [
        ("ZEXP.CARD k", "1", 1),
        ("ZEXP.MEMBERS k", "['live']", 1),
        ("ZEXP.ISMEMBER k dead", "0", 1),
        ("ZEXP.ADD k 5m dead", "1", 2),
        ("ZEXP.ADD k CAP 1 5m new", "nil", 1),
        ("ZEXP.REM k live dead", "1", 0),
        ("ZEXP.POP k", "'live'", 0),
        ("ZEXP.ADOPT k", "1", 1),
    ] {
        let (_server, mut c) = start();
        c.restore("k", 0, &dump);
        c.script(&[(command, expected)]);
        assert_drained(&mut c, "k", left);
    }
}

/// The command in the transaction begins the first scan. A set that the scan has not met yet is renamed while the module
/// must still remove the tag from the result of ZUNIONSTORE.
#[test]
fn a_set_that_is_renamed_before_the_scan_has_met_it_stays_one_next_to_a_stored_result() {
    let (_server, mut c) = start();
    c.run("MULTI");
    for key in ["k", "a", "b"] {
        c.run(&format!("ZADD {key} -inf {TAG} 1000 dead {FAR} live"));
    }
    c.run_all(["ZEXP.CARD any", "ZUNIONSTORE stored 1 k", "RENAME a renamed", "MOVE b 9", "EXEC"]);
    eventually(PATIENCE, "the result is ordinary", || c.reply("ZRANGE stored 0 -1") == "['dead' 'live']");
    assert_drained(&mut c, "renamed", 1);
    assert_tagged(&mut c, "renamed");
    c.run("SELECT 9");
    assert_drained(&mut c, "b", 1);
    assert_tagged(&mut c, "b");
}

/// In whatever way the first expiring set was created, the module notices plain commands on it.
#[test]
fn plain_commands_on_the_first_set_are_noticed_whatever_created_it() {
    let there = |how: &str| {
        let mut server = Server::builder().keeping_aof().start();
        let mut c = server.client();
        match how {
            "command" => drop(c.run(&format!("ZEXP.ADD k AT {FAR}ms a"))),
            "adopted" => {
                c.run(&format!("ZADD k {FAR} a"));
                c.run("ZEXP.ADOPT k");
            }
            "written with its tag" => plant(&mut c, "k", &[("a", FAR)]),
            "AOF" | "RDB" => {
                plant(&mut c, "k", &[("a", FAR)]);
                if how == "RDB" {
                    c.rewrite_aof();
                }
                server.restart();
            }
            _ => unreachable!("{how}"),
        }
        server
    };
    for how in ["command", "adopted", "written with its tag", "AOF", "RDB"] {
        let server = there(how);
        let mut c = server.client();
        let tracked = |c: &mut Client| c.info_number("zeitset", "zeitset_sets_tracked");
        eventually(PATIENCE, how, || tracked(&mut c) == 1);
        let soon = c.now() + 100;
        c.run(&format!("ZADD k {soon} soon"));
        assert_drained(&mut c, "k", 1);
        c.run("RENAME k renamed");
        assert_eq!(tracked(&mut c), 1, "{how}");
        assert_tagged(&mut c, "renamed");
        c.run("DEL renamed");
        assert_eq!(tracked(&mut c), 0, "{how}");
    }
}
