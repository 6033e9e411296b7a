//! The actions that `--write` allows. Each action is a form sent by POST. The response redirects the browser to a page
//! that reports the result, so reloading that page does not repeat the action. (guard.rs has checked the origin of the
//! request.)

use super::query::{Query, decoded, link};
use super::{App, Problem, Shared, groups, guard, layout, letters, limits, settings};
use crate::server::{Key, Queue, State as JobState, reply};
use crate::text::{grouped, printable, shortened};
use axum::body::Bytes;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use maud::{Markup, html};
use redis::pipe;
use std::sync::Arc;

/// The maximum number of jobs that one call of ZQ.CLEAN removes.
const CLEANED_AT_ONCE: u64 = 1_000;
/// The maximum number of calls of ZQ.CLEAN per action.
const CLEANINGS: u64 = 100;

/// The maximum number of jobs in a form. A page lists fewer jobs.
const MOST_IDS: usize = 1_000;

pub async fn act(State(app): Shared, body: Bytes) -> Result<Response, Problem> {
    let query = Query::parse(&body);
    if !guard::is_same(query.get("token").unwrap_or_default(), app.token.as_bytes()) {
        let why = "The form is out of date: go back, load the page again, and repeat it.";
        return Err(Problem::new(StatusCode::FORBIDDEN, why));
    }
    let key = decoded(query.given("key").ok_or_else(|| bad("Which key?"))?);
    let ids: Vec<Key> = query.all("id").filter(|id| !id.is_empty()).map(decoded).take(MOST_IDS).collect();
    // The job of a page of one job, to which the response leads as long as the job exists.
    let job = if query.get("tab").is_none() && query.given("kind").is_none() { ids.first() } else { None };
    if query.get("sure").is_none()
        && let Some(question) = question(&app, &query, &key, ids.len()).await?
    {
        let back = if limits::ACTIONS.contains(&query.text("do").as_str()) {
            limits::link_to(&key)
        } else {
            link_to(&query, &key, &[])
        };
        return Ok(ask(&app, &query, question, &back).await.into_response());
    }
    let (done, n) = perform(&app, &query, &key, &ids).await?;
    let count = n.to_string();
    let outcome = [("done", done.as_bytes()), ("n", count.as_bytes())];
    let to = match job {
        _ if limits::ACTIONS.contains(&query.text("do").as_str()) => {
            link("limits", &[&[("key", key.as_slice())], &outcome[..]].concat())
        }
        Some(id) if done != "deleted" => link("job", &[&[("key", key.as_slice()), ("id", id)], &outcome[..]].concat()),
        _ => link_to(&query, &key, &outcome),
    };
    Ok((StatusCode::SEE_OTHER, [(header::LOCATION, to)]).into_response())
}

/// Returns a link to the part of the queue from which a form came.
fn link_to(query: &Query, key: &[u8], more: &[(&str, &[u8])]) -> String {
    let tab = query.get("tab").or(query.get("state")).unwrap_or(match query.text("do").as_str() {
        "configure" => b"settings",
        "redrive" => b"dead",
        _ => b"",
    });
    let group = group(query).filter(|_| JobState::parse(tab).is_some());
    let group = group.as_ref().map(|group| ("group", group.as_slice()));
    let task = query.get("task").filter(|_| JobState::parse(tab).is_some()).map(decoded).unwrap_or_default();
    let to = [("key", key), ("tab", tab), ("task", &task)].into_iter().chain(group).chain(more.iter().copied());
    link("queue", &to.collect::<Vec<_>>())
}

fn group(query: &Query) -> Option<Key> {
    query.given("group").map(decoded)
}

/// Returns the letters that a form of the tab Errors names.
fn kind(query: &Query) -> Result<letters::Kind, Problem> {
    let error = decoded(query.given("kind").ok_or_else(|| bad("Which error?"))?);
    Ok(letters::Kind { task: query.given("task").map(decoded).unwrap_or_default(), error })
}

/// A question to ask before an action.
struct Question {
    text: String,
    /// The action may remove at most this number of jobs, which the question names.
    most: Option<u64>,
}

