//! One queue: its stats, its jobs by state in pages, and its charts.

use super::celery::{self, Task};
use super::chart::{self, Chart, Unit};
use super::groups::Group;
use super::parts::{done, form, moment, name, per_second, tile, tiles};
use super::query::{Query, encoded, link};
use super::{App, Page, Problem, Shared, errors, groups, layout, settings, tasks};
use crate::history::QUEUES;
use crate::server::{Job, Key, Queue, Server, State as JobState, reply};
use crate::text::{grouped, printable, shortened, span};
use crate::watch::{WORRYING_WAIT_MS, micros};
use axum::extract::State;
use axum::http::StatusCode;
use maud::{Markup, html};
use redis::{RedisResult, Value, pipe};

/// Jobs or groups per page.
pub const ROWS: usize = 25;

/// The maximum size of all payloads of a list together. The list shows the remaining jobs without their payloads.
const MOST_FETCHED: usize = 256 * 1024;

#[derive(Clone, Copy, PartialEq)]
enum Tab {
    Jobs(JobState),
    Errors,
    Groups,
    Charts,
    Settings,
}

impl Tab {
    const ALL: [Tab; 8] = [
        Tab::Jobs(JobState::Ready),
        Tab::Jobs(JobState::Delayed),
        Tab::Jobs(JobState::Claimed),
        Tab::Jobs(JobState::Dead),
        Tab::Errors,
        Tab::Groups,
        Tab::Charts,
        Tab::Settings,
    ];

    fn name(self) -> &'static str {
        match self {
            Tab::Jobs(state) => state.name(),
            Tab::Errors => "errors",
            Tab::Groups => "groups",
            Tab::Charts => "charts",
            Tab::Settings => "settings",
        }
    }
}

pub async fn page(State(app): Shared, query: Query) -> Page {
    let key = query.given("key").ok_or_else(|| Problem::new(StatusCode::BAD_REQUEST, "Which queue? (key=…)"))?;
    let tab = query.text("tab");
    let tab = Tab::ALL.into_iter().find(|known| known.name() == tab).unwrap_or(Tab::ALL[0]);
    let (now_ms, exists, queue, memory) = figures(&app.server, key).await?;
    let after = query.get("after").unwrap_or_default();
    // The tabs of jobs can show a single group.
    let group = match (tab, query.given("group")) {
        (Tab::Jobs(_), Some(name)) => Some(groups::one(&app.server, key, name).await?),
        _ => None,
    };
    let content = match tab {
        Tab::Jobs(state) => {
            let list = List { key, state, group: group.as_ref(), task: query.get("task") };
            if query.text("by") == "task" {
                let count = group.as_ref().map_or(Some(queue.count(state)), |group| group.count(state));
                tasks::counts(&app.server, &list, count).await?
            } else {
                jobs_of(&app, &list, &jobs(&app.server, &list, after).await?, now_ms)
            }
        }
        Tab::Errors => errors::show(&app, key, &queue, now_ms).await?,
        Tab::Groups => groups::show(&app, key, &query, now_ms).await?,
        Tab::Charts => charts(&app, key).await,
        Tab::Settings => settings::show(&app, key, &queue),
    };
    let rates = app.seen.read().await.watch.queues.get(key).cloned();
    let rate = |counter| per_second(rates.as_ref().and_then(|watched| watched.rate(counter)));
    let wait = queue.wait_ms(now_ms);
    let total = |counter| grouped(queue.counter(counter));
    let figures = [
        tile("Longest wait", wait.map_or("–".into(), span)).worrying(wait.is_some_and(|ms| ms > WORRYING_WAIT_MS)),
        tile("Pushed", rate("pushed")),
        tile("Finished", rate("acked")),
        tile("Pushed in all", total("pushed")),
        tile("Finished in all", total("acked")),
        tile("Given back", total("nacked")),
        tile("Leases expired", total("expired_leases")),
        tile("Jobs expired", total("expired")),
        tile("Memory", crate::text::bytes(memory)),
    ];
    let count = |tab| match (tab, &group) {
        (Tab::Jobs(state), None) => Some(queue.count(state)),
        (Tab::Jobs(state), Some(group)) => group.count(state),
        _ => None,
    };
    let to = |tab: Tab| {
        let to = [("key", key), ("tab", tab.name().as_bytes())];
        let group =
            group.as_ref().filter(|_| matches!(tab, Tab::Jobs(_))).map(|group| ("group", group.name.as_slice()));
        link("queue", &to.into_iter().chain(group).collect::<Vec<_>>())
    };
    let body = html! {
        p.path { a href="queues" { "Queues" } }
        (done(&query))
        div #heading data-live {
            div.heading {
                h1 { (name(key)) " " span role="status" { @if queue.is_paused { span.badge.warn { "paused" } } } }
                @if app.settings.write { (pause(&app, key, queue.is_paused)) }
            }
            @if !exists { p.notice { "There is no such queue now. It appears with its first job." } }
        }
        div #figures data-live { (tiles(&figures)) }
        nav #tabs .tabs data-live aria-label="Parts of the queue" {
            @for other in Tab::ALL {
                a href=(to(other)) aria-current=[(tab == other).then_some("page")] {
                    (other.name())
                    @if let Some(count) = count(other) { " " b.bad[other == Tab::Jobs(JobState::Dead) && count > 0] { (grouped(count)) } }
                }
            }
        }
        // A form in a browser sends only text, so a queue whose name is not UTF-8 has no search.
        @if let Ok(key) = std::str::from_utf8(key) {
            form.look #find method="get" action="job" role="search" aria-label="Job by ID" {
                input type="hidden" name="key" value=(key);
                label { span { "Job by ID" } input name="id" required autocomplete="off" spellcheck="false"; }
                button { "Find" }
            }
        }
        (content)
    };
    let title = shortened(&printable(key), 60);
    Ok(layout::page(&app, "queues", &title, body).await)
}

