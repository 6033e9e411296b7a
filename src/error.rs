//! Every error a client can get, and the one place that turns it into text.
//!
//! The strategy: a command parses all its arguments, looks at the key, and only then changes anything; so whatever error
//! it returns, nothing has changed and nothing was replicated. Texts begin with their code, as clients expect, and are
//! constants: no byte that a user sent ever gets into one, so none can break the protocol or a log format.

use std::ffi::CStr;

/// Why a command was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Error {
    /// Too few or too many arguments; the server words it with the command's name.
    Arity,
    /// An unknown, repeated or contradictory keyword.
    Syntax,
    /// The key holds another type.
    WrongType,
    /// A sorted set, but no expiring one.
    NotExpiring,
    /// A string, but no rate limit.
    NotLimit,
    /// A rate limit written by another algorithm.
    OtherAlgorithm,
    /// Not a duration, or zero where it must not be.
    Duration,
    /// Neither a Unix time nor a date with its zone.
    Instant,
    /// `now` plus a duration lies after 2^53-1 ms.
    TooFar,
    NotAnInteger,
    OutOfRange,
    NotPositive,
    /// `numkeys` is not a positive number.
    NumKeys,
    /// A limit or a cost outside its range.
    Units,
    /// THROTTLE's numbers come to no rate, or to one that 64 bits of nanoseconds cannot hold.
    Throttle,
    /// A key given more than once where each has a limit of its own.
    KeyNamedTwice,
    /// PRECISION coarser than the window it divides.
    Precision,
    /// A score that is no time.
    ScoreNotATime,
    /// ADOPT would make every member expire at once.
    AllExpired,
    /// ADOPT with UNIT s or PLUS on what is an expiring set already.
    AlreadyExpiring,
    /// The name of a worker has no bytes, or too many.
    Worker,
    /// A job's id has no bytes.
    EmptyId,
    /// AFTER names a job that is not in the state asked for.
    NotInState,
    /// AFTER names a ready job that many others come before, in an order that only a walk finds.
    PageTooFar,
    /// CLEAN with OLDER met many jobs that are too young, and none that is not.
    CleanUnreached,
    /// PUSH beyond MAXLEN.
    QueueFull,
    /// A setting that would have the server go through too many jobs at once.
    QueueTooLong,
    /// A board that is to be changed is missing.
    NoBoard,
    /// A board of another schema is where one is to be created.
    BoardExists,
    /// Boards that are to be merged have different schemas.
    OtherSchema,
    /// A key that is asked about is missing.
    NoSuchKey,
    NotAFloat,
    /// A board has 1 to 64 dimensions.
    DimensionCount,
    /// Two dimensions of one name.
    DuplicateDimension,
    /// No dimension of that name.
    UnknownDimension,
    /// Not one value for each dimension.
    ValueCount,
    /// An increment beyond 64 bits.
    Overflow,
    /// An increment beyond the doubles.
    NotFinite,
    /// More members than a board can have.
    BoardFull,
    /// The ACL keeps the caller from RESTORE, and so from what puts any value into a key.
    NoRightToRestore,
    /// The ACL keeps the caller from writing rate limits.
    NoRightToCheck,
    /// The server holds more than its `maxmemory`; worded as the server does it.
    OutOfMemory,
    /// The rights to claim were taken from a client while it waited.
    NoPermission,
    /// The server refused a command that this one needs: nothing is known, and nothing has changed.
    InnerCommand,
    /// A defect of the module: the handler panicked and was stopped.
    Internal,
}

