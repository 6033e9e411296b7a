//! Rate limits: the most denied keys, and the usage of a limit.

use super::parts::{done, field, form, look, moment, name, outcome, per_second, tile, tiles};
use super::query::{Query, link};
use super::{App, Page, Shared, chart, layout};
use crate::server::ring::{self, Moment};
use crate::server::{Denied, reply};
use crate::text::{grouped, instant, span};
use crate::watch::micros;
use axum::extract::State;
use maud::{Markup, html};
use redis::{RedisResult, Value, pipe};

/// The number of keys that the server counts, the maximum number of rows in the list of keys, and in the list of keys
/// that are like the one that is shown.
const COUNTED: usize = 256;
const ROWS: usize = 50;
const ALIKE: usize = 10;

/// The maximum number of rows in the list of times at which units become available again.
const MOMENTS: usize = 100;

const CHARTS: &[chart::Chart] = &[chart::Chart {
    title: "Checks",
    unit: chart::Unit::PerSecond,
    lines: &[("allowed", "allowed"), ("denied", "denied"), ("forced", "forced")],
}];

/// The actions on a limit.
pub const ACTIONS: [&str; 2] = ["reset", "refund"];

pub fn link_to(key: &[u8]) -> String {
    link("limits", &[("key", key)])
}

pub async fn page(State(app): Shared, query: Query) -> Page {
    let key = query.given("key");
    let mut pipe = pipe();
    pipe.cmd("TIME").cmd("ZRL.TOP").arg("COUNT").arg(COUNTED);
    if let Some(key) = key {
        pipe.cmd("ZRL.INFO").arg(key);
    }
    let mut replies = app.server.ask(pipe).await?.into_iter();
    let now_ms = micros(&replies.next().expect("TIME")?) / 1000;
    let top = reply::read::<Vec<Denied>>(replies.next().expect("ZRL.TOP"));
    let info = replies.next().map(|info| match info {
        Ok(Value::Nil) => Err(html! { p.notice { "No unit of this limit is in use." } }),
        info => outcome::<Value>(info),
    });
    let moments = match (key, &info) {
        (Some(key), Some(Ok(info))) if field(info, "algorithm") == "sliding" => {
            Some(ring::moments(&app.server, key, now_ms, MOMENTS as u64).await)
        }
        _ => None,
    };
    let call = Call::read(&query);
    let peeked = match (key, &info, &call) {
        (Some(key), Some(info), Some(call)) => {
            // A limit that nobody uses has no algorithm yet.
            let algorithm = info.as_ref().map_or("sliding".into(), |info| field(info, "algorithm"));
            Some(call.peek(&app, key, &algorithm).await)
        }
        _ => None,
    };
    let usage = match (key, &info) {
        (Some(key), Some(info)) => {
            // A missing key is a limit that nobody uses.
            let units = info.as_ref().map_or(Some(0), |info| number(info, "units"));
            let mut usage = app.usage.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
            units.map(|units| usage.add(key, now_ms, units as f64))
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
    let write = app.settings.write;
    let one = html! { @if let (Some(key), Some(info)) = (key, &info) {
        div #limit data-live {
            h3 { (name(key)) }
            @match info {
                Err(why) => (why),
                Ok(info) => {
                    @let known = moments.as_ref().and_then(|moments| moments.as_ref().ok()).map_or(&[][..], Vec::as_slice);
                    (limit(info, now_ms))
                    @if write { (form(&app, key, "acts", html! { button.danger name="do" value="reset" { "Reset" } })) }
                    div.charts {
                        (in_use(info, known, now_ms))
                        @if let Some(usage) = usage.filter(|points| points.len() > 1) { (past(usage)) }
                    }
                }
            }
        }
        section {
            h2 { "Why is it denied?" }
            // A form in a browser sends only text.
            @if let Ok(key) = std::str::from_utf8(key) { (Call::form(key, call.as_ref())) }
            div #why data-live {
                @match &peeked {
                    Some(Ok(reply)) => (verdict(reply, now_ms)),
                    Some(Err(error)) => p.notice.bad { (crate::server::message(error)) },
                    None => p.quiet { "A limit stores neither its number of units nor its window: they are arguments of each call." },
                }
                @if let Ok(top) = &top { (who(key, top, now_ms)) }
            }
        }
        div #moments data-live {
            @if let Ok(info) = info {
                @match &moments {
                    Some(Ok(known)) => (table_of_moments(&app, key, info, known, now_ms)),
                    Some(Err(error)) => p.quiet { "Its moments: " (crate::server::message(error)) },
                    None => (at_the_end(&app, key, info, now_ms)),
                }
            }
        }
    } };
    let body = html! {
        (done(&query))
        h1 { "Limits" }
        div #figures data-live { (tiles(&figures)) }
        div #charts .charts.one data-live { @for one in CHARTS { (chart::draw(one, &seen.history.server)) } }
        section {
            h2 { "Look at one limit" }
            (look("limits", "Key", key.unwrap_or_default(), html! {}))
            (one)
        }
        section {
            h2 { "Denied most" }
            div #top data-live {
                @match &top {
                    Err(error) => p.notice.bad { (crate::server::message(error)) },
                    Ok(top) if top.is_empty() => p.quiet { "Nothing was denied since the server started." },
                    Ok(top) => (table("Denied most", &top[..top.len().min(ROWS)], now_ms)),
                }
            }
        }
    };
    drop(seen);
    Ok(layout::page(&app, "limits", "Limits", body).await)
}

