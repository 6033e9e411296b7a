//! From two samples to lines of text.

use crate::sample::{Queue, Sample, is_ours, shown};

/// Lines that are not the table of queues, with ten commands and no slow ones.
pub const LINES_AROUND: usize = 22;
const COMMANDS: usize = 10;
const SLOW: usize = 5;

pub fn picture(before: &Sample, now: &Sample, rows: usize) -> Vec<String> {
    let mut lines = head(before, now);
    lines.push(String::new());
    lines.extend(queues(before, now, rows));
    lines.push(String::new());
    lines.extend(commands(before, now));
    if !now.slow.is_empty() {
        lines.push(String::new());
        lines.push(format!("{:<11} {:>11}  SLOW", "AGO", "MS"));
        lines.extend(now.slow.iter().take(SLOW).map(|slow| {
            let ago = (now.at / 1000).saturating_sub(slow.at * 1000);
            format!("{:<11} {:>11.1}  {}", span(ago), slow.micros as f64 / 1000.0, printable(slow.command.as_bytes()))
        }));
    }
    lines
}

fn head(before: &Sample, now: &Sample) -> Vec<String> {
    let text = |name: &str| now.info.get(name).map_or("?", String::as_str);
    let number = |name: &str| field(now, name);
    let rate = |name: &str| per_second(before, now, field(before, name), field(now, name));
    let server = text("server_name");
    let (server, version) = match server {
        "valkey" => ("Valkey", text("valkey_version")),
        _ => ("Redis", text("redis_version")),
    };
    let up = span(number("uptime_in_seconds") * 1000);
    let elapsed = now.at.saturating_sub(before.at).max(1);
    let busy = number("zeitset_sweep_cpu_us").saturating_sub(field(before, "zeitset_sweep_cpu_us"));
    vec![
        format!("Zeitset on {}, {server} {version} ({}), up {up}", now.address, text("redis_mode")),
        format!(
            "server   {:>10} commands/s  {:>10} clients      {:>10} blocked     {} keys, {} of memory",
            rate("total_commands_processed"),
            number("connected_clients"),
            number("blocked_clients"),
            now.keys,
            text("used_memory_human"),
        ),
        format!(
            "limits   {:>10} allowed/s   {:>10} denied/s     {:>10} units/s     {} allowed, {} denied in all",
            rate("zeitset_checks_allowed"),
            rate("zeitset_checks_denied"),
            rate("zeitset_units_taken"),
            number("zeitset_checks_allowed"),
            number("zeitset_checks_denied"),
        ),
        format!(
            "sets     {:>10} tracked     {:>10} expired/s    {:>10} overdue     for {}; {} expired in all",
            number("zeitset_sets_tracked"),
            rate("zeitset_members_expired"),
            number("zeitset_sweep_backlog_members"),
            span(number("zeitset_sweep_lag_ms")),
            number("zeitset_members_expired"),
        ),
        format!(
            "sweeper  {:>10} slices/s    {:>9.1}% of a core  {:>10} µs, the longest slice",
            rate("zeitset_sweep_slices"),
            busy as f64 * 100.0 / elapsed as f64,
            number("zeitset_sweep_longest_slice_us"),
        ),
        format!(
            "queues   {:>10} claims/s    {:>10} clients wait {:>10} served/s    {} claims in all",
            rate("zeitset_jobs_claimed"),
            number("zeitset_clients_waiting"),
            rate("zeitset_clients_served"),
            number("zeitset_jobs_claimed"),
        ),
    ]
}

fn queues(before: &Sample, now: &Sample, rows: usize) -> Vec<String> {
    let heading = match now.searched {
        100 => format!("QUEUES ({})", now.queues.len()),
        percent => format!("QUEUES ({}, {percent}% of keys seen)", now.queues.len()),
    };
    let mut lines = vec![format!(
        "{heading:<30} {:>8} {:>8} {:>8} {:>6} {:>8} {:>8} {:>9}  NEXT",
        "READY", "DELAYED", "CLAIMED", "DEAD", "PUSH/S", "ACK/S", "OLDEST"
    )];
    lines.extend(shown(&now.queues, rows).map(|(key, queue)| {
        let earlier = before.queues.get(key).unwrap_or(queue);
        let rate = |total: fn(&Queue) -> u64| {
            let (grown, span) = (total(queue).saturating_sub(total(earlier)), queue.at.saturating_sub(earlier.at));
            // Found, but not looked at yet; or not looked at again since.
            if earlier.at == 0 || span == 0 { "-".into() } else { per(grown, span) }
        };
        let oldest = queue.oldest_ready_ms.map(|due| span((now.at / 1000).saturating_sub(due)));
        format!(
            "{:<30} {:>8} {:>8} {:>8} {:>6} {:>8} {:>8} {:>9}  {}",
            shortened(&printable(key), 30),
            queue.ready,
            queue.delayed,
            queue.claimed,
            queue.dead,
            rate(|queue| queue.pushed),
            rate(|queue| queue.acked),
            oldest.unwrap_or("-".into()),
            next(queue, now.at / 1000),
        )
    }));
    let hidden = now.queues.len().saturating_sub(rows);
    if hidden > 0 {
        lines.push(format!("... and {hidden} more"));
    }
    lines
}

