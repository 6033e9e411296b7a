//! One queue: its figures, its jobs by state, page by page, its groups and settings.

use super::parts::{done, form, moment, name, tile, tiles};
use super::query::{Query, encoded, link};
use super::{App, Page, Problem, Shared, layout, settings};
use crate::server::{Job, Queue, Server, State as JobState, reply};
use crate::text::{grouped, printable, rate, shortened, span};
use crate::watch::micros;
use axum::extract::{RawQuery, State};
use axum::http::StatusCode;
use maud::{Markup, html};
use redis::{RedisResult, Value, pipe};

/// Jobs on a page, and groups.
const ROWS: usize = 25;

/// Up to this average size of a job, lists show the beginnings of payloads. Larger ones are not asked for.
const LARGEST_IN_LISTS: u64 = 16 * 1024;

/// What of a queue is looked at.
#[derive(Clone, Copy, PartialEq)]
enum Tab {
    Jobs(JobState),
    Groups,
    Settings,
}

impl Tab {
    const ALL: [Tab; 6] = [
        Tab::Jobs(JobState::Ready),
        Tab::Jobs(JobState::Delayed),
        Tab::Jobs(JobState::Claimed),
        Tab::Jobs(JobState::Dead),
        Tab::Groups,
        Tab::Settings,
    ];

    fn name(self) -> &'static str {
        match self {
            Tab::Jobs(state) => state.name(),
            Tab::Groups => "groups",
            Tab::Settings => "settings",
        }
    }
}

pub async fn page(State(app): Shared, RawQuery(query): RawQuery) -> Page {
    let query = Query::parse(query.unwrap_or_default().as_bytes());
    let key = query.get("key").ok_or_else(|| Problem::new(StatusCode::BAD_REQUEST, "Which queue? (key=…)"))?;
    let tab = query.text("tab");
    let tab = Tab::ALL.into_iter().find(|known| known.name() == tab).unwrap_or(Tab::ALL[0]);
    let (now_ms, exists, queue, memory) = figures(&app.server, key).await?;
    let after = query.get("after").unwrap_or_default();
    let content = match tab {
        Tab::Jobs(state) => {
            let with_payload = memory / queue.jobs().max(1) <= LARGEST_IN_LISTS;
            let jobs = jobs(&app.server, key, state, after, with_payload).await?;
            jobs_of(&app, key, state, &jobs, now_ms)
        }
        Tab::Groups => groups(&app.server, key, after).await?,
        Tab::Settings => settings::show(&app, key, &queue),
    };
    let rates = app.seen.read().await.watch.queues.get(key).cloned();
    let per_second =
        |counter| rates.as_ref().and_then(|it| it.rate(counter)).map_or("–".into(), |it| format!("{}/s", rate(it)));
    let wait = queue.wait_ms(now_ms);
    let total = |counter| grouped(queue.counter(counter));
    let figures = [
        tile("Longest wait", wait.map_or("–".into(), span))
            .worrying(wait.is_some_and(|ms| ms > super::overview::WORRYING_WAIT_MS)),
        tile("Pushed", per_second("pushed")),
        tile("Finished", per_second("acked")),
        tile("Pushed in all", total("pushed")),
        tile("Finished in all", total("acked")),
        tile("Given back", total("nacked")),
        tile("Leases ended", total("expired_leases")),
        tile("Memory", crate::text::bytes(memory)),
    ];
    let count = |tab| match tab {
        Tab::Jobs(JobState::Ready) => Some(queue.ready),
        Tab::Jobs(JobState::Delayed) => Some(queue.delayed),
        Tab::Jobs(JobState::Claimed) => Some(queue.claimed),
        Tab::Jobs(JobState::Dead) => Some(queue.dead),
        _ => None,
    };
    let body = html! {
        p.path { a href="/queues" { "Queues" } }
        (done(&query))
        div.heading {
            h1 { (name(key)) @if queue.is_paused { " " span.badge.warn { "paused" } } }
            @if app.settings.write { (pause(&app, key, queue.is_paused)) }
        }
        @if !exists { p.notice { "There is no such queue now. It appears with its first job." } }
        div #figures data-live { (tiles(&figures)) }
        nav #tabs .tabs data-live aria-label="Parts of the queue" {
            @for other in Tab::ALL {
                a href=(link("/queue", &[("key", key), ("tab", other.name().as_bytes())])) aria-current=[(tab == other).then_some("page")] {
                    (other.name())
                    @if let Some(count) = count(other) { " " b.bad[other == Tab::Jobs(JobState::Dead) && count > 0] { (grouped(count)) } }
                }
            }
        }
        (content)
    };
    let title = shortened(&printable(key), 60);
    Ok(layout::page(&app, "/queues", &title, body).await)
}

