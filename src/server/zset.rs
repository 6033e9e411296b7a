//! The sorted set in an open key.
//!
//! The module API knows members and score ranges, but no ranks and no counts; those are commands ([`super::call`]).

use super::context::Context;
use super::key::{Access, Handle, Holds, Key, ReadKey, Reading, WriteKey, Writing};
use super::string::{OwnedStr, Str};
use crate::model::time::Millis;
use redis_module::raw;
use std::ffi::c_int;
use std::ptr::null_mut;

/// A member and its score.
pub struct Element {
    pub member: OwnedStr,
    pub score: f64,
}

/// One end of a range of scores.
#[derive(Clone, Copy, Debug)]
pub enum Bound {
    From(f64),
    /// Exclusive.
    Beyond(f64),
}

impl Bound {
    fn parts(self) -> (f64, c_int) {
        match self {
            Bound::From(score) => (score, 0),
            Bound::Beyond(score) => (score, 1),
        }
    }
}

/// An open key that holds a sorted set, or nothing (which becomes a sorted set with the first member).
pub struct SortedSet<'k, A: Access> {
    key: Key<'k, A>,
    is_empty: bool,
}

impl<'k, A: Access> SortedSet<'k, A> {
    /// `None` when the key holds something else.
    pub fn new(key: Key<'k, A>) -> Option<SortedSet<'k, A>> {
        let holds = key.holds();
        matches!(holds, Holds::Nothing | Holds::SortedSet)
            .then_some(SortedSet { key, is_empty: holds == Holds::Nothing })
    }

    pub fn key(&self) -> &Key<'k, A> {
        &self.key
    }

    /// See [`Key::ctx`].
    pub fn ctx(&self) -> &Context {
        self.key.ctx()
    }

    /// Number of members, dead ones included. O(1).
    pub fn len(&self) -> u64 {
        // SAFETY: the handle is open, or null, which counts as empty.
        unsafe { api!(RedisModule_ValueLength(self.key.handle.as_ptr())) as u64 }
    }

    pub fn is_empty(&self) -> bool {
        self.is_empty
    }

    /// The score of a member. O(1), in a listpack O(N) with N at most 128.
    pub fn score(&self, member: Str<'_>) -> Option<f64> {
        if self.is_empty() {
            return None;
        }
        let mut score = 0.0;
        // SAFETY: the handle is open and holds a sorted set; the member is valid.
        let status = unsafe { api!(RedisModule_ZsetScore(self.key.handle.as_ptr(), member.as_ptr(), &raw mut score)) };
        (status == raw::REDISMODULE_OK as c_int).then_some(score)
    }

    /// The member with the highest score. O(1).
    pub fn last(&mut self) -> Option<Element> {
        if self.is_empty() {
            return None;
        }
        let key = self.key.handle.as_ptr();
        // SAFETY: the handle is open and holds a sorted set; the iterator is stopped by its drop.
        unsafe { api!(RedisModule_ZsetLastInScoreRange(key, f64::NEG_INFINITY, f64::INFINITY, 0, 0)) };
        Range { key: &mut self.key.handle, is_open: true }.current()
    }

    /// The first member within the range. O(log N).
    pub fn first(&mut self, from: Bound) -> Option<Element> {
        self.range(from, f64::INFINITY).here()
    }

    /// The members from one score to another (inclusive), lowest first. O(log N), and O(1) a step.
    pub fn range(&mut self, from: Bound, to: f64) -> Range<'_> {
        let (min, exclusive) = from.parts();
        if !self.is_empty() {
            // SAFETY: as in `last`.
            unsafe { api!(RedisModule_ZsetFirstInScoreRange(self.key.handle.as_ptr(), min, to, exclusive, 0)) };
        }
        Range { key: &mut self.key.handle, is_open: !self.is_empty }
    }
}

impl<'k> SortedSet<'k, Reading> {
    /// See [`ReadKey::shared_ctx`].
    pub fn shared_ctx(&self) -> &'k Context {
        ReadKey::shared_ctx(&self.key)
    }
}

