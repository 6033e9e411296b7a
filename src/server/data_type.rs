//! Data types of our own: what the server asks of one, and the value in an open key.

use super::context::Context;
use super::defrag;
use super::events::{self, Classes};
use super::io::{Digest, Loader, Rewriter, Saver};
use super::key::{Access, Handle as KeyHandle, Key, WriteKey};
use super::panic::enter_module;
use super::string::Str;
use crate::error::Error;
use crate::model::relocate::Relocate;
use redis_module::raw::{
    self, RedisModuleDigest, RedisModuleIO, RedisModuleString, RedisModuleType, RedisModuleTypeMethods,
};
use std::ffi::{CStr, c_int, c_void};
use std::marker::PhantomData;
use std::ptr::{NonNull, null_mut};
use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering};

/// A value that a key can hold. `Send`, because the server frees large ones in a thread of its own.
pub trait DataType: Relocate + Clone + Send + 'static {
    /// Nine characters out of `A-Z a-z 0-9 - _`. It stands in RDB files and must be unique among all modules.
    const NAME: &'static CStr;
    /// The number that the server keeps with the name of the type: 0 to 1023. It says nothing and never changes: every value begins
    /// with its own version, which its reader knows.
    const NUMBER: c_int;
    /// Keyspace events to subscribe to when the first value is there.
    const EVENTS: Classes = Classes::NONE;

    /// Where the server's handle of the type is kept.
    fn handle() -> &'static Handle<Self>;

    /// Reads a value that [`save`](DataType::save) wrote, now or in an earlier version, or that anybody made up: RESTORE takes bytes
    /// from clients. An error says why it is no value.
    fn load(from: &mut Loader<'_>) -> Result<Self, String>;

    fn save(&self, to: &mut Saver<'_>);

    /// Writes commands that make the value again.
    fn rewrite(&self, to: &mut Rewriter<'_>);

    /// Equal values have equal digests.
    fn digest(&self, to: &mut Digest<'_>);

    /// Bytes.
    fn memory_usage(&self) -> usize;

    /// Roughly the number of allocations.
    fn free_effort(&self) -> usize;
}

/// The server's handle of the data type `T`, once it is registered. No other type can have it, and so what the server keeps under it
/// is a `T`.
pub struct Handle<T> {
    kind: AtomicPtr<RedisModuleType>,
    values: AtomicU64,
    of: PhantomData<fn(T) -> T>,
}

impl<T> Handle<T> {
    pub const fn new() -> Handle<T> {
        Handle { kind: AtomicPtr::new(null_mut()), values: AtomicU64::new(0), of: PhantomData }
    }

    /// The number of values that the server has.
    pub fn values(&self) -> u64 {
        self.values.load(Ordering::Relaxed)
    }

    fn get(&self) -> Option<NonNull<RedisModuleType>> {
        NonNull::new(self.kind.load(Ordering::Relaxed))
    }
}

/// Tells the server of a data type; `false` if it would not take it. Only while the module is being loaded.
pub fn register<T: DataType>(ctx: &Context) -> bool {
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
        defrag: if defrag::is_offered() { Some(defrag::defrag::<T>) } else { None },
        mem_usage2: None,
        free_effort2: None,
        unlink2: None,
        copy2: None,
        aux_save2: None,
    };
    // SAFETY: the context is that of the module's loading; the server copies the table; the callbacks live as long as
    // the module, which the server does not unload once it has a data type.
    let handle =
        unsafe { api!(RedisModule_CreateDataType(ctx.as_ptr(), T::NAME.as_ptr(), T::NUMBER, &raw mut methods)) };
    if !handle.is_null() {
        T::handle().kind.store(handle, Ordering::Relaxed);
    }
    !handle.is_null()
}

impl<A: Access> Key<'_, A> {
    /// The value, if the key holds one; an error if it holds one of another type.
    pub fn value<T: DataType>(&self) -> Result<Option<&T>, Error> {
        // SAFETY: the pointer is that of a live `T`. It goes only with the key, which is open as long as the reference lives, and a
        // reference for changing it would borrow `self` alone.
        Ok(value_of::<T>(&self.handle)?.map(|value| unsafe { value.as_ref() }))
    }
}

impl<'k> WriteKey<'k> {
    /// The value, to be changed, and what of the context does no harm meanwhile.
    pub fn value_mut<T: DataType>(&mut self) -> Result<Option<(&mut T, &Context)>, Error> {
        // SAFETY: as above; no other reference lives, since there is one open key at a time, and this borrows it alone.
        Ok(value_of::<T>(&self.handle)?.map(|mut value| (unsafe { value.as_mut() }, &*self.kept)))
    }

    /// Puts a value into the key in place of what it holds, and closes the key: the server announces keys that are new.
    pub fn set_value<T: DataType>(mut self, value: T) -> &'k mut Context {
        let kind = T::handle().get().expect("the type is registered").as_ptr();
        let value = handed_over(value);
        // SAFETY: the handle is open for writing; the value is one that the callbacks of its type take, and is the
        // server's from now on.
        let status = unsafe { api!(RedisModule_ModuleTypeSetValue(self.writable(), kind, value)) };
        debug_assert_eq!(status, raw::REDISMODULE_OK as c_int);
        let ctx = self.close();
        events::subscribe(ctx, T::EVENTS);
        ctx
    }
}

