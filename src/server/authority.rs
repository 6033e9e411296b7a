//! What this server may do without being asked by a client: change a key (sweep, heal), or serve a client that waits for one.
//!
//! A command of a client passes the server's own checks before it runs. What a timer, an event or a blocked client does passes
//! none of them, and a server that works on a key that is not its own, or that refuses the same change to every client, loses
//! data or does work twice. So the module asks first:
//!
//! | question | asked how |
//! |---|---|
//! | is it a master, and not loading? | context flags |
//! | are its writes paused (CLIENT PAUSE, a failover, the last moment of a slot that leaves)? A write then ends the server by an assertion | `RedisModule_AvoidReplicaTraffic` |
//! | in a cluster: is the key's slot its own, and the cluster's state `ok`? | a write command with this key, as a *dry run* |
//! | would a client's write be refused (min-replicas-to-write, MISCONF after a failed save or a full disk, a read-only replica)? | the same dry run in *script mode* |
//!
//! **The dry run.** `RedisModule_Call` with `D` (Redis 7.2, every Valkey) makes all the checks of a call and stops before it runs:
//! an error is the reason for a no, a null reply is a yes (and so is the empty reply of Valkey 9). Without `D` (Redis 7.0, where the letter
//! is an error in the format) the command does run: a reply is a yes then, and a null reply a no. So it is a command that changes nothing,
//! whatever the key holds, and never fails: `PEXPIREAT key 1 GT` asks for a TTL of 1970 if that is later than the one that is there.
//! INFO commandstats and MONITOR show it, so the clients that Redis 7.0 serves in one turn of its event loop share one answer.
//! With `S` the call is also refused where a script's write would be: for want of replicas, after an error of the disk, on a
//! read-only replica.
//!
//! The call is made from a context of its own, with a client that has sent nothing: that of a blocked client may still bear the
//! mark of ASKING, and would be let into a slot that is only arriving.
//!
//! **Slots.** The dry run goes by the owner of the slot, which no way of moving slots sets before the keys are complete:
//!
//! - Key by key (SETSLOT, MIGRATE): a slot that is being imported is not ours; one that is being migrated is, for the keys that are
//!   still here.
//! - As a whole, Valkey from 9.0 and Redis from 8.4: the slot is the source's until the target has taken it over, and not the
//!   source's from then on. `RedisModule_ClusterCanAccessKeysInSlot` (Redis from 8.4) says less: it also allows slots that arrive
//!   key by key.
//!
//! Cost: nothing but flags without a cluster; in a cluster, or for a client that waits, one dry run: 1 to 3 µs (Redis 7.0: 2 to 12),
//! measured with a debug build on a busy machine. A visit to a set and the serving of a client each take several calls of that
//! kind, so nothing is cached beyond a turn: the answer is true at the moment at which it is used.

use super::context::Context;
use super::shared::Shared;
use super::string::{OwnedStr, Str};
use lazy_static::lazy_static;
use redis_module::raw::{self, RedisModuleCtx};
use std::collections::HashMap;
use std::ffi::{CStr, c_int};
use std::ptr::{NonNull, null_mut};
use std::sync::atomic::{AtomicPtr, Ordering};

/// The first version with `D`, as `RedisModule_GetServerVersion` writes it. Valkey says 7.2.4.
const DRY_RUN_SINCE: c_int = 0x0007_0200;

/// The context that dry runs are made from; made when it is first needed.
static ASKER: AtomicPtr<RedisModuleCtx> = AtomicPtr::new(null_mut());

lazy_static! {
    /// Redis 7.0: whether clients that wait for a key may be served, while one after the other is. Outside a cluster the key does not
    /// matter.
    static ref TURN: Shared<Option<HashMap<Box<[u8]>, bool>>> = Shared::new(None);
}

/// Redis 7.0: clients are served now, one after the other. Nothing that [`Context::may_serve`] asks the server for changes meanwhile.
pub(super) fn begin_turn(ctx: &Context) {
    TURN.with(ctx, |turn| *turn = Some(HashMap::new()));
}

pub(super) fn end_turn(ctx: &Context) {
    TURN.with(ctx, |turn| *turn = None);
}

/// Which checks a call has to pass.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Checks {
    /// Of the cluster.
    Slot,
    /// Of the cluster, and whether writes are refused.
    Write,
}

impl Context {
    /// Whether this server may write anything by itself now, as far as that does not depend on the key.
    pub fn may_write_by_itself(&self) -> bool {
        self.is_master() && self.may_act()
    }

