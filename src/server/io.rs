//! The streams a value of the module is written to and read from: RDB files and DUMP payloads, AOF files, DEBUG DIGEST.

use super::string::{OwnedStr, Str};
use crate::model::stream::{Reader, Truncated, Writer};
use redis_module::RedisLockIndicator;
use redis_module::raw::{RedisModuleDigest, RedisModuleIO};
use std::ffi::{CStr, CString, c_char};
use std::fmt;
use std::marker::PhantomData;
use std::ptr::NonNull;
use std::slice;

/// An RDB file or a payload of RESTORE, being read.
pub struct Loader<'a> {
    io: *mut RedisModuleIO,
    call: PhantomData<&'a mut ()>,
}

impl Loader<'_> {
    /// # Safety
    /// `io` must be what the server passed to the call under way.
    pub(super) unsafe fn new(io: *mut RedisModuleIO) -> Self {
        Loader { io, call: PhantomData }
    }

    /// After an error the server gives zeros forever, and tells of it only because we registered with `HANDLE_IO_ERRORS`
    /// (otherwise it would end itself); so every value is asked for only together with this.
    fn check(&self) -> Result<(), Truncated> {
        // SAFETY: the stream is that of the call under way.
        if unsafe { api!(RedisModule_IsIOError(self.io)) } == 0 { Ok(()) } else { Err(Truncated) }
    }

    /// The database and the name of the key that is being read, if the server tells.
    pub fn key(&self) -> Option<(i32, Str<'_>)> {
        // SAFETY: the stream is that of the call under way; the name lives as long as it, and is null where there is none.
        let name = unsafe { Str::from_raw(api!(RedisModule_GetKeyNameFromIO(self.io)).cast_mut()) }?;
        // SAFETY: as above.
        let database = unsafe { api!(RedisModule_GetDbIdFromIO(self.io)) };
        Some((database, name))
    }

    /// Writes into the server's log which key cannot be loaded, and why.
    pub(super) fn complain(&self, why: fmt::Arguments<'_>) {
        // SAFETY: the stream is that of the call under way; the name lives as long as it, and is null where there is none.
        let key = unsafe { Str::from_raw(api!(RedisModule_GetKeyNameFromIO(self.io)).cast_mut()) };
        let name = key.map_or(&b"?"[..], Str::bytes);
        let (shown, dots) = name.split_at_checked(LONGEST_NAME).map_or((name, ""), |(start, _)| (start, "..."));
        let line = format!("the key '{}{dots}' cannot be loaded: {why}", shown.escape_ascii());
        let line = CString::new(line).unwrap_or_default();
        // SAFETY: the format asks for one NUL-terminated string, and gets it.
        unsafe { api!(RedisModule_LogIOError(self.io, c"warning".as_ptr(), c"%s".as_ptr(), line.as_ptr())) };
    }
}

/// The most bytes of a key's name that stand in the log.
const LONGEST_NAME: usize = 200;

// SAFETY: the server loads in its main thread, while its global lock is held.
unsafe impl RedisLockIndicator for Loader<'_> {}

impl Reader for Loader<'_> {
    type Bytes = Buffer;

    fn number(&mut self) -> Result<u64, Truncated> {
        // SAFETY: the stream is that of the call under way.
        let number = unsafe { api!(RedisModule_LoadUnsigned(self.io)) };
        self.check().map(|()| number)
    }

    fn bytes(&mut self) -> Result<Buffer, Truncated> {
        let mut len = 0;
        // SAFETY: as above; the length is written before it is read.
        let start = unsafe { api!(RedisModule_LoadStringBuffer(self.io, &raw mut len)) };
        // Taken before the check, so that it is freed in any case.
        let buffer = NonNull::new(start.cast::<u8>()).map(|start| Buffer { start, len });
        self.check()?;
        buffer.ok_or(Truncated)
    }
}

/// A string the server has read for us.
pub struct Buffer {
    start: NonNull<u8>,
    len: usize,
}

impl AsRef<[u8]> for Buffer {
    fn as_ref(&self) -> &[u8] {
        // SAFETY: the server says that `len` bytes stand there, and they are ours until the drop.
        unsafe { slice::from_raw_parts(self.start.as_ptr(), self.len) }
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        // SAFETY: allocated by the server for us, and not used again.
        unsafe { api!(RedisModule_Free(self.start.as_ptr().cast())) }
    }
}

/// An RDB file or a payload of DUMP, being written.
pub struct Saver<'a> {
    io: *mut RedisModuleIO,
    call: PhantomData<&'a mut ()>,
}

impl Saver<'_> {
    /// # Safety
    /// As for [`Loader::new`].
    pub(super) unsafe fn new(io: *mut RedisModuleIO) -> Self {
        Saver { io, call: PhantomData }
    }
}

impl Writer for Saver<'_> {
    fn number(&mut self, number: u64) {
        // SAFETY: the stream is that of the call under way.
        unsafe { api!(RedisModule_SaveUnsigned(self.io, number)) }
    }

    fn bytes(&mut self, bytes: &[u8]) {
        // SAFETY: as above; the bytes are copied.
        unsafe { api!(RedisModule_SaveStringBuffer(self.io, bytes.as_ptr().cast::<c_char>(), bytes.len())) }
    }
}

/// An AOF file, being rewritten: commands that make one key again.
pub struct Rewriter<'a> {
    io: *mut RedisModuleIO,
    key: OwnedStr,
    call: PhantomData<&'a mut ()>,
}

impl Rewriter<'_> {
    /// # Safety
    /// As for [`Loader::new`], and `key` is the key that came with it.
    pub(super) unsafe fn new(io: *mut RedisModuleIO, key: Str<'_>) -> Self {
        // A copy: the one that came stands on the server's stack, and ends the server when it is kept or sent on.
        Rewriter { io, key: OwnedStr::new(key.bytes()), call: PhantomData }
    }

    /// The key to be made.
    pub fn key(&self) -> OwnedStr {
        self.key.clone()
    }

    /// Writes a command.
    pub fn emit(&mut self, command: &CStr, arguments: &[Str<'_>]) {
        // SAFETY: format `v` takes an array of valid strings and its length; the command is a NUL-terminated constant.
        unsafe {
            api!(RedisModule_EmitAOF(self.io, command.as_ptr(), c"v".as_ptr(), arguments.as_ptr(), arguments.len()))
        }
    }
}

/// The digest of a value: the same for equal values, on a master and its replicas.
pub struct Digest<'a> {
    digest: *mut RedisModuleDigest,
    call: PhantomData<&'a mut ()>,
}

impl Digest<'_> {
    /// # Safety
    /// As for [`Loader::new`].
    pub(super) unsafe fn new(digest: *mut RedisModuleDigest) -> Self {
        Digest { digest, call: PhantomData }
    }

    /// What was added up to now belongs together in this order.
    pub fn end_sequence(&mut self) {
        // SAFETY: as above.
        unsafe { api!(RedisModule_DigestEndSequence(self.digest)) }
    }
}

impl Writer for Digest<'_> {
    fn number(&mut self, number: u64) {
        // SAFETY: the digest is that of the call under way.
        unsafe { api!(RedisModule_DigestAddLongLong(self.digest, number.cast_signed())) }
    }

    fn bytes(&mut self, bytes: &[u8]) {
        // SAFETY: as above.
        unsafe { api!(RedisModule_DigestAddStringBuffer(self.digest, bytes.as_ptr().cast::<c_char>(), bytes.len())) }
    }
}