impl<'k> SortedSet<'k, Writing> {
    /// Sets the score of a member, adding it if need be. O(log N).
    ///
    /// If the key is new, the server says so in the middle of this to modules that asked for the event `new`. One that deletes
    /// the key there ends the server, as it does in the server's own ZADD.
    pub fn put(&mut self, member: Str<'_>, score: f64) {
        // SAFETY: the handle is open for writing on a sorted set or nothing; no iterator is open, since one would
        // borrow `self`; without flags the call cannot leave an empty set behind.
        let status = unsafe { api!(RedisModule_ZsetAdd(self.key.writable(), score, member.as_ptr(), null_mut())) };
        debug_assert_eq!(status, raw::REDISMODULE_OK as c_int, "fails for NaN only");
        self.is_empty = false;
    }

    /// Removes a member, and the key with its last one. O(log N).
    pub fn remove(&mut self, member: Str<'_>) {
        if self.is_empty() {
            return;
        }
        // SAFETY: the handle is open for writing and holds a sorted set; no iterator is open.
        unsafe { api!(RedisModule_ZsetRem(self.key.writable(), member.as_ptr(), null_mut())) };
        self.is_empty = self.key.holds() == Holds::Nothing;
    }

    /// See [`WriteKey::expire_at`].
    pub fn expire_at(&mut self, at: Millis) {
        self.key.expire_at(at);
    }

    /// See [`WriteKey::close`].
    pub fn close(self) -> &'k mut Context {
        WriteKey::close(self.key)
    }

    /// See [`WriteKey::unlink`].
    pub fn unlink(self) -> &'k mut Context {
        WriteKey::unlink(self.key)
    }
}

/// An iterator over members in the order of their scores. While it lives, the set cannot be changed.
pub struct Range<'s> {
    key: &'s mut Handle,
    /// Whether there is a set to go through.
    is_open: bool,
}

impl Range<'_> {
    fn current(&mut self) -> Option<Element> {
        let mut score = 0.0;
        // SAFETY: the handle is open (or null, which answers null); the string returned is ours.
        let member = unsafe { api!(RedisModule_ZsetRangeCurrentElement(self.key.as_ptr(), &raw mut score)) };
        // SAFETY: as just said.
        unsafe { OwnedStr::from_raw(member) }.map(|member| Element { member, score })
    }

    /// Whether the iterator stands on an element. Past the end the server goes on showing the last one, so the end has to be asked for.
    fn here_is_some(&mut self) -> bool {
        // SAFETY: the handle is open and holds a sorted set.
        self.is_open && unsafe { api!(RedisModule_ZsetRangeEndReached(self.key.as_ptr())) } == 0
    }

    /// The element at which the iterator stands, unless that is the end.
    fn here(&mut self) -> Option<Element> {
        self.here_is_some().then(|| self.current())?
    }

    /// Passes over some members, without looking at them.
    pub fn pass(mut self, count: usize) -> Self {
        if self.here_is_some() {
            // SAFETY: the handle is open and its iterator stands on an element; at the last one it stays, and says so.
            (0..count).take_while(|_| unsafe { api!(RedisModule_ZsetRangeNext(self.key.as_ptr())) } != 0).count();
        }
        self
    }
}

impl Iterator for Range<'_> {
    type Item = Element;

    fn next(&mut self) -> Option<Element> {
        let element = self.here()?;
        // SAFETY: the handle is open and its iterator stands on an element.
        unsafe { api!(RedisModule_ZsetRangeNext(self.key.as_ptr())) };
        Some(element)
    }
}

impl Drop for Range<'_> {
    fn drop(&mut self) {
        if self.is_open {
            // SAFETY: the handle is open and holds a sorted set.
            unsafe { api!(RedisModule_ZsetRangeStop(self.key.as_ptr())) }
        }
    }
}
