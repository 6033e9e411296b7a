//! Sets the markers again of sets that plain commands have changed.
//!
//! A plain command may give a set a later last member than its TTL allows for: then the key would go, and take living members along.
//! So the server's housekeeping looks after each of them, within a second. This deletes nothing, and is done with sweeping switched
//! off, too.

use super::timed_set::TimedSet;
use super::tracker;
use crate::config;
use crate::model::marker::Kind;
use crate::model::place::Place;
use crate::model::tracking::visit_at;
use crate::server::context;
use crate::server::key::ReadKey;
use crate::server::zset::SortedSet;
use crate::server::{Context, OwnedStr, Str, survive};
use std::time::Instant;

/// Heals touched sets, for as long as a slice may take.
pub(super) fn heal_touched(ctx: &mut Context) {
    let started = Instant::now();
    let mut last = None;
    while started.elapsed() < config::SWEEP_SLICE.get() {
        let Some(place) = tracker::next_touched(ctx, last.as_ref()) else { return };
        if !ctx.may_write_by_itself() {
            return;
        }
        if survive(|| heal_set(ctx, &place)) != Some(true) {
            // Not now. The set is an expiring set, so it is not given up.
            tracker::heal_later(ctx, &place);
        }
        last = Some(place);
    }
}

/// Sets the marker of a touched set again, and notes when it is next worth a visit. `false` if this server may not do it now.
fn heal_set(ctx: &mut Context, place: &Place) -> bool {
    crate::server::fault!("heal");
    let Place { database, key } = place;
    let name = OwnedStr::new(key);
    let name = name.as_str();
    if tracker::is_arriving(ctx, name) || !(ctx.select(*database) && has_ttl(ctx, name)) {
        // Not ours, or gone, or of another type, or without a TTL: PERSIST is somebody's word.
        tracker::forget(ctx, *database, name);
        return true;
    }
    if !ctx.may_change(name) {
        return false;
    }
    let Ok(mut set) = TimedSet::to_sweep(ctx, name, true) else { return false };
    let (lowest, highest) = (set.lowest(), set.highest());
    let due = lowest.map(visit_at);
    let is_past = highest.and_then(|highest| Kind::Expiring.ttl(highest)).is_some_and(|ttl| ttl <= context::now());
    let (ctx, news) = if is_past { (set.close(), None) } else { set.commit_quietly() };
    tracker::update(ctx, |tracking, _| match due {
        None => tracking.forget(*database, key),
        Some(due) if is_past => tracking.give_up(*database, key, due),
        Some(due) => tracking.mended(*database, key, due),
    });
    if let Some(news) = news {
        news.announce(ctx, name);
    }
    true
}

/// Whether there is a sorted set of this name that has a TTL.
fn has_ttl(ctx: &mut Context, name: Str<'_>) -> bool {
    SortedSet::new(ReadKey::glance(ctx, name)).is_some_and(|set| set.key().expires_at().is_some())
}
