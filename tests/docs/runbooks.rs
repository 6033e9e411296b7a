//! Runs the shell commands on the pages for operators, with real servers.

use std::process::Command;
use testkit::{Client, Dataset, FAR, Page, Program, Server, blocks, root};

/// Returns the shell blocks below a heading, in order.
fn shell(page: &str, heading: &str) -> Vec<String> {
    blocks(Page::read(&root().join(page)).section(heading), "sh")
}

/// Runs a block of a page, with some `names` replaced. Fails if a command fails.
#[track_caller]
fn run(block: &str, names: &[(&str, &str)]) -> String {
    let script = names.iter().fold(block.to_owned(), |script, (name, meant)| script.replace(name, meant));
    Program::output(Command::new("sh").args(["-euc", &script]))
}

/// Returns the redis-cli command for this server.
fn cli(server: &Server) -> String {
    format!("{} -p {}", testkit::Cli::program().display(), server.address().1)
}

/// Creates keys of every family in two databases. There are more queues and boards than one call of SCAN returns, and
/// some names could be misread by a shell.
fn fill(c: &mut Client) {
    for database in [0, 9] {
        c.run(&format!("SELECT {database}"));
        for n in 0..1100 {
            c.run(&format!("ZQ.PUSH queue:{n} payload"));
            c.run(&format!("ZLB.CREATE board:{n} DIM points"));
        }
        for key in ["a b", "new\nline", "$(false)'\""] {
            c.call(redis::cmd("ZQ.PUSH").arg(key).arg("x"));
        }
        c.run(&format!("ZEXP.ADD set AT {FAR}ms a {FAR}ms b"));
        c.run("ZRL.CHECK sliding 10 1000h COST 3");
        c.run("ZRL.CHECK leaky 10 1000h LEAKY COST 3");
        c.run("ZADD plain 1 a");
        c.run("HSET hash field value");
    }
    c.run("SELECT 0");
}

#[test]
fn uninstalled_as_the_page_says_a_server_starts_without_the_module_and_keeps_the_rest() {
    let [delete, rewrite, save, unset, trim] = &shell("docs/operations.md", "Uninstalling")[..] else {
        panic!("delete, write the files again, save, edit the configuration, remove expired members");
    };
    let page = Page::read(&root().join("docs/operations.md"));
    let users = page.lines.iter().filter(|line| line.starts_with("user ")).map(|line| format!("{line}\n"));
    let config = users.collect::<String>() + "zeitset.sweep-slice-us 500\nzeitset.announce-members yes\n";
    let kinds =
        ["appendonly yes", "appendonly yes\naof-use-rdb-preamble no", "appendonly no\nsave 3600 1", "appendonly no"];
    for kept in kinds {
        let mut server = Server::builder().config(kept).config(&config).start();
        let mut c = server.client();
        fill(&mut c);
        let redis_cli = cli(&server);
        let names = [("redis-cli", &*redis_cli)];
        // Saves a snapshot with the queues. The server must not load it later.
        c.run("SAVE");
        run(delete, &names);
        let before = Dataset::of(&mut c);
        if kept.contains("appendonly yes") {
            run(rewrite, &names);
        }
        run(save, &names);

        // CONFIG REWRITE may write the names of commands in another case.
        c.run("CONFIG REWRITE");
        let file = c.info("server")["config_file"].clone();
        // The server writes a selector with the commands last. An operator may write it in any order.
        let mut written = std::fs::read_to_string(&file).expect("the configuration");
        written.push_str("user picker on nopass ~* +get (+zq.push ~jobs:*) (+ZRL.CHECK) (~x +zq.claim -zq.apply &y)\n");
        std::fs::write(&file, written).expect("the configuration");
        run(unset, &[("/etc/redis/redis.conf", &file)]);
        let left = std::fs::read_to_string(&file).expect("the configuration");
        let mentions = left.lines().filter(|line| line.contains("zeitset.") || line.to_lowercase().contains("zq."));
        assert_eq!(mentions.count(), 0, "{left}");
        server.remove_module();
        server.edit_config(|_| own_lines(&left));
        server.restart();
        let mut c = server.client();
        assert_eq!(Dataset::of(&mut c), before, "{kept}");
        assert!(!c.reply("MODULE LIST").contains("zeitset"));
        c.script(&[
            ("TYPE set", "+zset"),
            ("TYPE leaky", "+string"),
            ("EXISTS queue:0 board:0", "0"),
            ("ACL WHOAMI", "'default'"),
        ]);
        assert!(c.strings("ACL USERS").contains(&"worker".to_owned()));
        let selectors = c.reply("ACL GETUSER picker");
        assert!(selectors.contains("'~jobs:*'") && selectors.contains("'~x'"), "{selectors}");

        c.run("ZADD set 1000 expired");
        run(trim, &[("codes", "set"), ("redis-cli", &cli(&server))]);
        c.script(&[("ZRANGE set 0 -1", "['zeitset:expiring' 'a' 'b']")]);
    }
}

