//! Commands of the server that the module calls, because the module API has no functions for counts and ranks in sorted
//! sets.
//!
//! A called command fails with [`Failed`] if the same command of a client would fail. This happens, for example, while
//! the cluster is down or the slot is being imported.

use super::context::Context;
use super::string::{OwnedStr, StaticStr, Str};
use crate::base::time::decimal;
use crate::error::Error;
use lazy_static::lazy_static;
use redis_module::raw::{self, RedisModuleCallReply, RedisModuleCtx};
use std::ffi::CStr;
use std::ptr::NonNull;

lazy_static! {
    static ref INFINITY: StaticStr = StaticStr::new(b"+inf");
}

/// The server refused a called command. Nothing was changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Failed;

impl From<Failed> for Error {
    fn from(_: Failed) -> Error {
        Error::InnerCommand
    }
}

/// A command's reply, freed when dropped.
pub(super) struct Reply(NonNull<RedisModuleCallReply>);

impl Drop for Reply {
    fn drop(&mut self) {
        // SAFETY: the module owns the reply and does not use it again.
        unsafe { api!(RedisModule_FreeCallReply(self.0.as_ptr())) }
    }
}

impl Reply {
    /// Calls a command. `format` has the letter `v` and modifiers of `RedisModule_Call`. Returns `None` if the server
    /// refuses the call without a reply.
    ///
    /// # Safety
    /// The context must be valid, and belong to the holder of the server's lock.
    pub(super) unsafe fn of(
        ctx: *mut RedisModuleCtx,
        command: &CStr,
        format: &CStr,
        arguments: &[Str<'_>],
    ) -> Option<Reply> {
        // SAFETY: the caller guarantees the context. Format `v` takes an array of valid strings and its length.
        NonNull::new(unsafe {
            api!(RedisModule_Call(ctx, command.as_ptr(), format.as_ptr(), arguments.as_ptr(), arguments.len()))
        })
        .map(Reply)
    }

    fn is(&self, kind: isize) -> bool {
        // SAFETY: the reply is valid.
        unsafe { api!(RedisModule_CallReplyType(self.0.as_ptr())) as isize == kind }
    }

    pub(super) fn is_error(&self) -> bool {
        self.is(raw::REDISMODULE_REPLY_ERROR)
    }

    fn count(&self) -> Result<u64, Failed> {
        if !self.is(raw::REDISMODULE_REPLY_INTEGER) {
            return Err(Failed);
        }
        // SAFETY: the reply is valid, and an integer.
        let count = unsafe { api!(RedisModule_CallReplyInteger(self.0.as_ptr())) };
        u64::try_from(count).map_err(|_| Failed)
    }

    /// Returns a string of an array. `None` if the array is shorter, or if the element is no string.
    fn string(&self, at: usize) -> Option<OwnedStr> {
        // SAFETY: the reply is valid, and an array. Its element lives as long as the reply, and is null after the end.
        let element = NonNull::new(unsafe { api!(RedisModule_CallReplyArrayElement(self.0.as_ptr(), at)) })?;
        // SAFETY: `element` is not null. The string is new, and the module owns it.
        unsafe { OwnedStr::from_raw(api!(RedisModule_CreateStringFromCallReply(element.as_ptr()))) }
    }
}

impl Context {
    /// Runs a command without replicating it. The command's keyspace events run listeners of other modules.
    fn call(&mut self, command: &CStr, arguments: &[Str<'_>]) -> Result<Reply, Failed> {
        // SAFETY: the context is valid.
        unsafe { Reply::of(self.as_ptr(), command, c"v", arguments) }.ok_or(Failed)
    }

    /// Runs a command. Returns whether the server replies with an error.
    pub(super) fn refuses(&mut self, command: &CStr, arguments: [&[u8]; 2]) -> bool {
        let arguments = arguments.map(OwnedStr::new);
        let reply = self.call(command, &arguments.each_ref().map(OwnedStr::as_str));
        reply.is_ok_and(|reply| reply.is_error())
    }

    /// Returns how many members of a sorted set have a score above `score`. O(log N).
    pub fn count_above(&mut self, key: Str<'_>, score: u64) -> Result<u64, Failed> {
        let mut min = [b'('; 21];
        let end = 1 + decimal(score, &mut min[1..]);
        let (min, max) = (OwnedStr::new(&min[..end]), INFINITY.get(self));
        self.call(c"ZCOUNT", &[key, min.as_str(), max])?.count()
    }

    /// Returns the members of a sorted set from one rank to another (both inclusive), lowest score first. O(log N + M)
    /// with M the number of members returned.
    pub fn members_at(&mut self, key: Str<'_>, from: u64, to: u64) -> Result<Vec<OwnedStr>, Failed> {
        let [from, to] = [from, to].map(|rank| OwnedStr::from_integer(i64::try_from(rank).unwrap_or(i64::MAX)));
        let reply = self.call(c"ZRANGE", &[key, from.as_str(), to.as_str()])?;
        if !reply.is(raw::REDISMODULE_REPLY_ARRAY) {
            return Err(Failed);
        }
        Ok((0..).map_while(|at| reply.string(at)).collect())
    }
}
