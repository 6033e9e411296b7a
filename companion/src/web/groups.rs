//! The groups of a queue. While a group is held, none of its jobs is claimed.

use super::parts::{form, moment, name};
use super::query::{Query, encoded, link};
use super::{App, queue::ROWS};
use crate::server::{Key, Server, State, reply};
use crate::text::{grouped, printable};
use maud::{Markup, html};
use redis::{RedisResult, Value, pipe};

/// The number of groups that the order by ready jobs shows. The server lists only the largest groups in this order.
const LARGEST: usize = 50;

/// A search reads at most this number of groups per page, and this number with each call.
const SEARCHED: usize = 10_000;
const PER_CALL: usize = 500;

/// If a group has more dead letters than this, the list shows only that there are more: ZQ.GROUPS does not count them.
const DEAD: usize = 10;

pub struct Group {
    pub name: Key,
    /// The numbers of ready, delayed and claimed jobs.
    counts: [u64; 3],
    held_until_ms: Option<u64>,
}

impl Group {
    /// Parses `[name, ready, delayed, claimed, held_until_ms]`. Modules before 0.3 omit the last element.
    fn read(value: &Value) -> Option<Group> {
        let [name, ready, delayed, claimed, rest @ ..] = reply::array(value) else { return None };
        Some(Group {
            name: reply::bytes(name)?.to_vec(),
            counts: [ready, delayed, claimed].map(|count| reply::count(count).unwrap_or_default()),
            held_until_ms: rest.first().and_then(reply::count),
        })
    }

    /// Returns the number of jobs in a state. `None` for dead letters, which ZQ.GROUPS does not count.
    pub fn count(&self, state: State) -> Option<u64> {
        State::ALL.into_iter().position(|other| other == state).and_then(|place| self.counts.get(place).copied())
    }

    fn link(&self, key: &[u8], state: State) -> String {
        link("queue", &[("key", key), ("tab", state.name().as_bytes()), ("group", &self.name)])
    }
}

async fn ask(server: &Server, key: &[u8], words: &[&[u8]]) -> RedisResult<Vec<Group>> {
    let reply = server.one(&[&[b"ZQ.GROUPS", key], words].concat()).await?;
    Ok(reply::array(&reply).iter().filter_map(Group::read).collect())
}

/// Returns at most `most` groups after `after`, by name. If `after` is empty, returns the first groups.
async fn after(server: &Server, key: &[u8], after: &[u8], most: usize) -> RedisResult<Vec<Group>> {
    let count = most.to_string();
    let words: &[&[u8]] = if after.is_empty() { &[] } else { &[b"AFTER", after] };
    ask(server, key, &[words, &[b"COUNT", count.as_bytes()]].concat()).await
}

/// Returns a name that comes before `name`, and after most names that come before `name`. Empty if there is none.
fn before(name: &[u8]) -> Vec<u8> {
    match name.split_last() {
        None => Vec::new(),
        Some((0, rest)) => rest.to_vec(),
        Some((last, rest)) => [rest, &[last - 1], &[0xff; 8]].concat(),
    }
}

/// Returns a group by its name. A group without jobs has zero jobs.
pub async fn one(server: &Server, key: &[u8], name: &[u8]) -> RedisResult<Group> {
    let found = after(server, key, &before(name), 2).await?.into_iter().find(|group| group.name == name);
    Ok(found.unwrap_or_else(|| Group { name: name.to_vec(), counts: [0; 3], held_until_ms: None }))
}

/// A page of groups.
#[derive(Default)]
struct Page {
    groups: Vec<Group>,
    /// The last group that was read, if there are more.
    more_after: Option<Key>,
}

async fn by_name(server: &Server, key: &[u8], start: &[u8]) -> RedisResult<Page> {
    let mut groups = after(server, key, start, ROWS + 1).await?;
    let more_after = (groups.len() > ROWS).then(|| groups[ROWS - 1].name.clone());
    groups.truncate(ROWS);
    Ok(Page { groups, more_after })
}

/// Finds groups whose names contain `text`. The first page begins with the groups whose names begin with `text`, which
/// the server finds among any number of groups.
async fn search(server: &Server, key: &[u8], text: &[u8], start: &[u8]) -> RedisResult<Page> {
    let mut page = Page::default();
    if start.is_empty() {
        page.groups = after(server, key, &before(text), ROWS).await?;
        page.groups.retain(|group| group.name.starts_with(text));
    }
    let is_match = |group: &Group| group.name.windows(text.len()).any(|part| part.eq_ignore_ascii_case(text));
    let mut last = start.to_vec();
    for _ in 0..SEARCHED / PER_CALL {
        let groups = after(server, key, &last, PER_CALL).await?;
        let is_end = groups.len() < PER_CALL;
        for group in groups {
            if page.groups.len() >= ROWS {
                page.more_after = Some(last);
                return Ok(page);
            }
            last.clone_from(&group.name);
            if is_match(&group) && page.groups.iter().all(|found| found.name != group.name) {
                page.groups.push(group);
            }
        }
        if is_end {
            return Ok(page);
        }
    }
    page.more_after = Some(last);
    Ok(page)
}

