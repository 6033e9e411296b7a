//! Commands of the server, for what the module API of sorted sets lacks: counts, ranks, dumps.

use super::context::Context;
use super::key::{Key, Mode};
use super::panic::survive;
use super::string::{OwnedStr, Str};
use redis_module::raw::RedisModuleCallReply;
use std::ffi::CStr;
use std::ptr::NonNull;

/// The reply of a command, freed when dropped.
struct Reply(NonNull<RedisModuleCallReply>);

impl Drop for Reply {
    fn drop(&mut self) {
        // SAFETY: the reply is ours, and is not used again.
        unsafe { api!(RedisModule_FreeCallReply(self.0.as_ptr())) }
    }
}

impl Context<'_> {
    /// Runs a command, without replicating it. No handle may be open on its key.
    fn call(self, command: &CStr, arguments: &[Str<'_>]) -> Option<Reply> {
        // SAFETY: format `v` takes an array of valid strings and its length.
        let reply = unsafe {
            api!(RedisModule_Call(self.as_ptr(), command.as_ptr(), c"v".as_ptr(), arguments.as_ptr(), arguments.len()))
        };
        NonNull::new(reply).map(Reply)
    }

    /// How many members of a sorted set have a score above `score`. O(log N).
    pub fn count_above(self, key: Str<'_>, score: u64) -> u64 {
        let min = OwnedStr::new(format!("({score}").as_bytes());
        let max = OwnedStr::new(b"+inf");
        let reply = self.call(c"ZCOUNT", &[key, min.as_str(), max.as_str()]);
        let count = reply.map_or(0, |reply| {
            // SAFETY: the reply is valid; the server answers -1 or so where it is no integer.
            unsafe { api!(RedisModule_CallReplyInteger(reply.0.as_ptr())) }
        });
        u64::try_from(count).unwrap_or(0)
    }

    /// Removes the `count` members of a sorted set with the lowest scores, here alone: replicating is the caller's.
    /// O(log N + count).
    pub fn remove_lowest(self, key: Str<'_>, count: u64) {
        let Ok(last) = i64::try_from(count) else { return };
        let (first, last) = (OwnedStr::from_integer(0), OwnedStr::from_integer(last - 1));
        drop(self.call(c"ZREMRANGEBYRANK", &[key, first.as_str(), last.as_str()]));
    }

    /// The member of a sorted set at a rank. O(log N).
    pub fn member_at(self, key: Str<'_>, rank: u64) -> Option<OwnedStr> {
        let rank = OwnedStr::from_integer(i64::try_from(rank).ok()?);
        let reply = self.call(c"ZRANGE", &[key, rank.as_str(), rank.as_str()])?;
        // SAFETY: the reply is valid; an element of it lives as long as it does, and is null where there is none.
        let element = unsafe { api!(RedisModule_CallReplyArrayElement(reply.0.as_ptr(), 0)) };
        let element = NonNull::new(element)?;
        // SAFETY: `element` is not null; the string is a new one, and ours.
        unsafe { OwnedStr::from_raw(api!(RedisModule_CreateStringFromCallReply(element.as_ptr()))) }
    }

    /// Replicates a key as it is: for when it may have changed and nobody knows any more what was done. O(N). No handle may be
    /// open on it.
    pub(super) fn replicate_whole(self, key: Str<'_>) {
        survive(|| {
            let expires_at = Key::open(self, key, Mode::Glance).expires_at().unwrap_or(0);
            let dump = self.call(c"DUMP", &[key]).and_then(|dump| {
                // SAFETY: the reply is valid; the string is a new one, and ours, and null where the reply is none.
                unsafe { OwnedStr::from_raw(api!(RedisModule_CreateStringFromCallReply(dump.0.as_ptr()))) }
            });
            match dump {
                Some(dump) => {
                    let expires_at = OwnedStr::from_integer(i64::try_from(expires_at).unwrap_or(0));
                    let [absolute, replace] = [b"ABSTTL".as_slice(), b"REPLACE"].map(OwnedStr::new);
                    let arguments = [&expires_at, &dump, &absolute, &replace].map(OwnedStr::as_str);
                    self.replicate(c"RESTORE", &[&[key], &arguments[..]].concat());
                }
                None => self.replicate(c"DEL", &[key]),
            }
            self.signal_modified(key);
        });
    }
}