/// The server's clock, whether the key exists, its figures, and the memory it takes.
async fn figures(server: &Server, key: &[u8]) -> Result<(u64, bool, Queue, u64), Problem> {
    let mut pipe = pipe();
    pipe.cmd("TIME").cmd("EXISTS").arg(key).cmd("ZQ.STATS").arg(key).cmd("MEMORY").arg("USAGE").arg(key);
    let replies = server.ask(pipe).await?;
    let [time, exists, stats, memory] = <[RedisResult<Value>; 4]>::try_from(replies).expect("four replies");
    // A user who may not ask for the memory sees all else.
    let memory = memory.ok().and_then(|memory| reply::count(&memory)).unwrap_or_default();
    Ok((micros(&time?) / 1000, reply::count(&exists?) == Some(1), Queue::read(&stats?), memory))
}

/// A page of jobs; where there is room for payloads, with all that is known of each.
async fn jobs(
    server: &Server,
    key: &[u8],
    state: JobState,
    after: &[u8],
    with_payload: bool,
) -> Result<Vec<Job>, Problem> {
    let count = (ROWS + 1).to_string();
    let mut words: Vec<&[u8]> = vec![b"ZQ.PEEK", key, state.name().as_bytes(), b"COUNT", count.as_bytes()];
    if !after.is_empty() {
        words.extend([b"AFTER", after]);
    }
    words.push(b"NOPAYLOAD");
    let listed = server.one(&words).await?;
    let listed: Vec<Job> = reply::array(&listed).iter().filter_map(|job| Job::listed(state, job)).collect();
    if !with_payload {
        return Ok(listed);
    }
    let mut pipe = pipe();
    for job in &listed {
        pipe.cmd("ZQ.GET").arg(key).arg(&job.id);
    }
    let known = server.ask(pipe).await?;
    // A job that is gone, or has meanwhile another state, is shown as it was listed.
    let of = |(job, reply): (Job, RedisResult<Value>)| {
        let known = reply.ok().and_then(|reply| Job::read(&job.id, &reply));
        known.filter(|known| known.state == state.name()).unwrap_or(job)
    };
    Ok(listed.into_iter().zip(known).map(of).collect())
}

fn pause(app: &App, key: &[u8], is_paused: bool) -> Markup {
    form(
        app,
        key,
        "inline",
        html! {
            @if is_paused { button.main name="do" value="resume" { "Resume" } } @else { button name="do" value="pause" { "Pause" } }
        },
    )
}

fn jobs_of(app: &App, key: &[u8], state: JobState, jobs: &[Job], now_ms: u64) -> Markup {
    let (shown, more) = (&jobs[..jobs.len().min(ROWS)], jobs.len() > ROWS);
    let write = app.settings.write;
    let selection = html! {
        @if write && !shown.is_empty() {
            div.acts {
                label.check { input type="checkbox" data-all; " all on this page" }
                @match state {
                    JobState::Dead => button.main name="do" value="retry" { "Retry" },
                    JobState::Delayed => button.main name="do" value="promote" { "Run now" },
                    _ => {},
                }
                button.danger name="do" value="delete" data-confirm="Delete the selected jobs?" { "Delete" }
            }
        }
        div #jobs data-live { (table(write, key, state, shown, now_ms)) }
    };
    html! {
        @if write && state != JobState::Claimed { (bulk(app, key, state)) }
        @if write {
            (form(app, key, "selection", html! { input type="hidden" name="tab" value=(state.name()); (selection) }))
        } @else { (selection) }
        nav.pages aria-label="Pages of jobs" {
            @if more || !shown.is_empty() { a href=(link("/queue", &[("key", key), ("tab", state.name().as_bytes())])) { "First page" } }
            @if more {
                @let last = &shown[shown.len() - 1].id;
                a #next href=(link("/queue", &[("key", key), ("tab", state.name().as_bytes()), ("after", last)])) { "Next page" }
            }
        }
    }
}