/// Returns the question to ask before the action removes something permanently. `None` if the action removes nothing.
async fn question(app: &App, query: &Query, key: &[u8], selected: usize) -> Result<Option<Question>, Problem> {
    let of_text = |text: String| Ok(Some(Question { text, most: None }));
    let queue = printable(key);
    match query.text("do").as_str() {
        "delete" if selected > 0 => {
            let jobs = if selected == 1 { "job" } else { "jobs" };
            of_text(format!("Delete {} {jobs} of {queue}?", grouped(selected as u64)))
        }
        "delete-kind" => {
            let kind = kind(query)?;
            let n = app.letters.counted(key, &kind).await;
            let of_task = match kind.task.as_slice() {
                b"" => String::new(),
                task => format!(" of the task {}", shortened(&printable(task), 200)),
            };
            let jobs = format!("{} {}{of_task} of {queue}", grouped(n), if n == 1 { "job" } else { "jobs" });
            let text = match kind.error.as_slice() {
                b"" => format!("Delete {jobs} that died without an error?"),
                kind => format!("Delete {jobs} that died of “{}”?", shortened(&printable(kind), 200)),
            };
            Ok(Some(Question { text, most: Some(n) }))
        }
        "reset" => of_text(format!("Reset the limit {queue}? All its units become available at once.")),
        "clean" => {
            let (state, older) = cleaning(query)?;
            let jobs = match group(query) {
                Some(name) => {
                    let count = groups::one(&app.server, key, &name).await?.count(state);
                    let count = count.map_or(String::new(), |count| format!("{} ", grouped(count)));
                    format!("{count}{} jobs of the group {} of {queue}", state.name(), printable(&name))
                }
                None => {
                    let stats = Queue::read(&app.server.one(&[b"ZQ.STATS", key]).await?);
                    format!("{} {} jobs of {queue}", grouped(stats.count(state)), state.name())
                }
            };
            of_text(match older {
                Some(older) => format!("Of the {jobs}, remove those {} for longer than {older}?", state.name()),
                None => format!("Remove all {jobs}?"),
            })
        }
        _ => Ok(None),
    }
}

/// Returns a page with a question. The form on this page submits the fields of `query` again, with the answer.
async fn ask(app: &App, query: &Query, question: Question, back: &str) -> Markup {
    let body = html! {
        h1 { (question.text) }
        p { "This cannot be undone." }
        form.acts method="post" action="act" {
            @for (name, value) in query.pairs() {
                input type="hidden" name=(name) value=(String::from_utf8_lossy(value));
            }
            @if let Some(most) = question.most { input type="hidden" name="told" value=(most); }
            button.danger name="sure" value="yes" { "Remove for good" }
            a href=(back) data-cancel { "Cancel" }
        }
    };
    layout::still(app, "queues", "Sure?", body).await
}

/// Returns the state and the minimum age of the jobs to remove. The age is `None` if the form asks to remove jobs of
/// any age. An empty field in the form is an error.
fn cleaning(query: &Query) -> Result<(JobState, Option<String>), Problem> {
    let state = JobState::parse(query.text("state").as_bytes()).ok_or_else(|| bad("Which state?"))?;
    match query.text("older").as_str() {
        "" => Err(bad("For how long? Expected a duration as 7d, or the word all.")),
        "all" => Ok((state, None)),
        older => Ok((state, Some(older.to_owned()))),
    }
}

fn bad(why: &str) -> Problem {
    Problem::new(StatusCode::BAD_REQUEST, why)
}

