//! Decides whether this server may act without a client's command: delete expired members, restore the tag
//! `zeitset:expiring` of a set, or serve a waiting client.
//!
//! Before a client's command runs, the server checks whether it may run. For a timer, an event or a blocked client, the
//! server checks nothing. If the module changed another node's key, or made a change that the server refuses to every
//! client, data would be lost or work would be done twice. So the module first asks the server:
//!
//! | question | asked how |
//! |---|---|
//! | is the server a master, and not loading? | context flags |
//! | are writes paused (CLIENT PAUSE, a failover, the end of a slot migration)? If so, a write would end the server by an assertion | `RedisModule_AvoidReplicaTraffic` |
//! | in a cluster: does this server own the key's slot, and is the cluster's state `ok`? | a write command with this key, as a *dry run* |
//! | would a client's write be refused (min-replicas-to-write, MISCONF after a failed save or a full disk, a read-only replica)? | the same dry run in *script mode* |
//!
//! **The dry run.** `RedisModule_Call` with the letter `D` in its format (Redis 7.2, every Valkey) makes all checks of
//! a call, but does not run the command. An error means no. A null reply, or the empty reply of Valkey 9, means yes.
//!
//! Redis 7.0 does not know `D`, so the module omits the letter there and the command runs. A reply means yes, and a
//! null reply means no. So the command must never fail and must change nothing, whatever the key holds. `PEXPIREAT key
//! 1 GT` is such a command: it replaces only an expiry time before 1970, and no key has one. On Redis 7.0, INFO
//! commandstats and MONITOR show the command. To run the command less often, the module reuses an answer within one
//! iteration of Redis 7.0's event loop.
//!
//! With the letter `S`, the server also refuses the call if it would refuse a script's write: because of too few
//! replicas, a disk error, or a read-only replica.
//!
//! The dry run uses a separate context, because the blocked client may still have the ASKING flag. With this flag, the
//! server would accept the call for a slot that is still being imported.
//!
//! **Slots.** The dry run depends on the slot's owner, which changes only when all keys of the slot have arrived:
//!
//! - Key by key (SETSLOT, MIGRATE): the dry run refuses all keys of a slot that this server is importing. In a slot
//!   that this server is migrating, the dry run accepts only the keys that have not moved yet.
//! - Atomically (Valkey from 9.0, Redis from 8.4): the source owns the slot until the target takes it over.
//!   `RedisModule_ClusterCanAccessKeysInSlot` (Redis from 8.4) also allows slots that are imported key by key, so the
//!   module does not use it.
//!
//! Cost: without a cluster, only flags are read. In a cluster, or for a waiting client, one dry run takes 1 to 3 µs
//! (Redis 7.0: 2 to 12 µs), measured with a debug build on a busy machine. To check a set or to serve a client, the
//! module makes several calls of similar cost anyway. So the module caches no answer, except within one iteration of
//! Redis 7.0's event loop.

use super::call::Reply;
use super::context::Context;
use super::string::{OwnedStr, Str};
use super::under_lock::UnderLock;
use lazy_static::lazy_static;
use redis_module::raw::{self, RedisModuleCtx};
use std::collections::HashMap;
use std::ffi::{CStr, c_int};
use std::ptr::{NonNull, null_mut};
use std::sync::atomic::{AtomicPtr, Ordering};

/// Redis 7.2, the first version whose `RedisModule_Call` accepts the letter `D`, for a dry run. Valkey also accepts
/// `D`, and reports version 7.2.4.
const DRY_RUN_SINCE: c_int = 0x0007_0200;

/// The context of all dry runs, which ask whether the server would accept a command. The first dry run creates this
/// context.
static DRY_RUN_CONTEXT: AtomicPtr<RedisModuleCtx> = AtomicPtr::new(null_mut());

lazy_static! {
    /// For each key, whether the server would accept a write command in this iteration of the event loop (see
    /// [`begin_iteration`]). Outside a cluster, all keys share one answer. Used only on Redis 7.0.
    static ref ACCEPTED: UnderLock<Option<HashMap<Box<[u8]>, bool>>> = UnderLock::new(None);
}

/// Begins an iteration of the event loop of Redis 7.0. During an iteration, [`Context::may_serve`] asks the server at
/// most once per key.
pub(super) fn begin_iteration(ctx: &Context) {
    ACCEPTED.with(ctx, |turn| *turn = Some(HashMap::new()));
}

