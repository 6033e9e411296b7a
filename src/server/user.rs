//! The user that calls a command, and what the ACL lets this user do.

use super::context::Context;
use super::string::{OwnedStr, Str};
use redis_module::raw::{self, RedisModuleUser};
use std::ffi::c_int;
use std::ptr::NonNull;

/// The user of the client that called.
pub struct User(NonNull<RedisModuleUser>);

impl Context {
    /// `None` where the caller is no client: a script, another module, a timer.
    pub fn user(&self) -> Option<User> {
        // SAFETY: the context is valid.
        let client = unsafe { api!(RedisModule_GetClientId(self.as_ptr())) };
        // By the number: asked for the name of the caller itself, the server would end where that is none (another module).
        // SAFETY: the context is valid, and keeps no account of strings: this one is ours; it is null for a client that there is not, or
        // that has no user.
        let name = unsafe { OwnedStr::from_raw(api!(RedisModule_GetClientUserNameById(self.as_ptr(), client))) }?;
        // SAFETY: the name is valid for the call.
        let user = unsafe { api!(RedisModule_GetModuleUserFromUserName(name.as_str().as_ptr())) };
        NonNull::new(user).map(User)
    }
}

impl User {
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
