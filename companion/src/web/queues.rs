//! The list of queues. If the list is sorted by name and has no filter, it shows all queues. Otherwise, it shows only
//! queues that the sampler has read.

use super::parts::{name, tile, tiles};
use super::query::{Query, link};
use super::{App, Page, Shared, layout};
use crate::server::{Key, State as JobState};
use crate::text::{grouped, printable, rate, span};
use crate::watch::{MOST_QUEUES, Watched, refresh};
use axum::extract::State;
use maud::{Markup, html};
use redis::RedisResult;
use std::cmp::Reverse;
use std::collections::BTreeMap;

/// Queues per page.
const ROWS: usize = 50;

const ORDERS: [(&str, &str); 6] = [
    ("name", "Name"),
    ("ready", "Ready"),
    ("wait", "Longest wait"),
    ("dead", "Dead"),
    ("pushed", "Pushes"),
    ("acked", "Finished"),
];

pub async fn page(State(app): Shared, query: Query) -> Page {
    // The filter matches names as they are shown.
    let (sort, filter) = (query.text("sort"), printable(query.get("filter").unwrap_or_default().trim_ascii()));
    let sort = ORDERS.iter().map(|(order, _)| *order).find(|order| *order == sort).unwrap_or("name");
    let seen = app.seen.read().await;
    let (known, has_more) = (seen.watch.queues.len(), seen.watch.has_more);
    let is_complete = seen.watch.is_complete;
    let mut refusal = seen.watch.refusal.clone();
    let totals = [
        tile("Queues", if has_more { format!("over {}", grouped(known as u64)) } else { grouped(known as u64) }),
        tile("Ready", grouped(seen.watch.total(JobState::Ready))),
        tile("Delayed", grouped(seen.watch.total(JobState::Delayed))),
        tile("Claimed", grouped(seen.watch.total(JobState::Claimed))),
        tile("Dead", grouped(seen.watch.total(JobState::Dead))).worrying(seen.watch.total(JobState::Dead) > 0),
    ];
    let start = query.number("start").unwrap_or_default() as usize;
    let (names, next) = if sort == "name" && filter.is_empty() {
        drop(seen);
        match by_name(&app, query.get("after").unwrap_or_default()).await {
            Err(error) if !error.is_io_error() && !error.is_timeout() => {
                refusal = Some(crate::server::unlisted(&error));
                (Vec::new(), None)
            }
            listed => listed?,
        }
    } else {
        let names = by_figure(&seen.watch.queues, sort, &filter);
        drop(seen);
        let next = (names.len() > start + ROWS).then(|| (start + ROWS).to_string());
        let next = next.map(|start| parameters(sort, &filter, &[("start", start.as_bytes())]));
        (names.into_iter().skip(start).take(ROWS).collect(), next)
    };
    // Reads the current stats. Rates need the sampler's previous read.
    let mut queues: BTreeMap<Key, Watched> = {
        let seen = app.seen.read().await;
        names.iter().filter_map(|name| Some((name.clone(), seen.watch.queues.get(name)?.clone()))).collect()
    };
    let rates: BTreeMap<Key, Watched> = queues.clone();
    refresh(&app.server, &mut queues, &names).await?;
    let body = html! {
        h1 { "Queues" }
        div #totals data-live { (tiles(&totals)) }
        div #refusal data-live {
            @if let Some(refusal) = &refusal { p.notice.bad role="alert" { "Queues cannot be listed: " (refusal) } }
        }
        div.tools {
            form.look method="get" action="queues" role="search" aria-label="Queues by name" {
                label { span { "Name contains" } input name="filter" value=(filter) autocomplete="off" spellcheck="false"; }
                label { span { "Sort by" } select name="sort" {
                    @for (order, title) in ORDERS { option value=(order) selected[order == sort] { (title) } }
                } }
                button { "Show" }
            }
        }
        div #queues data-live {
            @if sort != "name" || !filter.is_empty() {
                @if has_more { p.quiet { "Of the first " (grouped(MOST_QUEUES as u64)) " queues by name." } }
                @else if !is_complete { p.quiet { "The queues are still being read." } }
            }
            @if names.is_empty() { p.quiet { "No queue." } } @else { (table(&names, &queues, &rates)) }
        }
        nav #pages .pages data-live aria-label="Pages of queues" {
            @if start > 0 || query.get("after").is_some() { a href=(link("queues", &[("sort", sort.as_bytes()), ("filter", filter.as_bytes())])) { "First page" } }
            @if let Some(next) = next { a #next href=(next) { "Next page" } }
        }
    };
    Ok(layout::page(&app, "queues", "Queues", body).await)
}

