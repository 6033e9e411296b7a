//! Streams that read or write the module's values: RDB files and DUMP payloads, AOF files, DEBUG DIGEST. Each stream
//! holds the pointer that the server passed to the current call. Only the callbacks of data types create streams.

use super::string::{OwnedStr, Str};
use crate::base::stream::{DecodeError, Reader, Writer};
use redis_module::RedisLockIndicator;
use redis_module::raw::{RedisModuleDigest, RedisModuleIO};
use std::ffi::{CStr, CString, c_char};
use std::marker::PhantomData;
use std::ptr::NonNull;
use std::slice;

/// An RDB file or RESTORE payload that is being read.
pub struct Loader<'a>(pub(super) *mut RedisModuleIO, pub(super) PhantomData<&'a mut ()>);

impl Loader<'_> {
    /// Returns an error if reading has failed. After a failure, the server returns zeros from every read, so every read
    /// must call this function. The option `HANDLE_IO_ERRORS` keeps the server from exiting after a failure.
    fn check(&self) -> Result<(), DecodeError> {
        // SAFETY: the stream is that of the call under way.
        if unsafe { api!(RedisModule_IsIOError(self.0)) } == 0 { Ok(()) } else { Err(DecodeError::Truncated) }
    }

    /// Returns the database and the name of the key that is being read, if the server knows them.
    pub fn key(&self) -> Option<(i32, Str<'_>)> {
        // SAFETY: the stream is that of the current call. The name lives as long as the stream, and may be null.
        let name = unsafe { Str::from_raw(api!(RedisModule_GetKeyNameFromIO(self.0)).cast_mut()) }?;
        // SAFETY: as above.
        let database = unsafe { api!(RedisModule_GetDbIdFromIO(self.0)) };
        Some((database, name))
    }

    /// Logs which key cannot be loaded, and why.
    pub(super) fn log_error(&self, why: &str) {
        let name = self.key().map_or("?".to_owned(), |(_, name)| name.escaped());
        let line = format!("cannot load key '{name}': {why}");
        let line = CString::new(line).unwrap_or_default();
        // SAFETY: the format takes one NUL-terminated string.
        unsafe { api!(RedisModule_LogIOError(self.0, c"warning".as_ptr(), c"%s".as_ptr(), line.as_ptr())) };
    }
}

// SAFETY: the server loads in its main thread, while its global lock is held.
unsafe impl RedisLockIndicator for Loader<'_> {}

impl Reader for Loader<'_> {
    type Bytes = Buffer;

    fn number(&mut self) -> Result<u64, DecodeError> {
        // SAFETY: the stream is that of the call under way.
        let number = unsafe { api!(RedisModule_LoadUnsigned(self.0)) };
        self.check().map(|()| number)
    }

    fn bytes(&mut self) -> Result<Buffer, DecodeError> {
        let mut len = 0;
        // SAFETY: as above. The call writes the length before it is read.
        let start = unsafe { api!(RedisModule_LoadStringBuffer(self.0, &raw mut len)) };
        // The `Buffer` is created before the check, so that the server's buffer is freed in any case.
        let buffer = NonNull::new(start.cast::<u8>()).map(|start| Buffer { start, len });
        self.check()?;
        buffer.ok_or(DecodeError::Truncated)
    }
}

/// A string that the server has read, and that the module frees.
pub struct Buffer {
    start: NonNull<u8>,
    len: usize,
}

impl AsRef<[u8]> for Buffer {
    fn as_ref(&self) -> &[u8] {
        // SAFETY: the server guarantees `len` bytes, which the module owns until the drop.
        unsafe { slice::from_raw_parts(self.start.as_ptr(), self.len) }
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        // SAFETY: the server allocated the buffer for the module, which does not use it again.
        unsafe { api!(RedisModule_Free(self.start.as_ptr().cast())) }
    }
}

/// An RDB file or DUMP payload that is being written.
pub struct Saver<'a>(pub(super) *mut RedisModuleIO, pub(super) PhantomData<&'a mut ()>);

impl Writer for Saver<'_> {
    fn number(&mut self, number: u64) {
        // SAFETY: the stream is that of the call under way.
        unsafe { api!(RedisModule_SaveUnsigned(self.0, number)) }
    }

    fn bytes(&mut self, bytes: &[u8]) {
        // SAFETY: as above. The server copies the bytes.
        unsafe { api!(RedisModule_SaveStringBuffer(self.0, bytes.as_ptr().cast::<c_char>(), bytes.len())) }
    }
}

/// An AOF file that is being rewritten. The module writes commands that rebuild one key.
pub struct Rewriter<'a> {
    io: *mut RedisModuleIO,
    key: OwnedStr,
    call: PhantomData<&'a mut ()>,
}

impl Rewriter<'_> {
    pub(super) fn new(io: *mut RedisModuleIO, key: Str<'_>) -> Self {
        // Copies the key, because the server's string is on the server's stack. If the module kept that string, or
        // passed it to the server, the server would crash.
        Rewriter { io, key: OwnedStr::new(key.bytes()), call: PhantomData }
    }

    /// Writes a command whose arguments are the key and then `arguments`.
    pub fn emit(&mut self, command: &CStr, arguments: &[OwnedStr]) {
        let arguments: Vec<_> = std::iter::once(&self.key).chain(arguments).map(OwnedStr::as_str).collect();
        // SAFETY: format `v` takes an array of valid strings and its length. The command is a NUL-terminated constant.
        unsafe {
            api!(RedisModule_EmitAOF(self.io, command.as_ptr(), c"v".as_ptr(), arguments.as_ptr(), arguments.len()))
        }
    }
}

/// The digest of a value. A value has the same digest on a master and its replicas.
pub struct Digest<'a>(pub(super) *mut RedisModuleDigest, pub(super) PhantomData<&'a mut ()>);

impl Digest<'_> {
    /// Ends a sequence of items. Within a sequence, the order of the items changes the digest.
    pub fn end_sequence(&mut self) {
        // SAFETY: the digest is that of the current call.
        unsafe { api!(RedisModule_DigestEndSequence(self.0)) }
    }
}

impl Writer for Digest<'_> {
    fn number(&mut self, number: u64) {
        // SAFETY: as above.
        unsafe { api!(RedisModule_DigestAddLongLong(self.0, number.cast_signed())) }
    }

    fn bytes(&mut self, bytes: &[u8]) {
        // SAFETY: as above.
        unsafe { api!(RedisModule_DigestAddStringBuffer(self.0, bytes.as_ptr().cast::<c_char>(), bytes.len())) }
    }
}
