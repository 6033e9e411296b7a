//! The real redis-cli, which reads commands from a pipe. The tests of the documentation compare its output with the
//! pages.

use crate::patience::PATIENCE;
use crate::server::Server;
use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};

/// A line that redis-cli refuses without sending it to the server. The refusal marks the end of the previous command's
/// output, even within MULTI.
const UNBALANCED: &str = "\"";
const REFUSAL: &str = "Invalid argument(s)";

pub struct Cli {
    child: Child,
    input: ChildStdin,
    output: Receiver<String>,
}

impl Cli {
    pub fn connect(server: &Server) -> Self {
        let program = Self::program();
        let (host, port) = server.address();
        let mut child = Command::new(&program)
            // Formats the output as on a terminal, although it goes to a pipe.
            .args(["--no-raw", "-h", host, "-p", &port.to_string()])
            .envs([("REDISCLI_RCFILE", "/dev/null"), ("REDISCLI_HISTFILE", "/dev/null")])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap_or_else(|error| panic!("{}: {error}", program.display()));
        let input = child.stdin.take().expect("piped");
        let lines = BufReader::new(child.stdout.take().expect("piped")).lines();
        let (sender, output) = channel();
        std::thread::spawn(move || {
            for line in lines.map_while(Result::ok) {
                if sender.send(line).is_err() {
                    return;
                }
            }
        });
        Self { child, input, output }
    }

    pub fn program() -> PathBuf {
        let path = std::env::var_os("PATH").unwrap_or_default();
        // If PATH has no such program, the folder of the server under test is searched.
        let with_server =
            std::env::var_os("REDIS_SERVER").and_then(|server| PathBuf::from(server).parent().map(PathBuf::from));
        let folders: Vec<_> = std::env::split_paths(&path).chain(with_server).collect();
        ["redis-cli", "valkey-cli"]
            .iter()
            .flat_map(|name| folders.iter().map(move |folder| folder.join(name)))
            .find(|program| program.is_file())
            .expect("redis-cli is not in PATH; it comes with the server")
    }

    /// Runs a line as if it was typed. Returns the printed lines.
    #[track_caller]
    pub fn run(&mut self, line: &str) -> Vec<String> {
        writeln!(self.input, "{line}\n{UNBALANCED}").expect("redis-cli reads");
        let mut printed = Vec::new();
        loop {
            match self.output.recv_timeout(PATIENCE) {
                Ok(text) if text == REFUSAL => return printed,
                Ok(text) if is_elapsed(&text) => {}
                Ok(text) => printed.push(text.trim_end().to_owned()),
                Err(RecvTimeoutError::Timeout) => panic!("{line}: no answer within {PATIENCE:?}"),
                Err(RecvTimeoutError::Disconnected) => panic!("{line}: redis-cli has ended"),
            }
        }
    }
}

impl Drop for Cli {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Whether a line is `(1.23s)`, which redis-cli prints after a command of half a second or longer.
fn is_elapsed(line: &str) -> bool {
    let seconds = line.strip_prefix('(').and_then(|line| line.strip_suffix("s)"));
    seconds.is_some_and(|seconds| seconds.parse::<f64>().is_ok())
}
