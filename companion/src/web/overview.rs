//! The overview page: the state of the server, and the last hour.

use super::chart::{self, Chart, Unit};
use super::parts::{moment, name, per_second, tile, tiles};
use super::{Page, Shared, layout, query::link};
use crate::server::{Key, State as JobState};
use crate::text::{bytes, grouped, span};
use crate::watch::{WORRYING_LAG_MS, WORRYING_WAIT_MS, Watch, Watched};
use axum::extract::State;
use maud::{Markup, html};

pub const CHARTS: &[Chart] = &[
    Chart { title: "Jobs ready", unit: Unit::Number, lines: &[("", "ready")] },
    Chart { title: "Longest wait", unit: Unit::Ms, lines: &[("", "wait")] },
    Chart { title: "Claims", unit: Unit::PerSecond, lines: &[("", "claims")] },
    Chart {
        title: "Jobs by state",
        unit: Unit::Number,
        lines: &[("delayed", "delayed"), ("claimed", "claimed"), ("dead", "dead")],
    },
    Chart { title: "Limits", unit: Unit::PerSecond, lines: &[("allowed", "allowed"), ("denied", "denied")] },
    Chart { title: "Sweep lag", unit: Unit::Ms, lines: &[("", "lag")] },
    Chart { title: "Members expired", unit: Unit::PerSecond, lines: &[("", "expired")] },
    Chart { title: "Members overdue", unit: Unit::Number, lines: &[("", "overdue")] },
    Chart { title: "Sweeper, of one core", unit: Unit::Percent, lines: &[("", "sweep")] },
    Chart { title: "Memory", unit: Unit::Bytes, lines: &[("", "memory")] },
    Chart { title: "Commands", unit: Unit::PerSecond, lines: &[("", "commands")] },
    Chart { title: "Clients", unit: Unit::Number, lines: &[("connected", "clients"), ("waiting", "waiting")] },
];

/// The maximum number of highlighted queues.
const LISTED: usize = 8;

pub async fn page(State(app): Shared) -> Page {
    let seen = app.seen.read().await;
    let (watch, info) = (&seen.watch, &seen.watch.now.info);
    let version = if info.has_module() { info.text("zeitset_version") } else { "not loaded" };
    let memory = match info.count("maxmemory") {
        0 => bytes(info.count("used_memory")),
        most => format!("{} of {}", bytes(info.count("used_memory")), bytes(most)),
    };
    let (lag, wait) = (info.count("zeitset_sweep_lag_ms"), watch.longest_wait_ms());
    let dead = watch.total(JobState::Dead);
    let figures = [
        tile("Jobs ready", grouped(watch.total(JobState::Ready))),
        tile("Longest wait", span(wait)).worrying(wait > WORRYING_WAIT_MS),
        tile("Dead letters", grouped(dead)).worrying(dead > 0),
        tile("Workers waiting", grouped(info.count("zeitset_clients_waiting"))),
        tile("Checks allowed", per_second(watch.rate("zeitset_checks_allowed"))),
        tile("Checks denied", per_second(watch.rate("zeitset_checks_denied"))),
        tile("Sweep lag", span(lag)).worrying(lag > WORRYING_LAG_MS),
        tile("Memory", memory),
    ];
    let body = html! {
        div #server data-live {
            h1 { "Overview" }
            p.facts {
                span { "Zeitset " (version) } span { (info.server()) } span { (info.text("role")) }
                span { "up " (span(info.count("uptime_in_seconds") * 1000)) } span { (grouped(info.keys())) " keys" }
            }
            @if watch.now.at_us > 0 && !info.has_module() {
                p.notice.bad role="alert" { "This server has not loaded the module: see redis.conf, loadmodule." }
            }
            (tiles(&figures))
        }
        section #worries data-live { (worries(watch)) }
        section {
            h2 { "Over time" }
            div #charts .charts data-live { @for chart in CHARTS { (chart::draw(chart, &seen.history.server)) } }
        }
    };
    drop(seen);
    Ok(layout::page(&app, "./", "Overview", body).await)
}

/// Returns the queues with problems.
fn worries(watch: &Watch) -> Markup {
    let now_ms = watch.now_ms();
    let wait = |watched: &Watched| watched.queue.wait_ms(now_ms).unwrap_or_default();
    let is_worth =
        |watched: &Watched| watched.queue.dead > 0 || watched.queue.is_paused || wait(watched) > WORRYING_WAIT_MS;
    let mut found: Vec<(&Key, &Watched)> = watch.queues.iter().filter(|(_, watched)| is_worth(watched)).collect();
    found.sort_by_key(|(_, watched)| std::cmp::Reverse((watched.queue.dead, wait(watched))));
    html! {
        h2 { "Worth a look" }
        @if found.is_empty() {
            p.quiet { "No dead letters, no paused queue, and no job waits longer than a minute." }
        } @else {
            div.scroll tabindex="0" role="region" aria-label="Queues worth a look" { table {
                thead { tr { th { "Queue" } th.number { "Dead" } th.number { "Ready" } th { "Longest wait" } th { span.hidden { "State" } } } }
                tbody {
                    @for (key, watched) in found.iter().take(LISTED) {
                        tr {
                            td { a href=(link("queue", &[("key", key)])) { (name(key)) } }
                            td.number.bad[watched.queue.dead > 0] { (grouped(watched.queue.dead)) }
                            td.number { (grouped(watched.queue.ready)) }
                            td {
                                @if let Some(due) = watched.queue.oldest_ready_ms { "since " (moment(due, now_ms)) } @else { "–" }
                            }
                            td { @if watched.queue.is_paused { span.badge.warn { "paused" } } }
                        }
                    }
                }
            } }
            @if found.len() > LISTED {
                p.quiet { a href="queues?sort=dead" { "and " (grouped((found.len() - LISTED) as u64)) " more" } }
            }
        }
    }
}