/// Returns the server's time, whether the key exists, its stats, and its memory usage.
async fn figures(server: &Server, key: &[u8]) -> Result<(u64, bool, Queue, u64), Problem> {
    let mut pipe = pipe();
    pipe.cmd("TIME").cmd("EXISTS").arg(key).cmd("ZQ.STATS").arg(key).cmd("MEMORY").arg("USAGE").arg(key);
    let replies = server.ask(pipe).await?;
    let [time, exists, stats, memory] = <[RedisResult<Value>; 4]>::try_from(replies).expect("four replies");
    // If the user may not call MEMORY, the rest of the page is shown.
    let memory = memory.ok().and_then(|memory| reply::count(&memory)).unwrap_or_default();
    Ok((micros(&time?) / 1000, reply::count(&exists?) == Some(1), Queue::read(&stats?), memory))
}

/// The jobs that a tab lists: those of one state, and perhaps only those of one group, or of one task of Celery.
pub struct List<'a> {
    pub key: &'a [u8],
    pub state: JobState,
    pub group: Option<&'a Group>,
    pub task: Option<&'a [u8]>,
}

impl List<'_> {
    /// Returns at most `most` jobs in the order of ZQ.PEEK, without their payloads. If `after` is not empty, returns
    /// only jobs that follow the job `after`.
    pub async fn peek(&self, server: &Server, most: usize, after: &[u8]) -> RedisResult<Vec<Job>> {
        server.peek(self.key, self.state, self.group.map(|group| group.name.as_slice()), most, after).await
    }

    /// Returns what follows the page whose last job is `last`. Asks for the next page now, so that no link leads to an
    /// error. If this job has left the state meanwhile, the link leads to the first page.
    pub async fn after(&self, server: &Server, last: &[u8]) -> RedisResult<More> {
        match self.peek(server, 1, last).await {
            Err(error) if error.code() != Some("ERR") => Err(error),
            Err(error) if !crate::server::message(&error).contains("no such job") => Ok(More::Unlisted),
            Ok(jobs) if jobs.is_empty() => Ok(More::Nothing),
            _ => Ok(More::After(last.to_vec())),
        }
    }

    /// Returns a link to this tab, with more parameters.
    pub fn link(&self, more: &[(&str, &[u8])]) -> String {
        let group = self.group.map(|group| ("group", group.name.as_slice()));
        let tab = [("key", self.key), ("tab", self.state.name().as_bytes())];
        link("queue", &tab.into_iter().chain(group).chain(more.iter().copied()).collect::<Vec<_>>())
    }

    /// Returns a link to this list, with more parameters.
    fn link_to_page(&self, more: &[(&str, &[u8])]) -> String {
        self.link(&[&[("task", self.task.unwrap_or_default())], more].concat())
    }
}

/// A page of a list.
pub struct Listed {
    pub jobs: Vec<Job>,
    /// Why this is the first page, although another one was requested.
    pub moved: Option<String>,
    pub more: More,
}

#[derive(Clone, PartialEq)]
pub enum More {
    Nothing,
    /// The next page begins after this job.
    After(Key),
    /// There are more jobs, but the server does not list them at a bounded cost.
    Unlisted,
}

