//! The search in the head of every page: queues by a part of their name, a job by its ID in all queues, a limit by its
//! key, and a member of sets and boards.
//!
//! A search reads a bounded part of the server's data. The page says what was not read.

use super::parts::{moment, name};
use super::query::{Query, link};
use super::{Page, Shared, layout};
use crate::server::{Denied, Key, Server, State, message, reply, unlisted};
use crate::text::grouped;
use crate::watch::{MOST_QUEUES, micros};
use maud::{Markup, html};
use redis::{RedisResult, Value, pipe};
use std::time::Instant;

/// The maximum number of results of each type.
const ROWS: usize = 25;

/// The number of queues per call of ZQ.LIST.
const NAMES: usize = 500;
/// ZQ.GET returns whole jobs. So the first pipeline asks few queues, and the next ones more, as long as no job is found.
const FIRST: usize = 16;

/// A search for members reads at most this number of keys, by calls of SCAN with this COUNT.
const SCANS: usize = 10;
const KEYS_PER_SCAN: usize = 1_000;

/// The member that marks an expiring set (docs/formats.md).
const TAG: &[u8] = b"zeitset:expiring";

pub async fn page(axum::extract::State(app): Shared, query: Query) -> Page {
    let text = query.get("q").unwrap_or_default();
    let from = Place::read(&query);
    let start = Instant::now();
    let body = if text.is_empty() {
        html! { p.quiet { "Enter the ID of a job, the name of a queue or a limit, or a member of a set or a board." } }
    } else {
        let server = &app.server;
        let is_first = from == Place::default();
        let (jobs, limits, members) = tokio::join!(
            async { if is_first { Some(jobs_and_queues(server, text).await) } else { None } },
            async { if is_first { Some(limits(server, text).await) } else { None } },
            members(server, text, from)
        );
        html! {
            @match jobs { Some(Ok(found)) => (found.show(text)), Some(Err(error)) => (failed("Queues", &unlisted(&error))), None => {} }
            @match limits { Some(Ok(found)) => (limits_of(&found)), Some(Err(error)) => (failed("Limits", &message(&error))), None => {} }
            @match members { Ok(found) => (found.show(text)), Err(error) => (failed("Sets and boards", &message(&error))) }
        }
    };
    let body = html! {
        h1 { "Search" @if !text.is_empty() { ": " (name(text)) } }
        (body)
        @if !text.is_empty() { p.quiet { "Searched in " (start.elapsed().as_millis()) " ms." } }
    };
    Ok(layout::still(&app, "", "Search", body).await)
}

fn failed(what: &str, why: &str) -> Markup {
    html! { p.notice.bad role="alert" { (what) " cannot be searched: " (why) } }
}

#[derive(Default)]
struct Queues {
    /// Queues with a job of this ID, and the job's state.
    jobs: Vec<(Key, State)>,
    /// Queues whose names contain the text. The queue of this name comes first.
    queues: Vec<Key>,
    searched: usize,
    has_more: bool,
}

async fn jobs_and_queues(server: &Server, text: &[u8]) -> RedisResult<Queues> {
    let mut found = Queues::default();
    let mut after = Key::new();
    loop {
        let names = server.queues_after(&after, NAMES).await?;
        let mut rest = names.as_slice();
        let mut most = FIRST;
        while !rest.is_empty() && found.jobs.len() < ROWS {
            let (asked, later) = rest.split_at(most.min(rest.len()));
            let mut pipe = pipe();
            for queue in asked {
                pipe.cmd("ZQ.GET").arg(queue).arg(text);
            }
            let before = found.jobs.len();
            for (queue, job) in asked.iter().zip(server.ask(pipe).await?) {
                // If the key now holds another type, the reply is an error.
                let job = job.unwrap_or(Value::Nil);
                let state = reply::pairs(&job).into_iter().find(|(field, _)| field == "state");
                let state = state.and_then(|(_, state)| State::parse(reply::bytes(state)?));
                found.jobs.extend(state.map(|state| (queue.clone(), state)));
            }
            most = if found.jobs.len() > before { FIRST } else { most * 4 };
            rest = later;
        }
        let is_match = |name: &&Key| name.windows(text.len()).any(|part| part.eq_ignore_ascii_case(text));
        found.queues.extend(names.iter().filter(is_match).cloned());
        found.searched += names.len();
        match names.last() {
            Some(last) if names.len() == NAMES && found.searched < MOST_QUEUES => after.clone_from(last),
            last => {
                found.has_more = last.is_some() && names.len() == NAMES;
                break;
            }
        }
    }
    found.queues.sort_by_key(|name| name != text);
    Ok(found)
}

