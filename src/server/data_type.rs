//! Data types of our own: what the server asks of one, and the value in an open key.

use super::context::Context;
use super::io::{Digest, Loader, Rewriter, Saver};
use super::key::Key;
use super::panic::survive;
use super::string::Str;
use crate::error::Error;
use redis_module::raw::{
    self, RedisModuleDigest, RedisModuleIO, RedisModuleString, RedisModuleType, RedisModuleTypeMethods,
};
use std::ffi::{CStr, c_int, c_void};
use std::ptr::{NonNull, null_mut};
use std::sync::atomic::{AtomicPtr, Ordering};

/// A value that a key can hold. `Send`, because the server frees large ones in a thread of its own.
pub trait DataType: Clone + Send + 'static {
    /// Nine characters out of `A-Z a-z 0-9 - _`. It stands in RDB files and must be unique among all modules.
    const NAME: &'static CStr;
    /// The version of what [`save`](DataType::save) writes: 0 to 1023.
    const VERSION: c_int;

    /// Where the server's handle of the type is kept.
    fn handle() -> &'static Handle;

    /// Reads a value that [`save`](DataType::save) wrote, or that anybody made up: RESTORE takes bytes from clients. `None`
    /// for what cannot be.
    fn load(from: &mut Loader<'_>, version: c_int) -> Option<Self>;

    fn save(&self, to: &mut Saver<'_>);

    /// Writes commands that make the value anew.
    fn rewrite(&self, to: &mut Rewriter<'_>);

    /// Equal values have equal digests.
    fn digest(&self, to: &mut Digest<'_>);

    /// Bytes.
    fn memory_usage(&self) -> usize;

    /// Roughly the number of allocations.
    fn free_effort(&self) -> usize;
}

/// The server's handle of a data type, once it is registered.
pub struct Handle(AtomicPtr<RedisModuleType>);

impl Handle {
    pub const fn new() -> Handle {
        Handle(AtomicPtr::new(null_mut()))
    }

    fn get(&self) -> *mut RedisModuleType {
        self.0.load(Ordering::Relaxed)
    }
}

/// Tells the server of a data type; `false` if it would not take it. Only while the module is being loaded.
pub fn register<T: DataType>(ctx: Context<'_>) -> bool {
    let mut methods = RedisModuleTypeMethods {
        // What Redis 7.0 and every later server know; the later forms of the same callbacks offer nothing we need.
        version: 3,
        rdb_load: Some(load::<T>),
        rdb_save: Some(save::<T>),
        aof_rewrite: Some(rewrite::<T>),
        mem_usage: Some(memory_usage::<T>),
        digest: Some(digest::<T>),
        free: Some(free::<T>),
        aux_load: None,
        aux_save: None,
        aux_save_triggers: 0,
        free_effort: Some(free_effort::<T>),
        // Nothing outside the value refers to it.
        unlink: None,
        copy: Some(copy::<T>),
        defrag: None,
        mem_usage2: None,
        free_effort2: None,
        unlink2: None,
        copy2: None,
        aux_save2: None,
    };
    // SAFETY: the context is that of the module's loading; the server copies the table; the callbacks live as long as
    // the module, which the server does not unload once it has a data type.
    let handle =
        unsafe { api!(RedisModule_CreateDataType(ctx.as_ptr(), T::NAME.as_ptr(), T::VERSION, &raw mut methods)) };
    T::handle().0.store(handle, Ordering::Relaxed);
    !handle.is_null()
}

impl Key<'_> {
    /// The value, if the key holds one; an error if it holds one of another type.
    pub fn value<T: DataType>(&self) -> Result<Option<&T>, Error> {
        // SAFETY: the pointer is that of a live `T`, which goes only with the key, which this handle keeps open.
        Ok(self.pointer::<T>()?.map(|value| unsafe { value.as_ref() }))
    }

    /// The value, to be changed. The key must be open for writing.
    pub fn value_mut<T: DataType>(&mut self) -> Result<Option<&mut T>, Error> {
        // SAFETY: as above; the key is opened once at a time, so nobody else has a reference.
        Ok(self.pointer::<T>()?.map(|mut value| unsafe { value.as_mut() }))
    }

    /// Puts a value into the key, which must be open for writing and hold nothing.
    pub fn set_value<T: DataType>(&mut self, value: T) {
        let value = Box::into_raw(Box::new(value)).cast::<c_void>();
        // SAFETY: the handle is open for writing; the value is one that the callbacks of its type take, and is the
        // server's from now on.
        let status = unsafe { api!(RedisModule_ModuleTypeSetValue(self.as_ptr(), T::handle().get(), value)) };
        debug_assert_eq!(status, raw::REDISMODULE_OK as c_int);
    }

    fn pointer<T: DataType>(&self) -> Result<Option<NonNull<T>>, Error> {
        // SAFETY: the handle is open, or null, which means an empty key.
        let kind = unsafe { api!(RedisModule_KeyType(self.as_ptr())) } as isize;
        if kind == raw::REDISMODULE_KEYTYPE_EMPTY {
            return Ok(None);
        }
        // SAFETY: the handle is open; the answer is null where the value is of no module's type.
        if unsafe { api!(RedisModule_ModuleTypeGetType(self.as_ptr())) } != T::handle().get() {
            return Err(Error::WrongType);
        }
        // SAFETY: the handle is open and holds a value of this type: one made by `set_value`, `load` or `copy`.
        Ok(NonNull::new(unsafe { api!(RedisModule_ModuleTypeGetValue(self.as_ptr())) }.cast::<T>()))
    }
}

/// Runs a callback that writes a file. A value cut short would pass for a whole one, and the server has no way to be told of it;
/// so a panic ends the process, which is nearly always the child that saves, and leaves the former file in its place.
fn whole(callback: impl FnOnce()) {
    survive(callback).unwrap_or_else(|| std::process::abort());
}

/// # Safety
/// `value` must have come from `Box::<T>::into_raw`, and nobody may change it during `'a`.
unsafe fn borrowed<'a, T>(value: *const c_void) -> &'a T {
    // SAFETY: the caller vouches for it.
    unsafe { &*value.cast::<T>() }
}

fn boxed<T>(value: Option<T>) -> *mut c_void {
    value.map_or(null_mut(), |value| Box::into_raw(Box::new(value)).cast())
}

unsafe extern "C" fn load<T: DataType>(io: *mut RedisModuleIO, version: c_int) -> *mut c_void {
    // SAFETY: the server passes the stream of this call.
    let mut from = unsafe { Loader::new(io) };
    boxed(
        survive(|| {
            fault!("load");
            T::load(&mut from, version)
        })
        .flatten(),
    )
}

unsafe extern "C" fn save<T: DataType>(io: *mut RedisModuleIO, value: *mut c_void) {
    // SAFETY: the server passes the stream of this call and a value of this type.
    let (mut to, value) = unsafe { (Saver::new(io), borrowed::<T>(value)) };
    whole(|| {
        fault!("save");
        value.save(&mut to);
    });
}

unsafe extern "C" fn rewrite<T: DataType>(io: *mut RedisModuleIO, key: *mut RedisModuleString, value: *mut c_void) {
    // SAFETY: the server passes the stream, the key and a value of this type.
    let (key, value) = unsafe { (Str::from_raw(key), borrowed::<T>(value)) };
    let Some(key) = key else { return };
    // SAFETY: as above.
    let mut to = unsafe { Rewriter::new(io, key) };
    whole(|| {
        fault!("rewrite");
        value.rewrite(&mut to);
    });
}

unsafe extern "C" fn digest<T: DataType>(digest: *mut RedisModuleDigest, value: *mut c_void) {
    // SAFETY: the server passes the digest of this call and a value of this type.
    let (mut to, value) = unsafe { (Digest::new(digest), borrowed::<T>(value)) };
    survive(|| {
        fault!("digest");
        value.digest(&mut to);
    });
}

unsafe extern "C" fn memory_usage<T: DataType>(value: *const c_void) -> usize {
    // SAFETY: the server passes a value of this type.
    let value = unsafe { borrowed::<T>(value) };
    survive(|| {
        fault!("memory-usage");
        value.memory_usage()
    })
    .unwrap_or(0)
}

unsafe extern "C" fn free_effort<T: DataType>(_key: *mut RedisModuleString, value: *const c_void) -> usize {
    // SAFETY: the server passes a value of this type.
    let value = unsafe { borrowed::<T>(value) };
    survive(|| {
        fault!("free-effort");
        value.free_effort()
    })
    .unwrap_or(1)
}

unsafe extern "C" fn free<T: DataType>(value: *mut c_void) {
    // SAFETY: the server passes a value of this type, made by `Box::into_raw`, and forgets it.
    let value = unsafe { Box::from_raw(value.cast::<T>()) };
    survive(|| {
        fault!("free");
        drop(value);
    });
}

unsafe extern "C" fn copy<T: DataType>(
    _from: *mut RedisModuleString,
    _to: *mut RedisModuleString,
    value: *const c_void,
) -> *mut c_void {
    // SAFETY: the server passes a value of this type.
    let value = unsafe { borrowed::<T>(value) };
    boxed(survive(|| {
        fault!("copy");
        value.clone()
    }))
}