/// Returns a page of jobs. If the server cannot continue after the job `after`, returns the first page.
async fn jobs(server: &Server, list: &List<'_>, after: &[u8]) -> RedisResult<Listed> {
    if let Some(task) = list.task {
        return tasks::jobs(server, list, task, after).await;
    }
    let (mut listed, moved) = match list.peek(server, ROWS + 1, after).await {
        Err(error) if !after.is_empty() && error.code() == Some("ERR") => {
            (list.peek(server, ROWS + 1, b"").await?, Some(crate::server::message(&error)))
        }
        listed => (listed?, None),
    };
    let more = if listed.len() <= ROWS {
        More::Nothing
    } else {
        listed.truncate(ROWS);
        list.after(server, &listed[ROWS - 1].id).await?
    };
    let mut known = get(server, list.key, &listed, MOST_FETCHED).await?.into_iter();
    // If a job is gone or has changed its state, the list shows it as ZQ.PEEK returned it.
    let is_same = |job: &Job| job.state == list.state.name();
    let jobs = listed.into_iter().map(|job| known.next().flatten().filter(is_same).unwrap_or(job));
    Ok(Listed { jobs: jobs.collect(), moved, more })
}

/// Returns all fields of these jobs. Reads the jobs one by one, and stops when their payloads exceed `most` bytes in
/// total. ZQ.GET returns whole payloads, so the last payload may exceed the limit.
async fn get(server: &Server, key: &[u8], jobs: &[Job], most: usize) -> RedisResult<Vec<Option<Job>>> {
    let (mut known, mut fetched) = (Vec::new(), 0);
    for job in jobs {
        if fetched > most {
            break;
        }
        let job = Job::read(&job.id, &server.one(&[b"ZQ.GET", key, &job.id]).await?);
        fetched += job.iter().flat_map(|job| [&job.payload, &job.again]).flatten().map(Vec::len).sum::<usize>();
        known.push(job);
    }
    Ok(known)
}

const CHARTS: &[Chart] = &[
    Chart { title: "Jobs ready", unit: Unit::Number, lines: &[("", "ready")] },
    Chart { title: "Longest wait", unit: Unit::Ms, lines: &[("", "wait")] },
    Chart { title: "Jobs", unit: Unit::PerSecond, lines: &[("pushed", "pushed"), ("finished", "acked")] },
    Chart { title: "Jobs given back", unit: Unit::PerSecond, lines: &[("", "nacked")] },
    Chart {
        title: "Jobs delayed and claimed",
        unit: Unit::Number,
        lines: &[("delayed", "delayed"), ("claimed", "claimed")],
    },
    Chart { title: "Dead letters", unit: Unit::Number, lines: &[("", "dead")] },
];

async fn charts(app: &App, key: &[u8]) -> Markup {
    let seen = app.seen.read().await;
    html! { div #charts data-live {
        @if let Some(history) = seen.history.of_queue(key) {
            div.charts { @for chart in CHARTS { (chart::draw(chart, history)) } }
        } @else if seen.watch.queues.len() > QUEUES {
            p.quiet { "There are more than " (grouped(QUEUES as u64)) " queues: those have charts in which something happens." }
        } @else { p.quiet { "Not seen yet." } }
    } }
}

fn pause(app: &App, key: &[u8], is_paused: bool) -> Markup {
    form(
        app,
        key,
        "inline",
        html! {
            @if is_paused { button.main name="do" value="resume" aria-label="Resume the queue" { "Resume" } }
            @else { button name="do" value="pause" aria-label="Pause the queue" { "Pause" } }
        },
    )
}

