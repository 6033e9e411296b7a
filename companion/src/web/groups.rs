//! The groups of a queue. While a group is held, none of its jobs is claimed.

use super::parts::{form, moment, name};
use super::query::{encoded, link};
use super::{App, queue::ROWS};
use crate::server::Key;
use crate::text::grouped;
use maud::{Markup, html};
use redis::RedisResult;
use zeitset_client::zq;

/// Modules before 0.3 omit `held_until_ms`, which is then `None`.
type Group = zq::Group<Key>;

pub async fn show(app: &App, key: &[u8], after: &[u8], now_ms: u64) -> RedisResult<Markup> {
    let groups = zq::groups(key).count(ROWS as u64 + 1).reply_as();
    let groups: Vec<Group> = app.server.call(if after.is_empty() { groups } else { groups.after(after) }).await?;
    let shown = &groups[..groups.len().min(ROWS)];
    Ok(html! {
        div #groups data-live {
            @if shown.is_empty() { p.quiet { "No group has a job." } } @else {
                div.scroll { table {
                    thead { tr {
                        th { "Group" } th.number { "Ready" } th.number { "Delayed" } th.number { "Claimed" } th { "Held until" }
                        @if app.settings.write { th { span.hidden { "Actions" } } }
                    } }
                    tbody { @for group in shown { tr {
                        td { @if group.name.is_empty() { span.quiet { "without a name" } } @else { (name(&group.name)) } }
                        @for count in [group.ready, group.delayed, group.claimed] { td.number { (grouped(count)) } }
                        td { @if let Some(ms) = group.held_until_ms { (moment(ms, now_ms)) } }
                        @if app.settings.write { td { (hold(app, key, group)) } }
                    } } }
                } }
            }
        }
        nav.pages aria-label="Pages of groups" {
            @if groups.len() > ROWS {
                @let last = &shown[shown.len() - 1].name;
                a #next href=(link("queue", &[("key", key), ("tab", b"groups"), ("after", last)])) { "Next page" }
            }
        }
    })
}

/// Shows a form that sets, replaces or ends the hold of a group.
fn hold(app: &App, key: &[u8], group: &Group) -> Markup {
    form(
        app,
        key,
        "acts",
        html! {
            input type="hidden" name="tab" value="groups";
            input type="hidden" name="group" value=(encoded(&group.name));
            input name="duration" placeholder="10m" size="5" aria-label="Hold for";
            button name="do" value="hold" { "Hold" }
            @if group.held_until_ms.is_some() { button name="do" value="release" { "Release" } }
        },
    )
}
