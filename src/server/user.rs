//! The user that calls a command, and what the ACL lets this user do.

use super::context::Context;
use super::string::{OwnedStr, Str};
use crate::error::Error;
use redis_module::raw::{self, RedisModuleUser};
use std::ffi::c_int;
use std::io;
use std::ptr::NonNull;

/// The user of the client that called.
pub struct User(NonNull<RedisModuleUser>);

impl Context {
    /// `None` where the caller is no client: a script, another module, a timer.
    pub fn user(&self) -> Option<User> {
        User::named(self.user_name()?.as_str())
    }

    /// The name of the [`user`](Context::user).
    pub fn user_name(&self) -> Option<OwnedStr> {
        // SAFETY: the context is valid.
        let client = unsafe { api!(RedisModule_GetClientId(self.as_ptr())) };
        // By the number: asked for the name of the caller itself, the server would end where that is none (another module).
        // SAFETY: the context is valid, and keeps no account of strings: this one is ours; it is null for a client that there is not, or
        // that has no user.
        unsafe { OwnedStr::from_raw(api!(RedisModule_GetClientUserNameById(self.as_ptr(), client))) }
    }

    /// Returns an error if the ACL keeps the caller from RESTORE on this key: for a command that puts any value whatever into it.
    ///
    /// From Redis 7.2 on the server itself goes by the categories of the command. Redis 7.0 gives commands of modules no category, so
    /// there RESTORE is called with the caller's rights, and with a TTL that it refuses.
    pub fn check_right_to_restore(&self, key: Str<'_>) -> Result<(), Error> {
        if has_api!(RedisModule_SetCommandACLCategories) || self.is_replayed() {
            return Ok(());
        }
        let [ttl, value] = [b"-1".as_slice(), b""].map(OwnedStr::new);
        let words = [key, ttl.as_str(), value.as_str()];
        // SAFETY: format `v` takes an array of valid strings and its length; `C` checks the rights of the caller, if it has a user.
        let reply = unsafe {
            api!(RedisModule_Call(self.as_ptr(), c"RESTORE".as_ptr(), c"Cv".as_ptr(), words.as_ptr(), words.len()))
        };
        if reply.is_null() {
            let is_denied = io::Error::last_os_error().raw_os_error() == Some(libc::EACCES);
            return if is_denied { Err(Error::NoRightToRestore) } else { Ok(()) };
        }
        // SAFETY: the reply is ours, and is not used again.
        unsafe { api!(RedisModule_FreeCallReply(reply)) };
        Ok(())
    }
}

impl User {
    fn named(name: Str<'_>) -> Option<User> {
        // SAFETY: the name is valid for the call.
        let user = unsafe { api!(RedisModule_GetModuleUserFromUserName(name.as_ptr())) };
        NonNull::new(user).map(User)
    }

    /// Whether the ACL lets the user run a command: its name and its arguments, with all the keys that it has.
    pub fn may_run(&self, command: &[Str<'_>]) -> bool {
        let length = c_int::try_from(command.len()).unwrap_or(0);
        // SAFETY: the user and as many strings are valid for the call, which changes none of them. A `Str` is a pointer to a string.
        unsafe {
            api!(RedisModule_ACLCheckCommandPermissions(self.0.as_ptr(), command.as_ptr().cast_mut().cast(), length))
                == raw::REDISMODULE_OK as c_int
        }
    }

    /// Whether the ACL lets the user read what is under the key.
    pub fn may_read(&self, key: Str<'_>) -> bool {
        let access = raw::REDISMODULE_CMD_KEY_ACCESS as c_int;
        // SAFETY: user and key are valid for the call.
        unsafe {
            api!(RedisModule_ACLCheckKeyPermissions(self.0.as_ptr(), key.as_ptr(), access))
                == raw::REDISMODULE_OK as c_int
        }
    }
}

impl Drop for User {
    fn drop(&mut self) {
        // SAFETY: the handle is ours, and not used again; the user itself stays.
        unsafe { api!(RedisModule_FreeModuleUser(self.0.as_ptr())) }
    }
}
