//! Compares the pages of the commands (docs/commands) with a live server: COMMAND DOCS, replies, replicated commands
//! and events.

use crate::server::described::{Arg, Command, assert_names, categories, commands, flags_and_categories};
use std::collections::{BTreeMap, BTreeSet};
use std::panic::resume_unwind;
use testkit::{Client, Page, Stream, cells, code, start};

const FOLDER: &str = "docs/commands";
const INDEX: &str = "README";

/// Rows of the table of facts on a page.
const SINCE: &str = "since";
const COMPLEXITY: &str = "complexity";
const FLAGS: &str = "flags";
const CATEGORIES: &str = "ACL categories";
const REPLICATED: &str = "replicated and logged as";
const EVENTS: &str = "events";

fn pages() -> Vec<Page> {
    Page::all_in(FOLDER).into_iter().filter(|page| page.name() != INDEX).collect()
}

/// The facts about a command, according to the server.
struct Facts {
    command: Command,
    flags: Vec<String>,
    categories: Vec<String>,
}

impl Facts {
    /// Returns the facts of all commands of the module, by name in lower case.
    fn all() -> BTreeMap<String, Self> {
        let (_server, mut c) = start();
        let facts = commands(&mut c).into_iter().map(|command| {
            let name = command.name.to_lowercase();
            let (flags, found) = flags_and_categories(&mut c, &name);
            let is_ours = |flag: &String| flag != "module" && flag != "movablekeys";
            let flags: Vec<_> = flags.into_iter().filter(is_ours).collect();
            let expected = || categories(&name, &flags.iter().map(String::as_str).collect::<Vec<_>>());
            let categories = if found.is_empty() { expected() } else { found };
            (name.clone(), Self { command, flags, categories: categories.into_iter().collect() })
        });
        facts.collect()
    }

    fn syntax(&self) -> String {
        let shown: Vec<_> = self.command.arguments.iter().map(render).collect();
        format!("{} {}", self.command.name.to_uppercase(), shown.join(" "))
    }

    /// Returns `0.1.0; 0.2.0: GROUP`: the version that added the command, and those that added arguments.
    fn since(&self) -> String {
        let mut later = BTreeMap::<&str, Vec<String>>::new();
        self.command.arguments.iter().for_each(|argument| collect_later(argument, &mut later));
        let later = later.iter().map(|(version, words)| format!("; {version}: {}", in_backticks(words)));
        self.command.since.clone() + &later.collect::<String>()
    }

    /// Returns the names and keywords of the command's arguments.
    fn words(&self) -> BTreeSet<&str> {
        let mut words = BTreeSet::new();
        self.command.arguments.iter().for_each(|argument| collect_words(argument, &mut words));
        words
    }
}

/// Collects the keywords of arguments that were added later than the command, by version.
fn collect_later<'a>(argument: &'a Arg, later: &mut BTreeMap<&'a str, Vec<String>>) {
    let Some(version) = &argument.since else {
        return argument.parts.iter().for_each(|part| collect_later(part, later));
    };
    let token = std::iter::once(argument).chain(&argument.parts).find_map(|part| part.token.clone());
    later.entry(version).or_default().push(token.expect("only keywords can be added to a command"));
}

/// Formats an argument as the Redis documentation does: `[COUNT count]`, `[NX | XX]`, `key [key ...]`.
fn render(argument: &Arg) -> String {
    let Arg { name, kind, token, optional, multiple, .. } = argument;
    let parts: Vec<_> = argument.parts.iter().map(render).collect();
    let is_choice = kind == "oneof" && (!optional || token.is_some());
    let mut shown = match kind.as_str() {
        "pure-token" => String::new(),
        "oneof" if is_choice => format!("<{}>", parts.join(" | ")),
        "oneof" => parts.join(" | "),
        "block" => parts.join(" "),
        _ => name.clone(),
    };
    if *multiple && kind == "oneof" {
        shown = format!("{shown} ...");
    } else if *multiple {
        shown = format!("{shown} [{shown} ...]");
    }
    if let Some(token) = token {
        shown = format!("{token} {shown}").trim_end().to_owned();
    }
    if *optional { format!("[{shown}]") } else { shown }
}

