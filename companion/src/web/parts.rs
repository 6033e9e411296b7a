//! Small parts of pages.

use super::App;
use super::query::{Query, encoded};
use crate::server::reply;
use crate::text::{self, grouped, instant, printable, shortened, span};
use maud::{Markup, html};
use redis::{FromRedisValue, RedisResult, Value};

pub struct Tile {
    pub name: &'static str,
    pub value: String,
    pub is_worrying: bool,
}

pub fn tile(name: &'static str, value: impl Into<String>) -> Tile {
    Tile { name, value: value.into(), is_worrying: false }
}

impl Tile {
    pub fn worrying(self, is_worrying: bool) -> Tile {
        Tile { is_worrying, ..self }
    }
}

pub fn tiles(tiles: &[Tile]) -> Markup {
    html! {
        dl.tiles {
            @for tile in tiles {
                div.tile.bad[tile.is_worrying] { dt { (tile.name) } dd { (tile.value) } }
            }
        }
    }
}

/// Shows a key or another name, truncated to a line, with the full text as title.
pub fn name(bytes: &[u8]) -> Markup {
    if bytes.is_empty() {
        return html! { span.quiet { "without a name" } };
    }
    let text = printable(bytes);
    html! { span.key title=(text) { (shortened(&text, 80)) } }
}

/// Shows a time relative to now.
pub fn moment(ms: u64, now_ms: u64) -> Markup {
    let words = if ms <= now_ms { format!("{} ago", span(now_ms - ms)) } else { format!("in {}", span(ms - now_ms)) };
    html! { time title={ (instant(ms)) " UTC" } { (words) } }
}

pub fn per_second(rate: Option<f64>) -> String {
    rate.map_or("–".into(), |rate| format!("{}/s", text::rate(rate)))
}

pub fn done(query: &Query) -> Markup {
    let n = query.number("n").unwrap_or_default();
    let jobs = |verb: &str| format!("{} {} {verb}.", grouped(n), if n == 1 { "job" } else { "jobs" });
    let text = match query.text("done").as_str() {
        "retried" => jobs("ready again"),
        "promoted" => jobs("due now"),
        "changed" => jobs("changed"),
        "deleted" => jobs("deleted"),
        "cleaned" => jobs("removed"),
        "cleaning" => format!("{} There are more: run it again.", jobs("removed")),
        "held" if n > 0 => "The group is held: none of its jobs is claimed until then.".into(),
        "released" if n > 0 => "The group is released.".into(),
        "held" | "released" => "No job is in this group any more.".into(),
        "paused" => "The queue is paused: claims get nothing.".into(),
        "resumed" => "The queue goes on.".into(),
        "begun" => "The jobs are being worked on: the page shows how far.".into(),
        "stopped" => "It is stopped.".into(),
        "busy" => "Nothing was begun: stop the other one of this queue first, or wait for its end.".into(),
        "reset" => "The limit is reset: all its units are available.".into(),
        "refunded" => format!("{} {} available again.", grouped(n), if n == 1 { "unit is" } else { "units are" }),
        "configured" => "The settings are changed.".into(),
        "unchanged" => "Nothing was changed.".into(),
        _ => return html! {},
    };
    html! { p.notice.good role="status" { (text) } }
}

/// Returns a form that acts on a queue. `fields` are the form's inputs and buttons.
pub fn form(app: &App, key: &[u8], class: &str, fields: Markup) -> Markup {
    html! {
        form.(class) method="post" action="act" autocomplete="off" {
            input type="hidden" name="token" value=(app.token);
            input type="hidden" name="key" value=(encoded(key));
            (fields)
        }
    }
}

/// Shows a form that opens a key.
pub fn look(path: &str, label: &str, key: &[u8], more: Markup) -> Markup {
    // A form in a browser sends only text. Other keys can be opened only by links.
    let value = std::str::from_utf8(key).unwrap_or_default();
    html! {
        form.look method="get" action=(path) role="search" aria-label="Open a key" {
            label { span { (label) } input name="key" value=(value) required autocomplete="off" spellcheck="false"; }
            (more)
            button { "Look" }
        }
    }
}

/// Returns the value. If the reply is an error or null, returns a notice for the page.
pub fn outcome<T: FromRedisValue>(result: RedisResult<Value>) -> Result<T, Markup> {
    let found = reply::read::<Option<T>>(result);
    let found = found.map_err(|error| html! { p.notice.bad role="alert" { (crate::server::message(&error)) } })?;
    found.ok_or_else(|| html! { p.notice { "There is no such key." } })
}

/// Returns a field of a reply that is a map.
pub fn field(value: &Value, name: &str) -> String {
    let pairs = reply::pairs(value);
    pairs.iter().find(|(other, _)| other == name).map_or_else(String::new, |(_, value)| reply::text(value))
}