/// The arguments of the calls that check a limit, which the user knows and the limit does not store.
struct Call {
    limit: String,
    window: String,
    cost: String,
}

impl Call {
    fn read(query: &Query) -> Option<Call> {
        let (limit, window, cost) = (query.text("limit"), query.text("window"), query.text("cost"));
        let cost = if cost.is_empty() { "1".to_owned() } else { cost };
        (!limit.is_empty() && !window.is_empty()).then_some(Call { limit, window, cost })
    }

    async fn peek(&self, app: &App, key: &[u8], algorithm: &str) -> RedisResult<Value> {
        let words =
            [&b"ZRL.PEEK"[..], key, self.limit.as_bytes(), self.window.as_bytes(), b"COST", self.cost.as_bytes()];
        app.server.one(&[&words[..], &[algorithm.as_bytes()]].concat()).await
    }

    fn form(key: &str, call: Option<&Call>) -> Markup {
        let value = |of: fn(&Call) -> &String| call.map_or("", |call| of(call).as_str());
        html! {
            form.look method="get" action="limits" {
                input type="hidden" name="key" value=(key);
                label { span { "Units per window" } input.short name="limit" value=(value(|call| &call.limit)) placeholder="100" inputmode="numeric" required; }
                label { span { "Window" } input.short name="window" value=(value(|call| &call.window)) placeholder="1m" required; }
                label { span { "Cost of a call" } input.short name="cost" value=(value(|call| &call.cost)) placeholder="1" inputmode="numeric"; }
                button { "Check, without taking units" }
            }
        }
    }
}

/// Explains the reply of ZRL.PEEK.
fn verdict(reply: &Value, now_ms: u64) -> Markup {
    let numbers: Vec<i64> = reply::array(reply).iter().filter_map(reply::number).collect();
    let [allowed, limit, free, retry_after_ms, reset_after_ms, ..] = numbers[..] else { return html! {} };
    let at = |after_ms: i64| now_ms.saturating_add(after_ms.unsigned_abs());
    html! {
        p.notice.good[allowed == 1].bad[allowed != 1] role="status" {
            @match (allowed, retry_after_ms) {
                (1, _) => "The next such call is allowed.",
                (_, -1) => "Such a call is never allowed: it costs more than the limit has.",
                _ => { "The next such call is denied. It is allowed " (moment(at(retry_after_ms), now_ms)) ", if nobody else takes units." },
            }
        }
        dl.settings {
            div { dt { "Units free" } dd { (free) " of " (limit) } }
            div { dt { "Retry after" } dd { @if allowed != 1 && retry_after_ms >= 0 { (span(retry_after_ms.unsigned_abs())) } @else { "–" } } }
            div { dt { "Entirely free" } dd { @if reset_after_ms > 0 { (moment(at(reset_after_ms), now_ms)) } @else { "now" } } }
        }
    }
}

/// Shows how often a key was denied, and which keys of the same kind are denied, too: those that are equal up to the
/// last colon.
fn who(key: &[u8], top: &[Denied], now_ms: u64) -> Markup {
    let prefix = &key[..key.iter().rposition(|byte| *byte == b':').map_or(0, |colon| colon + 1)];
    let is_alike = |denied: &&Denied| denied.key != key && denied.key.starts_with(prefix);
    let others: Vec<Denied> = top.iter().filter(is_alike).take(ALIKE).cloned().collect();
    html! {
        @match top.iter().find(|denied| denied.key == key) {
            Some(own) => p { "Denied " (counted(own)) " times; counted since " (moment(own.since_ms, now_ms)) "." },
            None => p.quiet { "It is not among the keys that are denied most." },
        }
        @if others.is_empty() { p.quiet { "No other such key is denied." } } @else {
            h3 { "Who else is denied" }
            (table("Others that are denied", &others, now_ms))
        }
    }
}