fn collect_words<'a>(argument: &'a Arg, words: &mut BTreeSet<&'a str>) {
    argument.parts.iter().for_each(|part| collect_words(part, words));
    words.extend(argument.token.as_deref());
    if argument.parts.is_empty() && argument.kind != "pure-token" {
        words.insert(&argument.name);
    }
}

fn in_backticks(words: &[String]) -> String {
    let words: Vec<_> = words.iter().map(|word| format!("`{word}`")).collect();
    words.join(" ")
}

#[test]
fn every_command_has_a_page_and_every_page_a_command() {
    let commands: BTreeSet<_> = Facts::all().into_keys().collect();
    let pages: BTreeSet<_> = pages().iter().map(|page| page.name().to_owned()).collect();
    assert_names(FOLDER, &pages, &commands);
}

#[test]
fn pages_of_commands_say_what_the_server_says() {
    let facts = Facts::all();
    for mut page in pages() {
        let Some(facts) = facts.get(page.name()) else { panic!("{}: no such command", page.path().display()) };
        page.expect(0, &format!("# {}", facts.command.name.to_uppercase()));
        page.expect(2, &facts.command.summary);
        page.expect(5, &facts.syntax());
        page.expect_fact(SINCE, &facts.since());
        page.expect_fact(COMPLEXITY, &facts.command.complexity);
        page.expect_fact(FLAGS, &in_backticks(&facts.flags));
        page.expect_fact(CATEGORIES, &in_backticks(&facts.categories));
    }
}

#[test]
fn the_index_of_commands_is_complete() {
    let facts = Facts::all();
    let mut index = Page::all_in(FOLDER).into_iter().find(|page| page.name() == INDEX).expect("an index");
    for (name, facts) in &facts {
        let link = format!("| [{}]({name}.md) |", name.to_uppercase());
        let number = index.lines.iter().position(|line| line.starts_with(&link));
        let number = number.unwrap_or_else(|| panic!("{name} is not in the index"));
        index.expect(number, &format!("{link} {} |", facts.command.summary));
    }
    let links = index.lines.iter().filter(|line| line.starts_with("| [")).count();
    assert_eq!(links, facts.len(), "the index links to what is no command");
}

#[test]
fn the_changelog_has_the_commands_of_this_version() {
    let versions = |text: &str| text.split('.').map(|part| part.parse().expect("a number")).collect::<Vec<u32>>();
    let this = env!("CARGO_PKG_VERSION");
    let changelog = include_str!("../../CHANGELOG.md");
    let section =
        changelog.split("\n## ").find(|section| section.starts_with(&format!("[{this}]"))).expect("a section");
    for Facts { command, .. } in Facts::all().values() {
        let name = command.name.to_uppercase();
        assert!(versions(&command.since) <= versions(this), "{name}: since {}, but this is {this}", command.since);
        let is_new = command.since == this;
        assert!(!is_new || section.contains(&name), "CHANGELOG.md: {name} is new in {this}, but not in this section");
    }
}

#[test]
fn pages_of_commands_explain_every_argument() {
    let facts = Facts::all();
    for page in pages() {
        let explained: BTreeSet<&str> = page
            .section("Arguments")
            .filter_map(|line| cells(line))
            .flat_map(|row| code(row[0]).flat_map(str::split_whitespace).collect::<Vec<_>>())
            .collect();
        for word in facts[page.name()].words() {
            assert!(explained.contains(word), "{}: {word} is not explained", page.path().display());
        }
    }
}

/// Creates the keys that the calls in the tables of errors need, as docs/commands/README.md lists them.
fn keys_for_errors(c: &mut Client) {
    c.run_all([
        "SET string x",
        "ZADD scores 1 a 2 b",
        "ZADD seconds 1000000000 a 1100000000 b",
        "ZADD infinite inf a",
        "ZADD tagged 1 a 5 zeitset:expiring",
        "ZEXP.ADD codes 5m a",
        "ZRL.CHECK limit 5 1h",
        "ZRL.CHECK bucket 5 1h LEAKY",
        "ZRL.THROTTLE cell 5 30 60",
        "ZQ.PUSH jobs x ID a",
        "ZQ.CONFIG jobs MAXLEN 1",
        "ZLB.CREATE medals DIM gold DIM silver DIM bronze",
        "ZLB.SET medals ann 9223372036854775807 0 0",
        "ZLB.CREATE times DIM seconds ASC FLOAT",
        "ZLB.SET times ann 1.7976931348623157e308",
    ]);
    let long = "for i = 1, 100001 do redis.call('ZQ.PUSH', 'long', 'x', 'ID', i, 'AT', 5, 'PRIORITY', i % 2) end";
    c.call(redis::cmd("EVAL").arg(long).arg(0));
    c.run("ZQ.PUSH long x ID last PRIORITY 1");
}

