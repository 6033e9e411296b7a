//! The CPU time of the server's main thread, from the kernel. On a busy machine, wall-clock time includes other
//! processes.

use redis::{Cmd, Connection};
use std::fs;
use std::thread;
use std::time::{Duration, Instant};
use testkit::Server;

pub struct Served {
    pub server: Server,
    pub con: Connection,
    schedule: String,
    /// The cost of a call that does nothing, in µs.
    floor: f64,
}

impl Served {
    pub fn new(server: Server) -> Served {
        let mut con = connect(&server);
        let info: String = redis::cmd("INFO").arg("server").query(&mut con).expect("INFO");
        let pid = field(&info, "process_id").expect("a process");
        let mut served = Served { server, con, schedule: format!("/proc/{pid}/task/{pid}/schedstat"), floor: 0.0 };
        let mut pings: Vec<_> = (0..101).map(|_| served.cost(&redis::cmd("PING"))).collect();
        served.floor = median(&mut pings);
        served
    }

    /// Returns the µs since the server's start.
    pub fn used(&self) -> f64 {
        let text = fs::read_to_string(&self.schedule).expect("the kernel counts");
        text.split(' ').next().and_then(|word| word.parse::<f64>().ok()).expect("ns") / 1000.0
    }

    /// Returns the cost of a call in µs, minus the cost of a call that does nothing.
    pub fn cost(&mut self, call: &Cmd) -> f64 {
        let before = self.used();
        call.exec(&mut self.con).unwrap_or_else(|error| panic!("{call:?}: {error}"));
        (self.settled() - before - self.floor).max(0.0)
    }

    /// Returns [`used`](Served::used) after the server has become idle.
    pub fn settled(&self) -> f64 {
        let started = Instant::now();
        let mut used = self.used();
        while started.elapsed() < Duration::from_secs(10) {
            thread::sleep(Duration::from_micros(300));
            let now = self.used();
            // A run of the server's cron takes some µs, so a small difference counts as idle.
            if now - used < 60.0 {
                return now;
            }
            used = now;
        }
        used
    }

    pub fn info(&mut self, section: &str, name: &str) -> f64 {
        let info: String = redis::cmd("INFO").arg(section).query(&mut self.con).expect("INFO");
        field(&info, name).and_then(|value| value.parse().ok()).unwrap_or(f64::NAN)
    }
}

pub fn connect(server: &Server) -> Connection {
    let (host, port) = server.address();
    redis::Client::open(format!("redis://{host}:{port}/")).expect("an address").get_connection().expect("a connection")
}

pub fn field(info: &str, name: &str) -> Option<String> {
    info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':').map(|value| value.trim().to_owned()))
}

pub fn median(of: &mut [f64]) -> f64 {
    of.sort_unstable_by(f64::total_cmp);
    of.get(of.len() / 2).copied().unwrap_or(f64::NAN)
}

/// Returns a call. `line` has the command's name and arguments.
pub fn words(line: &str) -> Cmd {
    let mut call = Cmd::new();
    line.split(' ').for_each(|word| {
        call.arg(word);
    });
    call
}
