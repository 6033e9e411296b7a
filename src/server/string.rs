//! Strings of the server. Arguments and key names are borrowed, other strings are owned. A string holds any bytes, not
//! only text.

use crate::base::time::decimal;
use redis_module::RedisLockIndicator;
use redis_module::raw::RedisModuleString;
use std::ffi::c_int;
use std::fmt;
use std::marker::PhantomData;
use std::ptr::{NonNull, null_mut};
use std::slice;

/// A string that its owner keeps alive for `'a`.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub struct Str<'a> {
    string: NonNull<RedisModuleString>,
    keeper: PhantomData<&'a ()>,
}

impl<'a> Str<'a> {
    /// # Safety
    /// `string` must be null or a valid string of the server that stays valid and unchanged for `'a`.
    pub(super) unsafe fn from_raw(string: *mut RedisModuleString) -> Option<Str<'a>> {
        NonNull::new(string).map(|string| Str { string, keeper: PhantomData })
    }

    /// Borrows the arguments of a command.
    ///
    /// # Safety
    /// `argv` must hold `argc` strings that are valid for `'a`. `argv` may be null if `argc` is 0.
    pub(super) unsafe fn arguments(argv: *mut *mut RedisModuleString, argc: c_int) -> &'a [Str<'a>] {
        let count = usize::try_from(argc).unwrap_or(0);
        // The server passes a null array if the module is loaded without arguments.
        if count == 0 {
            return &[];
        }
        // SAFETY: `Str` is a transparent wrapper of a non-null pointer. The caller guarantees the array.
        unsafe { slice::from_raw_parts(argv.cast::<Str<'a>>(), count) }
    }

    pub(super) fn as_ptr(self) -> *mut RedisModuleString {
        self.string.as_ptr()
    }

    pub fn bytes(self) -> &'a [u8] {
        let mut length = 0;
        // SAFETY: the string is valid for 'a.
        let start = unsafe { api!(RedisModule_StringPtrLen(self.as_ptr(), &raw mut length)) };
        // SAFETY: the server guarantees `length` bytes, which do not change during 'a.
        unsafe { slice::from_raw_parts(start.cast::<u8>(), length) }
    }

    /// Returns the string for the server's log: escaped to ASCII, and truncated.
    pub(super) fn escaped(self) -> String {
        const MAX_SHOWN: usize = 200;
        let (shown, rest) = self.bytes().split_at(self.bytes().len().min(MAX_SHOWN));
        format!("{}{}", shown.escape_ascii(), if rest.is_empty() { "" } else { "..." })
    }
}

impl fmt::Display for Str<'_> {
    /// Formats a name for the server's log: in quotes, [escaped](Str::escaped).
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(to, "\"{}\"", self.escaped())
    }
}

/// An owned string, freed when dropped.
pub struct OwnedStr(NonNull<RedisModuleString>);

impl OwnedStr {
    pub fn new(bytes: &[u8]) -> OwnedStr {
        // SAFETY: a string created without a context belongs to the caller. The server copies the bytes.
        let string = unsafe { api!(RedisModule_CreateString(null_mut(), bytes.as_ptr().cast(), bytes.len())) };
        // SAFETY: the string was just created and is owned.
        unsafe { OwnedStr::from_raw(string) }.expect("the server's allocator never returns null")
    }

    /// Formats an integer. The server's own function would allocate twice.
    pub fn from_integer(value: i64) -> OwnedStr {
        let mut bytes = [b'-'; 20];
        let sign = usize::from(value < 0);
        let len = sign + decimal(value.unsigned_abs(), &mut bytes[sign..]);
        OwnedStr::new(&bytes[..len])
    }

    /// # Safety
    /// `string` must be valid or null. The caller must own one reference to it.
    pub(super) unsafe fn from_raw(string: *mut RedisModuleString) -> Option<OwnedStr> {
        NonNull::new(string).map(OwnedStr)
    }

    pub fn as_str(&self) -> Str<'_> {
        Str { string: self.0, keeper: PhantomData }
    }

    pub fn bytes(&self) -> &[u8] {
        self.as_str().bytes()
    }
}

/// A string that exists as long as the module.
pub struct StaticStr(OwnedStr);

// SAFETY: `get` takes the proof that the caller holds the server's lock, so one thread at a time uses the string.
unsafe impl Send for StaticStr {}
// SAFETY: as above.
unsafe impl Sync for StaticStr {}

impl StaticStr {
    pub fn new(bytes: &[u8]) -> StaticStr {
        StaticStr(OwnedStr::new(bytes))
    }

    pub fn get(&'static self, _: &impl RedisLockIndicator) -> Str<'static> {
        self.0.as_str()
    }
}

impl Clone for OwnedStr {
    /// Returns another reference to the same string.
    fn clone(&self) -> OwnedStr {
        // SAFETY: the string is valid. The module must release the new reference.
        unsafe { api!(RedisModule_RetainString(null_mut(), self.0.as_ptr())) };
        OwnedStr(self.0)
    }
}

impl Drop for OwnedStr {
    fn drop(&mut self) {
        // SAFETY: the module owns the reference and releases it once.
        unsafe { api!(RedisModule_FreeString(null_mut(), self.0.as_ptr())) }
    }
}
