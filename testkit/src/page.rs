//! Documentation pages. Their sessions run on a real server, and the output is compared with the page.
//!
//! A session is a fenced block that begins with redis-cli's prompt. All sessions of a page run in one redis-cli on one
//! new server. Every printed line must match the page (see [`Alike`] for exceptions). Comments are invisible in the
//! rendered page, and can contain directives:
//!
//! | a line of its own | |
//! |---|---|
//! | `<!-- server: cluster-enabled yes -->` | starts the server with this line in its configuration |
//! | `<!-- run: CONFIG SET maxmemory 1 -->` | runs a command and ignores its output |
//! | `<!-- wait until: ZEXP.CARD slots = 0 -->` | waits until the command has this reply, in the notation of `reply::show` |
//! | `<!-- varies: 50000..60000 -->` | treats numbers in this range as equal in the next session |
//!
//! With `ZEITSET_DOCS=write` (`make docs`), a page that differs is updated with the new output.

use crate::alike::Alike;
use crate::built::root;
use crate::cli::Cli;
use crate::client::Client;
use crate::patience::{PATIENCE, eventually};
use crate::server::Server;
use std::fs;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Whether pages are updated instead of compared.
pub fn writes() -> bool {
    std::env::var_os("ZEITSET_DOCS").is_some_and(|what| what == "write")
}

pub struct Page {
    path: PathBuf,
    pub lines: Vec<String>,
}

enum Step {
    Run(String),
    WaitUntil { command: String, reply: String },
    Session { varying: Vec<RangeInclusive<u64>>, calls: Vec<Call> },
}

struct Call {
    /// The line on the page, from 0.
    line: usize,
    prompt: &'static str,
    command: String,
    output: Vec<String>,
}

const PROMPTS: [&str; 2] = ["127.0.0.1:6379> ", "127.0.0.1:6379(TX)> "];

impl Page {
    pub fn read(path: &Path) -> Self {
        let text = fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        Self { path: path.into(), lines: text.lines().map(str::to_owned).collect() }
    }

