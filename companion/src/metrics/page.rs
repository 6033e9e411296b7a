//! The metrics page.

use super::fields::{self, Kind, metric};
use crate::server::{COUNTERS, Info, Server, State};
use crate::text::distinct;
use crate::watch::{Watch, refresh, reply_text};
use std::collections::{BTreeMap, HashSet};
use std::fmt::Write;

/// Returns all metrics. If `zeitset_up` is 0, also returns the reason.
pub async fn page(server: &Server, queues: usize) -> (String, Option<String>) {
    const UP: (&str, &str) = ("zeitset_up", "1 if the server answers and has the module");
    let mut page = Page::default();
    let info = match server.one(&sections()).await {
        Ok(info) => Info::read(&reply_text(&info)),
        Err(error) => {
            page.gauge(UP.0, UP.1, 0.0);
            return (page.text, Some(server.why(&error)));
        }
    };
    page.gauge(UP.0, UP.1, f64::from(u8::from(info.has_module())));
    page.module(&info);
    page.server(&info);
    page.commands(&info);
    if info.has_module() && queues > 0 {
        page.queues(server, queues).await;
    }
    let problem = (!info.has_module()).then(|| format!("{}: the server has not loaded the module", server.address));
    (page.text, problem)
}

fn sections() -> Vec<&'static [u8]> {
    let sections = crate::server::SECTIONS.iter().filter(|section| **section != "latencystats");
    std::iter::once("INFO").chain(sections.copied()).map(str::as_bytes).collect()
}

#[derive(Default)]
struct Page {
    text: String,
    named: HashSet<String>,
}

impl Page {
    fn head(&mut self, name: &str, kind: Kind, help: &str) {
        if self.named.insert(name.to_owned()) {
            let _ = write!(self.text, "# HELP {name} {help}\n# TYPE {name} {}\n", kind.name());
        }
    }

    fn sample(&mut self, name: &str, labels: &[(&str, &str)], value: f64) {
        self.text.push_str(name);
        for (place, (label, text)) in labels.iter().enumerate() {
            let start = if place == 0 { '{' } else { ',' };
            let _ = write!(self.text, "{start}{label}=\"{}\"", escaped(text));
        }
        if !labels.is_empty() {
            self.text.push('}');
        }
        let _ = writeln!(self.text, " {value}");
    }

    fn gauge(&mut self, name: &str, help: &str, value: f64) {
        self.head(name, Kind::Gauge, help);
        self.sample(name, &[], value);
    }

    fn module(&mut self, info: &Info) {
        let (version, server) = (info.text("zeitset_version"), info.server());
        self.head("zeitset_info", Kind::Gauge, "1; the labels tell the versions");
        self.sample("zeitset_info", &[("version", version), ("server", &server)], 1.0);
        let told = info.fields.iter().filter(|(field, _)| field.starts_with("zeitset_"));
        for (field, value) in told {
            let Ok(value) = value.parse::<f64>() else { continue };
            let (kind, help) = fields::module(field).unwrap_or((Kind::Untyped, "See INFO zeitset"));
            let (name, scale) = metric(field, kind);
            self.head(&name, kind, help);
            self.sample(&name, &[], scaled(value, scale));
        }
    }

    fn server(&mut self, info: &Info) {
        for (field, name, kind, help) in fields::SERVER {
            let Some(value) = info.number(field) else { continue };
            self.head(name, *kind, help);
            self.sample(name, &[], value as f64);
        }
        for (field, name, word, help) in fields::WORDS {
            if let Some(value) = info.fields.get(*field) {
                self.gauge(name, help, f64::from(u8::from(value == word)));
            }
        }
        self.gauge("zeitset_server_keys", "Keys of all databases", info.keys() as f64);
    }

    fn commands(&mut self, info: &Info) {
        type Part = fn(&crate::server::Command) -> f64;
        let parts: [(&str, &str, Part); 4] = [
            ("zeitset_command_calls_total", "Calls of a command", |c| c.calls as f64),
            ("zeitset_command_seconds_total", "Time spent in a command", |c| scaled(c.micros as f64, 1e-6)),
            ("zeitset_command_failed_total", "Calls that answered an error", |c| c.failed as f64),
            ("zeitset_command_rejected_total", "Calls refused before they began: OOM, ACL, syntax", |c| {
                c.rejected as f64
            }),
        ];
        for (name, help, value) in parts {
            for command in info.commands() {
                self.head(name, Kind::Counter, help);
                self.sample(name, &[("command", &command.name.to_lowercase())], value(&command));
            }
        }
    }

    async fn queues(&mut self, server: &Server, most: usize) {
        // Asks for one more name than is shown, to find out whether there are more.
        let names = match server.queues_after(b"", most + 1).await {
            Ok(names) => names,
            Err(_) => return,
        };
        let shown = &names[..names.len().min(most)];
        let mut watch = Watch::default();
        if refresh(server, &mut watch.queues, shown).await.is_err() {
            return;
        }
        let hidden = f64::from(u8::from(names.len() > most));
        self.gauge("zeitset_queues_shown", "Queues that are shown one by one", shown.len() as f64);
        self.gauge("zeitset_queues_truncated", "1 if there are more queues than are shown", hidden);
        let queues: BTreeMap<String, _> = watch.queues.iter().map(|(name, queue)| (distinct(name), queue)).collect();

        self.head("zeitset_queue_jobs", Kind::Gauge, "Jobs of a queue in a state");
        for (name, watched) in &queues {
            for state in State::ALL {
                let labels = [("queue", name.as_str()), ("state", state.name())];
                self.sample("zeitset_queue_jobs", &labels, watched.queue.count(state) as f64);
            }
        }
        self.head("zeitset_queue_oldest_wait_seconds", Kind::Gauge, "How long the oldest job has waited for a claim");
        for (name, watched) in &queues {
            let wait = watched.queue.wait_ms(watched.at_us / 1000).unwrap_or_default();
            self.sample("zeitset_queue_oldest_wait_seconds", &[("queue", name)], scaled(wait as f64, 1e-3));
        }
        self.head("zeitset_queue_paused", Kind::Gauge, "1 while the queue is paused");
        for (name, watched) in &queues {
            self.sample("zeitset_queue_paused", &[("queue", name)], f64::from(u8::from(watched.queue.is_paused)));
        }
        for (field, help) in COUNTERS {
            let (metric, _) = metric(&format!("zeitset_queue_{field}"), Kind::Counter);
            self.head(&metric, Kind::Counter, help);
            for (name, watched) in &queues {
                self.sample(&metric, &[("queue", name)], watched.queue.counter(field) as f64);
            }
        }
    }
}

/// Converts ms or µs to seconds. Does not multiply, because `1234 * 1e-3` is 1.2340000000000002.
fn scaled(value: f64, scale: f64) -> f64 {
    value / (1.0 / scale).round()
}

fn escaped(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}
