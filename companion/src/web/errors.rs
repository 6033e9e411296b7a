//! Dead letters grouped by error, which is the first line of ZQ.NACK's text.

use super::parts::{form, moment, name};
use super::query::{encoded, link};
use super::{App, queue};
use crate::server::{Key, Server, State};
use crate::text::grouped;
use maud::{Markup, html};
use redis::RedisResult;
use std::cmp::Reverse;
use std::collections::BTreeMap;

/// The maximum number of dead letters that the page reads, the oldest first.
const LOOKED_AT: usize = 1_000;
/// The page stops reading dead letters when all their payloads together exceed this size in bytes. The page needs only
/// the errors, but ZQ.GET returns each payload, too.
const MOST_FETCHED: usize = 2 * 1024 * 1024;

/// Groups per page.
const ROWS: usize = 50;

/// Dead letters whose errors have the same first line, oldest first.
#[derive(Default)]
struct Group {
    ids: Vec<Key>,
    first_ms: u64,
    last_ms: u64,
}

/// Groups of dead letters by the first line of their errors. This line may be empty.
struct Groups {
    by_error: BTreeMap<Vec<u8>, Group>,
    looked_at: usize,
}

impl Groups {
    async fn read(server: &Server, key: &[u8]) -> RedisResult<Groups> {
        let listed = queue::peek(server, key, State::Dead, LOOKED_AT, b"").await?;
        let known = queue::get(server, key, &listed, MOST_FETCHED).await?;
        let (mut by_error, looked_at) = (BTreeMap::<Vec<u8>, Group>::new(), known.len());
        // A job that is no longer dead belongs to no group.
        for job in known.into_iter().flatten().filter(|job| job.state == State::Dead.name()) {
            let group = by_error.entry(first_line(job.error.as_deref().unwrap_or_default()).to_vec()).or_default();
            if group.ids.is_empty() {
                group.first_ms = job.due_ms;
            }
            group.last_ms = job.due_ms;
            group.ids.push(job.id);
        }
        Ok(Groups { by_error, looked_at })
    }
}

fn first_line(error: &[u8]) -> &[u8] {
    error.split(|byte| *byte == b'\n').next().unwrap_or_default().trim_ascii_end()
}

/// Returns the IDs of the dead letters whose error has this first line. Searches only the dead letters that
/// [`Groups::read`] reads.
pub async fn ids(server: &Server, key: &[u8], error: &[u8]) -> RedisResult<Vec<Key>> {
    Ok(Groups::read(server, key).await?.by_error.remove(error).unwrap_or_default().ids)
}

pub async fn show(app: &App, key: &[u8], dead: u64, now_ms: u64) -> RedisResult<Markup> {
    let groups = Groups::read(&app.server, key).await?;
    let mut found: Vec<(&Vec<u8>, &Group)> = groups.by_error.iter().collect();
    found.sort_by_key(|(_, group)| Reverse(group.ids.len()));
    let write = app.settings.write;
    let act = |error: &[u8], button: Markup| {
        form(
            app,
            key,
            "inline",
            html! {
                input type="hidden" name="tab" value="errors";
                input type="hidden" name="error" value=(encoded(error));
                (button)
            },
        )
    };
    Ok(html! { div #errors data-live {
        @if (groups.looked_at as u64) < dead {
            p.quiet { "Of " (grouped(dead)) " dead letters, the " (grouped(groups.looked_at as u64)) " that have been dead the longest." }
        }
        @if found.is_empty() { p.quiet { "No dead job." } } @else {
            div.scroll { table {
                thead { tr {
                    th { "Error" } th.number { "Jobs" } th { "First died" } th { "Last died" }
                    @if write { th { span.hidden { "Actions" } } }
                } }
                tbody { @for (error, group) in found.iter().take(ROWS) { tr {
                    td.error {
                        a href=(link("job", &[("key", key), ("id", &group.ids[0])])) {
                            @if error.is_empty() { "without an error" } @else { (name(error)) }
                        }
                    }
                    td.number { (grouped(group.ids.len() as u64)) }
                    td { (moment(group.first_ms, now_ms)) }
                    td { (moment(group.last_ms, now_ms)) }
                    @if write { td { div.acts {
                        (act(error, html! { button.main name="do" value="retry" { "Retry" } }))
                        (act(error, html! { button.danger name="do" value="delete" { "Delete" } }))
                    } } }
                } } }
            } }
            @if found.len() > ROWS { p.quiet { "and " (found.len() - ROWS) " more errors" } }
        }
    } })
}