fn jobs_of(app: &App, list: &List, listed: &Listed, now_ms: u64) -> Markup {
    let (key, state, shown) = (list.key, list.state, listed.jobs.as_slice());
    let write = app.settings.write;
    let group = html! {
        @if let Some(group) = list.group { input type="hidden" name="group" value=(encoded(&group.name)); }
        @if let Some(task) = list.task { input type="hidden" name="task" value=(encoded(task)); }
    };
    let has_tasks = shown.iter().any(|job| celery::name(job.payload.as_deref().unwrap_or_default()).is_some());
    let selection = html! {
        @if write {
            div #acts .acts hidden[shown.is_empty()] data-live {
                label.check { input type="checkbox" data-all; " all on this page" }
                @match state {
                    JobState::Dead => button.main name="do" value="retry" { "Retry" },
                    JobState::Delayed => button.main name="do" value="promote" { "Run now" },
                    _ => {},
                }
                button.danger name="do" value="delete" { "Delete" }
            }
        }
        div #jobs data-live { (table(list, write, shown, now_ms)) }
    };
    html! {
        @if let Some(group) = list.group { (groups::heading(app, key, group, state, now_ms)) }
        div #moved data-live {
            @if let Some(why) = &listed.moved {
                p.notice role="status" {
                    @if why.contains("no such job") { "The last job of the page before is gone, so this is the first page." }
                    @else { "This is the first page. The server does not list the page that you asked for: " (why) }
                }
            }
        }
        div #tasks data-live {
            @match list.task {
                Some(task) => p.facts { span { "Celery task: " b { (name(task)) } } a href=(list.link(&[])) { "All " (state.name()) " jobs" } },
                None if has_tasks => p.quiet { a href=(list.link(&[("by", b"task")])) { "Count by Celery task" } },
                None => {},
            }
        }
        // These forms act on all jobs of the state, and not on those of a task.
        @if write && state != JobState::Claimed && list.task.is_none() { (bulk(app, key, state, &group)) }
        @if write {
            (form(app, key, "selection", html! { input type="hidden" name="tab" value=(state.name()); (group) (selection) }))
        } @else { (selection) }
        nav #pages .pages data-live aria-label="Pages of jobs" {
            @if !shown.is_empty() { a href=(list.link_to_page(&[])) { "First page" } }
            @if let More::After(last) = &listed.more {
                a #next href=(list.link_to_page(&[("after", last)])) { @if list.task.is_some() { "Look further" } @else { "Next page" } }
            }
            @if listed.more == More::Unlisted {
                span.quiet {
                    "Of a queue with priorities or groups, the server lists only the first ready jobs. "
                    @if list.group.is_none() { "The " a href=(link("queue", &[("key", key), ("tab", b"groups")])) { "groups" } " lead to the others." }
                }
            }
        }
    }
}

fn table(list: &List, write: bool, jobs: &[Job], now_ms: u64) -> Markup {
    let (key, state) = (list.key, list.state);
    let when = match state {
        JobState::Ready => "Ready since",
        JobState::Delayed => "Due",
        JobState::Claimed => "Lease expires",
        JobState::Dead => "Died",
    };
    let last: &[&str] = match state {
        JobState::Claimed => &["Worker", "Progress"],
        JobState::Dead => &["Error"],
        _ => &[],
    };
    html! {
        @if jobs.is_empty() { p.quiet { "No " (state.name()) " job" @if list.task.is_some() { " of this task among those that were read" } "." } } @else {
            div.scroll tabindex="0" role="region" aria-label={ (state.name()) " jobs" } { table {
                thead { tr {
                    @if write { th { span.hidden { "Select" } } }
                    th { "Job" } th { (when) } th.number { "Attempts" } th.number { "Priority" }
                    @for column in last { th { (column) } }
                    th { "Payload" }
                } }
                tbody { @for job in jobs {
                    tr {
                        @if write { td { input type="checkbox" name="id" value=(encoded(&job.id)) aria-label={ "Select " (printable(&job.id)) }; } }
                        td { a href=(link("job", &[("key", key), ("id", &job.id)])) { (name(&job.id)) } }
                        td { (moment(job.due_ms, now_ms)) }
                        td.number { (job.attempts) @if job.max_attempts > 0 { " of " (job.max_attempts) } }
                        td.number { (job.priority) }
                        @match state {
                            JobState::Claimed => {
                                td { @if let Some(worker) = &job.worker { (name(worker)) } @else { "–" } }
                                td { @if let Some(progress) = &job.progress { (name(progress)) } @else { "–" } }
                            },
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

/// Returns the first characters of a payload. Of a task of Celery, returns the name and the arguments.
fn beginning(payload: &[u8]) -> String {
    match Task::read(payload) {
        Some(task) => shortened(&printable(task.line().as_bytes()), 60),
        None => shortened(&printable(&payload[..payload.len().min(400)]), 60),
    }
}

/// Shows forms that retry or remove many jobs. `group` is an input with the name of the group, or empty.
fn bulk(app: &App, key: &[u8], state: JobState, group: &Markup) -> Markup {
    html! {
        details.bulk {
            summary { "Many at once" }
            @if state == JobState::Dead {
                (form(app, key, "inline", html! {
                    input type="hidden" name="tab" value="dead";
                    (group)
                    label { span { "Retry at most" } input name="count" value="1000" inputmode="numeric" required size="8"; }
                    button.main name="do" value="redrive" { "Retry, longest dead first" }
                }))
            }
            (form(app, key, "inline", html! {
                input type="hidden" name="state" value=(state.name());
                (group)
                label { span { "Remove those " (state.name()) " for longer than" } input name="older" required size="8"; }
                button.danger name="do" value="clean" { "Remove" }
            }))
            p.quiet { "A duration as 7d, or the word all. At most 100,000 at once; you are asked before." }
        }
    }
}