impl Error {
    /// The reply, beginning with its code. [`Error::Arity`] has none of its own.
    pub fn text(self) -> &'static CStr {
        match self {
            Error::Arity => c"ERR wrong number of arguments",
            Error::Syntax => c"ERR syntax error",
            Error::WrongType => c"WRONGTYPE Operation against a key holding the wrong kind of value",
            Error::NotExpiring => {
                c"NOTEXPIRING the key is an ordinary sorted set; ZEXP.ADOPT turns one whose scores are times into an expiring set"
            }
            Error::NotLimit => c"NOTLIMIT the key is a string, but no rate limit; use another key",
            Error::OtherAlgorithm => {
                c"NOTLIMIT the key is a rate limit of another algorithm; a key belongs to one policy, DEL it to change"
            }
            Error::Duration => {
                c"ERR invalid duration: expected a positive number with an optional unit (ms, s, m, h, d, w), such as 30, 250ms or 1.5h"
            }
            Error::Instant => {
                c"ERR invalid time: expected a Unix time in seconds (from 10^11 on, milliseconds), with or without the unit s or ms, or a date such as 2026-12-24T18:00:00Z"
            }
            Error::TooFar => c"ERR the time is out of range: it must not lie after 2^53-1 ms",
            Error::NotAnInteger => c"ERR value is not an integer or out of range",
            Error::OutOfRange => c"ERR value is out of range",
            Error::NotPositive => c"ERR value is out of range, must be positive",
            Error::NumKeys => c"ERR numkeys should be greater than 0",
            Error::Units => c"ERR value is out of range: a limit is 1 to 2^53-1 units, a cost 0 to 2^53-1",
            Error::Throttle => {
                c"ERR value is out of range: a burst is 0 or more, a count and a period 1 or more, and all of it must fit into 64 bits of nanoseconds"
            }
            Error::KeyNamedTwice => c"ERR a key is named twice",
            Error::Precision => c"ERR PRECISION must not exceed the window",
            Error::Worker => c"ERR the name of a worker has 1 to 255 bytes",
            Error::NotInState => c"ERR no job of this ID is in this state: go on behind another one, or begin at the front",
            Error::PageTooFar => {
                c"ERR job is not among the first 500 ready jobs; with several priorities or groups, or ORDERED, use COUNT without AFTER"
            }
            Error::CleanUnreached => {
                c"ERR the first 3000 jobs by due time are too young; use ZQ.CLEAN without OLDER, or ZQ.CANCEL"
            }
            Error::EmptyId => c"ERR the ID of a job must not be empty",
            Error::ScoreNotATime => {
                c"ERR a score is not a time: scores must be finite, not negative, and at most 2^53-1 ms"
            }
            Error::AllExpired => {
                c"ERR every member would expire at once (is UNIT right?); add FORCE if that is what you want"
            }
            Error::AlreadyExpiring => c"ERR the key is an expiring set already; UNIT s and PLUS do not apply",
            Error::QueueFull => c"QUEUEFULL the queue holds as many jobs as its MAXLEN allows",
            Error::QueueTooLong => {
                c"ERR the queue is too long for that: AGING and ORDERED can be changed up to 100,000 jobs, BACKOFF and JITTER up to 100,000 claimed jobs, GROUPCONCURRENCY and GROUPRATE up to 100,000 groups with jobs"
            }
            Error::NoBoard => c"NOBOARD the key holds no leaderboard; ZLB.CREATE makes one",
            Error::BoardExists => c"BUSYKEY the key holds a leaderboard of another schema",
            Error::OtherSchema => c"ERR the leaderboards differ in their dimensions, TIES or KEEP",
            Error::NoSuchKey => c"ERR no such key",
            Error::NotAFloat => c"ERR value is not a valid float",
            Error::DimensionCount => c"ERR a leaderboard has 1 to 64 dimensions",
            Error::DuplicateDimension => c"ERR two dimensions have the same name",
            Error::UnknownDimension => c"ERR the leaderboard has no dimension of that name",
            Error::ValueCount => c"ERR syntax error: one value for each dimension of the leaderboard is needed",
            Error::Overflow => c"ERR increment or decrement would overflow",
            Error::NotFinite => c"ERR increment would produce NaN or Infinity",
            Error::BoardFull => c"ERR the leaderboard is full",
            Error::NoRightToRestore => c"NOPERM effects can be applied only by users with the right to call RESTORE",
            Error::NoRightToCheck => c"NOPERM RESET can be used only by users with the right to call ZRL.CHECK with each of the counted keys",
            Error::OutOfMemory => c"OOM command not allowed when used memory > 'maxmemory'.",
            Error::NoPermission => c"NOPERM the permissions to claim from these keys were taken away",
            Error::InnerCommand => c"ERR the server refused a command that this one needs (ZCOUNT, ZRANGE); nothing has changed",
            Error::Internal => c"ERR internal error in zeitset; see the server's log",
        }
    }
}