pub async fn show(app: &App, key: &[u8], query: &Query, now_ms: u64) -> RedisResult<Markup> {
    let (server, text, start) = (&app.server, query.get("find"), query.get("after").unwrap_or_default());
    let by_size = match (text, query.text("sort").as_str()) {
        (None, "" | "size") if start.is_empty() => {
            match ask(server, key, &[b"LARGEST", b"COUNT", LARGEST.to_string().as_bytes()]).await {
                // The module is older than 0.4.
                Err(error) if error.code() == Some("ERR") => None,
                groups => Some(groups?),
            }
        }
        _ => None,
    };
    let is_by_size = by_size.is_some();
    let page = match (by_size, text) {
        (Some(groups), _) => Page { groups, more_after: None },
        (None, None) => by_name(server, key, start).await?,
        (None, Some(text)) => search(server, key, text, start).await?,
    };
    let dead = dead(server, key, &page.groups).await?;
    let to = |more: &[(&str, &[u8])]| link("queue", &[&[("key", key), ("tab", &b"groups"[..])], more].concat());
    let text = text.unwrap_or_default();
    Ok(html! {
        // A form in a browser sends only text, so a queue whose name is not UTF-8 has no search.
        @if let Ok(key) = std::str::from_utf8(key) {
            form.look method="get" action="queue" role="search" aria-label="Search groups" {
                input type="hidden" name="key" value=(key);
                input type="hidden" name="tab" value="groups";
                label { span { "Name contains" } input name="find" value=(String::from_utf8_lossy(text)) required autocomplete="off" spellcheck="false"; }
                button aria-label="Search groups" { "Search" }
            }
        }
        div #groups data-live {
            p.quiet {
                @if !text.is_empty() { a href=(to(&[])) { "All groups" } }
                @else if is_by_size { "Most ready jobs first. " a href=(to(&[("sort", b"name")])) { "All groups by name" } }
                @else { "By name. " a href=(to(&[])) { "Largest first" } }
            }
            @if page.groups.is_empty() {
                p.quiet { @if text.is_empty() { "No group has a job." } @else { "No such group" @if page.more_after.is_some() { " among these" } "." } }
            } @else { (table(app, key, &page.groups, &dead, now_ms)) }
        }
        nav #pages .pages data-live aria-label="Pages of groups" {
            @if let Some(last) = &page.more_after {
                a #next href=(to(&[("sort", b"name"), ("find", text), ("after", last)])) { @if text.is_empty() { "Next page" } @else { "Look further" } }
            }
        }
    })
}

/// Returns the number of dead letters of each group, at most one more than [`DEAD`].
async fn dead(server: &Server, key: &[u8], groups: &[Group]) -> RedisResult<Vec<usize>> {
    let mut pipe = pipe();
    for group in groups {
        pipe.cmd("ZQ.PEEK").arg(key).arg(&["DEAD", "NOPAYLOAD", "COUNT"]).arg(DEAD + 1).arg("GROUP").arg(&group.name);
    }
    let replies = server.ask(pipe).await?;
    replies.into_iter().map(|jobs| Ok(reply::array(&jobs?).len())).collect()
}

fn table(app: &App, key: &[u8], groups: &[Group], dead: &[usize], now_ms: u64) -> Markup {
    html! { div.scroll tabindex="0" role="region" aria-label="Groups" { table {
        thead { tr {
            th { "Group" } th.number { "Ready" } th.number { "Delayed" } th.number { "Claimed" } th.number { "Dead" } th { "Held until" }
            @if app.settings.write { th { span.hidden { "Actions" } } }
        } }
        tbody { @for (group, dead) in groups.iter().zip(dead) { tr {
            td { a href=(group.link(key, State::Ready)) { (name(&group.name)) } }
            @for (state, count) in State::ALL.into_iter().zip(group.counts) {
                td.number { @if count > 0 { a href=(group.link(key, state)) { (grouped(count)) } } @else { "0" } }
            }
            td.number {
                @if *dead > 0 { a href=(group.link(key, State::Dead)) { @if *dead > DEAD { "over " (DEAD) } @else { (dead) } } } @else { "0" }
            }
            td { @if let Some(ms) = group.held_until_ms { (moment(ms, now_ms)) } }
            @if app.settings.write { td { (hold(app, key, group, "groups", *dead > 0)) } }
        } } }
    } } }
}

/// Shows the name of the group to which a list of jobs is limited, its hold, and what can be done with it.
pub fn heading(app: &App, key: &[u8], group: &Group, state: State, now_ms: u64) -> Markup {
    html! { div #group data-live {
        p.facts {
            span { "Group: " b { (name(&group.name)) } }
            @if let Some(ms) = group.held_until_ms { span { span.badge.warn { "held" } " until " (moment(ms, now_ms)) } }
            a href=(link("queue", &[("key", key), ("tab", b"groups")])) { "All groups" }
        }
        @if app.settings.write { (hold(app, key, group, state.name(), false)) }
    } }
}

/// Shows a form that sets, replaces or ends the hold of a group, and retries its dead letters if `with_retry`.
fn hold(app: &App, key: &[u8], group: &Group, tab: &str, with_retry: bool) -> Markup {
    let of = match group.name.as_slice() {
        b"" => "the jobs without a group".to_owned(),
        name => printable(name),
    };
    form(
        app,
        key,
        "acts",
        html! {
            input type="hidden" name="tab" value=(tab);
            input type="hidden" name="group" value=(encoded(&group.name));
            input name="duration" placeholder="10m" size="5" aria-label={ "Time to hold " (of) };
            button name="do" value="hold" aria-label={ "Hold " (of) } { "Hold" }
            @if group.held_until_ms.is_some() { button name="do" value="release" aria-label={ "Release " (of) } { "Release" } }
            @if with_retry { button name="do" value="redrive" aria-label={ "Retry dead jobs of " (of) } { "Retry dead" } }
        },
    )
}

#[cfg(test)]
mod tests {
    use super::before;

    #[test]
    fn the_names_of_a_prefix_come_after_the_name_before_it() {
        for name in [&b"a"[..], b"a\0", b"\0", b"\xff\xff", b"customer:1"] {
            let before = before(name);
            assert!(before.as_slice() < name, "{name:?}");
        }
        assert!(before(b"customer:2") > b"customer:1:europe".to_vec());
        assert_eq!(before(b""), b"");
    }
}
