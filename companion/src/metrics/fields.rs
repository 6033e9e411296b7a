//! What the fields of INFO are: counters, which only grow while the server runs, or gauges.
//!
//! A metric has the name of its field, in Prometheus' own style: seconds instead of `_ms` and `_us`, and `_total` after a
//! counter. A test compares this table with what a server tells.

#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Counter,
    Gauge,
    /// Not in the table: a newer module tells it.
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

/// A field of INFO, what it is, and what it tells.
pub type Field = (&'static str, Kind, &'static str);

/// The module's own section.
pub const MODULE: &[Field] = &[
    ("zeitset_sets_tracked", Gauge, "Expiring sets that the sweeper knows of"),
    ("zeitset_members_expired", Counter, "Members deleted because their time was over"),
    ("zeitset_sets_expired", Counter, "Sets deleted as a whole because all their members' time was over"),
    ("zeitset_sweep_backlog_members", Gauge, "Expired members known to wait in the set under way"),
    ("zeitset_sweep_backlog_sets", Gauge, "Sets in which something is due"),
    ("zeitset_sweep_lag_ms", Gauge, "Age of the oldest expired member that is not deleted yet"),
    ("zeitset_sweep_slices", Counter, "Stretches of sweeping"),
    ("zeitset_sweep_longest_slice_us", Gauge, "The longest stretch of sweeping since the server was started"),
    ("zeitset_sweep_cpu_us", Counter, "Processor time of all sweeping"),
    ("zeitset_sweep_timer_armed", Gauge, "1 while something is due within the next second or so"),
    ("zeitset_patrols_completed", Counter, "Full scans of the keyspace for sets changed by plain commands"),
    ("zeitset_checks_allowed", Counter, "Rate limit checks that took units"),
    ("zeitset_checks_denied", Counter, "Rate limit checks that were refused"),
    ("zeitset_units_taken", Counter, "Units taken from rate limits"),
    ("zeitset_queues", Gauge, "Queues, also empty ones"),
    ("zeitset_jobs_ready", Gauge, "Jobs of all queues that were due when they were pushed or given back"),
    ("zeitset_jobs_scheduled", Gauge, "Jobs that were given a later time, whether or not it has come"),
    ("zeitset_jobs_leased", Gauge, "Jobs that have been claimed, whether or not their lease has ended since"),
    ("zeitset_jobs_dead", Gauge, "Jobs that were given back for the last time"),
    ("zeitset_jobs_longest_wait_ms", Gauge, "How long the longest ready job of all queues has been ready"),
    ("zeitset_leases_expired", Counter, "Leases that ended without ACK or NACK"),
    ("zeitset_clients_looks", Counter, "Looks at queues for the sake of waiting clients"),
    ("zeitset_jobs_claimed", Counter, "Jobs claimed from all queues"),
    ("zeitset_clients_waiting", Gauge, "Clients blocked in ZQ.CLAIM"),
    ("zeitset_clients_served", Counter, "Clients that waited in ZQ.CLAIM and got a job"),
    ("zeitset_queue_effects_misfit", Counter, "Replicated changes of queues that did not fit; 0 is right"),
];

/// Fields of the server's own sections that alerts and dashboards need, and the metric's name.
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

/// Fields whose value is a word, the metric's name, and the word for which it is 1.
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

/// The counters of ZQ.STATS, the metric's name.
pub const QUEUE: &[Field] = &[
    ("pushed", Counter, "Jobs pushed"),
    ("claimed_total", Counter, "Jobs claimed"),
    ("acked", Counter, "Jobs finished"),
    ("nacked", Counter, "Jobs given back"),
    ("cancelled", Counter, "Jobs cancelled"),
    ("redriven", Counter, "Dead letters made ready again"),
    ("expired_leases", Counter, "Leases that ended without ACK or NACK"),
    ("replaced", Counter, "Pushes that took the place of a job"),
    ("recurred", Counter, "Jobs scheduled again after ACK (EVERY)"),
    ("missed", Counter, "Occurrences of recurring jobs that ran out of attempts"),
    ("cleaned", Counter, "Jobs removed by ZQ.CLEAN"),
    ("dropped", Counter, "Dead letters removed because of DEADLEN or DEADTTL"),
    ("revoked", Counter, "Claims that ended because the job was replaced or cancelled"),
    ("late", Counter, "ACKs and NACKs that were good, after the lease had ended"),
];

/// The metric of a field: its name, and what its value is to be multiplied with.
pub fn metric(field: &str, kind: Kind) -> (String, f64) {
    let (name, scale) = match (field.strip_suffix("_ms"), field.strip_suffix("_us")) {
        (Some(stem), _) => (format!("{stem}_seconds"), 1e-3),
        (_, Some(stem)) => (format!("{stem}_seconds"), 1e-6),
        _ => (field.strip_suffix("_total").unwrap_or(field).to_owned(), 1.0),
    };
    (if kind == Counter { format!("{name}_total") } else { name }, scale)
}
