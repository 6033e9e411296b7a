//! Sorted sets that were just restored, and may be limits: RESTORE (and so MIGRATE) sends the TTL as remaining time, which shifts
//! the marker. Nothing is written to such a set on suspicion; it is believed when a command names it as a limit.

use crate::model::limit::marker;
use crate::model::limit::sliding::Entry;
use crate::server::key::ReadKey;
use crate::server::shared::Shared;
use crate::server::zset::SortedSet;
use crate::server::{Context, Str};
use hashbrown::{DefaultHashBuilder, HashSet};
use lazy_static::lazy_static;
use std::hash::BuildHasher;

/// That many are noted, 8 bytes each; then the older half is forgotten.
const MOST: usize = 1_000_000;

lazy_static! {
    static ref RESTORED: Shared<Restored> = Shared::new(Restored::default());
}

#[derive(Default)]
struct Restored {
    hasher: DefaultHashBuilder,
    newer: HashSet<u64>,
    older: HashSet<u64>,
}

impl Restored {
    fn sign(&self, database: i32, name: Str<'_>) -> u64 {
        self.hasher.hash_one((database, name.bytes()))
    }
}

/// To be called when a key was restored.
pub fn note_key(ctx: &mut Context, name: Str<'_>) {
    let Some(mut set) = SortedSet::new(ReadKey::glance(ctx, name)) else { return };
    let Some(last) = set.last() else { return };
    let (ttl, database) = (set.key().expires_at(), set.key().database());
    let may_be = Entry::parse(last.score, last.member.bytes())
        .is_ok_and(|last| !marker::holds(last.at, ttl) && marker::held_before_restore(last.at, ttl));
    drop((set, last));
    if may_be && let Some(database) = database {
        RESTORED.with(ctx, |restored| {
            if restored.newer.len() >= MOST / 2 {
                restored.older = std::mem::take(&mut restored.newer);
            }
            let sign = restored.sign(database, name);
            restored.newer.insert(sign);
        });
    }
}

pub fn is_noted(ctx: &Context, name: Str<'_>) -> bool {
    RESTORED.with(ctx, |restored| {
        if restored.newer.is_empty() && restored.older.is_empty() {
            return false;
        }
        let sign = restored.sign(ctx.database(), name);
        restored.newer.contains(&sign) || restored.older.contains(&sign)
    })
}

/// To be called when its marker has been set again.
pub fn forget(ctx: &Context, name: Str<'_>) {
    RESTORED.with(ctx, |restored| {
        let sign = restored.sign(ctx.database(), name);
        let _ = restored.newer.remove(&sign) || restored.older.remove(&sign);
    });
}
