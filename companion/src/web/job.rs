//! One job, with its payload.

use super::celery::Task;
use super::parts::{done, form, moment, name};
use super::query::{Query, encoded, link};
use super::{App, Page, Problem, Shared, layout};
use crate::server::Job;
use crate::text::{instant, printable, readable, shortened};
use crate::watch::micros;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use maud::{Markup, html};
use redis::pipe;

/// The maximum size of a shown payload. The whole payload can be downloaded.
const SHOWN: usize = 64 * 1024;

/// Returns the key and the ID of the requested job.
fn asked(query: &Query) -> Result<(&[u8], &[u8]), Problem> {
    match (query.given("key"), query.get("id")) {
        (Some(key), Some(id)) => Ok((key, id)),
        _ => Err(Problem::new(StatusCode::BAD_REQUEST, "Which job? (key=…&id=…)")),
    }
}

async fn find(app: &App, key: &[u8], id: &[u8]) -> Result<(u64, Option<Job>), Problem> {
    let mut pipe = pipe();
    pipe.cmd("TIME").cmd("ZQ.GET").arg(key).arg(id);
    let mut replies = app.server.ask(pipe).await?.into_iter();
    let (time, job) = (replies.next().expect("TIME")?, replies.next().expect("ZQ.GET")?);
    Ok((micros(&time) / 1000, Job::read(id, &job)))
}

pub async fn page(State(app): Shared, query: Query) -> Page {
    let (key, id) = asked(&query)?;
    let (now_ms, job) = find(&app, key, id).await?;
    let path = html! {
        p.path { a href="queues" { "Queues" } " / " a href=(link("queue", &[("key", key)])) { (name(key)) } }
        (done(&query))
    };
    let title = shortened(&printable(id), 60);
    let body = html! {
        (path)
        // The possible actions depend on the state. If the job ends while the page is open, the page says so.
        div #state data-live {
            div.heading {
                h1 { (name(id)) " " span role="status" { @if let Some(job) = &job { span.badge.(job.state) { (job.state) } } } }
            }
            @match &job {
                None => p.notice #gone { "There is no such job: it is finished, deleted, or never was." },
                Some(job) => {
                    @if app.settings.write { (actions(&app, key, job)) }
                    @if let Some(progress) = &job.progress { section #progress { h2 { "Progress" } pre { (readable(progress)) } } }
                    @if let Some(error) = &job.error { section #error { h2 { "Error" } pre.error { (readable(error)) } } }
                }
            }
        }
        div #job data-live {
            @if let Some(job) = &job {
                dl.settings { (facts(job, now_ms)) }
                h2 { "History" }
                (history(job, now_ms))
            }
        }
        div #content data-live { @if let Some(job) = &job { (content(key, job)) } }
    };
    Ok(layout::page(&app, "queues", &title, body).await)
}

fn content(key: &[u8], job: &Job) -> Markup {
    let payload = job.payload.as_deref().unwrap_or_default();
    let task = Task::read(payload);
    html! {
        @if let Some(task) = &task { (task.facts()) }
        section {
            h2 { "Payload" @if task.is_some() { ": the body" } }
            (payload_of("payload", task.as_ref().map_or(payload, |task| &task.body)))
            p.quiet { a href=(link("payload", &[("key", key), ("id", &job.id)])) { "Download" } }
        }
        @if let Some(again) = &job.again {
            section {
                h2 { "Once more after this claim, with the payload" }
                (payload_of("again", again))
            }
        }
    }
}

fn facts(job: &Job, now_ms: u64) -> Markup {
    html! {
        div { dt { "Priority" } dd { (job.priority) } }
        div { dt { "Attempts" } dd { (job.attempts) @if job.max_attempts > 0 { " of " (job.max_attempts) } } }
        @if let Some(worker) = &job.worker { div { dt { "Worker" } dd { (name(worker)) } } }
        @for (field, value) in job.others.iter().filter(|(field, value)| value != "none" && !value.is_empty() && !is_past(field)) {
            div { dt { (field.trim_end_matches("_ms").replace('_', " ")) } dd {
                @match (field.ends_with("_ms"), value.parse::<u64>()) {
                    // A larger number is a time (after 1973). A smaller number is a duration.
                    (true, Ok(ms)) if ms > 100_000_000_000 => { (moment(ms, now_ms)) small { (instant(ms)) " UTC" } },
                    (true, Ok(0)) => "–",
                    (true, Ok(ms)) => (crate::text::span(ms)),
                    _ => (value),
                }
            } }
        }
    }
}

