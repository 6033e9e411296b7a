//! The jobs of a state by the name of their Celery task. The server does not know these names, so the program reads whole
//! jobs in slices, and a page says how many it has read.

use super::celery;
use super::letters::{BYTES_PER_PAGE, PATIENCE, SLICE};
use super::parts::name;
use super::queue::{List, Listed, More, ROWS};
use crate::server::{Job, Key, Reader, Server, message};
use crate::text::grouped;
use maud::{Markup, html};
use redis::RedisResult;
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::time::Instant;

/// The maximum number of jobs that a page reads, and of names that it counts.
const JOBS: usize = 1_000;
const NAMES: usize = 100;

fn task(job: &Job) -> Option<Key> {
    celery::name(job.payload.as_deref().unwrap_or_default()).map(String::into_bytes)
}

/// Returns the jobs of this task among the next ones that the page reads.
pub async fn jobs(server: &Server, list: &List<'_>, wanted: &[u8], after: &[u8]) -> RedisResult<Listed> {
    let mut found = Vec::new();
    let read = read(server, list, after, |job| {
        if task(&job).is_some_and(|name| name == wanted) {
            found.push(job);
        }
        found.len() < ROWS
    });
    let Read { moved, more, .. } = read.await?;
    Ok(Listed { jobs: found, moved, more })
}

struct Read {
    jobs: usize,
    /// Why the jobs are the first ones, although others were requested.
    moved: Option<String>,
    more: More,
}

/// Passes the jobs after `after` to `accept`, until it returns false or the page's patience ends.
async fn read(
    server: &Server,
    list: &List<'_>,
    after: &[u8],
    mut accept: impl FnMut(Job) -> bool,
) -> RedisResult<Read> {
    let (start, mut bytes, mut reader, mut last) = (Instant::now(), 0, Reader::default(), after.to_vec());
    let mut read = Read { jobs: 0, moved: None, more: More::Nothing };
    loop {
        let listed = match list.peek(server, SLICE, &last).await {
            Err(error) if !last.is_empty() && error.code() == Some("ERR") => {
                if read.jobs > 0 {
                    read.more = list.after(server, &last).await?;
                    return Ok(read);
                }
                read.moved = Some(message(&error));
                last.clear();
                continue;
            }
            listed => listed?,
        };
        let mut rest = listed.as_slice();
        while !rest.is_empty() {
            let (asked, later) = rest.split_at(reader.most().min(rest.len()));
            let ids: Vec<&[u8]> = asked.iter().map(|job| job.id.as_slice()).collect();
            let (jobs, fetched) = reader.read(server, list.key, &ids).await?;
            bytes += fetched;
            let mut wants_more = true;
            for (id, job) in ids.iter().zip(jobs) {
                last.clear();
                last.extend_from_slice(id);
                read.jobs += 1;
                // A job that has left the state meanwhile is not counted.
                if let Some(job) = job.filter(|job| job.state == list.state.name()) {
                    wants_more = accept(job);
                }
                if !wants_more {
                    break;
                }
            }
            if !wants_more || read.jobs >= JOBS || bytes >= BYTES_PER_PAGE || start.elapsed() >= PATIENCE {
                read.more = list.after(server, &last).await?;
                return Ok(read);
            }
            rest = later;
        }
        if listed.len() < SLICE {
            return Ok(read);
        }
    }
}

/// Counts the first jobs of a list by task. `total` is the number of all jobs of the list, if the server tells it.
pub async fn counts(server: &Server, list: &List<'_>, total: Option<u64>) -> RedisResult<Markup> {
    let (mut counted, mut others) = (BTreeMap::<Option<Key>, u64>::new(), 0);
    let read = read(server, list, b"", |job| {
        let task = task(&job);
        if counted.len() < NAMES || counted.contains_key(&task) {
            *counted.entry(task).or_default() += 1;
        } else {
            others += 1;
        }
        true
    });
    let Read { jobs, more, .. } = read.await?;
    let mut counted: Vec<(Option<Key>, u64)> = counted.into_iter().collect();
    counted.sort_by_key(|(_, count)| Reverse(*count));
    Ok(html! {
        p.facts {
            @if let Some(group) = list.group { span { "Group: " b { (name(&group.name)) } } }
            a href=(list.link(&[])) { "All " (list.state.name()) " jobs" }
        }
        div #tasks data-live {
            @if counted.is_empty() { p.quiet { "No " (list.state.name()) " job." } } @else {
                p.quiet {
                    @if more == More::Nothing { "All " (grouped(jobs as u64)) " jobs were read." }
                    @else {
                        "The first " (grouped(jobs as u64)) @if let Some(total) = total { " of " (grouped(total)) } " jobs were read: the server does not know the names of tasks."
                    }
                }
                div.scroll tabindex="0" role="region" aria-label="Tasks" { table {
                    thead { tr { th { "Celery task" } th.number { "Jobs" } } }
                    tbody { @for (task, count) in &counted { tr {
                        td { @match task {
                            Some(task) => a href=(list.link(&[("task", task)])) { (name(task)) },
                            None => "No Celery task",
                        } }
                        td.number { (grouped(*count)) }
                    } } }
                } }
                @if others > 0 { p.quiet { "and " (grouped(others)) " jobs of other tasks" } }
            }
        }
    })
}