    /// Whether this server may change `key` by itself now: sweep it, or set its TTL.
    pub fn may_change(&mut self, key: Str<'_>) -> bool {
        self.may_write_by_itself() && (!self.is_in_cluster() || self.passes(key, Checks::Slot))
    }

    /// Whether a client that waits for `key` may be served now: whether this server would let it claim. On a writable replica
    /// it may.
    pub fn may_serve(&mut self, key: Str<'_>) -> bool {
        let is_written = self.is_master() || self.flags() & raw::REDISMODULE_CTX_FLAGS_READONLY as c_int == 0;
        is_written && self.may_act() && self.is_served_in_turn(key)
    }

    fn is_served_in_turn(&mut self, key: Str<'_>) -> bool {
        let name = if self.is_in_cluster() { key.bytes() } else { b"" };
        if let Some(answer) = TURN.with(self, |turn| turn.as_ref()?.get(name).copied()) {
            return answer;
        }
        let answer = self.passes(key, Checks::Write);
        TURN.with(self, |turn| turn.as_mut().map(|turn| turn.insert(name.into(), answer)));
        answer
    }

    /// Not loading, and writes are not paused.
    fn may_act(&self) -> bool {
        // SAFETY: takes no arguments.
        !self.is_loading() && unsafe { api!(RedisModule_AvoidReplicaTraffic()) } == 0
    }

    fn is_in_cluster(&self) -> bool {
        self.flags() & raw::REDISMODULE_CTX_FLAGS_CLUSTER as c_int != 0
    }

    /// Whether a write command with this key would be let through.
    fn passes(&mut self, key: Str<'_>, checks: Checks) -> bool {
        let asker = self.asker();
        // SAFETY: the context is the asker's, and lasts until the module is unloaded.
        if unsafe { api!(RedisModule_SelectDb(asker, self.database())) } != raw::REDISMODULE_OK as c_int {
            return false;
        }
        // SAFETY: takes no arguments.
        let is_dry = unsafe { api!(RedisModule_GetServerVersion()) } >= DRY_RUN_SINCE;
        let format = match (checks, is_dry) {
            (Checks::Slot, true) => c"Dv",
            (Checks::Write, true) => c"SDv",
            (Checks::Slot, false) => c"v",
            (Checks::Write, false) => c"Sv",
        };
        let answer = dry_run(asker, format, key);
        if is_dry { answer != Answer::Error } else { answer != Answer::None }
    }

    fn asker(&self) -> *mut RedisModuleCtx {
        let known = ASKER.load(Ordering::Relaxed);
        if !known.is_null() {
            return known;
        }
        // SAFETY: the context is valid; the new one does not depend on it.
        let asker = unsafe { api!(RedisModule_GetDetachedThreadSafeContext(self.as_ptr())) };
        ASKER.store(asker, Ordering::Relaxed);
        asker
    }
}

/// What a call answers.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Answer {
    None,
    Error,
    Other,
}

/// Calls the command that changes nothing.
fn dry_run(asker: *mut RedisModuleCtx, format: &CStr, key: Str<'_>) -> Answer {
    let [when, later] = [&b"1"[..], b"GT"].map(OwnedStr::new);
    let arguments = [key, when.as_str(), later.as_str()];
    // SAFETY: the context lasts until the module is unloaded; format `v` takes an array of valid strings and its length. The
    // server's lock is held, as the caller has a context.
    let reply = unsafe {
        api!(RedisModule_Call(asker, c"PEXPIREAT".as_ptr(), format.as_ptr(), arguments.as_ptr(), arguments.len()))
    };
    let Some(reply) = NonNull::new(reply) else { return Answer::None };
    // SAFETY: the reply is valid.
    let kind = unsafe { api!(RedisModule_CallReplyType(reply.as_ptr())) };
    // SAFETY: the reply is ours, and is not used again.
    unsafe { api!(RedisModule_FreeCallReply(reply.as_ptr())) };
    if kind == raw::REDISMODULE_REPLY_ERROR as c_int { Answer::Error } else { Answer::Other }
}

/// Gives back what questions were asked with, for the unloading of the module.
pub fn stop() {
    let asker = NonNull::new(ASKER.swap(null_mut(), Ordering::Relaxed));
    if let Some(asker) = asker {
        // SAFETY: the context is ours, and nobody asks any more.
        unsafe { api!(RedisModule_FreeThreadSafeContext(asker.as_ptr())) };
    }
}
