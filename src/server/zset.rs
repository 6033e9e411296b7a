//! The sorted set in an open key.
//!
//! The module API has functions for members and score ranges. For ranks and counts, the module calls commands
//! ([`super::call`]).

use super::key::{Key, KeyHandle, KeyType, Mode, Writing};
use super::string::{OwnedStr, Str};
use crate::base::time::Millis;
use redis_module::raw;
use std::ffi::c_int;
use std::ptr::null_mut;

pub struct Element {
    pub member: OwnedStr,
    pub score: f64,
}

/// An open key that holds a sorted set, or a missing key that becomes a sorted set when the first member is put.
pub struct SortedSet<'k, M: Mode> {
    /// The open key. Callers use this field to get the context, to read or change the TTL, or to close the key.
    pub key: Key<'k, M>,
    is_empty: bool,
}

impl<'k, M: Mode> SortedSet<'k, M> {
    /// Wraps an open key. Returns `None` if the key holds a value that is not a sorted set.
    pub fn new(key: Key<'k, M>) -> Option<SortedSet<'k, M>> {
        let key_type = key.key_type();
        matches!(key_type, KeyType::Empty | KeyType::SortedSet)
            .then_some(SortedSet { key, is_empty: key_type == KeyType::Empty })
    }

    /// Returns the number of members, including expired ones. O(1).
    pub fn len(&self) -> u64 {
        // SAFETY: the handle is open, or null for an empty set.
        unsafe { api!(RedisModule_ValueLength(self.key.handle.as_ptr())) as u64 }
    }

    pub fn is_empty(&self) -> bool {
        self.is_empty
    }

    /// Returns the time at which the key expires, in Unix ms. `None` if the key has no TTL or is missing.
    pub fn expires_at(&self) -> Option<Millis> {
        if self.is_empty { None } else { self.key.handle.expires_at() }
    }

    /// Returns the score of a member. O(1), in a listpack O(N) with N at most 128.
    pub fn score(&self, member: Str<'_>) -> Option<f64> {
        if self.is_empty() {
            return None;
        }
        let mut score = 0.0;
        // SAFETY: the handle is open and holds a sorted set. The member is valid.
        let status = unsafe { api!(RedisModule_ZsetScore(self.key.handle.as_ptr(), member.as_ptr(), &raw mut score)) };
        (status == raw::REDISMODULE_OK as c_int).then_some(score)
    }

    /// Returns the member with the highest score. O(1).
    pub fn last(&mut self) -> Option<Element> {
        if self.is_empty() {
            return None;
        }
        let key = self.key.handle.as_ptr();
        // SAFETY: the handle is open and holds a sorted set. Dropping the `Range` stops the iterator.
        unsafe { api!(RedisModule_ZsetLastInScoreRange(key, f64::NEG_INFINITY, f64::INFINITY, 0, 0)) };
        ScoreRange { key: &mut self.key.handle, is_open: true }.current()
    }

    /// Returns the members from one score to another (both inclusive), lowest first. O(log N), and O(1) per step.
    pub fn range(&mut self, from: f64, to: f64) -> ScoreRange<'_> {
        if !self.is_empty() {
            // SAFETY: as in `last`.
            unsafe { api!(RedisModule_ZsetFirstInScoreRange(self.key.handle.as_ptr(), from, to, 0, 0)) };
        }
        ScoreRange { key: &mut self.key.handle, is_open: !self.is_empty }
    }
}

impl SortedSet<'_, Writing> {
    /// Sets the score of a member. Adds the member if it is missing. O(log N).
    ///
    /// If the key is new, the server sends the event `new` during this call. If another module deletes the key during
    /// this event, the server crashes.
    pub fn put(&mut self, member: Str<'_>, score: f64) {
        // SAFETY: the handle is open for writing on a sorted set or a missing key. No iterator is open, since one would
        // borrow `self`. Without flags the call cannot leave an empty set.
        let status = unsafe { api!(RedisModule_ZsetAdd(self.key.writable(), score, member.as_ptr(), null_mut())) };
        debug_assert_eq!(status, raw::REDISMODULE_OK as c_int, "fails for NaN only");
        self.is_empty = false;
    }

    /// Removes a member. If it is the last member, the server removes the key. O(log N).
    pub fn remove(&mut self, member: Str<'_>) {
        if self.is_empty() {
            return;
        }
        // SAFETY: the handle is open for writing and holds a sorted set. No iterator is open.
        unsafe { api!(RedisModule_ZsetRem(self.key.writable(), member.as_ptr(), null_mut())) };
        self.is_empty = self.key.key_type() == KeyType::Empty;
    }
}

/// An iterator over members by score. While it exists, the set cannot be changed.
pub struct ScoreRange<'s> {
    key: &'s mut KeyHandle,
    /// Whether the set exists and the server's iterator is open.
    is_open: bool,
}

impl ScoreRange<'_> {
    fn current(&mut self) -> Option<Element> {
        let mut score = 0.0;
        // SAFETY: the handle is open or null. For a null handle, the result is null. The module owns the returned
        // string and must free it.
        let member = unsafe { api!(RedisModule_ZsetRangeCurrentElement(self.key.as_ptr(), &raw mut score)) };
        // SAFETY: the string is null, or the module owns it.
        unsafe { OwnedStr::from_raw(member) }.map(|member| Element { member, score })
    }

    /// Whether the iterator is at an element. The server returns the last element even after the end, so this function
    /// asks the server whether the end was reached.
    fn here_is_some(&mut self) -> bool {
        // SAFETY: the handle is open and holds a sorted set.
        self.is_open && unsafe { api!(RedisModule_ZsetRangeEndReached(self.key.as_ptr())) } == 0
    }

    /// Returns the current element, or `None` at the end.
    fn here(&mut self) -> Option<Element> {
        self.here_is_some().then(|| self.current())?
    }

    /// Whether the range has more than `count` members. Does not read them.
    pub fn has_more_than(self, count: usize) -> bool {
        self.skip_first(count).here_is_some()
    }

    /// Skips `count` members without reading them.
    pub fn skip_first(mut self, count: usize) -> Self {
        if self.here_is_some() {
            // SAFETY: the handle is open and its iterator is at an element. At the last element, the iterator stays
            // there and the call returns 0.
            (0..count).take_while(|_| unsafe { api!(RedisModule_ZsetRangeNext(self.key.as_ptr())) } != 0).count();
        }
        self
    }
}

impl Iterator for ScoreRange<'_> {
    type Item = Element;

    fn next(&mut self) -> Option<Element> {
        let element = self.here()?;
        // SAFETY: the handle is open and its iterator is at an element.
        unsafe { api!(RedisModule_ZsetRangeNext(self.key.as_ptr())) };
        Some(element)
    }
}

impl Drop for ScoreRange<'_> {
    fn drop(&mut self) {
        if self.is_open {
            // SAFETY: the handle is open and holds a sorted set.
            unsafe { api!(RedisModule_ZsetRangeStop(self.key.as_ptr())) }
        }
    }
}