fn value_of<T: DataType>(key: &KeyHandle) -> Result<Option<NonNull<T>>, Error> {
    // SAFETY: the handle is open, or null, which means an empty key.
    let kind = unsafe { api!(RedisModule_KeyType(key.as_ptr())) } as isize;
    if kind == raw::REDISMODULE_KEYTYPE_EMPTY {
        return Ok(None);
    }
    // SAFETY: the handle is open; the answer is null where the value is of no module's type.
    let kind = NonNull::new(unsafe { api!(RedisModule_ModuleTypeGetType(key.as_ptr())) });
    if kind.is_none() || kind != T::handle().get() {
        return Err(Error::WrongType);
    }
    // SAFETY: the handle is open and holds a value of this type: one that was handed over.
    Ok(NonNull::new(unsafe { api!(RedisModule_ModuleTypeGetValue(key.as_ptr())) }.cast::<T>()))
}

/// Runs a callback that writes a file. A value cut short would pass for a whole one, and the server has no way to be told of it;
/// so a panic ends the process, which is nearly always the child that saves, and leaves the former file in its place.
fn write_whole(place: &'static str, callback: impl FnOnce()) {
    enter_module(place, callback).unwrap_or_else(|| std::process::abort());
}

/// # Safety
/// `value` must have come from `Box::<T>::into_raw`, and nobody may change it during `'a`.
unsafe fn borrowed<'a, T>(value: *const c_void) -> &'a T {
    // SAFETY: the caller vouches for it.
    unsafe { &*value.cast::<T>() }
}

/// A value that is the server's from now on, until it has it freed.
fn handed_over<T: DataType>(value: T) -> *mut c_void {
    T::handle().values.fetch_add(1, Ordering::Relaxed);
    Box::into_raw(Box::new(value)).cast()
}

unsafe extern "C" fn load<T: DataType>(io: *mut RedisModuleIO, number: c_int) -> *mut c_void {
    // RESTORE announces the key after this.
    if !events::is_subscribed(T::EVENTS) {
        // SAFETY: the server passes the stream of this call, and frees its context afterwards.
        let ctx = unsafe { Context::from_raw(api!(RedisModule_GetContextFromIO(io))) };
        events::subscribe(&ctx, T::EVENTS);
    }
    // SAFETY: the server passes the stream of this call.
    let mut from = unsafe { Loader::new(io) };
    enter_module("load", || load_or_say_why::<T>(&mut from, number)).flatten().map_or(null_mut(), handed_over)
}

/// Without a line by the module, all that the log has is the server's: that the value does not end where it should.
fn load_or_say_why<T: DataType>(from: &mut Loader<'_>, number: c_int) -> Option<T> {
    if number != T::NUMBER {
        from.complain(format_args!("a newer version of the module has written it (number {number})"));
        return None;
    }
    T::load(from).map_err(|why| from.complain(format_args!("{why}"))).ok()
}

unsafe extern "C" fn save<T: DataType>(io: *mut RedisModuleIO, value: *mut c_void) {
    // SAFETY: the server passes the stream of this call and a value of this type.
    let (mut to, value) = unsafe { (Saver::new(io), borrowed::<T>(value)) };
    write_whole("save", || value.save(&mut to));
}

unsafe extern "C" fn rewrite<T: DataType>(io: *mut RedisModuleIO, key: *mut RedisModuleString, value: *mut c_void) {
    // SAFETY: the server passes the stream, the key and a value of this type.
    let (key, value) = unsafe { (Str::from_raw(key), borrowed::<T>(value)) };
    let Some(key) = key else { return };
    // SAFETY: as above.
    let mut to = unsafe { Rewriter::new(io, key) };
    write_whole("rewrite", || value.rewrite(&mut to));
}

unsafe extern "C" fn digest<T: DataType>(digest: *mut RedisModuleDigest, value: *mut c_void) {
    // SAFETY: the server passes the digest of this call and a value of this type.
    let (mut to, value) = unsafe { (Digest::new(digest), borrowed::<T>(value)) };
    enter_module("digest", || value.digest(&mut to));
}

unsafe extern "C" fn memory_usage<T: DataType>(value: *const c_void) -> usize {
    // SAFETY: the server passes a value of this type.
    let value = unsafe { borrowed::<T>(value) };
    enter_module("memory-usage", || value.memory_usage()).unwrap_or(0)
}

unsafe extern "C" fn free_effort<T: DataType>(_key: *mut RedisModuleString, value: *const c_void) -> usize {
    // SAFETY: the server passes a value of this type.
    let value = unsafe { borrowed::<T>(value) };
    enter_module("free-effort", || value.free_effort()).unwrap_or(1)
}

unsafe extern "C" fn free<T: DataType>(value: *mut c_void) {
    // SAFETY: the server passes a value of this type, made by `Box::into_raw`, and forgets it.
    let value = unsafe { Box::from_raw(value.cast::<T>()) };
    T::handle().values.fetch_sub(1, Ordering::Relaxed);
    enter_module("free", || drop(value));
}

unsafe extern "C" fn copy<T: DataType>(
    _from: *mut RedisModuleString,
    _to: *mut RedisModuleString,
    value: *const c_void,
) -> *mut c_void {
    // SAFETY: the server passes a value of this type.
    let value = unsafe { borrowed::<T>(value) };
    enter_module("copy", || value.clone()).map_or(null_mut(), handed_over)
}
