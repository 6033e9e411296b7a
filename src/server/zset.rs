//! The sorted set in an open key.
//!
//! The module API knows members and score ranges, but no ranks and no counts; those are commands ([`super::call`]).

use super::key::{Holds, Key};
use super::string::{OwnedStr, Str};
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
pub struct SortedSet<'a>(Key<'a>);

impl<'a> SortedSet<'a> {
    /// `None` when the key holds something else.
    pub fn new(key: Key<'a>) -> Option<SortedSet<'a>> {
        (key.holds() != Holds::SomethingElse).then_some(SortedSet(key))
    }

    pub fn key(&self) -> &Key<'a> {
        &self.0
    }

    pub fn key_mut(&mut self) -> &mut Key<'a> {
        &mut self.0
    }

    /// Number of members, dead ones included. O(1).
    pub fn len(&self) -> u64 {
        // SAFETY: the handle is open, or null, which counts as empty.
        unsafe { api!(RedisModule_ValueLength(self.0.as_ptr())) as u64 }
    }

    pub fn is_empty(&self) -> bool {
        self.0.holds() == Holds::Nothing
    }

    /// The score of a member. O(1), in a listpack O(N) with N at most 128.
    pub fn score(&self, member: Str<'_>) -> Option<f64> {
        if self.is_empty() {
            return None;
        }
        let mut score = 0.0;
        // SAFETY: the handle is open and holds a sorted set; the member is valid.
        let status = unsafe { api!(RedisModule_ZsetScore(self.0.as_ptr(), member.as_ptr(), &raw mut score)) };
        (status == raw::REDISMODULE_OK as c_int).then_some(score)
    }

    /// Sets the score of a member, adding it if need be. The key must be open for writing. O(log N).
    pub fn put(&mut self, member: Str<'_>, score: f64) {
        // SAFETY: the handle is open for writing on a sorted set or nothing; no iterator is open, since one would
        // borrow `self`; without flags the call cannot leave an empty set behind.
        let status = unsafe { api!(RedisModule_ZsetAdd(self.0.as_ptr(), score, member.as_ptr(), null_mut())) };
        debug_assert_eq!(status, raw::REDISMODULE_OK as c_int, "fails for NaN only");
    }

    /// Removes a member, and the key with its last one. The key must be open for writing. O(log N).
    pub fn remove(&mut self, member: Str<'_>) {
        if self.is_empty() {
            return;
        }
        // SAFETY: the handle is open for writing and holds a sorted set; no iterator is open.
        unsafe { api!(RedisModule_ZsetRem(self.0.as_ptr(), member.as_ptr(), null_mut())) };
    }

    /// The member with the highest score. O(1).
    pub fn last(&mut self) -> Option<Element> {
        if self.is_empty() {
            return None;
        }
        // SAFETY: the handle is open and holds a sorted set; the iterator is stopped by its drop.
        unsafe { api!(RedisModule_ZsetLastInScoreRange(self.0.as_ptr(), f64::NEG_INFINITY, f64::INFINITY, 0, 0)) };
        Range { set: self }.current()
    }

    /// The first member within the range. O(log N).
    pub fn first(&mut self, from: Bound) -> Option<Element> {
        self.range(from, f64::INFINITY).here()
    }

    /// The members from one score to another (inclusive), lowest first. O(log N), and O(1) a step.
    pub fn range(&mut self, from: Bound, to: f64) -> Range<'_, 'a> {
        let (min, exclusive) = from.parts();
        if !self.is_empty() {
            // SAFETY: as in `last`.
            unsafe { api!(RedisModule_ZsetFirstInScoreRange(self.0.as_ptr(), min, to, exclusive, 0)) };
        }
        Range { set: self }
    }
}

/// An iterator over members in the order of their scores. While it lives, the set cannot be changed.
pub struct Range<'s, 'a> {
    set: &'s mut SortedSet<'a>,
}

impl Range<'_, '_> {
    fn current(&mut self) -> Option<Element> {
        let mut score = 0.0;
        // SAFETY: the handle is open (or null, which answers null); the string returned is ours.
        let member = unsafe { api!(RedisModule_ZsetRangeCurrentElement(self.set.0.as_ptr(), &raw mut score)) };
        // SAFETY: as just said.
        unsafe { OwnedStr::from_raw(member) }.map(|member| Element { member, score })
    }
}

impl Range<'_, '_> {
    /// The element at which the iterator stands, unless that is the end.
    fn here(&mut self) -> Option<Element> {
        if self.set.is_empty() {
            return None;
        }
        // Past the end the server goes on showing the last element, so the end has to be asked for.
        // SAFETY: the handle is open and holds a sorted set.
        if unsafe { api!(RedisModule_ZsetRangeEndReached(self.set.0.as_ptr())) } != 0 {
            return None;
        }
        self.current()
    }
}

impl Iterator for Range<'_, '_> {
    type Item = Element;

    fn next(&mut self) -> Option<Element> {
        let element = self.here()?;
        // SAFETY: the handle is open and its iterator stands on an element.
        unsafe { api!(RedisModule_ZsetRangeNext(self.set.0.as_ptr())) };
        Some(element)
    }
}

impl Drop for Range<'_, '_> {
    fn drop(&mut self) {
        if !self.set.is_empty() {
            // SAFETY: the handle is open and holds a sorted set.
            unsafe { api!(RedisModule_ZsetRangeStop(self.set.0.as_ptr())) }
        }
    }
}