/// A server without the module takes the place of the 0.3 server.
#[test]
fn sets_converted_as_the_page_says_are_sets_of_0_3() {
    let [back] = &shell("docs/upgrading.md", "From 0.3 to 0.4")[..] else { panic!("convert the sets") };
    let server = Server::start();
    let old = Server::builder().plain().replica_of(&server);
    let (mut c, mut o) = (server.client(), old.client());
    for database in [0, 9] {
        c.run(&format!("SELECT {database}"));
        for n in 0..1100 {
            c.run(&format!("ZEXP.ADD set:{n} AT {FAR}ms a {}ms b", FAR + n));
        }
        c.call(redis::cmd("ZEXP.ADD").arg("$(false)'\"\n").arg("AT").arg(format!("{FAR}ms")).arg("a"));
        c.run_all([
            "ZEXP.ADD never 1h a",
            "ZEXP.PERSIST never a",
            "ZADD plain 1 a",
            "ZADD named 1 a 5 zeitset:expiring",
        ]);
    }
    old.wait_for_sync(&server);
    o.run("REPLICAOF NO ONE");
    run(back, &[("redis-cli", &cli(&old))]);
    let new = Server::builder().replica_of(&old);
    let mut n = new.client();
    for database in [0, 9] {
        for client in [&mut o, &mut n] {
            client.run(&format!("SELECT {database}"));
        }
        assert_eq!(o.strings("KEYS *").len(), 1104);
        for number in 0..1100 {
            assert_eq!(o.int(&format!("PEXPIRETIME set:{number}")), FAR + number + 47_111);
            assert_eq!(n.strings(&format!("ZEXP.MEMBERS set:{number}")), ["a", "b"]);
        }
        o.script(&[
            ("ZRANGE set:7 0 -1", "['a' 'b']"),
            ("PEXPIRETIME never", "9007199254788102"),
            ("ZRANGE plain 0 -1", "['a']"),
            ("ZRANGE named 0 -1", "['a' 'zeitset:expiring']"),
            ("PEXPIRETIME plain", "-1"),
            ("PEXPIRETIME named", "-1"),
        ]);
        n.script(&[
            ("ZEXP.TTL never a", "[-1]"),
            ("ZEXP.CARD plain", "!NOTEXPIRING"),
            ("ZEXP.CARD named", "!NOTEXPIRING"),
        ]);
    }
}

/// Returns a configuration without the lines that set the port, the files and the folder of the test's server.
fn own_lines(conf: &str) -> String {
    let place = ["port ", "bind ", "dir ", "logfile ", "pidfile "];
    conf.lines().filter(|line| !place.iter().any(|word| line.starts_with(word))).flat_map(|line| [line, "\n"]).collect()
}