    /// Returns all pages in a folder of the repository and its subfolders.
    pub fn all_in(folder: &str) -> Vec<Self> {
        let mut folders = vec![root().join(folder)];
        let mut files = Vec::new();
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display())) {
                let path = entry.expect("the folder can be read").path();
                match path.extension() {
                    _ if path.is_dir() => folders.push(path),
                    Some(extension) if extension == "md" => files.push(path),
                    _ => {}
                }
            }
        }
        files.sort();
        files.iter().map(|path| Self::read(path)).collect()
    }

    /// Returns the file's name without folder and extension.
    pub fn name(&self) -> &str {
        self.path.file_stem().and_then(|name| name.to_str()).expect("a name")
    }

    pub fn path(&self) -> &Path {
        self.path.strip_prefix(root()).unwrap_or(&self.path)
    }

    pub fn save(&self) {
        fs::write(&self.path, self.lines.join("\n") + "\n").expect("the page can be written");
    }

    /// Returns the content of a comment `<!-- name: ... -->`.
    fn directive<'a>(line: &'a str, name: &str) -> Option<&'a str> {
        let comment = line.strip_prefix("<!-- ")?.strip_suffix(" -->")?;
        comment.strip_prefix(name)?.strip_prefix(": ")
    }

    pub fn server(&self) -> Server {
        let lines = self.lines.iter().filter_map(|line| Self::directive(line, "server"));
        lines.fold(Server::builder(), |builder, line| builder.config(line)).start()
    }

    fn steps(&self) -> Vec<Step> {
        let (mut steps, mut varying) = (Vec::new(), Vec::new());
        let mut lines = self.lines.iter().enumerate().peekable();
        while let Some((number, line)) = lines.next() {
            if let Some(command) = Self::directive(line, "run") {
                steps.push(Step::Run(command.into()));
            } else if let Some(condition) = Self::directive(line, "wait until") {
                let (command, reply) = condition.split_once(" = ").expect("wait until: command = reply");
                steps.push(Step::WaitUntil { command: command.into(), reply: reply.into() });
            } else if let Some(range) = Self::directive(line, "varies") {
                let (first, last) =
                    range.split_once("..").unwrap_or_else(|| panic!("{}:{number}", self.path.display()));
                varying.push(first.parse().expect("a number")..=last.parse().expect("a number"));
            } else if line.starts_with("```") {
                let mut calls: Vec<Call> = Vec::new();
                let inside = lines.by_ref().take_while(|(_, line)| !line.starts_with("```"));
                let mut is_session = None;
                for (number, line) in inside {
                    let prompt = PROMPTS.iter().find(|prompt| line.starts_with(**prompt));
                    if !*is_session.get_or_insert(prompt.is_some()) {
                        continue;
                    }
                    match (prompt, calls.last_mut()) {
                        (Some(prompt), _) => {
                            let command = line[prompt.len()..].to_owned();
                            calls.push(Call { line: number, prompt, command, output: Vec::new() });
                        }
                        (None, Some(call)) => call.output.push(line.clone()),
                        (None, None) => unreachable!("a session begins with a prompt"),
                    }
                }
                if !calls.is_empty() {
                    steps.push(Step::Session { varying: std::mem::take(&mut varying), calls });
                }
            }
        }
        steps
    }

    /// Runs the page's sessions, and compares their output with the page. In all sessions, treats numbers in a range of
    /// `varying` as equal. Calls `after` after every command.
    pub fn replay(&mut self, server: &Server, varying: &[RangeInclusive<u64>], mut after: impl FnMut(&str)) {
        let mut client = server.client();
        let mut cli = Cli::connect(server);
        let mut alike = Alike::default();
        let mut differences = Vec::new();
        let mut written = self.lines.clone();
        let mut edits = Vec::new();
        for step in self.steps() {
            match step {
                Step::Run(line) => drop(cli.run(&line)),
                Step::WaitUntil { command, reply } => wait_until(&mut client, &alike.command(&command), &reply),
                Step::Session { varying: own, calls } => {
                    let varying = [varying, &own].concat();
                    alike.next_session();
                    if calls.iter().any(|call| call.command.contains(" FIXED")) {
                        early_in_a_minute(&mut client);
                    }
                    for call in calls {
                        let command = alike.command(&call.command);
                        let printed = cli.run(&command);
                        printed.iter().for_each(|line| alike.note(line));
                        // Compares all lines even if one differs, because the other lines may print times that later
                        // commands contain.
                        let differing = call.output.iter().zip(&printed);
                        let differing = differing.filter(|(page, now)| !alike.are(page, now, &varying)).count();
                        let is_same = printed.len() == call.output.len() && differing == 0;
                        if !is_same {
                            differences.push(format!(
                                "{}:{}: {command}\n--- the page says ---\n{}\n--- printed now ---\n{}",
                                self.path().display(),
                                call.line + 1,
                                call.output.join("\n"),
                                printed.join("\n"),
                            ));
                        }
                        after(&command);
                        // A person does not type two commands within a millisecond.
                        std::thread::sleep(Duration::from_millis(2));
                        edits.push((call, command, printed));
                    }
                }
            }
        }
        if differences.is_empty() {
            return;
        }
        assert!(writes(), "{}\n(`make docs` writes what is printed into the pages)", differences.join("\n\n"));
        // Edits the page from the last call to the first, so that line numbers stay valid.
        for (call, command, printed) in edits.into_iter().rev() {
            let lines = std::iter::once(format!("{}{command}", call.prompt)).chain(printed);
            written.splice(call.line..=call.line + call.output.len(), lines);
        }
        self.lines = written;
        self.save();
    }
}

fn wait_until(client: &mut Client, command: &str, reply: &str) {
    eventually(PATIENCE, &format!("{command} = {reply}"), || client.reply(command) == reply);
}

/// If the current minute is almost over, waits for the next minute, so that no window of a FIXED limit ends during a
/// session.
fn early_in_a_minute(client: &mut Client) {
    const YOUNG: std::ops::Range<i64> = 0..50_000;
    let now = client.now();
    if !YOUNG.contains(&(now % 60_000)) {
        client.wait_until(now - now % 60_000 + 60_000);
    }
}
