//! The module's data types. Registers them with the server, and reads and sets the value of an open key.

use super::context::Context;
use super::defrag;
use super::events::{self, Classes};
use super::eviction;
use super::io::{Digest, Loader, Rewriter, Saver};
use super::key::{Key, KeyHandle, KeyType, Mode, WriteKey};
use super::panic::{catch_panic, note_irreversible};
use super::string::Str;
use crate::base::relocate::Relocate;
use crate::error::Error;
use redis_module::RedisLockIndicator;
use redis_module::raw::{
    self, RedisModuleDefragCtx, RedisModuleDigest, RedisModuleIO, RedisModuleString, RedisModuleType,
    RedisModuleTypeMethods,
};
use std::collections::BTreeSet;
use std::ffi::{CStr, c_int, c_void};
use std::marker::PhantomData;
use std::ptr::{NonNull, null_mut, with_exposed_provenance};
use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// A value that a key can hold. The trait requires `Send`, because a background thread of the server frees large
/// values.
pub trait DataType: Relocate + Clone + Send + 'static {
    /// The name in RDB files: nine characters of `A-Z a-z 0-9 - _`, unique among all modules.
    const NAME: &'static CStr;
    /// The encoding version that the server stores with the type's name: 0 to 1023. This number never changes, because
    /// every encoded value begins with its own version.
    const NUMBER: c_int;
    /// The classes of keyspace events to which the module subscribes when the first value of this type exists.
    const EVENTS: Classes = Classes::NONE;

    /// Returns the static variable that holds the server's handle of the type.
    fn handle() -> &'static Handle<Self>;

    /// Decodes a value that this or an earlier version of the module saved. The bytes may be forged, because RESTORE
    /// takes them from clients. The error says what is wrong.
    fn load(from: &mut Loader<'_>) -> Result<Self, String>;

    fn save(&self, to: &mut Saver<'_>);

    /// Writes commands that rebuild the value, for the AOF.
    fn rewrite(&self, to: &mut Rewriter<'_>);

    /// Adds the value to a digest. Equal values have equal digests.
    fn digest(&self, to: &mut Digest<'_>);

    fn memory_usage(&self) -> usize;

    /// Returns the approximate number of allocations of the value. UNLINK frees a value with many allocations in the
    /// background.
    fn free_effort(&self) -> usize;
}

/// The server's handle of the data type `T`. Each type has its own handle, so every value under this handle is a `T`.
pub struct Handle<T> {
    kind: AtomicPtr<RedisModuleType>,
    values: AtomicU64,
    /// The addresses of the values that have changed since the last [`read_changed`](Handle::read_changed), as noted by
    /// [`note_changed`](Key::note_changed). The lock keeps the server's background thread from freeing a value while
    /// `read_changed` reads it.
    changed: Mutex<BTreeSet<usize>>,
    of: PhantomData<fn(T) -> T>,
}

/// The maximum number of values that [`note_changed`](Key::note_changed) notes, so that reading all of them takes less
/// than a millisecond.
const MAX_NOTED: usize = 1000;

impl<T> Handle<T> {
    pub const fn new() -> Handle<T> {
        let changed = Mutex::new(BTreeSet::new());
        Handle { kind: AtomicPtr::new(null_mut()), values: AtomicU64::new(0), changed, of: PhantomData }
    }

    /// Returns the number of values of this data type that the server holds.
    pub fn values(&self) -> u64 {
        self.values.load(Ordering::Relaxed)
    }

    fn get(&self) -> Option<NonNull<RedisModuleType>> {
        NonNull::new(self.kind.load(Ordering::Relaxed))
    }

    fn changed(&self) -> MutexGuard<'_, BTreeSet<usize>> {
        self.changed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Calls `read` with each value that [`note_changed`](Key::note_changed) has noted, and clears the list. `read`
    /// must not call the server.
    pub fn read_changed(&self, _holder: &impl RedisLockIndicator, mut read: impl FnMut(&T)) {
        let mut changed = self.changed();
        for address in std::mem::take(&mut *changed) {
            // SAFETY: the address is that of a live value, because `free` removes it first and waits for the lock. The
            // caller is a callback of the server, in which no key is open, so no mutable reference exists.
            read(unsafe { &*with_exposed_provenance(address) });
        }
    }

    /// Updates the address of a noted value ([`note_changed`](Key::note_changed)) that has moved in memory.
    fn note_moved(&self, from: usize, to: usize) {
        let mut changed = self.changed();
        if from != to && changed.remove(&from) {
            changed.insert(to);
        }
    }
}

/// Registers a data type, while the module is being loaded. Returns `false` if the server refuses it.
pub fn register<T: DataType>(ctx: &Context) -> bool {
    let mut methods = RedisModuleTypeMethods {
        // Redis 7.0 and every later server support this version. The module does not need the later forms of these
        // callbacks.
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
        // The module keeps no references to values, so it has nothing to do when a value is unlinked.
        unlink: None,
        copy: Some(copy::<T>),
        defrag: if defrag::is_offered() { Some(defrag::<T>) } else { None },
        mem_usage2: None,
        free_effort2: None,
        unlink2: None,
        copy2: None,
        aux_save2: None,
    };
    // SAFETY: the context is that of the module's loading. The server copies the table. The callbacks live as long as
    // the module, and the server never unloads a module that has a data type.
    let handle =
        unsafe { api!(RedisModule_CreateDataType(ctx.as_ptr(), T::NAME.as_ptr(), T::NUMBER, &raw mut methods)) };
    if !handle.is_null() {
        T::handle().kind.store(handle, Ordering::Relaxed);
    }
    !handle.is_null()
}

impl<M: Mode> Key<'_, M> {
    /// Returns the value, or `None` if the key does not exist. Returns an error if the key holds another type.
    pub fn value<T: DataType>(&self) -> Result<Option<&T>, Error> {
        // SAFETY: the pointer is that of a live `T`, which lives at least as long as the open key. A mutable
        // reference to it would need `&mut self`.
        Ok(value_of::<T>(&self.handle)?.map(|value| unsafe { value.as_ref() }))
    }
}

impl<'k> WriteKey<'k> {
    /// Returns a mutable reference to the key's value, and the context. Returns `None` if the key does not exist.
    /// Returns an error if the key holds another type.
    pub fn value_mut<T: DataType>(&mut self) -> Result<Option<(&mut T, &Context)>, Error> {
        note_irreversible();
        // SAFETY: as above. No other reference exists: one key is open at a time, and this borrows it mutably.
        Ok(value_of::<T>(&self.handle)?.map(|mut value| (unsafe { value.as_mut() }, &*self.kept)))
    }

    /// Notes that the value has changed, for [`Handle::read_changed`]. Returns false, and does nothing, if too many
    /// values are noted already.
    pub fn note_changed<T: DataType>(&self) -> bool {
        let mut changed = T::handle().changed();
        let fits = changed.len() < MAX_NOTED;
        if let (true, Ok(Some(value))) = (fits, value_of::<T>(&self.handle)) {
            changed.insert(value.as_ptr().expose_provenance());
        }
        fits
    }

    /// Replaces the key's value and closes the key. The server sends an event if the key is new.
    pub fn set_value<T: DataType>(mut self, value: T) -> &'k mut Context {
        eviction::note_created();
        let kind = T::handle().get().expect("the type is registered").as_ptr();
        let value = handed_over(value);
        // SAFETY: the handle is open for writing. The server owns the value from now on, and its callbacks accept it.
        let status = unsafe { api!(RedisModule_ModuleTypeSetValue(self.writable(), kind, value)) };
        debug_assert_eq!(status, raw::REDISMODULE_OK as c_int);
        let ctx = self.close();
        events::subscribe(ctx, T::EVENTS);
        ctx
    }
}

fn value_of<T: DataType>(key: &KeyHandle) -> Result<Option<NonNull<T>>, Error> {
    if key.key_type() == KeyType::Empty {
        return Ok(None);
    }
    // SAFETY: the handle is open. The result is null if the value is of no module's type.
    let kind = NonNull::new(unsafe { api!(RedisModule_ModuleTypeGetType(key.as_ptr())) });
    if kind.is_none() || kind != T::handle().get() {
        return Err(Error::WrongType);
    }
    // SAFETY: the handle is open and holds a value of this type, from `handed_over`.
    Ok(NonNull::new(unsafe { api!(RedisModule_ModuleTypeGetValue(key.as_ptr())) }.cast::<T>()))
}

/// # Safety
/// `value` must have come from `Box::<T>::into_raw`, and must not change during `'a`.
unsafe fn borrowed<'a, T>(value: *const c_void) -> &'a T {
    // SAFETY: the caller guarantees it.
    unsafe { &*value.cast::<T>() }
}

/// Passes ownership of a value to the server.
fn handed_over<T: DataType>(value: T) -> *mut c_void {
    T::handle().values.fetch_add(1, Ordering::Relaxed);
    Box::into_raw(Box::new(value)).cast()
}

unsafe extern "C" fn load<T: DataType>(io: *mut RedisModuleIO, number: c_int) -> *mut c_void {
    // RESTORE sends the key's event after this call, so the module must subscribe now.
    if !events::is_subscribed(T::EVENTS) {
        // SAFETY: the server passes the stream of this call, and frees its context afterwards.
        let ctx = unsafe { Context::from_raw(api!(RedisModule_GetContextFromIO(io))) };
        events::subscribe(&ctx, T::EVENTS);
    }
    eviction::note_created();
    let mut from = Loader(io, PhantomData);
    let value = catch_panic(|| match number == T::NUMBER {
        true => T::load(&mut from),
        false => Err(format!("written by a newer version of the module (encoding {number})")),
    });
    match value {
        Some(Ok(value)) => handed_over(value),
        Some(Err(why)) => {
            // The server's own log line says only that the value does not end where it should.
            from.log_error(&why);
            null_mut()
        }
        None => null_mut(),
    }
}

unsafe extern "C" fn save<T: DataType>(io: *mut RedisModuleIO, value: *mut c_void) {
    // SAFETY: the server passes a value of this type.
    unsafe { borrowed::<T>(value) }.save(&mut Saver(io, PhantomData));
}

unsafe extern "C" fn rewrite<T: DataType>(io: *mut RedisModuleIO, key: *mut RedisModuleString, value: *mut c_void) {
    // SAFETY: the server passes the key and a value of this type.
    let (key, value) = unsafe { (Str::from_raw(key), borrowed::<T>(value)) };
    let Some(key) = key else { return };
    value.rewrite(&mut Rewriter::new(io, key));
}

unsafe extern "C" fn digest<T: DataType>(digest: *mut RedisModuleDigest, value: *mut c_void) {
    // SAFETY: the server passes a value of this type.
    unsafe { borrowed::<T>(value) }.digest(&mut Digest(digest, PhantomData));
}

unsafe extern "C" fn memory_usage<T: DataType>(value: *const c_void) -> usize {
    // SAFETY: the server passes a value of this type.
    unsafe { borrowed::<T>(value) }.memory_usage()
}

unsafe extern "C" fn free_effort<T: DataType>(_key: *mut RedisModuleString, value: *const c_void) -> usize {
    // SAFETY: the server passes a value of this type.
    unsafe { borrowed::<T>(value) }.free_effort()
}

unsafe extern "C" fn free<T: DataType>(value: *mut c_void) {
    T::handle().changed().remove(&value.addr());
    // SAFETY: the server passes a value of this type, made by `Box::into_raw`, and does not use it again.
    drop(unsafe { Box::from_raw(value.cast::<T>()) });
    T::handle().values.fetch_sub(1, Ordering::Relaxed);
}

unsafe extern "C" fn copy<T: DataType>(
    _from: *mut RedisModuleString,
    _to: *mut RedisModuleString,
    value: *const c_void,
) -> *mut c_void {
    // SAFETY: the server passes a value of this type.
    let value = unsafe { borrowed::<T>(value) };
    catch_panic(|| value.clone()).map_or(null_mut(), handed_over)
}

unsafe extern "C" fn defrag<T: DataType>(
    ctx: *mut RedisModuleDefragCtx,
    _key: *mut RedisModuleString,
    value: *mut *mut c_void,
) -> c_int {
    // SAFETY: the server passes the address of its pointer to a value of this type.
    let from = unsafe { *value }.addr();
    // SAFETY: as above. The only other pointer to the value is its note, which is updated right after.
    let again = unsafe { defrag::defrag::<T>(ctx, value) };
    // SAFETY: as above.
    T::handle().note_moved(from, unsafe { *value }.expose_provenance());
    again
}
