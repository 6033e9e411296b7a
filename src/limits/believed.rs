//! Sorted sets of which it is known that they are limits: looked through once under the TTL they have.
//!
//! That a set is a limit is said by its TTL together with its entries: all of them, or a thousand of a larger set. To look at these with every
//! call would cost more than the call; so what was believed once, or written by us, is remembered for as long as the TTL stays what it is and
//! the key is not deleted, replaced or moved by anybody. A name means another key in another database.

use crate::model::limit::remembered::Remembered;
use crate::model::time::Millis;
use crate::server::shared::Shared;
use crate::server::{Context, Str};
use hashbrown::DefaultHashBuilder;
use lazy_static::lazy_static;
use std::hash::BuildHasher;

lazy_static! {
    static ref BELIEVED: Shared<Believed> = Shared::new(Believed::default());
}

#[derive(Default)]
struct Believed {
    hasher: DefaultHashBuilder,
    sets: Remembered,
}

impl Believed {
    fn key(&self, ctx: &Context, name: Str<'_>) -> u64 {
        self.hasher.hash_one((ctx.database(), name.bytes()))
    }
}

/// A TTL as a mark. Those of two moments are the same once in 2^32.
fn mark(ttl: Millis) -> u32 {
    // Fibonacci hashing (D. Knuth, The Art of Computer Programming, 6.4): the high half of the product.
    u32::try_from(ttl.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32).unwrap_or(0)
}

pub fn is_known(ctx: &Context, name: Str<'_>, ttl: Millis) -> bool {
    BELIEVED.with(ctx, |believed| {
        let key = believed.key(ctx, name);
        believed.sets.has(key, mark(ttl))
    })
}

pub fn remember(ctx: &Context, name: Str<'_>, ttl: Millis) {
    BELIEVED.with(ctx, |believed| {
        let key = believed.key(ctx, name);
        believed.sets.put(key, mark(ttl));
    });
}

/// To be called when the key may be another one from now on.
pub fn forget(ctx: &Context, name: Str<'_>) {
    BELIEVED.with(ctx, |believed| {
        // Called for everybody's keys, and most servers have few limits of more than one entry, or none.
        if !believed.sets.is_empty() {
            let key = believed.key(ctx, name);
            believed.sets.forget(key);
        }
    });
}

/// To be called when databases are flushed or swapped.
pub fn forget_all(ctx: &Context) {
    BELIEVED.with(ctx, |believed| believed.sets.clear());
}