/// Whether [`history`] shows a field.
fn is_past(field: &str) -> bool {
    matches!(field, "created_ms" | "failed_ms" | "progress_ms")
}

fn history(job: &Job, now_ms: u64) -> Markup {
    let past = |field: &str| job.others.iter().find(|(other, _)| other == field)?.1.parse::<u64>().ok();
    let next = match job.state.as_str() {
        "claimed" => "Lease expires",
        "dead" => "Became a dead letter",
        _ => "Due",
    };
    let mut events: Vec<(u64, &str)> = [
        (past("created_ms"), "Pushed"),
        (job.claimed_ms, "Last claimed"),
        (past("failed_ms"), "Last failed"),
        (past("progress_ms"), "Last progress"),
        (Some(job.due_ms), next),
    ]
    .into_iter()
    .filter_map(|(ms, what)| Some((ms?, what)))
    .collect();
    events.sort_by_key(|(ms, _)| *ms);
    html! {
        div.scroll tabindex="0" role="region" aria-label="History" { table {
            thead { tr { th { "What" } th { "When" } th { "UTC" } } }
            tbody { @for (ms, what) in events { tr {
                td { (what) @if let ("Last claimed", Some(worker)) = (what, &job.worker) { " by " (name(worker)) } }
                td { (moment(ms, now_ms)) }
                td { (instant(ms)) }
            } } }
        } }
        @if job.attempts > 1 { p.quiet { "Of earlier attempts, the server keeps the number." } }
    }
}

fn payload_of(id: &str, payload: &[u8]) -> Markup {
    let shown = &payload[..payload.len().min(SHOWN)];
    let json = if shown.len() == payload.len() { crate::json::indented(payload) } else { None };
    html! {
        @if payload.is_empty() { p.quiet { "Empty." } } @else {
            pre id=(id) { @if let Some(json) = &json { (readable(json.as_bytes())) } @else { (readable(shown)) } }
            p.quiet {
                button type="button" data-copy=(id) { "Copy" } " "
                (crate::text::bytes(payload.len() as u64))
                @if json.is_some() { " of JSON, indented" }
                @if shown.len() < payload.len() { ", of which the first " (crate::text::bytes(SHOWN as u64)) " are shown" }
            }
        }
    }
}

fn actions(app: &App, key: &[u8], job: &Job) -> Markup {
    let id = html! { input type="hidden" name="id" value=(encoded(&job.id)); };
    html! {
        div.acts {
            @match job.state.as_str() {
                "dead" => (form(app, key, "inline", html! { (id) button.main name="do" value="retry" { "Retry" } })),
                "delayed" => (form(app, key, "inline", html! { (id) button.main name="do" value="promote" { "Run now" } })),
                _ => {},
            }
            (form(app, key, "inline", html! { (id) button.danger name="do" value="delete" { "Delete" } }))
        }
        @if matches!(job.state.as_str(), "ready" | "delayed") {
            details.bulk {
                summary { "Change delay or priority" }
                (form(app, key, "inline", html! {
                    (id)
                    label { span { "Delay from now" } input name="delay" placeholder="10m" size="8"; }
                    label { span { "Priority" } input name="priority" placeholder=(job.priority) size="8"; }
                    button.main name="do" value="change" { "Change" }
                }))
            }
        }
    }
}

/// Returns the payload as a file download, which a browser does not display.
pub async fn payload(State(app): Shared, query: Query) -> Result<Response, Problem> {
    let (key, id) = asked(&query)?;
    let (_, job) = find(&app, key, id).await?;
    let payload = job.and_then(|job| job.payload);
    let payload = payload.ok_or_else(|| Problem::new(StatusCode::NOT_FOUND, "There is no such job."))?;
    let headers = [
        (header::CONTENT_TYPE, "application/octet-stream"),
        (header::CONTENT_DISPOSITION, "attachment; filename=\"payload.bin\""),
    ];
    Ok((headers, payload).into_response())
}
