//! Commands of the server, for what the module API of sorted sets lacks: counts, ranks, dumps.
//!
//! A command that is called may fail where a client's would: in a cluster that is down, for a slot that is being imported. Then what was asked is not known, and that is no number: [`Failed`].

use super::context::Context;
use super::key::ReadKey;
use super::panic::survive;
use super::string::{OwnedStr, Str};
use crate::error::Error;
use redis_module::raw::{self, RedisModuleCallReply};
use std::ffi::CStr;
use std::ptr::NonNull;

/// The server refused a command that was called: nothing is known, and nothing was done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Failed;

impl From<Failed> for Error {
    fn from(_: Failed) -> Error {
        Error::InnerCommand
    }
}

/// The reply of a command, freed when dropped.
struct Reply(NonNull<RedisModuleCallReply>);

impl Drop for Reply {
    fn drop(&mut self) {
        // SAFETY: the reply is ours, and is not used again.
        unsafe { api!(RedisModule_FreeCallReply(self.0.as_ptr())) }
    }
}

impl Reply {
    fn is(&self, kind: isize) -> bool {
        // SAFETY: the reply is valid.
        unsafe { api!(RedisModule_CallReplyType(self.0.as_ptr())) as isize == kind }
    }

    fn count(&self) -> Result<u64, Failed> {
        if !self.is(raw::REDISMODULE_REPLY_INTEGER) {
            return Err(Failed);
        }
        // SAFETY: the reply is valid, and an integer.
        let count = unsafe { api!(RedisModule_CallReplyInteger(self.0.as_ptr())) };
        u64::try_from(count).map_err(|_| Failed)
    }

    fn string(&self) -> Result<OwnedStr, Failed> {
        if !self.is(raw::REDISMODULE_REPLY_STRING) {
            return Err(Failed);
        }
        // SAFETY: the reply is valid; the string is a new one, and ours.
        unsafe { OwnedStr::from_raw(api!(RedisModule_CreateStringFromCallReply(self.0.as_ptr()))) }.ok_or(Failed)
    }
}

impl Context {
    /// Runs a command, without replicating it. It announces what it does, which runs other people's code.
    fn call(&mut self, command: &CStr, arguments: &[Str<'_>]) -> Result<Reply, Failed> {
        // SAFETY: format `v` takes an array of valid strings and its length.
        let reply = unsafe {
            api!(RedisModule_Call(self.as_ptr(), command.as_ptr(), c"v".as_ptr(), arguments.as_ptr(), arguments.len()))
        };
        NonNull::new(reply).map(Reply).ok_or(Failed)
    }

    /// Runs a command. Returns whether the server answers an error.
    pub(super) fn refuses(&mut self, command: &CStr, arguments: [&[u8]; 2]) -> bool {
        let arguments = arguments.map(OwnedStr::new);
        let reply = self.call(command, &arguments.each_ref().map(OwnedStr::as_str));
        reply.is_ok_and(|reply| reply.is(raw::REDISMODULE_REPLY_ERROR))
    }

    /// How many members of a sorted set have a score above `score`. O(log N).
    pub fn count_above(&mut self, key: Str<'_>, score: u64) -> Result<u64, Failed> {
        let min = OwnedStr::new(format!("({score}").as_bytes());
        let max = OwnedStr::new(b"+inf");
        self.call(c"ZCOUNT", &[key, min.as_str(), max.as_str()])?.count()
    }

    /// The member of a sorted set at a rank. O(log N).
    pub fn member_at(&mut self, key: Str<'_>, rank: u64) -> Result<Option<OwnedStr>, Failed> {
        let rank = OwnedStr::from_integer(i64::try_from(rank).map_err(|_| Failed)?);
        let reply = self.call(c"ZRANGE", &[key, rank.as_str(), rank.as_str()])?;
        if !reply.is(raw::REDISMODULE_REPLY_ARRAY) {
            return Err(Failed);
        }
        // SAFETY: the reply is valid; an element of it lives as long as it does, and is null where there is none.
        let element = unsafe { api!(RedisModule_CallReplyArrayElement(reply.0.as_ptr(), 0)) };
        let Some(element) = NonNull::new(element) else { return Ok(None) };
        // SAFETY: `element` is not null; the string is a new one, and ours.
        Ok(unsafe { OwnedStr::from_raw(api!(RedisModule_CreateStringFromCallReply(element.as_ptr()))) })
    }

    /// Replicates a key as it is: for when it may have changed and nobody knows any more what was done. O(N).
    pub(super) fn replicate_whole(&mut self, key: Str<'_>) {
        survive(|| {
            let expires_at = ReadKey::glance(self, key).expires_at().unwrap_or(0);
            let dump = self.call(c"DUMP", &[key]);
            let is_missing = dump.as_ref().is_ok_and(|dump| dump.is(raw::REDISMODULE_REPLY_NULL));
            match dump.and_then(|dump| dump.string()) {
                Ok(dump) => {
                    let expires_at = OwnedStr::from_integer(i64::try_from(expires_at).unwrap_or(0));
                    let [absolute, replace] = [b"ABSTTL".as_slice(), b"REPLACE"].map(OwnedStr::new);
                    let arguments = [&expires_at, &dump, &absolute, &replace].map(OwnedStr::as_str);
                    self.replicate(c"RESTORE", &[&[key], &arguments[..]].concat());
                }
                Err(Failed) if is_missing => self.replicate(c"UNLINK", &[key]),
                Err(Failed) => self.log(c"warning", "zeitset: DUMP fails, so a key cannot be replicated after a panic"),
            }
            self.signal_modified(key);
        });
    }
}