impl Queues {
    fn show(&self, text: &[u8]) -> Markup {
        let jobs = self.jobs.iter().take(ROWS);
        html! {
            section #jobs {
                h2 { "Jobs" }
                @if self.jobs.is_empty() { p.quiet { "No job has this ID." } } @else {
                    ul.found { @for (queue, state) in jobs { li {
                        a href=(link("job", &[("key", queue), ("id", text)])) { (name(text)) }
                        " " span.badge.(state.name()) { (state.name()) } " in "
                        a href=(link("queue", &[("key", queue)])) { (name(queue)) }
                    } } }
                    @if self.jobs.len() >= ROWS { p.quiet { "There may be more." } }
                }
            }
            section #queues {
                h2 { "Queues" }
                @if self.queues.is_empty() { p.quiet { "No queue has such a name." } } @else {
                    ul.found { @for queue in self.queues.iter().take(ROWS) { li { a href=(link("queue", &[("key", queue)])) { (name(queue)) } } } }
                    @if self.queues.len() > ROWS {
                        p.quiet { a href=(link("queues", &[("filter", text)])) { "and " (grouped((self.queues.len() - ROWS) as u64)) " more" } }
                    }
                }
                p.quiet {
                    @if self.has_more { "The first " (grouped(self.searched as u64)) " queues by name were searched." }
                    @else { (grouped(self.searched as u64)) " queues were searched." }
                }
            }
        }
    }
}

/// Returns the limit with this key, and the keys among those denied most that contain the text.
async fn limits(server: &Server, text: &[u8]) -> RedisResult<Vec<Key>> {
    let mut pipe = pipe();
    pipe.cmd("ZRL.INFO").arg(text).cmd("ZRL.TOP").arg(&["COUNT", "256"]);
    let mut replies = server.ask(pipe).await?.into_iter();
    // If the key holds something else, the reply is an error.
    let own = replies.next().expect("ZRL.INFO").is_ok_and(|info| !matches!(info, Value::Nil));
    let top: Vec<Denied> = reply::read(replies.next().expect("ZRL.TOP"))?;
    let others = top.into_iter().map(|denied| denied.key).filter(|key| key != text);
    let others = others.filter(|key| key.windows(text.len()).any(|part| part.eq_ignore_ascii_case(text)));
    Ok(own.then(|| text.to_vec()).into_iter().chain(others).collect())
}

fn limits_of(found: &[Key]) -> Markup {
    html! { section #limits {
        h2 { "Limits" }
        @if found.is_empty() { p.quiet { "No limit has this key, and none that was denied contains it." } } @else {
            ul.found { @for key in found.iter().take(ROWS) { li { a href=(link("limits", &[("key", key)])) { (name(key)) } } } }
        }
    } }
}

/// Where the scans of sorted sets and of boards continue. `None` if a scan is complete.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Place([Option<u64>; 2]);

impl Default for Place {
    fn default() -> Place {
        Place([Some(0); 2])
    }
}

impl Place {
    const NAMES: [&str; 2] = ["sets", "boards"];

    fn read(query: &Query) -> Place {
        Place(Self::NAMES.map(|name| match query.text(name).as_str() {
            "" => Some(0),
            text => text.parse().ok(),
        }))
    }
}

#[derive(Default)]
struct Members {
    /// Expiring sets with the member, and when it expires.
    sets: Vec<(Key, u64)>,
    /// Boards with the member, and its rank from 0.
    boards: Vec<(Key, u64)>,
    now_ms: u64,
    next: Place,
}