/// Creates keys of every kind with one prefix, some of them with difficult names.
fn fill_carts(c: &mut Client) {
    c.run(&format!("ZEXP.ADD carts:set AT {FAR}ms a {FAR}ms b"));
    c.run(&format!("ZEXP.ADD carts:more AT {}ms a {}ms b", FAR - 12_345, FAR + 67_891));
    c.run("ZEXP.ADD carts:never 1h a");
    c.run("ZEXP.PERSIST carts:never a");
    c.call(redis::cmd("ZEXP.ADD").arg(" carts:\\ $x 'a'\"").arg("AT").arg(format!("{FAR}ms")).arg("line\nbreak\n"));
    c.run("ZRL.CHECK carts:sliding 10 1000h COST 3");
    c.run("ZRL.CHECK carts:fixed 10 1000h FIXED COST 3");
    c.run("ZQ.PUSH carts:queue a EVERY 1d");
    c.run("ZQ.PUSH carts:queue b DELAY 1h");
    c.run("ZQ.PUSH carts:queue c ID c");
    c.run("ZQ.CLAIM 1 carts:queue LEASE 1h");
    c.run("ZLB.CREATE carts:board DIM points");
    c.run("ZLB.SET carts:board ann 5");
    c.run("SET carts:text plain");
    c.run("ZADD carts:plain 5 x");
}

/// Returns the blocks of "Moving data": make a replica, promote the replica, copy keys, check.
fn moving() -> [String; 4] {
    shell("docs/upgrading.md", "Moving data").try_into().expect("four blocks")
}

#[test]
fn a_whole_server_moves_as_the_page_says() {
    let [replicate, promote, ..] = moving();
    let (old, new) = (Server::start(), Server::start());
    let mut c = old.client();
    fill_carts(&mut c);
    fill(&mut c);
    let (redis_cli, address) = (cli(&new), format!("127.0.0.1 {}", old.address().1));
    let names = [("redis-cli -h new.example.org", &*redis_cli), ("old.example.org 6379", &address)];
    run(&replicate, &names);
    new.wait_for_sync(&old);
    run(&promote, &names);
    let mut n = new.client();
    assert_eq!(Dataset::of(&mut n), Dataset::of(&mut c));
    n.script(&[("ZEXP.CARD carts:set", "2"), ("ZEXP.ADD carts:set 1h c", "1"), ("ZQ.PUSH carts:queue d ID d", "'d'")]);
}

#[test]
fn keys_that_are_copied_as_the_page_says_are_what_they_were() {
    let [.., copy, check] = moving();
    let (copy, check) = (copy.replace("'carts:*'", "'*carts:*'"), check.replace("'carts:*'", "'*carts:*'"));
    let (old, new) = (Server::start(), Server::start());
    let (mut c, mut n) = (old.client(), new.client());
    fill_carts(&mut c);
    let (from, to) = (cli(&old), cli(&new));
    let names = [("redis-cli -h old.example.org", &*from), ("redis-cli -h new.example.org", &*to)];
    let missing = run(&check, &names);
    assert_eq!(missing.lines().count(), c.strings("KEYS *").len(), "nothing has arrived: {missing}");
    run(&copy, &names);
    assert_eq!(run(&check, &names), "");
    assert_eq!(Dataset::of(&mut n), Dataset::of(&mut c));
    for (call, reply) in [("ZEXP.CARD carts:more", "2"), ("ZEXP.CARD carts:never", "1"), ("ZLB.CARD carts:board", "1")]
    {
        c.script(&[(call, reply)]);
        n.script(&[(call, reply)]);
    }
    assert_eq!(n.verdict("ZRL.PEEK carts:sliding 10 1000h").remaining, 7);
    assert_eq!(n.verdict("ZRL.PEEK carts:fixed 10 1000h FIXED").remaining, 7);

    // Makes the mistake that the page warns of.
    let dump = c.dump("carts:sliding");
    n.restore("carts:sliding", 0, &dump);
    assert_eq!(run(&check, &names), "carts:sliding\n");
    assert_eq!(n.verdict("ZRL.PEEK carts:sliding 10 1000h").remaining, 7);
}
