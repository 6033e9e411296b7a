//! Leaderboards: a list, the top of a board, and a member with its neighbours.

use super::parts::{field, look, name, outcome};
use super::query::{Query, link};
use super::{Page, Problem, Shared, layout};
use crate::server::{Key, Server, reply};
use crate::text::{grouped, printable};
use axum::extract::State;
use maud::{Markup, html};
use redis::{Value, pipe};

/// The number of members per page, and the number of neighbours on each side of a member.
const ROWS: u64 = 25;
const RADIUS: u64 = 10;

/// The maximum number of SCAN calls per page of the list of boards.
const SCANS: usize = 10;
/// The COUNT of each SCAN call.
const KEYS_PER_SCAN: usize = 500;

pub async fn page(State(app): Shared, query: Query) -> Page {
    let key = query.given("key");
    let body = match key {
        None => list(&app.server, query.number("cursor").unwrap_or_default()).await?,
        Some(key) => board(&app.server, key, &query).await?,
    };
    let body = html! {
        @if key.is_some() { p.path { a href="boards" { "Boards" } } }
        h1 { @match key { None => "Boards", Some(key) => (name(key)) } }
        (body)
    };
    Ok(layout::page(&app, "boards", "Boards", body).await)
}

/// Returns the boards among the next few thousand keys.
async fn list(server: &Server, mut cursor: u64) -> Result<Markup, Problem> {
    let mut found: Vec<Key> = Vec::new();
    for _ in 0..SCANS {
        let (position, count) = (cursor.to_string(), KEYS_PER_SCAN.to_string());
        let words = ["SCAN", &position, "COUNT", &count, "TYPE", "zeitboard"].map(str::as_bytes);
        let reply = server.one(&words).await?;
        let [next, keys] = reply::array(&reply) else { break };
        cursor = reply::count(next).unwrap_or_default();
        found.extend(reply::array(keys).iter().filter_map(reply::bytes).map(<[u8]>::to_vec));
        if cursor == 0 {
            break;
        }
    }
    found.sort();
    found.dedup();
    Ok(html! {
        (look("boards", "Key", b"", html! {}))
        div #boards data-live {
            @if found.is_empty() { p.quiet { "No board" @if cursor != 0 { " among these keys" } "." } } @else {
                ul.keys { @for key in &found { li { a href=(link("boards", &[("key", key)])) { (name(key)) } } } }
            }
        }
        nav #pages .pages data-live aria-label="Further keys" {
            @if cursor != 0 { a #next href=(link("boards", &[("cursor", cursor.to_string().as_bytes())])) { "Look further" } }
        }
    })
}

async fn board(server: &Server, key: &[u8], query: &Query) -> Result<Markup, Problem> {
    let member = query.get("member").unwrap_or_default();
    let start = query.number("start").unwrap_or_default().min(u64::MAX / 4);
    let mut pipe = pipe();
    pipe.cmd("ZLB.INFO").arg(key);
    if member.is_empty() {
        pipe.cmd("ZLB.RANGE").arg(key).arg(start).arg(start + ROWS - 1);
    } else {
        pipe.cmd("ZLB.AROUND").arg(key).arg(member).arg(RADIUS);
    }
    pipe.arg("WITHRANK").arg("WITHVALUES");
    let mut replies = server.ask(pipe).await?.into_iter();
    let info = outcome::<Value>(replies.next().expect("ZLB.INFO"));
    let rows = replies.next().expect("the rows");
    // If the board is gone, the page has the same parts, so that an open page shows it.
    let (info, why) = match info {
        Ok(info) => (info, html! {}),
        Err(why) => (Value::Nil, why),
    };
    let is_there = !matches!(info, Value::Nil);
    let rows = if is_there { rows? } else { Value::Nil };
    let (pairs, size) = (reply::pairs(&info), field(&info, "members").parse::<u64>().unwrap_or_default());
    let dimensions: Vec<(String, String)> = pairs
        .iter()
        .filter(|(name, _)| name == "dimensions")
        .flat_map(|(_, value)| reply::array(value))
        .map(|dimension| (field(dimension, "name"), field(dimension, "direction")))
        .collect();
    Ok(html! {
        div #board data-live {
            (why)
            @if is_there { p.facts {
                span { (grouped(size)) " members" } span { "ties: " (field(&info, "ties")) }
                @if field(&info, "keep") != "none" { span { "keeps the best " (field(&info, "keep")) } }
            } }
        }
        (look("boards", "Key", key, html! {
            label { span { "Around member" } input name="member" value=(std::str::from_utf8(member).unwrap_or_default()) autocomplete="off" spellcheck="false"; }
        }))
        div #rows data-live {
            @if !is_there {} @else if matches!(rows, Value::Nil) { p.notice { "This member is not on the board." } }
            @else if reply::array(&rows).is_empty() { p.quiet { "Nobody here." } }
            @else { (table(key, &rows, &dimensions, member)) }
        }
        nav #pages .pages data-live aria-label="Pages of the board" {
            @if start > 0 || !member.is_empty() { a href=(link("boards", &[("key", key)])) { "Top" } }
            @if member.is_empty() && start + ROWS < size {
                a #next href=(link("boards", &[("key", key), ("start", (start + ROWS).to_string().as_bytes())])) { "Next page" }
            }
        }
    })
}

fn table(key: &[u8], rows: &Value, dimensions: &[(String, String)], marked: &[u8]) -> Markup {
    html! { div.scroll tabindex="0" role="region" aria-label="Places" { table {
        thead { tr {
            th.number { "Place" } th { "Member" }
            @for (name, direction) in dimensions { th.number { (name) @if direction == "asc" { " ↑" } @else { " ↓" } } }
        } }
        tbody { @for row in reply::array(rows) {
            @if let [rank, member, values @ ..] = reply::array(row) {
                @let member = reply::bytes(member).unwrap_or_default();
                tr.marked[!marked.is_empty() && member == marked] {
                    td.number { (grouped(reply::count(rank).unwrap_or_default() + 1)) }
                    td { a href=(link("boards", &[("key", key), ("member", member)])) title=(printable(member)) { (name(member)) } }
                    @for value in values { td.number { (reply::text(value)) } }
                }
            }
        } }
    } } }
}
