//! Expiring sets: the sweeper's lag, and the members of a set that expire soonest.

use super::parts::{look, name, outcome, per_second, tile, tiles};
use super::query::Query;
use super::{Page, Shared, chart, layout};
use crate::server::reply;
use crate::text::{grouped, span};
use crate::watch::WORRYING_LAG_MS;
use axum::extract::State;
use maud::{Markup, html};
use redis::{Value, pipe};

const ROWS: usize = 25;

const CHARTS: &[chart::Chart] = &[
    chart::Chart { title: "Sweep lag", unit: chart::Unit::Ms, lines: &[("", "lag")] },
    chart::Chart { title: "Members expired", unit: chart::Unit::PerSecond, lines: &[("", "expired")] },
];

pub async fn page(State(app): Shared, query: Query) -> Page {
    let (key, member) = (query.given("key"), query.get("member"));
    let mut pipe = pipe();
    if let Some(key) = key {
        pipe.cmd("ZEXP.CARD").arg(key);
        pipe.cmd("ZEXP.MEMBERS").arg(key).arg("LIMIT").arg(0).arg(ROWS).arg("WITHPTTL");
        if let Some(member) = member {
            pipe.cmd("ZEXP.PTTL").arg(key).arg(member);
        }
    }
    let replies: Vec<_> = app.server.ask(pipe).await?.into_iter().map(outcome::<Value>).collect();
    let seen = app.seen.read().await;
    let (watch, info) = (&seen.watch, &seen.watch.now.info);
    let lag = info.count("zeitset_sweep_lag_ms");
    let busy = watch.rate("zeitset_sweep_cpu_us").map_or("–".into(), |micros| format!("{:.1} %", micros / 10_000.0));
    let figures = [
        tile("Sets tracked", grouped(info.count("zeitset_sets_tracked"))),
        tile("Expired", per_second(watch.rate("zeitset_members_expired"))),
        tile("Overdue", grouped(info.count("zeitset_sweep_backlog_members"))),
        tile("Lag", span(lag)).worrying(lag > WORRYING_LAG_MS),
        tile("Sweeper, of one core", busy),
        tile("Longest slice", format!("{} µs", grouped(info.count("zeitset_sweep_longest_slice_us")))),
    ];
    let body = html! {
        h1 { "Sets" }
        div #figures data-live { (tiles(&figures)) }
        div #charts .charts data-live { @for one in CHARTS { (chart::draw(one, &seen.history.server)) } }
        section {
            h2 { "Look at one set" }
            (look("sets", "Key", key.unwrap_or_default(), html! {
                label { span { "Member" } input name="member" value=(std::str::from_utf8(member.unwrap_or_default()).unwrap_or_default()) autocomplete="off" spellcheck="false"; }
            }))
            @if let (Some(key), [card, members, ttl @ ..]) = (key, replies.as_slice()) { div #set data-live {
                @if let (Some(member), Some(Ok(ttl))) = (member, ttl.first()) { (one(member, ttl)) }
                @match (card, members) {
                    (Ok(card), Ok(members)) => (set(key, card, members)),
                    (Err(why), _) | (_, Err(why)) => (why),
                }
            } }
        }
    };
    drop(seen);
    Ok(layout::page(&app, "sets", "Sets", body).await)
}

/// Shows when a member expires. `ttl` is the reply of ZEXP.PTTL.
fn one(member: &[u8], ttl: &Value) -> Markup {
    html! { p.notice role="status" {
        (name(member))
        @match reply::array(ttl).first().and_then(reply::number) {
            Some(-1) => " never expires.",
            Some(ms) if ms >= 0 => { " expires in " (span(ms.unsigned_abs())) "." },
            _ => " is no live member.",
        }
    } }
}

fn set(key: &[u8], card: &Value, members: &Value) -> Markup {
    let live = reply::count(card).unwrap_or_default();
    let members = reply::array(members);
    html! {
        h3 { (name(key)) " " span.badge { (grouped(live)) " live" } }
        @if live == 0 { p.quiet { "No live member: the set is empty, or there is no such key." } } @else {
            div.scroll tabindex="0" role="region" aria-label="Members" { table {
                thead { tr { th { "Member, soonest first" } th.number { "Expires in" } } }
                tbody { @for pair in members.chunks_exact(2) { tr {
                    td { (name(reply::bytes(&pair[0]).unwrap_or_default())) }
                    td.number { @match reply::count(&pair[1]) { Some(ms) => (span(ms)), None => "never" } }
                } } }
            } }
            @if live as usize > ROWS { p.quiet { "and " (grouped(live - ROWS as u64)) " more" } }
        }
    }
}