/// What the clock will do next to a queue.
fn next(queue: &Queue, now_ms: u64) -> String {
    let due = queue.next_due_ms.map(|at| (at, "due"));
    let deadline = queue.next_deadline_ms.map(|at| (at, "lease ends"));
    match due.into_iter().chain(deadline).min() {
        Some((at, what)) => format!("{what} in {}", span(at.saturating_sub(now_ms))),
        None => "-".into(),
    }
}

/// The module's commands that were called most in between, then most of all.
fn commands(before: &Sample, now: &Sample) -> Vec<String> {
    let mut lines =
        vec![format!("{:<16} {:>10} {:>12} {:>10} {:>10}", "COMMANDS", "CALLS/S", "CALLS", "µs/CALL", "p99 µs")];
    let mut commands: Vec<_> = now
        .info
        .iter()
        .filter_map(|(name, value)| Some((name.strip_prefix("cmdstat_")?, value)))
        .filter(|(name, _)| is_ours(name))
        .map(|(name, value)| {
            let earlier = before.info.get(&format!("cmdstat_{name}")).map_or("", String::as_str);
            let calls = |text| part(text, "calls").parse::<u64>().unwrap_or_default();
            let latency = now.info.get(&format!("latency_percentiles_usec_{name}")).map_or("", String::as_str);
            let grown = calls(value).saturating_sub(calls(earlier));
            (grown, calls(value), name, part(value, "usec_per_call"), part(latency, "p99"))
        })
        .collect();
    commands.sort_by_key(|&(grown, calls, name, ..)| (std::cmp::Reverse((grown, calls)), name));
    lines.extend(commands.iter().take(COMMANDS).map(|&(grown, calls, name, mean, p99)| {
        let rate = per_second(before, now, 0, grown);
        format!("{:<16} {rate:>10} {calls:>12} {mean:>10} {p99:>10}", name.to_uppercase())
    }));
    lines
}

fn field(sample: &Sample, name: &str) -> u64 {
    sample.info.get(name).and_then(|value| value.parse().ok()).unwrap_or_default()
}

/// `name` in `a=1,b=2`.
fn part<'a>(text: &'a str, name: &str) -> &'a str {
    let mut pairs = text.split(',').filter_map(|pair| pair.split_once('='));
    pairs.find(|(key, _)| *key == name).map_or("-", |(_, value)| value)
}

/// Growth between two samples a second; `-` as long as there is only one. (A server that was restarted counts from 0.)
fn per_second(before: &Sample, now: &Sample, from: u64, to: u64) -> String {
    match now.at.saturating_sub(before.at) {
        0 => "-".into(),
        elapsed => per(to.saturating_sub(from), elapsed),
    }
}

fn per(count: u64, micros: u64) -> String {
    let rate = count as f64 * 1e6 / micros as f64;
    if rate == 0.0 || rate >= 10.0 { format!("{rate:.0}") } else { format!("{rate:.1}") }
}

/// A time span with one or two units.
fn span(ms: u64) -> String {
    let seconds = ms / 1000;
    match seconds {
        0..10 => format!("{}.{} s", seconds, ms % 1000 / 100),
        10..60 => format!("{seconds} s"),
        60..3600 => format!("{}m {}s", seconds / 60, seconds % 60),
        3600..86_400 => format!("{}h {}m", seconds / 3600, seconds % 3600 / 60),
        _ => format!("{}d {}h", seconds / 86_400, seconds % 86_400 / 3600),
    }
}

/// A key may hold any bytes; those that would move the cursor are not let through.
fn printable(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).chars().map(|c| if c.is_control() { '.' } else { c }).collect()
}

fn shortened(text: &str, width: usize) -> String {
    if text.chars().count() <= width {
        return text.to_owned();
    }
    text.chars().take(width - 1).chain(['…']).collect()
}
