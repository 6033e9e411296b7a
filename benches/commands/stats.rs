//! The server's own statistics, and medians of rounds.

use redis::{Connection, cmd};
use std::collections::HashMap;
use std::time::SystemTime;

/// The cost of requests for the server, in µs per request.
pub struct Cost {
    pub in_command: f64,
    pub cpu: f64,
}

pub struct Watch {
    cpu: f64,
}

impl Watch {
    pub fn start(con: &mut Connection) -> Watch {
        cmd("CONFIG").arg("RESETSTAT").exec(con).expect("CONFIG RESETSTAT");
        Watch { cpu: cpu(con) }
    }

    pub fn stop(self, con: &mut Connection, requests: usize) -> Cost {
        let cpu = cpu(con) - self.cpu;
        let in_commands = microseconds_within(&info(con, "commandstats"));
        let requests = requests as f64;
        Cost { in_command: in_commands / requests, cpu: cpu / requests }
    }
}

/// Returns the time within commands, in µs. The time of EXEC and of scripts includes their commands.
fn microseconds_within(stats: &HashMap<String, String>) -> f64 {
    let spent = |name: &str| -> Option<f64> {
        let line = stats.get(&format!("cmdstat_{name}"))?;
        line.split(',').find_map(|part| part.strip_prefix("usec="))?.parse().ok()
    };
    let by_others = ["exec", "evalsha"].iter().find_map(|name| spent(name));
    by_others.unwrap_or_else(|| {
        let names = stats.keys().filter_map(|key| key.strip_prefix("cmdstat_"));
        names.filter(|name| !OURS.contains(name)).filter_map(spent).sum()
    })
}

/// Commands that the benchmark itself calls during a measurement.
const OURS: [&str; 2] = ["info", "config|resetstat"];

/// Returns the CPU time of the main thread, in µs.
fn cpu(con: &mut Connection) -> f64 {
    let info = info(con, "cpu");
    ["used_cpu_user_main_thread", "used_cpu_sys_main_thread"]
        .iter()
        .map(|field| info[*field].parse::<f64>().expect("seconds") * 1e6)
        .sum()
}

pub fn used_memory(con: &mut Connection) -> u64 {
    info(con, "memory")["used_memory"].parse().expect("a number")
}

pub fn describe(con: &mut Connection) -> String {
    let info = info(con, "server");
    let (name, version) = match info.get("valkey_version") {
        Some(version) => ("Valkey", version),
        None => ("Redis", &info["redis_version"]),
    };
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let today = humantime::format_rfc3339_seconds(SystemTime::now()).to_string();
    format!("{name} {version}, {cores} cores, {}", &today[.."2026-01-01".len()])
}

pub fn info(con: &mut Connection, section: &str) -> HashMap<String, String> {
    let text: String = cmd("INFO").arg(section).query(con).expect("INFO");
    text.lines()
        .filter_map(|line| line.split_once(':'))
        .map(|(field, value)| (field.to_owned(), value.trim().to_owned()))
        .collect()
}

pub fn median(values: impl IntoIterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.into_iter().collect();
    values.sort_by(f64::total_cmp);
    match values.len() {
        0 => f64::NAN,
        len if len % 2 == 1 => values[len / 2],
        len => (values[len / 2 - 1] + values[len / 2]) / 2.0,
    }
}

/// Returns the value at the quantile `part` (0 to 1).
pub fn percentile(sorted: &[f64], part: f64) -> f64 {
    let index = ((sorted.len().max(1) - 1) as f64 * part).round();
    sorted.get(index as usize).copied().unwrap_or(f64::NAN)
}
