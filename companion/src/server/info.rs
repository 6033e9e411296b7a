//! The text of INFO.

use std::collections::BTreeMap;

/// The sections of INFO that the views read: some of the server's, and the module's own.
pub const SECTIONS: &[&str] = &[
    "server",
    "clients",
    "memory",
    "stats",
    "replication",
    "persistence",
    "commandstats",
    "latencystats",
    "keyspace",
    "zeitset",
];

#[derive(Clone, Default)]
pub struct Info {
    /// Values by field name. The module's own fields begin with `zeitset_`.
    pub fields: BTreeMap<String, String>,
}

/// A command of the module, with its number of calls and their duration.
pub struct Command<'a> {
    pub name: &'a str,
    pub calls: u64,
    pub micros: u64,
    pub rejected: u64,
    pub failed: u64,
    /// The 99th percentile of the duration, µs.
    pub p99: Option<f64>,
}

impl Info {
    /// Adds INFO to the pipeline. [`Info::read`] parses the reply.
    pub fn ask(pipe: &mut redis::Pipeline) {
        pipe.cmd("INFO").arg(SECTIONS);
    }

    pub fn read(text: &str) -> Info {
        let fields = text.lines().filter_map(|line| line.trim_end().split_once(':'));
        Info { fields: fields.map(|(name, value)| (name.to_owned(), value.to_owned())).collect() }
    }

    pub fn text(&self, name: &str) -> &str {
        self.fields.get(name).map_or("", String::as_str)
    }

    pub fn number(&self, name: &str) -> Option<u64> {
        self.fields.get(name)?.parse().ok()
    }

    /// Returns a number, or 0 if the field is missing.
    pub fn count(&self, name: &str) -> u64 {
        self.number(name).unwrap_or_default()
    }

    pub fn has_module(&self) -> bool {
        self.fields.contains_key("zeitset_version")
    }

    /// Returns `Redis 7.0.15` or `Valkey 8.1.0`.
    pub fn server(&self) -> String {
        match self.text("server_name") {
            "valkey" => format!("Valkey {}", self.text("valkey_version")),
            _ => format!("Redis {}", self.text("redis_version")),
        }
    }

    /// Returns the number of keys in all databases.
    pub fn keys(&self) -> u64 {
        let is_database = |name: &str| name.strip_prefix("db").is_some_and(|number| number.parse::<u32>().is_ok());
        let databases = self.fields.iter().filter(|(name, _)| is_database(name));
        databases.filter_map(|(_, value)| part(value, "keys")?.parse::<u64>().ok()).sum()
    }

    /// Returns the module's commands that have been called at least once.
    pub fn commands(&self) -> Vec<Command<'_>> {
        let called = self.fields.iter().filter_map(|(name, value)| Some((name.strip_prefix("cmdstat_")?, value)));
        let ours = called.filter(|(name, _)| is_ours(name));
        ours.map(|(name, value)| {
            let number = |field| part(value, field).and_then(|text| text.parse().ok()).unwrap_or_default();
            let latency = self.text(&format!("latency_percentiles_usec_{name}"));
            Command {
                name,
                calls: number("calls"),
                micros: number("usec"),
                rejected: number("rejected_calls"),
                failed: number("failed_calls"),
                p99: part(latency, "p99").and_then(|text| text.parse().ok()),
            }
        })
        .collect()
    }
}

pub fn is_ours(command: &str) -> bool {
    let family = command.split('.').next().unwrap_or_default();
    command.contains('.') && ["zexp", "zrl", "zq", "zlb"].iter().any(|name| family.eq_ignore_ascii_case(name))
}

/// Returns the value of `name` in `a=1,b=2`.
fn part<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    let mut pairs = text.split(',').filter_map(|pair| pair.split_once('='));
    pairs.find(|(key, _)| *key == name).map(|(_, value)| value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn info_is_read_as_the_server_writes_it() {
        let info = Info::read(
            "# Server\r\nredis_version:7.0.15\r\n\r\n# Keyspace\r\ndb0:keys=3,expires=1\r\ndb12:keys=4,expires=0\r\n\
             # Commandstats\r\ncmdstat_zq.push:calls=5,usec=50,usec_per_call=10.00,rejected_calls=1,failed_calls=2\r\n\
             cmdstat_get:calls=1,usec=1\r\nlatency_percentiles_usec_zq.push:p50=1.0,p99=8.5,p99.9=9.0\r\n\
             zeitset_version:0.1.0\r\nzeitset_sweep_lag_ms:12\r\n",
        );
        assert_eq!((info.server().as_str(), info.keys(), info.count("zeitset_sweep_lag_ms")), ("Redis 7.0.15", 7, 12));
        assert!(info.has_module());
        let commands = info.commands();
        let [push] = commands.as_slice() else { panic!("only the module's") };
        assert_eq!((push.name, push.calls, push.micros, push.rejected, push.failed), ("zq.push", 5, 50, 1, 2));
        assert_eq!(push.p99, Some(8.5));
    }
}
