//! Shows the settings of a queue. With `--write`, shows a form that changes them.

use super::App;
use super::parts::form;
use super::query::Query;
use crate::server::Queue;
use maud::{Markup, html};

/// A setting: its keyword in ZQ.CONFIG, its fields in ZQ.STATS, its name, and its description.
struct Setting {
    keyword: &'static str,
    fields: &'static [&'static str],
    name: &'static str,
    what: &'static str,
}

const fn setting(
    keyword: &'static str,
    fields: &'static [&'static str],
    name: &'static str,
    what: &'static str,
) -> Setting {
    Setting { keyword, fields, name, what }
}

const SETTINGS: &[Setting] = &[
    setting("MAXATTEMPTS", &["max_attempts"], "Attempts", "deliveries before a job is dead; 0: no limit"),
    setting("BACKOFF", &["backoff_base_ms", "backoff_max_ms"], "Backoff", "first and longest pause after a failure"),
    setting("JITTER", &["jitter"], "Jitter", "percent of the pause added at random"),
    setting("AGING", &["aging_ms"], "Aging", "waiting that is worth one step of priority; 0: none"),
    setting("MAXLEN", &["maxlen"], "Most jobs", "pushes beyond this are refused; 0: no limit"),
    setting("DEADLEN", &["deadlen"], "Most dead letters", "the oldest go; 0: no limit"),
    setting("DEADTTL", &["deadttl_ms"], "Dead letters live", "0: without end"),
    setting("CONCURRENCY", &["concurrency"], "Claimed at once", "0: no limit"),
    setting("RATE", &["rate_limit", "rate_window_ms"], "Claims per window", "number and duration; 0 0: no limit"),
    setting("GROUPCONCURRENCY", &["groupconcurrency"], "Claimed at once, of a group", "0: no limit"),
    setting(
        "GROUPRATE",
        &["grouprate_limit", "grouprate_window_ms"],
        "Claims per window, of a group",
        "number and duration; 0 0: no limit",
    ),
    setting("ORDERED", &["ordered"], "Groups in order", "yes: one job of a group at a time, in the order of pushes"),
];

/// Formats the value of a setting for ZQ.CONFIG, for example `10s 1h` for BACKOFF. `None` if the module lacks the
/// setting.
fn value(setting: &Setting, queue: &Queue) -> Option<String> {
    let words = setting.fields.iter().map(|field| {
        let value = queue.other(field)?;
        Some(if field.ends_with("_ms") { duration(value.parse().ok()?) } else { value.to_owned() })
    });
    Some(words.collect::<Option<Vec<_>>>()?.join(" "))
}

/// Formats ms in the largest unit that is exact.
fn duration(ms: u64) -> String {
    const UNITS: [(u64, &str); 4] = [(86_400_000, "d"), (3_600_000, "h"), (60_000, "m"), (1000, "s")];
    match UNITS.iter().find(|(scale, _)| ms >= *scale && ms.is_multiple_of(*scale)) {
        Some((scale, unit)) => format!("{}{unit}", ms / scale),
        None if ms == 0 => "0".into(),
        None => format!("{ms}ms"),
    }
}

pub fn show(app: &App, key: &[u8], queue: &Queue) -> Markup {
    let known = || SETTINGS.iter().filter_map(|setting| Some((setting, value(setting, queue)?)));
    if !app.settings.write {
        return html! {
            div #settings data-live { dl.settings {
                @for (setting, value) in known() { div { dt { (setting.name) } dd { (value) small { (setting.what) } } } }
            } }
        };
    }
    let form = form(
        app,
        key,
        "settings",
        html! {
            @for (setting, value) in known() {
                label {
                    span { (setting.name) }
                    input name=(setting.keyword) value=(value) spellcheck="false";
                    // The value when the page was created. Only changed values are sent to the server.
                    input type="hidden" name={ "was-" (setting.keyword) } value=(value);
                    small { (setting.what) }
                }
            }
            div.acts { button.main name="do" value="configure" { "Save" } }
        },
    );
    // If the settings change on the server, the fields that the user has not edited show the new values.
    html! { div #settings data-live { (form) } }
}

/// Returns the arguments of ZQ.CONFIG for the changed fields.
pub fn changes(query: &Query) -> Vec<String> {
    let mut words = Vec::new();
    for setting in SETTINGS {
        let (now, was) = (query.text(setting.keyword), query.text(&format!("was-{}", setting.keyword)));
        if now != was && !now.is_empty() {
            words.push(setting.keyword.to_owned());
            words.extend(now.split_whitespace().map(str::to_owned));
        }
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_was_changed_is_sent() {
        let form =
            b"MAXATTEMPTS=5&was-MAXATTEMPTS=3&BACKOFF=10s+1h&was-BACKOFF=10s+1h&RATE=5+1m&was-RATE=0+0&MAXLEN=&was-MAXLEN=7";
        assert_eq!(changes(&Query::parse(form)), ["MAXATTEMPTS", "5", "RATE", "5", "1m"]);
    }

    #[test]
    fn durations_are_shown_as_they_can_be_given() {
        assert_eq!(
            [0, 1, 1_500, 60_000, 5_400_000, 604_800_000].map(duration),
            ["0", "1ms", "1500ms", "1m", "90m", "7d"]
        );
    }
}