/// Draws the usage while somebody looked at the limit.
fn past(points: Vec<(u64, f64)>) -> Markup {
    let (first, (last, now)) = (points[0].0, points[points.len() - 1]);
    let from = format!("{} ago", span(last.saturating_sub(first)));
    let line = chart::Line { name: "", now, points };
    chart::plot("Units in use, as long as this page is open", chart::Unit::Number, &[line], [&from, "now"])
}

fn counted(denied: &Denied) -> Markup {
    html! { @if denied.error > 0 { (grouped(denied.denied - denied.error)) "–" } (grouped(denied.denied)) }
}

fn table(title: &str, top: &[Denied], now_ms: u64) -> Markup {
    html! { div.scroll tabindex="0" role="region" aria-label=(title) { table {
        thead { tr { th { "Key" } th.number { "Denied" } th { "Counted since" } } }
        tbody { @for denied in top { tr {
            td { a href=(link("limits", &[("key", &denied.key)])) { (name(&denied.key)) } }
            td.number { (counted(denied)) }
            td { (moment(denied.since_ms, now_ms)) }
        } } }
    } } }
}

fn number(info: &Value, field: &str) -> Option<u64> {
    reply::pairs(info).iter().find(|(name, _)| name == field).and_then(|(_, value)| reply::count(value))
}

/// Draws a chart of the units in use. The chart begins now, and ends when all units are available again. It assumes
/// that no call takes more units.
fn in_use(info: &Value, moments: &[Moment], now_ms: u64) -> Markup {
    let Some(end_ms) = number(info, "all_available_ms").filter(|end_ms| *end_ms > now_ms) else { return html! {} };
    let units = number(info, "units").unwrap_or_default() as f64;
    let at_once = [Moment { at_ms: end_ms, units: units as u64 }];
    let moments = if field(info, "algorithm") == "fixed" { &at_once } else { moments };
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
    chart::plot("Units in use, if no more are taken", chart::Unit::Number, &[line], ["now", &end])
}

fn limit(info: &Value, now_ms: u64) -> Markup {
    html! {
        dl.settings {
            div { dt { "Algorithm" } dd { (field(info, "algorithm")) } }
            div { dt { "Units in use" } dd { (field(info, "units")) } }
            div { dt { "Slots" } dd { (field(info, "slots")) } }
            @for (field, title) in [("next_available_ms", "Next unit available"), ("all_available_ms", "All units available")] {
                div { dt { (title) } dd { @if let Some(ms) = number(info, field) { (moment(ms, now_ms)) } @else { "–" } } }
            }
        }
    }
}

/// Shows when units become available again, soonest first.
fn table_of_moments(app: &App, key: &[u8], info: &Value, moments: &[Moment], now_ms: u64) -> Markup {
    let slots = field(info, "slots").parse().unwrap_or(moments.len());
    html! {
        @if !moments.is_empty() {
            @if slots > moments.len() { p.quiet { "The latest " (moments.len()) " of " (grouped(slots as u64)) " slots" } }
            div.scroll tabindex="0" role="region" aria-label="Units in use" { table {
                thead { tr { th { "Available again" } th.number { "Units" } @if app.settings.write { th { span.hidden { "Actions" } } } } }
                tbody { @for one in moments { tr id={ "at-" (one.at_ms) } {
                    td { (moment(one.at_ms, now_ms)) }
                    td.number { (grouped(one.units)) }
                    @if app.settings.write { td { (refund(app, key, one.at_ms, one.units)) } }
                } } }
            } }
        }
    }
}

/// Shows a form that refunds units of a FIXED or LEAKY limit, which stores only the time at which all are available.
fn at_the_end(app: &App, key: &[u8], info: &Value, now_ms: u64) -> Markup {
    let (units, end_ms) = (number(info, "units"), number(info, "all_available_ms").filter(|end_ms| *end_ms > now_ms));
    match (units, end_ms) {
        (Some(units), Some(end_ms)) if app.settings.write => refund(app, key, end_ms, units),
        _ => html! {},
    }
}

fn refund(app: &App, key: &[u8], at_ms: u64, units: u64) -> Markup {
    form(
        app,
        key,
        "acts",
        html! {
            input type="hidden" name="at" value={ (at_ms) "ms" };
            input name="units" value=(units) size="5" inputmode="numeric" aria-label={ "Units to refund of " (at_ms) };
            button name="do" value="refund" aria-label={ "Refund " (instant(at_ms)) } { "Refund" }
        },
    )
}
