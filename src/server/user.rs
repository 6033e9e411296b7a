//! The user that calls a command, and the ACL checks of this user.

use super::call::Reply;
use super::context::Context;
use super::string::{OwnedStr, Str};
use crate::error::Error;
use redis_module::raw::{self, RedisModuleUser};
use std::ffi::c_int;
use std::io;
use std::ptr::NonNull;

pub struct User(NonNull<RedisModuleUser>);

impl Context {
    /// Returns the user that called the command. `None` if the caller is not a client but a script, another module or a
    /// timer.
    pub fn user(&self) -> Option<User> {
        let name = self.user_name()?;
        // SAFETY: the name is valid for the call.
        let user = unsafe { api!(RedisModule_GetModuleUserFromUserName(name.as_str().as_ptr())) };
        NonNull::new(user).map(User)
    }

    pub fn user_name(&self) -> Option<OwnedStr> {
        // SAFETY: the context is valid.
        let client = unsafe { api!(RedisModule_GetClientId(self.as_ptr())) };
        // Asks for the name by client ID, because asking for the current user's name would crash the server if another
        // module calls the command without a client. SAFETY: the context is valid and does not manage strings, so the
        // module owns the returned string. The string is null if the client does not exist or has no user.
        unsafe { OwnedStr::from_raw(api!(RedisModule_GetClientUserNameById(self.as_ptr(), client))) }
    }

    /// On Redis 7.0, returns an error if the caller's ACL does not allow RESTORE on this key. ZLB.APPLY and ZQ.APPLY
    /// call this function, because they can store any value in a key, as RESTORE can.
    ///
    /// The function calls RESTORE with the caller's rights. The TTL is invalid, so RESTORE stores nothing. But the call
    /// may find a key expired, and send an event. So no key may be open.
    ///
    /// On Redis 7.2 and later, the function does nothing, because the two commands have the ACL category `@dangerous`,
    /// and the server checks this category. On Redis 7.0, a module's commands cannot have categories.
    pub fn check_right_to_restore(&mut self, key: Str<'_>) -> Result<(), Error> {
        if has_api!(RedisModule_SetCommandACLCategories) || self.is_replayed() {
            return Ok(());
        }
        let [ttl, value] = [b"-1".as_slice(), b""].map(OwnedStr::new);
        let words = [key, ttl.as_str(), value.as_str()];
        // SAFETY: the context is valid. `C` checks the rights of the caller, if it has a user.
        let reply = unsafe { Reply::of(self.as_ptr(), c"RESTORE", c"Cv", &words) };
        let is_denied = reply.is_none() && io::Error::last_os_error().raw_os_error() == Some(libc::EACCES);
        if is_denied { Err(Error::NoRightToRestore) } else { Ok(()) }
    }
}

impl User {
    /// Whether the ACL lets the user run this command. `command` has the name and the arguments.
    pub fn may_run(&self, command: &[Str<'_>]) -> bool {
        let length = c_int::try_from(command.len()).unwrap_or(0);
        // SAFETY: the user and the strings are valid. The call does not change the strings. A `Str` is a pointer to a
        // string.
        unsafe {
            api!(RedisModule_ACLCheckCommandPermissions(self.0.as_ptr(), command.as_ptr().cast_mut().cast(), length))
                == raw::REDISMODULE_OK as c_int
        }
    }

    pub fn may_read(&self, key: Str<'_>) -> bool {
        let access = raw::REDISMODULE_CMD_KEY_ACCESS as c_int;
        // SAFETY: user and key are valid during the call.
        unsafe {
            api!(RedisModule_ACLCheckKeyPermissions(self.0.as_ptr(), key.as_ptr(), access))
                == raw::REDISMODULE_OK as c_int
        }
    }
}

impl Drop for User {
    fn drop(&mut self) {
        // SAFETY: the module owns the handle and does not use it again. The user itself remains.
        unsafe { api!(RedisModule_FreeModuleUser(self.0.as_ptr())) }
    }
}