pub(super) fn end_iteration(ctx: &Context) {
    ACCEPTED.with(ctx, |turn| *turn = None);
}

impl Context {
    /// Whether the module may write now, without a client's command. Checks the server's state, but not whether this
    /// server owns a given key: see [`may_change`](Context::may_change).
    pub fn may_write_by_itself(&self) -> bool {
        self.is_master() && self.may_act()
    }

    /// Whether this server may now change `key` without a client's command, for example to delete expired members.
    pub fn may_change(&mut self, key: Str<'_>) -> bool {
        self.may_write_by_itself() && (!self.is_in_cluster() || self.would_accept(key, [c"Dv", c"v"]))
    }

    /// Whether this server would accept the claim of a client that waits for `key`. A writable replica accepts claims,
    /// too.
    pub fn may_serve(&mut self, key: Str<'_>) -> bool {
        let is_written = self.is_master() || self.flags() & raw::REDISMODULE_CTX_FLAGS_READONLY as c_int == 0;
        is_written && self.may_act() && self.is_served_in_turn(key)
    }

    fn is_served_in_turn(&mut self, key: Str<'_>) -> bool {
        let name = if self.is_in_cluster() { key.bytes() } else { b"" };
        if let Some(answer) = ACCEPTED.with(self, |turn| turn.as_ref()?.get(name).copied()) {
            return answer;
        }
        let answer = self.would_accept(key, [c"SDv", c"Sv"]);
        ACCEPTED.with(self, |turn| turn.as_mut().map(|turn| turn.insert(name.into(), answer)));
        answer
    }

    fn may_act(&self) -> bool {
        // SAFETY: takes no arguments.
        !self.is_loading() && unsafe { api!(RedisModule_AvoidReplicaTraffic()) } == 0
    }

    fn is_in_cluster(&self) -> bool {
        self.flags() & raw::REDISMODULE_CTX_FLAGS_CLUSTER as c_int != 0
    }

    /// Whether the server would accept a write command with this key. `dry` and `plain` are formats of
    /// `RedisModule_Call`. Redis 7.0 gets `plain`, because it does not know the letter `D` (dry run).
    fn would_accept(&mut self, key: Str<'_>, [dry, plain]: [&CStr; 2]) -> bool {
        let dry_run_context = self.dry_run_context();
        // SAFETY: the context of dry runs exists until the module is unloaded.
        if unsafe { api!(RedisModule_SelectDb(dry_run_context, self.database())) } != raw::REDISMODULE_OK as c_int {
            return false;
        }
        // SAFETY: takes no arguments.
        let is_dry = unsafe { api!(RedisModule_GetServerVersion()) } >= DRY_RUN_SINCE;
        let format = if is_dry { dry } else { plain };
        let [when, later] = [&b"1"[..], b"GT"].map(OwnedStr::new);
        // SAFETY: the context of dry runs exists until the module is unloaded. `self` is the context of a call,
        // so the server's lock is held.
        let reply = unsafe { Reply::of(dry_run_context, c"PEXPIREAT", format, &[key, when.as_str(), later.as_str()]) };
        if is_dry { reply.is_none_or(|reply| !reply.is_error()) } else { reply.is_some() }
    }

    fn dry_run_context(&self) -> *mut RedisModuleCtx {
        let known = DRY_RUN_CONTEXT.load(Ordering::Relaxed);
        if !known.is_null() {
            return known;
        }
        // SAFETY: the context is valid. The new one does not depend on it.
        let dry_run_context = unsafe { api!(RedisModule_GetDetachedThreadSafeContext(self.as_ptr())) };
        DRY_RUN_CONTEXT.store(dry_run_context, Ordering::Relaxed);
        dry_run_context
    }
}

/// Frees the context in `DRY_RUN_CONTEXT` before the module is unloaded.
pub fn stop() {
    let dry_run_context = NonNull::new(DRY_RUN_CONTEXT.swap(null_mut(), Ordering::Relaxed));
    if let Some(dry_run_context) = dry_run_context {
        // SAFETY: the module owns the context, and no dry run follows.
        unsafe { api!(RedisModule_FreeThreadSafeContext(dry_run_context.as_ptr())) };
    }
}