/// Performs an action. Returns the name of the result and the number of affected jobs.
async fn perform(app: &Arc<App>, query: &Query, key: &[u8], ids: &[Vec<u8>]) -> Result<(&'static str, u64), Problem> {
    let action = query.text("do");
    let of_ids = matches!(action.as_str(), "retry" | "promote" | "delete" | "change");
    if of_ids && ids.is_empty() {
        return Ok(("unchanged", 0));
    }
    let call = async |words: Vec<&[u8]>| -> Result<u64, Problem> {
        let reply = app.server.one(&words).await.map_err(refused)?;
        Ok(reply::count(&reply).unwrap_or_default())
    };
    let with_ids = |words: &[&'static [u8]]| -> Vec<&[u8]> {
        let (name, rest) = words.split_first().expect("a command");
        [&[*name, key][..], rest, &ids.iter().map(Vec::as_slice).collect::<Vec<_>>()].concat()
    };
    match action.as_str() {
        "retry" => Ok(("retried", call(with_ids(&[b"ZQ.REDRIVE", b"ID"])).await?)),
        "delete" => Ok(("deleted", call(with_ids(&[b"ZQ.CANCEL"])).await?)),
        "promote" => Ok(("promoted", reschedule(app, key, ids, &["DELAY", "0"]).await?)),
        "change" => {
            let (delay, priority) = (query.text("delay"), query.text("priority"));
            let mut words = Vec::new();
            if !delay.is_empty() {
                words.extend(["DELAY", &delay]);
            }
            if !priority.is_empty() {
                words.extend(["PRIORITY", &priority]);
            }
            if words.is_empty() {
                return Ok(("unchanged", 0));
            }
            Ok(("changed", reschedule(app, key, ids, &words).await?))
        }
        "redrive" => {
            let (group, count) = (group(query), query.text("count"));
            let mut words: Vec<&[u8]> = vec![b"ZQ.REDRIVE", key];
            if let Some(group) = &group {
                words.extend([b"GROUP", group.as_slice()]);
            }
            if query.given("count").is_some() {
                words.extend([b"COUNT", count.as_bytes()]);
            }
            Ok(("retried", call(words).await?))
        }
        "retry-kind" | "delete-kind" => {
            let kind = kind(query)?;
            let act = if action == "retry-kind" { letters::Act::Retry } else { letters::Act::Delete };
            letters::begin(app, key, kind, act, query.number("told").unwrap_or(u64::MAX)).await
        }
        "stop" => {
            app.letters.stop(key).await;
            Ok(("stopped", 0))
        }
        "reset" => {
            // Fails if the key is no limit, which must not be deleted.
            let info = app.server.one(&[b"ZRL.INFO", key]).await.map_err(refused)?;
            if matches!(info, redis::Value::Nil) {
                return Ok(("unchanged", 0));
            }
            Ok(("reset", call(vec![b"DEL", key]).await?))
        }
        "refund" => {
            let (units, at) = (query.text("units"), query.text("at"));
            Ok(("refunded", call(vec![b"ZRL.REFUND", key, units.as_bytes(), b"AT", at.as_bytes()]).await?))
        }
        "clean" => {
            let (state, older) = cleaning(query)?;
            clean(app, key, state, older.as_deref(), group(query).as_deref()).await
        }
        "hold" | "release" => {
            let group = group(query).ok_or_else(|| bad("Which group?"))?;
            let (duration, done) = match (action.as_str(), query.text("duration")) {
                ("hold", duration) if duration.is_empty() => {
                    return Err(bad("For how long? Expected a duration as 10m."));
                }
                ("hold", duration) => (duration, "held"),
                _ => ("0".into(), "released"),
            };
            Ok((done, call(vec![b"ZQ.HOLD", key, &group, duration.as_bytes()]).await?))
        }
        "pause" => call(vec![b"ZQ.CONFIG", key, b"PAUSED", b"yes"]).await.map(|_| ("paused", 0)),
        "resume" => call(vec![b"ZQ.CONFIG", key, b"PAUSED", b"no"]).await.map(|_| ("resumed", 0)),
        "configure" => {
            let changes = settings::changes(query);
            if changes.is_empty() {
                return Ok(("unchanged", 0));
            }
            let words = [&b"ZQ.CONFIG"[..], key].into_iter().chain(changes.iter().map(String::as_bytes));
            call(words.collect()).await.map(|_| ("configured", 0))
        }
        _ => Err(bad("There is no such action.")),
    }
}

/// Converts an error reply to an error page. The usual cause is an invalid value in the form.
pub fn refused(error: redis::RedisError) -> Problem {
    if error.is_io_error() || error.is_timeout() {
        return error.into();
    }
    Problem::new(StatusCode::CONFLICT, format!("The server refuses: {}", crate::server::message(&error)))
}

async fn reschedule(app: &App, key: &[u8], ids: &[Vec<u8>], words: &[&str]) -> Result<u64, Problem> {
    let mut pipe = pipe();
    for id in ids {
        pipe.cmd("ZQ.RESCHEDULE").arg(key).arg(id).arg(words);
    }
    let mut changed = 0;
    for reply in app.server.ask(pipe).await? {
        changed += reply::count(&reply.map_err(refused)?).unwrap_or_default();
    }
    Ok(changed)
}

/// Removes jobs in small batches, so that no client waits long. Returns `cleaned` if all jobs are removed, or
/// `cleaning` if jobs may be left after [`CLEANINGS`] batches. Also returns the number of removed jobs.
async fn clean(
    app: &App,
    key: &[u8],
    state: JobState,
    older: Option<&str>,
    group: Option<&[u8]>,
) -> Result<(&'static str, u64), Problem> {
    let (count, mut removed) = (CLEANED_AT_ONCE.to_string(), 0);
    let mut words: Vec<&[u8]> = vec![b"ZQ.CLEAN", key, state.name().as_bytes()];
    if let Some(older) = older {
        words.extend([b"OLDER", older.as_bytes()]);
    }
    if let Some(group) = group {
        words.extend([b"GROUP", group]);
    }
    words.extend([b"COUNT", count.as_bytes()]);
    for _ in 0..CLEANINGS {
        let reply = app.server.one(&words).await.map_err(refused)?;
        let now = reply::count(&reply).unwrap_or_default();
        removed += now;
        if now < CLEANED_AT_ONCE {
            return Ok(("cleaned", removed));
        }
    }
    Ok(("cleaning", removed))
}
