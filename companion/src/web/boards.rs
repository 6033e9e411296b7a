//! Leaderboards: a list, the top of a board, and a member with its neighbours.

use super::parts::{look, name, outcome};
use super::query::{Query, link};
use super::{Page, Problem, Shared, layout};
use crate::server::{Key, Server, reply};
use crate::text::{grouped, printable};
use axum::extract::State;
use maud::{Markup, html};
use redis::{Value, pipe};
use zeitset_client::zlb::{self, Ranking};

type Row = zlb::Entry<Value, Key>;

/// The number of members per page, and the number of neighbours on each side of a member.
const ROWS: u64 = 25;
const RADIUS: u64 = 10;

/// The maximum number of SCAN calls per page of the list of boards.
const SCANS: usize = 10;
/// The COUNT of each SCAN call.
const KEYS_PER_SCAN: usize = 500;

pub async fn page(State(app): Shared, query: Query) -> Page {
    let key = query.get("key").unwrap_or_default();
    let body = if key.is_empty() {
        list(&app.server, query.number("cursor").unwrap_or_default()).await?
    } else {
        board(&app.server, key, &query).await?
    };
    let body = html! {
        @if !key.is_empty() { p.path { a href="boards" { "Boards" } } }
        h1 { @if key.is_empty() { "Boards" } @else { (name(key)) } }
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
        @if found.is_empty() { p.quiet { "No board" @if cursor != 0 { " among these keys" } "." } } @else {
            ul.keys { @for key in &found { li { a href=(link("boards", &[("key", key)])) { (name(key)) } } } }
        }
        nav.pages aria-label="Further keys" {
            @if cursor != 0 { a #next href=(link("boards", &[("cursor", cursor.to_string().as_bytes())])) { "Look further" } }
        }
    })
}

async fn board(server: &Server, key: &[u8], query: &Query) -> Result<Markup, Problem> {
    let member = query.get("member").unwrap_or_default();
    let start = query.number("start").unwrap_or_default().min(u64::MAX / 4);
    let mut pipe = pipe();
    pipe.add_command(zlb::info(key).into());
    pipe.add_command(if member.is_empty() {
        let first = start.cast_signed();
        zlb::range(key, first, first + ROWS.cast_signed() - 1).entries(Ranking::Position).into()
    } else {
        zlb::around(key, member, RADIUS).entries(Ranking::Position).into()
    });
    let mut replies = server.ask(pipe).await?.into_iter();
    let info = outcome::<zlb::Info>(replies.next().expect("ZLB.INFO"));
    let rows: Option<Vec<Row>> = reply::read(replies.next().expect("the rows"))?;
    let zlb::Info { members: size, ties, keep, dimensions, .. } = match info {
        Ok(info) => info,
        Err(why) => return Ok(why),
    };
    Ok(html! {
        div #board data-live {
            p.facts {
                span { (grouped(size)) " members" } span { "ties: " (ties) }
                @if let Some(keep) = keep { span { "keeps the best " (keep) } }
            }
        }
        (look("boards", "Key", key, html! {
            label { span { "Around member" } input name="member" value=(std::str::from_utf8(member).unwrap_or_default()) autocomplete="off" spellcheck="false"; }
        }))
        div #rows data-live {
            @match &rows {
                None => p.notice { "This member is not on the board." },
                Some(rows) if rows.is_empty() => p.quiet { "Nobody here." },
                Some(rows) => (table(key, rows, &dimensions, member)),
            }
        }
        nav.pages aria-label="Pages of the board" {
            @if start > 0 || !member.is_empty() { a href=(link("boards", &[("key", key)])) { "Top" } }
            @if member.is_empty() && start + ROWS < size {
                a #next href=(link("boards", &[("key", key), ("start", (start + ROWS).to_string().as_bytes())])) { "Next page" }
            }
        }
    })
}

fn table(key: &[u8], rows: &[Row], dimensions: &[zlb::Dimension], marked: &[u8]) -> Markup {
    html! { div.scroll { table {
        thead { tr {
            th.number { "Place" } th { "Member" }
            @for one in dimensions { th.number { (one.name) @if one.direction == "asc" { " ↑" } @else { " ↓" } } }
        } }
        tbody { @for Row { rank, member, values } in rows {
            tr.marked[!marked.is_empty() && member == marked] {
                td.number { (grouped(rank + 1)) }
                td { a href=(link("boards", &[("key", key), ("member", member)])) title=(printable(member)) { (name(member)) } }
                @for value in values { td.number { (reply::text(value)) } }
            }
        } }
    } } }
}
