//! The fields of INFO: counters, which only grow while the server runs, and gauges.
//!
//! A metric has the name of its field in Prometheus' style: seconds instead of `_ms` and `_us`, and `_total` after a
//! counter. docs/observability.md is the only description of the module's own fields. A test compares that page with a
//! server.

#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Counter,
    Gauge,
    /// A field that is not in the table of docs/observability.md, because the module is newer than this program.
    Untyped,
}
use Kind::{Counter, Gauge};

impl Kind {
    pub fn name(self) -> &'static str {
        match self {
            Counter => "counter",
            Gauge => "gauge",
            Kind::Untyped => "untyped",
        }
    }
}

/// The page that describes the module's own fields of INFO. A row of its table is `| field | kind | help. More text |`.
/// The first sentence is the help text of the metric.
const OBSERVABILITY: &str = include_str!("../../../docs/observability.md");

/// Returns the kind and the help text of a field that the module adds to INFO.
pub fn module(field: &str) -> Option<(Kind, &'static str)> {
    OBSERVABILITY.lines().filter_map(row).find(|(name, ..)| *name == field).map(|(_, kind, help)| (kind, help))
}

fn row(line: &'static str) -> Option<(&'static str, Kind, &'static str)> {
    let (name, rest) = line.strip_prefix("| `")?.split_once("` | ")?;
    let (kind, meaning) = rest.strip_suffix(" |")?.split_once(" | ")?;
    let kind = match kind {
        "counter" => Counter,
        "gauge" => Gauge,
        _ => return None,
    };
    Some((name, kind, meaning.split(". ").next().unwrap_or(meaning)))
}

/// Fields of the server's own INFO sections that alerts and dashboards need. Each row has the field, the name of its
/// metric, its kind, and the help.
pub const SERVER: &[(&str, &str, Kind, &str)] = &[
    ("uptime_in_seconds", "zeitset_server_uptime_seconds", Gauge, "Since the server was started"),
    ("connected_clients", "zeitset_server_clients", Gauge, "Connected clients"),
    ("blocked_clients", "zeitset_server_clients_blocked", Gauge, "Clients in a blocking command"),
    ("rejected_connections", "zeitset_server_connections_rejected_total", Counter, "Connections beyond maxclients"),
    ("used_memory", "zeitset_server_memory_used_bytes", Gauge, "Memory in use"),
    ("maxmemory", "zeitset_server_memory_max_bytes", Gauge, "maxmemory; 0: no limit"),
    ("total_commands_processed", "zeitset_server_commands_total", Counter, "Commands of all clients"),
    ("evicted_keys", "zeitset_server_keys_evicted_total", Counter, "Keys deleted to stay below maxmemory"),
    ("expired_keys", "zeitset_server_keys_expired_total", Counter, "Keys whose TTL was over"),
    ("connected_slaves", "zeitset_server_replicas", Gauge, "Connected replicas"),
    ("rdb_changes_since_last_save", "zeitset_server_unsaved_changes", Gauge, "Changes since the last snapshot"),
    ("rdb_last_save_time", "zeitset_server_last_save_timestamp_seconds", Gauge, "Unix time of the last snapshot"),
    ("aof_enabled", "zeitset_server_aof_enabled", Gauge, "1 if an append-only file is kept"),
    ("loading", "zeitset_server_loading", Gauge, "1 while the server reads its files"),
];

/// Fields whose value is a word. Each row has the field, the name of its metric, the word for which the metric is 1,
/// and the help.
pub const WORDS: &[(&str, &str, &str, &str)] = &[
    ("role", "zeitset_server_is_master", "master", "1 on a master, 0 on a replica"),
    (
        "master_link_status",
        "zeitset_server_master_link_up",
        "up",
        "On a replica: 1 while it is connected to its master",
    ),
    ("rdb_last_bgsave_status", "zeitset_server_last_save_ok", "ok", "1 if the last snapshot was written"),
    (
        "aof_last_write_status",
        "zeitset_server_aof_write_ok",
        "ok",
        "1 if the last write to the append-only file succeeded",
    ),
];

/// Returns a field's metric: its name, and the factor for its value.
pub fn metric(field: &str, kind: Kind) -> (String, f64) {
    let (name, scale) = match (field.strip_suffix("_ms"), field.strip_suffix("_us")) {
        (Some(stem), _) => (format!("{stem}_seconds"), 1e-3),
        (_, Some(stem)) => (format!("{stem}_seconds"), 1e-6),
        _ => (field.strip_suffix("_total").unwrap_or(field).to_owned(), 1.0),
    };
    (if kind == Counter { format!("{name}_total") } else { name }, scale)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_explains_every_number_in_plain_text() {
        let fields = OBSERVABILITY.lines().filter(|line| line.starts_with("| `zeitset_"));
        let fields: Vec<_> = fields.filter(|line| !line.contains("zeitset_version")).collect();
        assert!(fields.len() > 20, "{fields:?}");
        for line in fields {
            let (name, _, help) = row(line).unwrap_or_else(|| panic!("neither counter nor gauge: {line}"));
            assert!(
                !help.is_empty() && !help.contains(['`', '*', '[', '|']),
                "{name}: the first sentence is plain: {help}"
            );
        }
    }
}
