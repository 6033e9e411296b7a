//! Expiring sets: the sweeper's lag, and the members of a set that expire soonest.

use super::parts::{look, name, outcome, per_second, tile, tiles};
use super::query::Query;
use super::{Page, Shared, chart, layout};
use crate::server::Key;
use crate::text::{grouped, span};
use crate::watch::WORRYING_LAG_MS;
use axum::extract::State;
use maud::{Markup, html};
use redis::pipe;
use zeitset_client::zexp::{self, Ttl, WithTtl};

const ROWS: usize = 25;

const CHARTS: &[chart::Chart] = &[
    chart::Chart { title: "Sweep lag", unit: chart::Unit::Ms, lines: &[("", "lag")] },
    chart::Chart { title: "Members expired", unit: chart::Unit::PerSecond, lines: &[("", "expired")] },
];

pub async fn page(State(app): Shared, query: Query) -> Page {
    let key = query.get("key").unwrap_or_default();
    let mut pipe = pipe();
    if !key.is_empty() {
        pipe.add_command(zexp::card(key).into());
        pipe.add_command(zexp::members(key).limit(0, ROWS as i64).with_ttl().into());
    }
    let mut replies = app.server.ask(pipe).await?.into_iter();
    let both = |(card, members)| Ok::<_, Markup>((outcome(card)?, outcome(members)?));
    let found = replies.next().zip(replies.next()).map(both);
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
            (look("sets", "Key", key, html! {}))
            @if let Some(found) = &found { div #set data-live {
                @match found {
                    Ok((live, WithTtl(members))) => (set(key, *live, members)),
                    Err(why) => (why),
                }
            } }
        }
    };
    drop(seen);
    Ok(layout::page(&app, "sets", "Sets", body).await)
}

fn set(key: &[u8], live: u64, members: &[(Key, Ttl)]) -> Markup {
    html! {
        h3 { (name(key)) " " span.badge { (grouped(live)) " live" } }
        @if live == 0 { p.quiet { "No live member: the set is empty, or there is no such key." } } @else {
            div.scroll { table {
                thead { tr { th { "Member, soonest first" } th.number { "Expires in" } } }
                tbody { @for (member, ttl) in members { tr {
                    td { (name(member)) }
                    td.number { @match ttl { Ttl::Remaining(left) => (span(left.as_millis() as u64)), _ => "never" } }
                } } }
            } }
            @if live as usize > ROWS { p.quiet { "and " (grouped(live - ROWS as u64)) " more" } }
        }
    }
}