#[test]
fn errors_are_those_that_the_pages_list() {
    let (_server, mut c) = start();
    keys_for_errors(&mut c);
    let mut differences = Vec::new();
    for page in pages() {
        let rows: Vec<_> = page.section("Errors").filter_map(|line| cells(line)).skip(1).collect();
        assert!(!rows.is_empty(), "{}: no errors", page.path().display());
        for row in rows {
            // In an example, LONG stands for a text that is too long for any argument.
            let (error, call) = (row[0].trim_matches('`'), row[2].trim_matches('`').replace("LONG", &"x".repeat(1025)));
            assert!(call.starts_with(&page.name().to_uppercase()), "{}: {call}", page.path().display());
            let reply = c.reply(&call);
            if reply != format!("!{error}") {
                differences.push(format!("{}: {call}\n  page: !{error}\n   now: {reply}", page.path().display()));
            }
        }
    }
    assert!(differences.is_empty(), "{}", differences.join("\n"));
}

/// The replicated commands and the events of a command.
type Effects = (BTreeSet<String>, BTreeSet<String>);

/// Replays a page, and records the replicated commands and events of each command of the module.
fn observe(page: &mut Page, effects: &mut BTreeMap<String, Effects>) {
    let server = page.server();
    let (mut c, mut listener) = (server.client(), server.resp3());
    // The sweeper's deletions would be taken for effects of a command.
    c.run("CONFIG SET zeitset.sweep no notify-keyspace-events EA");
    listener.psubscribe("__keyevent@*__:*");
    let mut stream = Stream::attach(&server);
    let mut in_transaction = false;
    page.replay(&server, &[], |command| {
        let name = command.split(' ').next().unwrap_or_default().to_lowercase();
        match name.as_str() {
            "multi" => in_transaction = true,
            "exec" => in_transaction = false,
            _ => {}
        }
        if in_transaction {
            return;
        }
        let replicated = stream.take();
        let events = listener.pushes();
        if !name.contains('.') {
            return;
        }
        let (commands, heard) = effects.entry(name).or_default();
        let names = replicated.iter().filter_map(|command| command.split(' ').next());
        commands.extend(names.filter(|name| !["MULTI", "EXEC"].contains(name)).map(str::to_owned));
        // Leaves out the events of the key with which `Stream` marks positions, and those of the upkeep, which drops
        // expired jobs at any time.
        let heard_now = events.iter().filter(|event| !event.contains("'test:") && !event.contains("zq.expired"));
        heard.extend(heard_now.filter_map(|event| event.split("__:").nth(2)?.split('\'').next()).map(str::to_owned));
    });
}

#[test]
fn examples_of_commands_print_and_effect_what_their_pages_say() {
    let mut pages = pages();
    // Attaching as a replica takes a second, so groups of pages run in parallel.
    let seen: Vec<BTreeMap<String, Effects>> = std::thread::scope(|scope| {
        let threads: Vec<_> = pages
            .chunks_mut(6)
            .map(|pages| {
                scope.spawn(move || {
                    let mut seen = BTreeMap::new();
                    pages.iter_mut().for_each(|page| observe(page, &mut seen));
                    seen
                })
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().unwrap_or_else(|panic| resume_unwind(panic))).collect()
    });
    let mut differences = Vec::new();
    for page in &pages {
        let words = |fact| page.fact(fact).map(code).into_iter().flatten().map(str::to_owned).collect::<BTreeSet<_>>();
        let said = (words(REPLICATED), words(EVENTS));
        let mut all = Effects::default();
        for (commands, events) in seen.iter().filter_map(|seen| seen.get(page.name()).cloned()) {
            all.0.extend(commands);
            all.1.extend(events);
        }
        if all != said {
            differences.push(format!("{}\n  page: {said:?}\n   now: {all:?}", page.path().display()));
        }
    }
    assert!(differences.is_empty(), "effects in the examples, and those on the pages:\n{}", differences.join("\n"));
}