fn table(write: bool, key: &[u8], state: JobState, jobs: &[Job], now_ms: u64) -> Markup {
    let when = match state {
        JobState::Ready => "Ready since",
        JobState::Delayed => "Due",
        JobState::Claimed => "Lease ends",
        JobState::Dead => "Died",
    };
    let last = match state {
        JobState::Claimed => "Worker",
        JobState::Dead => "Error",
        _ => "",
    };
    html! {
        @if jobs.is_empty() { p.quiet { "No " (state.name()) " job." } } @else {
            div.scroll { table {
                thead { tr {
                    @if write { th { span.hidden { "Select" } } }
                    th { "Job" } th { (when) } th.number { "Attempts" } th.number { "Priority" }
                    @if !last.is_empty() { th { (last) } }
                    th { "Payload" }
                } }
                tbody { @for job in jobs {
                    tr {
                        @if write { td { input type="checkbox" name="id" value=(encoded(&job.id)) aria-label={ "Select " (printable(&job.id)) }; } }
                        td { a href=(link("/job", &[("key", key), ("id", &job.id)])) { (name(&job.id)) } }
                        td { (moment(job.due_ms, now_ms)) }
                        td.number { (job.attempts) @if job.max_attempts > 0 { " of " (job.max_attempts) } }
                        td.number { (job.priority) }
                        @match state {
                            JobState::Claimed => td { @if let Some(worker) = &job.worker { (name(worker)) } @else { "–" } },
                            JobState::Dead => td.error { @if let Some(error) = &job.error { (name(error)) } @else { "–" } },
                            _ => {},
                        }
                        td.payload { @if let Some(payload) = &job.payload { (beginning(payload)) } @else { span.quiet { "large: open the job" } } }
                    }
                } }
            } }
        }
    }
}

/// The first characters of a payload.
fn beginning(payload: &[u8]) -> String {
    shortened(&printable(&payload[..payload.len().min(400)]), 60)
}

/// What is done to many jobs at once.
fn bulk(app: &App, key: &[u8], state: JobState) -> Markup {
    html! {
        details.bulk {
            summary { "Many at once" }
            @if state == JobState::Dead {
                (form(app, key, "inline", html! {
                    label { span { "Retry at most" } input name="count" value="1000" inputmode="numeric" required size="8"; }
                    button.main name="do" value="redrive" { "Retry, longest dead first" }
                }))
            }
            (form(app, key, "inline", html! {
                input type="hidden" name="state" value=(state.name());
                label { span { "Remove those " (state.name()) " for longer than" } input name="older" placeholder="7d" size="8"; }
                button.danger name="do" value="clean" data-confirm={ "Remove " (state.name()) " jobs for good?" } { "Remove" }
            }))
            p.quiet { "Without a duration: all of them. At most 100,000 at once." }
        }
    }
}

async fn groups(server: &Server, key: &[u8], after: &[u8]) -> Result<Markup, Problem> {
    let count = (ROWS + 1).to_string();
    let mut words: Vec<&[u8]> = vec![b"ZQ.GROUPS", key];
    if !after.is_empty() {
        words.extend([b"AFTER", after]);
    }
    words.extend([b"COUNT", count.as_bytes()]);
    let groups = server.one(&words).await?;
    let rows: Vec<(&[u8], [u64; 3])> = reply::array(&groups)
        .iter()
        .filter_map(|group| match reply::array(group) {
            [name, ready, delayed, claimed, ..] => {
                let counts = [ready, delayed, claimed].map(|count| reply::count(count).unwrap_or_default());
                Some((reply::bytes(name)?, counts))
            }
            _ => None,
        })
        .collect();
    let more = rows.len() > ROWS;
    let shown = &rows[..rows.len().min(ROWS)];
    Ok(html! {
        div #groups data-live {
            @if shown.is_empty() { p.quiet { "No group has a job." } } @else {
                div.scroll { table {
                    thead { tr { th { "Group" } th.number { "Ready" } th.number { "Delayed" } th.number { "Claimed" } } }
                    tbody { @for (group, counts) in shown { tr {
                        td { @if group.is_empty() { span.quiet { "without a name" } } @else { (name(group)) } }
                        @for count in counts { td.number { (grouped(*count)) } }
                    } } }
                } }
            }
        }
        nav.pages aria-label="Pages of groups" {
            @if more {
                @let last = shown[shown.len() - 1].0;
                a #next href=(link("/queue", &[("key", key), ("tab", b"groups"), ("after", last)])) { "Next page" }
            }
        }
    })
}