async fn members(server: &Server, text: &[u8], mut at: Place) -> RedisResult<Members> {
    let mut found = Members { now_ms: micros(&server.one(&[b"TIME"]).await?) / 1000, ..Members::default() };
    for _ in 0..SCANS {
        let scans = at.0.iter().zip(["zset", "zeitboard"]).filter_map(|(cursor, kind)| Some(((*cursor)?, kind)));
        let scans: Vec<(u64, &str)> = scans.collect();
        if scans.is_empty() || found.sets.len() + found.boards.len() >= ROWS {
            break;
        }
        let mut pipe = pipe();
        for (cursor, kind) in &scans {
            pipe.cmd("SCAN").arg(*cursor).arg("COUNT").arg(KEYS_PER_SCAN).arg("TYPE").arg(*kind);
        }
        let mut keys: [Vec<Key>; 2] = Default::default();
        for ((_, kind), reply) in scans.iter().zip(server.ask(pipe).await?) {
            let place = usize::from(*kind != "zset");
            let reply = reply?;
            let [next, page] = reply::array(&reply) else { continue };
            at.0[place] = reply::count(next).filter(|next| *next != 0);
            keys[place] = reply::array(page).iter().filter_map(reply::bytes).map(<[u8]>::to_vec).collect();
        }
        found.look(server, text, &keys).await?;
    }
    found.next = at;
    Ok(found)
}

impl Members {
    async fn look(&mut self, server: &Server, text: &[u8], [sets, boards]: &[Vec<Key>; 2]) -> RedisResult<()> {
        let mut pipe = pipe();
        for key in sets {
            pipe.cmd("ZMSCORE").arg(key).arg(TAG).arg(text);
        }
        for key in boards {
            pipe.cmd("ZLB.GET").arg(key).arg(text);
        }
        let replies = server.ask(pipe).await?;
        for (key, reply) in sets.iter().chain(boards).zip(&replies).take(sets.len()) {
            // If the key is gone or holds another type, the reply is null or an error.
            let Ok([tag, score]) = reply.as_ref().map(reply::array) else { continue };
            let (Some(tag), Some(score)) = (self::score(tag), self::score(score)) else { continue };
            if tag == f64::NEG_INFINITY && score > self.now_ms as f64 {
                self.sets.push((key.clone(), score as u64));
            }
        }
        for (key, reply) in boards.iter().zip(&replies[sets.len()..]) {
            let Ok([row]) = reply.as_ref().map(reply::array) else { continue };
            if let Some(rank) = reply::array(row).first().and_then(reply::count) {
                self.boards.push((key.clone(), rank));
            }
        }
        Ok(())
    }

    fn show(&self, text: &[u8]) -> Markup {
        let next = Place::NAMES
            .iter()
            .zip(self.next.0)
            .map(|(name, at)| (*name, at.map_or("end".into(), |at| at.to_string())));
        let next: Vec<(&str, String)> = next.collect();
        let next: Vec<(&str, &[u8])> = next.iter().map(|(name, at)| (*name, at.as_bytes())).collect();
        html! {
            section #sets {
                h2 { "Sets" }
                @if self.sets.is_empty() { p.quiet { "No expiring set has this member." } } @else {
                    ul.found { @for (key, at_ms) in self.sets.iter().take(ROWS) { li {
                        a href=(link("sets", &[("key", key), ("member", text)])) { (name(key)) }
                        @if *at_ms < NEVER_MS { ", expires " (moment(*at_ms, self.now_ms)) } @else { ", never expires" }
                    } } }
                }
            }
            section #boards {
                h2 { "Boards" }
                @if self.boards.is_empty() { p.quiet { "No board has this member." } } @else {
                    ul.found { @for (key, rank) in self.boards.iter().take(ROWS) { li {
                        a href=(link("boards", &[("key", key), ("member", text)])) { (name(key)) } ", place " (grouped(rank + 1))
                    } } }
                }
                @if self.next.0 != [None; 2] {
                    p.quiet {
                        "Only some keys were searched for the member. "
                        a #next href=(link("search", &[&[("q", text)], &next[..]].concat())) { "Look further" }
                    }
                }
            }
        }
    }
}

/// The score of a member without expiry.
const NEVER_MS: u64 = (1 << 53) - 1;

fn score(value: &Value) -> Option<f64> {
    match value {
        Value::Double(score) => Some(*score),
        value => std::str::from_utf8(reply::bytes(value)?).ok()?.parse().ok(),
    }
}
