//! Workers and their claimed jobs, with the time of each claim and the end of its lease. A worker's name is the
//! argument AS of ZQ.CLAIM.

use super::parts::{moment, name};
use super::query::{Query, encoded, link};
use super::{Page, Shared, layout};
use crate::server::{Job, Key, Server, State, reply};
use crate::text::grouped;
use crate::watch::micros;
use maud::{Markup, html};
use redis::{RedisResult, pipe};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use zeitset_client::zq;

/// The page reads at most this number of queues: those with the most claimed jobs.
const QUEUES: usize = 100;
/// The maximum number of claimed jobs that the page reads per queue.
const JOBS: usize = 100;

/// The maximum number of workers per page.
const ROWS: usize = 200;
/// The maximum number of queues shown per worker.
const NAMED: usize = 3;

struct Held {
    queue: Key,
    job: Job,
}

/// Claimed jobs by worker, in the order in which the leases expire. The name is empty for claims without AS.
type Workers = BTreeMap<Vec<u8>, Vec<Held>>;

pub async fn page(axum::extract::State(app): Shared, query: Query) -> Page {
    let (claimed, queues) = {
        let seen = app.seen.read().await;
        let queues = seen.watch.queues.iter().map(|(name, watched)| (watched.queue.claimed, name));
        let mut queues: Vec<(u64, Key)> =
            queues.filter(|(claimed, _)| *claimed > 0).map(|(claimed, name)| (claimed, name.clone())).collect();
        queues.sort_by_key(|(claimed, _)| Reverse(*claimed));
        (seen.watch.total(State::Claimed), queues)
    };
    let (now_ms, workers, is_part) = read(&app.server, &queues).await?;
    let found: usize = workers.values().map(Vec::len).sum();
    let one = query.given("worker");
    let body = html! {
        @if one.is_some() { p.path { a href="workers" { "Workers" } } }
        h1 { @match one { None => "Workers", Some(worker) => (name(worker)) } }
        div #workers data-live {
            @if is_part {
                p.quiet { "Of " (grouped(claimed)) " claimed jobs, " (grouped(found as u64)) " were read: the first " (JOBS) " of each queue." }
            }
            @match one {
                None => (table(&workers, now_ms)),
                Some(worker) => (jobs(workers.get(worker).map_or(&[][..], Vec::as_slice), now_ms)),
            }
        }
        @if one.is_none() { p.quiet { "A worker is the name that a client gives with ZQ.CLAIM ... AS. Workers that hold no job are not listed." } }
    };
    Ok(layout::page(&app, "workers", "Workers", body).await)
}

/// Returns the server's time, the claimed jobs by worker, and whether some claimed jobs were not read.
async fn read(server: &Server, queues: &[(u64, Key)]) -> RedisResult<(u64, Workers, bool)> {
    let asked = &queues[..queues.len().min(QUEUES)];
    let mut pipe = pipe();
    for (_, queue) in asked {
        let peek = zq::peek(queue, "CLAIMED").count(JOBS as u64).no_payload().with_lease();
        pipe.add_command(peek.into());
    }
    pipe.cmd("TIME");
    let mut replies = server.ask(pipe).await?;
    let now_ms = micros(&replies.pop().expect("TIME")?) / 1000;
    let mut workers = Workers::new();
    for ((_, queue), jobs) in asked.iter().zip(replies) {
        // If the key now holds another type, the reply is an error.
        for job in reply::read::<Vec<_>>(jobs).unwrap_or_default() {
            let job = Job::listed(State::Claimed, job);
            let worker = job.worker.clone().unwrap_or_default();
            workers.entry(worker).or_default().push(Held { queue: queue.clone(), job });
        }
    }
    let is_part = queues.len() > QUEUES || asked.iter().any(|(claimed, _)| *claimed > JOBS as u64);
    workers.values_mut().for_each(|held| held.sort_by_key(|held| held.job.due_ms));
    Ok((now_ms, workers, is_part))
}

fn table(workers: &Workers, now_ms: u64) -> Markup {
    let since = |held: &[Held]| held.iter().filter_map(|held| held.job.claimed_ms).min();
    let next = |held: &[Held]| held.first().map_or(0, |held| held.job.due_ms);
    html! {
        @if workers.is_empty() { p.quiet { "No job is claimed." } } @else {
            div.scroll tabindex="0" role="region" aria-label="Workers" { table {
                thead { tr { th { "Worker" } th.number { "Jobs" } th { "Oldest claim" } th { "Next lease expires" } th { "Queues" } } }
                tbody { @for (worker, held) in workers.iter().take(ROWS) { tr {
                    // Claims without AS belong to a worker with an empty name, which has a page, too.
                    td { a href={ "workers?worker=" (encoded(worker)) } { (name(worker)) } }
                    td.number { (grouped(held.len() as u64)) }
                    td { @if let Some(ms) = since(held) { (moment(ms, now_ms)) } @else { "–" } }
                    td { (moment(next(held), now_ms)) }
                    td {
                        @let queues: BTreeSet<&Key> = held.iter().map(|held| &held.queue).collect();
                        @for queue in queues.iter().take(NAMED) {
                            a href=(link("queue", &[("key", queue), ("tab", b"claimed")])) { (name(queue)) } " "
                        }
                        @if queues.len() > NAMED { "and " (queues.len() - NAMED) " more" }
                    }
                } } }
            } }
            @if workers.len() > ROWS { p.quiet { "and " (grouped((workers.len() - ROWS) as u64)) " more" } }
        }
    }
}

fn jobs(held: &[Held], now_ms: u64) -> Markup {
    html! {
        @if held.is_empty() { p.quiet { "It holds no job." } } @else {
            div.scroll tabindex="0" role="region" aria-label="Jobs" { table {
                thead { tr { th { "Job" } th { "Queue" } th { "Claimed" } th { "Lease expires" } th.number { "Attempts" } } }
                tbody { @for Held { queue, job } in held.iter().take(ROWS) { tr {
                    td { a href=(link("job", &[("key", queue), ("id", &job.id)])) { (name(&job.id)) } }
                    td { a href=(link("queue", &[("key", queue), ("tab", b"claimed")])) { (name(queue)) } }
                    td { @if let Some(ms) = job.claimed_ms { (moment(ms, now_ms)) } @else { "–" } }
                    td { (moment(job.due_ms, now_ms)) }
                    td.number { (job.attempts) }
                } } }
            } }
            @if held.len() > ROWS { p.quiet { "and " (grouped((held.len() - ROWS) as u64)) " more" } }
        }
    }
}
