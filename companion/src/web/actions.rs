//! What `--write` allows. Each action is one form, sent by POST; afterwards the browser is sent back to a page that says what was
//! done, so that to load it again repeats nothing. (guard.rs has checked where the request comes from.)

use super::query::{Query, decoded, link};
use super::{App, Problem, Shared, guard, settings};
use crate::server::{State as JobState, reply};
use axum::body::Bytes;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use redis::pipe;

/// Jobs that one ZQ.CLEAN removes, and calls that one press of the button makes.
const CLEANED_AT_ONCE: u64 = 1_000;
const CLEANINGS: u64 = 100;

/// IDs of one form: more than a page has.
const MOST_IDS: usize = 1_000;

pub async fn act(State(app): Shared, body: Bytes) -> Result<Response, Problem> {
    let query = Query::parse(&body);
    if !guard::is_same(query.get("token").unwrap_or_default(), app.token.as_bytes()) {
        let why = "The form is out of date: go back, load the page again, and repeat it.";
        return Err(Problem::new(StatusCode::FORBIDDEN, why));
    }
    let key = decoded(query.get("key").ok_or_else(|| bad("Which queue?"))?);
    let ids: Vec<Vec<u8>> = query.all("id").filter(|id| !id.is_empty()).take(MOST_IDS).map(decoded).collect();
    let (done, n) = perform(&app, &query, &key, &ids).await?;
    let count = n.to_string();
    let outcome = [("done", done.as_bytes()), ("n", count.as_bytes())];
    // A job that is still there is shown again; otherwise its queue.
    let from_job = query.get("tab").is_none() && ids.len() == 1 && done != "deleted";
    let tab = query.get("tab").or(query.get("state")).unwrap_or(match query.text("do").as_str() {
        "configure" => b"settings",
        "redrive" => b"dead",
        _ => b"",
    });
    let to = if from_job {
        link("/job", &[&[("key", key.as_slice()), ("id", &ids[0])], &outcome[..]].concat())
    } else {
        link("/queue", &[&[("key", key.as_slice()), ("tab", tab)], &outcome[..]].concat())
    };
    Ok((StatusCode::SEE_OTHER, [(header::LOCATION, to)]).into_response())
}

fn bad(why: &str) -> Problem {
    Problem::new(StatusCode::BAD_REQUEST, why)
}

/// What was done, and to how many jobs.
async fn perform(app: &App, query: &Query, key: &[u8], ids: &[Vec<u8>]) -> Result<(&'static str, u64), Problem> {
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
        "redrive" => Ok(("retried", call(vec![b"ZQ.REDRIVE", key, b"COUNT", query.text("count").as_bytes()]).await?)),
        "clean" => {
            let state = JobState::parse(query.text("state").as_bytes()).ok_or_else(|| bad("Which state?"))?;
            clean(app, key, state, &query.text("older")).await
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

/// The server said no: to what the form says, mostly.
fn refused(error: redis::RedisError) -> Problem {
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

/// Some at a time, so that nobody waits; stops after a while and says so.
async fn clean(app: &App, key: &[u8], state: JobState, older: &str) -> Result<(&'static str, u64), Problem> {
    let (count, mut removed) = (CLEANED_AT_ONCE.to_string(), 0);
    let mut words: Vec<&[u8]> = vec![b"ZQ.CLEAN", key, state.name().as_bytes()];
    if !older.is_empty() {
        words.extend([b"OLDER", older.as_bytes()]);
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
