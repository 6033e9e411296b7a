//! Rate limits: the most denied keys, and the usage of a limit.

use super::parts::{look, moment, name, outcome, per_second, tile, tiles};
use super::query::{Query, link};
use super::{Page, Shared, chart, layout};
use crate::server::ring::{self, Moment};
use crate::server::{Denied, reply};
use crate::text::{grouped, span};
use crate::watch::micros;
use axum::extract::State;
use maud::{Markup, html};
use redis::{RedisResult, pipe};
use zeitset_client::zrl;

/// The maximum number of rows in the list of keys.
const ROWS: u64 = 50;

/// The maximum number of rows in the list of times at which units become available again.
const MOMENTS: usize = 100;

const CHARTS: &[chart::Chart] = &[chart::Chart {
    title: "Checks",
    unit: chart::Unit::PerSecond,
    lines: &[("allowed", "allowed"), ("denied", "denied"), ("forced", "forced")],
}];

pub async fn page(State(app): Shared, query: Query) -> Page {
    let key = query.get("key").unwrap_or_default();
    let mut pipe = pipe();
    pipe.cmd("TIME").add_command(zrl::top().count(ROWS).into());
    if !key.is_empty() {
        pipe.add_command(zrl::info(key).into());
    }
    let mut replies = app.server.ask(pipe).await?.into_iter();
    let now_ms = micros(&replies.next().expect("TIME")?) / 1000;
    let top: RedisResult<Vec<Denied>> = reply::read(replies.next().expect("ZRL.TOP"));
    let info = replies.next().map(outcome::<zrl::Info>);
    let moments = match &info {
        Some(Ok(info)) if info.algorithm == "sliding" => {
            Some(ring::moments(&app.server, key, now_ms, MOMENTS as u64).await)
        }
        _ => None,
    };
    let seen = app.seen.read().await;
    let watch = &seen.watch;
    let figures = [
        tile("Allowed", per_second(watch.rate("zeitset_checks_allowed"))),
        tile("Denied", per_second(watch.rate("zeitset_checks_denied"))),
        tile("Forced", per_second(watch.rate("zeitset_checks_forced"))),
        tile("Units taken", per_second(watch.rate("zeitset_units_taken"))),
        tile("Allowed in all", grouped(watch.now.info.count("zeitset_checks_allowed"))),
        tile("Denied in all", grouped(watch.now.info.count("zeitset_checks_denied"))),
    ];
    let body = html! {
        h1 { "Limits" }
        div #figures data-live { (tiles(&figures)) }
        div #charts .charts.one data-live { @for one in CHARTS { (chart::draw(one, &seen.history.server)) } }
        section {
            h2 { "Look at one limit" }
            (look("limits", "Key", key, html! {}))
            @if let Some(info) = &info { div #limit data-live {
                @match info {
                    Err(why) => (why),
                    Ok(info) => {
                        @let known = moments.as_ref().and_then(|moments| moments.as_ref().ok()).map_or(&[][..], Vec::as_slice);
                        (limit(key, info, now_ms))
                        (in_use(info, known, now_ms))
                        (table_of_moments(info, known, now_ms))
                    }
                }
                @if let Some(Err(error)) = &moments { p.quiet { "Its moments: " (crate::server::message(error)) } }
            } }
        }
        section {
            h2 { "Denied most" }
            div #top data-live {
                @match &top {
                    Err(error) => p.notice.bad { (crate::server::message(error)) },
                    Ok(top) if top.is_empty() => p.quiet { "Nothing was denied since the server started." },
                    Ok(top) => (table(top, now_ms)),
                }
            }
        }
    };
    drop(seen);
    Ok(layout::page(&app, "limits", "Limits", body).await)
}

fn table(top: &[Denied], now_ms: u64) -> Markup {
    html! { div.scroll { table {
        thead { tr { th { "Key" } th.number { "Denied" } th { "Counted since" } } }
        tbody { @for denied in top { tr {
            td { a href=(link("limits", &[("key", &denied.key)])) { (name(&denied.key)) } }
            td.number { @if denied.error > 0 { (grouped(denied.denied - denied.error)) "–" } (grouped(denied.denied)) }
            td { (moment(denied.since_ms, now_ms)) }
        } } }
    } } }
}

/// Draws a chart of the units in use. The chart begins now, and ends when all units are available again. It assumes
/// that no call takes more units.
fn in_use(info: &zrl::Info, moments: &[Moment], now_ms: u64) -> Markup {
    let Some(end_ms) = info.all_available_ms.filter(|end_ms| *end_ms > now_ms) else { return html! {} };
    let units = info.units.unwrap_or_default() as f64;
    let at_once = [Moment { at_ms: end_ms, units: units as u64 }];
    let moments = if info.algorithm == "fixed" { &at_once } else { moments };
    // The units of a LEAKY limit become available gradually. The chart treats the units of slots that were not read in
    // the same way.
    let rest = (units - moments.iter().map(|moment| moment.units as f64).sum::<f64>()).max(0.0);
    let until_ms = moments.first().map_or(end_ms, |first| first.at_ms);
    let level = |at_ms: u64| {
        let coming = moments.iter().filter(|moment| moment.at_ms > at_ms).map(|moment| moment.units as f64);
        coming.sum::<f64>()
            + rest * until_ms.saturating_sub(at_ms) as f64 / until_ms.saturating_sub(now_ms).max(1) as f64
    };
    let steps = chart::COLUMNS as u64;
    let points = (0..=steps).map(|step| now_ms + (end_ms - now_ms) * step / steps).map(|at_ms| (at_ms, level(at_ms)));
    let line = chart::Line { name: "", now: units, points: points.collect() };
    let end = format!("in {}", span(end_ms - now_ms));
    html! { div.charts { (chart::plot("Units in use, if no more are taken", chart::Unit::Number, &[line], ["now", &end])) } }
}

fn limit(key: &[u8], info: &zrl::Info, now_ms: u64) -> Markup {
    html! {
        h3 { (name(key)) }
        dl.settings {
            div { dt { "Algorithm" } dd { (info.algorithm) } }
            div { dt { "Units in use" } dd { @if let Some(units) = info.units { (units) } @else { "none" } } }
            div { dt { "Slots" } dd { (info.slots) } }
            @for (ms, title) in [(info.next_available_ms, "Next unit available"), (info.all_available_ms, "All units available")] {
                div { dt { (title) } dd { @if let Some(ms) = ms { (moment(ms, now_ms)) } @else { "–" } } }
            }
        }
    }
}

/// Shows when units become available again, soonest first.
fn table_of_moments(info: &zrl::Info, moments: &[Moment], now_ms: u64) -> Markup {
    html! {
        @if !moments.is_empty() {
            @if info.slots > moments.len() as u64 { p.quiet { "The latest " (moments.len()) " of " (grouped(info.slots)) " slots" } }
            div.scroll { table {
                thead { tr { th { "Available again" } th.number { "Units" } } }
                tbody { @for one in moments { tr {
                    td { (moment(one.at_ms, now_ms)) }
                    td.number { (grouped(one.units)) }
                } } }
            } }
        }
    }
}