fn parameters(sort: &str, filter: &str, more: &[(&str, &[u8])]) -> String {
    link("queues", &[&[("sort", sort.as_bytes()), ("filter", filter.as_bytes())], more].concat())
}

/// Returns a page of names, and the link to the next page.
async fn by_name(app: &App, after: &[u8]) -> RedisResult<(Vec<Key>, Option<String>)> {
    let mut names = app.server.queues_after(after, ROWS + 1).await?;
    let next = (names.len() > ROWS).then(|| link("queues", &[("after", &names[ROWS - 1])]));
    names.truncate(ROWS);
    Ok((names, next))
}

/// Returns the queues whose names contain `filter`. The column `sort` determines their order, largest value first.
fn by_figure(queues: &BTreeMap<Key, Watched>, sort: &str, filter: &str) -> Vec<Key> {
    let is_wanted = |name: &Key| filter.is_empty() || printable(name).contains(filter);
    let mut found: Vec<(&Key, &Watched)> = queues.iter().filter(|(name, _)| is_wanted(name)).collect();
    let rate_of = |watched: &Watched, counter| watched.rate(counter).map_or(0, |rate| (rate * 1000.0) as u64);
    match sort {
        "ready" => found.sort_by_key(|(_, watched)| Reverse(watched.queue.ready)),
        "dead" => found.sort_by_key(|(_, watched)| Reverse(watched.queue.dead)),
        "wait" => found.sort_by_key(|(_, watched)| watched.queue.oldest_ready_ms.unwrap_or(u64::MAX)),
        "pushed" | "acked" => found.sort_by_key(|(_, watched)| Reverse(rate_of(watched, sort))),
        _ => {}
    }
    found.into_iter().map(|(name, _)| name.clone()).collect()
}

fn table(names: &[Key], queues: &BTreeMap<Key, Watched>, rates: &BTreeMap<Key, Watched>) -> Markup {
    let per_second =
        |name: &Key, counter| rates.get(name).and_then(|watched| watched.rate(counter)).map_or("–".to_owned(), rate);
    html! {
        div.scroll tabindex="0" role="region" aria-label="Queues" { table {
            thead { tr {
                th { "Queue" } th.number { "Ready" } th.number { "Delayed" } th.number { "Claimed" } th.number { "Dead" }
                th.number { "Pushed/s" } th.number { "Finished/s" } th.number { "Longest wait" }
            } }
            tbody {
                @for (name_of, watched) in names.iter().filter_map(|name| Some((name, queues.get(name)?))) {
                    @let queue = &watched.queue;
                    tr {
                        td {
                            a href=(link("queue", &[("key", name_of)])) { (name(name_of)) }
                            @if queue.is_paused { " " span.badge.warn { "paused" } }
                        }
                        td.number { (grouped(queue.ready)) }
                        td.number { (grouped(queue.delayed)) }
                        td.number { (grouped(queue.claimed)) }
                        td.number.bad[queue.dead > 0] { (grouped(queue.dead)) }
                        td.number { (per_second(name_of, "pushed")) }
                        td.number { (per_second(name_of, "acked")) }
                        td.number { (queue.wait_ms(watched.at_us / 1000).map_or("–".into(), span)) }
                    }
                }
            }
        } }
    }
}
