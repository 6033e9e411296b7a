//! The shell commands that pages for operators show, run on real servers.

use std::process::Command;
use testkit::{Client, Dataset, FAR, Page, Program, Server, root};

/// The shell blocks below a heading, in order.
fn blocks(page: &str, heading: &str) -> Vec<String> {
    let page = Page::read(&root().join(page));
    let section =
        page.lines.iter().skip_while(|line| *line != heading).skip(1).take_while(|line| !line.starts_with("## "));
    let mut blocks = Vec::new();
    let mut is_inside = false;
    for line in section.map(|line| line.trim_start()) {
        match line {
            "```sh" => blocks.push(String::new()),
            "```" => {}
            _ if is_inside => blocks.last_mut().expect("a block has begun").extend([line, "\n"]),
            _ => {}
        }
        is_inside = line == "```sh" || is_inside && line != "```";
    }
    assert!(!blocks.is_empty(), "{heading}");
    blocks
}

/// Runs a block of the page in which `names` stand for something else. It ends at the first command that fails.
#[track_caller]
fn run(block: &str, names: &[(&str, &str)]) -> String {
    let script = names.iter().fold(block.to_owned(), |script, (name, meant)| script.replace(name, meant));
    Program::output(Command::new("sh").args(["-euc", &script]))
}

/// How redis-cli is called for this server.
fn cli(server: &Server) -> String {
    format!("{} -p {}", testkit::Cli::program().display(), server.address().1)
}

/// Keys of every family in two databases: more queues and boards than one page of SCAN, and names that a shell might break.
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
    let [delete, rewrite, save, unset] = &blocks("docs/operations.md", "## Uninstalling")[..] else {
        panic!("delete, write the files again, save, edit the configuration");
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
        // As a snapshot that was written while there were queues: it must not be what the server starts from.
        c.run("SAVE");
        run(delete, &names);
        let before = Dataset::of(&mut c);
        if kept.contains("appendonly yes") {
            run(rewrite, &names);
        }
        run(save, &names);

        // What CONFIG REWRITE makes of it holds names of commands as the server writes them.
        c.run("CONFIG REWRITE");
        let file = c.info("server")["config_file"].clone();
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
    }
}

/// A configuration without the lines by which the test's server finds its port, its files and its folder.
fn own_lines(conf: &str) -> String {
    let place = ["port ", "bind ", "dir ", "logfile ", "pidfile "];
    conf.lines().filter(|line| !place.iter().any(|word| line.starts_with(word))).flat_map(|line| [line, "\n"]).collect()
}
