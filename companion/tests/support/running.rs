//! The running companion, and its responses.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Output, Stdio};
use testkit::{Server, Signal, signal};

pub fn companion(words: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_zeitset"));
    command.args(words).stdin(Stdio::null()).env_remove("ZEITSET_REDIS").env_remove("ZEITSET_PASSWORD");
    command
}

/// A companion that serves. It ends with the test.
pub struct Running {
    child: Child,
    /// `127.0.0.1:12345`
    pub address: String,
}

impl Running {
    /// Starts the companion on a free port, and reads the address from its first line of output.
    pub fn start(mut command: Command) -> Running {
        let mut child = command.args(["--listen", "127.0.0.1:0"]).stdout(Stdio::piped()).spawn().expect("it starts");
        let mut line = String::new();
        let stdout = child.stdout.take().expect("a pipe");
        BufReader::new(stdout).read_line(&mut line).expect("a line");
        let address = line.split("http://").nth(1).and_then(|rest| rest.split(['/', '\n']).next());
        let address = address.unwrap_or_else(|| panic!("no address in {line:?}")).to_owned();
        Running { child, address }
    }

    /// Sends SIGTERM, and waits until the program has ended.
    #[track_caller]
    pub fn terminate(&mut self) {
        signal(&self.child, Signal::TERM);
        super::eventually("it ends", || self.child.try_wait().is_ok_and(|status| status.is_some()));
    }

    pub fn get(&self, path: &str) -> (u16, String) {
        fetch(&self.address, "GET", path, &[], "")
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Starts `zeitset ui`, which samples the server often.
pub fn ui(server: &Server, words: &[&str]) -> Running {
    let url = server.url();
    Running::start(companion(&[&["ui", "--redis", &url, "--interval", "100ms"], words].concat()))
}

impl Running {
    /// Returns the token of the forms.
    pub fn token(&self) -> String {
        let (_, page) = self.get("/queue?key=mails");
        let token = page.split("name=\"token\" value=\"").nth(1).and_then(|rest| rest.split('"').next());
        token.expect("a form").to_owned()
    }

    /// Submits a form. Returns the status, and the page to which the response redirects, or else the response.
    pub fn act(&self, fields: &str) -> (u16, String) {
        let (status, answer) = fetch(&self.address, "POST", "/act", &[], &format!("token={}&{fields}", self.token()));
        let to = answer.lines().find_map(|line| line.strip_prefix("location: ")).map(str::to_owned);
        (status, to.unwrap_or(answer))
    }
}

pub fn fetch(address: &str, method: &str, path: &str, headers: &[(&str, &str)], body: &str) -> (u16, String) {
    let mut socket = TcpStream::connect(address).expect("it listens");
    socket.set_read_timeout(Some(super::PATIENCE)).expect("a timeout");
    let mut request = format!("{method} {path} HTTP/1.1\r\nConnection: close\r\nContent-Length: {}\r\n", body.len());
    if !headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("host")) {
        request.push_str(&format!("Host: {address}\r\n"));
    }
    for (name, value) in headers {
        request.push_str(&format!("{name}: {value}\r\n"));
    }
    socket.write_all(format!("{request}\r\n{body}").as_bytes()).expect("it reads");
    let mut answer = Vec::new();
    let _ = socket.read_to_end(&mut answer);
    let answer = String::from_utf8_lossy(&answer).into_owned();
    let status = answer.split(' ').nth(1).and_then(|word| word.parse().ok());
    (status.unwrap_or_else(|| panic!("no answer: {answer:?}")), answer)
}

/// Returns the output of a program that must have succeeded.
#[track_caller]
pub fn printed(output: Output) -> String {
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{}: {text}{}", output.status, String::from_utf8_lossy(&output.stderr));
    text
}
