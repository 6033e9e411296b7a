//! All errors that clients get, and their texts.
//!
//! A command parses all its arguments and checks the key before it changes anything. So if a command returns an error,
//! nothing was changed or replicated. Every text begins with its code, as clients expect. The texts are constants: they
//! contain no bytes from users, which could break the protocol or a log format.

use std::ffi::CStr;

/// Why a command was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Error {
    Arity,
    /// An unknown, repeated or contradictory keyword.
    Syntax,
    WrongType,
    NotExpiring,
    NotLimit,
    OtherAlgorithm,
    /// An argument that is not a duration of at least 1 ms.
    Duration,
    /// An argument that is neither 0 nor a duration.
    Wait,
    Instant,
    TooFar,
    NotAnInteger,
    NotPositive,
    /// A negative number, for an argument that accepts 0.
    Negative,
    NumKeys,
    TooManyKeys,
    TooManyRepeated,
    Priority,
    /// A count above 2^53-1, a number of attempts that exceeds 32 bits, or more than 100 percent.
    OutOfRange,
    Units,
    Throttle,
    KeyNamedTwice,
    Precision,
    ScoreNotATime,
    /// ADOPT would make every member expire at once.
    AllExpired,
    /// ADOPT with UNIT s or PLUS on a key that is already an expiring set.
    AlreadyExpiring,
    Worker,
    EmptyId,
    AgainWithoutId,
    /// AFTER names a job that is not in the requested state.
    NotInState,
    /// AFTER names a ready job that is not among the first 500, and the order of the ready jobs is not indexed.
    PageTooFar,
    NoLease,
    /// CLEAN with OLDER found only jobs that are too young, and stopped at its bound.
    CleanUnreached,
    QueueFull,
    /// A setting whose change would affect too many jobs or groups at once.
    QueueTooLong,
    NoBoard,
    /// The key of CREATE holds a board with another schema.
    BoardExists,
    OtherSchema,
    NotAFloat,
    DimensionCount,
    DuplicateDimension,
    UnknownDimension,
    ValueCount,
    Overflow,
    NotFinite,
    BoardFull,
    /// The ACL denies the caller RESTORE. Commands that can store any value in a key require this permission.
    NoRightToRestore,
    /// The ACL denies the caller ZRL.CHECK, which RESET requires.
    NoRightToCheck,
    /// The text is that of the server's own error.
    OutOfMemory,
    /// A waiting client lost its permission to claim.
    NoPermission,
    InnerCommand,
    /// The command panicked: a defect of the module.
    Internal,
}

impl Error {
    /// Returns the reply, which begins with the error code. The server formats [`Error::Arity`] itself.
    pub fn text(self) -> &'static CStr {
        match self {
            Error::Arity => c"ERR wrong number of arguments",
            Error::Syntax => c"ERR syntax error",
            Error::WrongType => c"WRONGTYPE Operation against a key holding the wrong kind of value",
            Error::NotExpiring => {
                c"NOTEXPIRING key is an ordinary sorted set; use ZEXP.ADOPT to convert it"
            }
            Error::NotLimit => c"NOTLIMIT key holds a string that is not a rate limit; use another key",
            Error::OtherAlgorithm => {
                c"NOTLIMIT key holds a rate limit of another algorithm; use another key"
            }
            Error::Duration => {
                c"ERR invalid duration; expected a positive number and an optional unit (ms, s, m, h, d, w)"
            }
            Error::Wait => {
                c"ERR invalid duration; expected 0 or a positive number and an optional unit (ms, s, m, h, d, w)"
            }
            Error::Instant => {
                c"ERR invalid time; expected a Unix time (s or ms) or a date such as 2026-12-24T18:00:00Z"
            }
            Error::TooFar => c"ERR time is out of range, must be at most 2^53-1 ms",
            Error::NotAnInteger => c"ERR value is not an integer or out of range",
            Error::NotPositive => c"ERR value is out of range, must be positive",
            Error::Negative => c"ERR value is out of range, must not be negative",
            Error::NumKeys => c"ERR numkeys should be greater than 0",
            Error::TooManyKeys => c"ERR Number of keys can't be greater than number of args",
            Error::TooManyRepeated => c"ERR value is out of range, a negative count must be at least -1048576",
            Error::OutOfRange => c"ERR value is out of range; the maximum is 2^53-1 for counts, 2^32-1 for attempts, 100 for percentages",
            Error::Priority => c"ERR value is out of range, a priority must be a signed 32-bit integer",
            Error::Units => c"ERR value is out of range; a limit must be 1 to 2^53-1, a cost 0 to 2^53-1",
            Error::Throttle => {
                c"ERR value is out of range; max_burst must be at least 0, count and period at least 1, intervals 1 to 2^63-1 ns"
            }
            Error::KeyNamedTwice => c"ERR the same key is given twice",
            Error::Precision => c"ERR PRECISION must not exceed the window",
            Error::Worker => c"ERR worker name must have 1 to 255 bytes",
            Error::NotInState => c"ERR no such job in this state and group; continue after another ID or omit AFTER",
            Error::PageTooFar => {
                c"ERR job is not among the first 500 ready jobs; use GROUP, or COUNT without AFTER"
            }
            Error::NoLease => c"ERR only claimed jobs have a lease; use WITHLEASE with CLAIMED",
            Error::CleanUnreached => {
                c"ERR the first 3000 jobs by due time are too young; use ZQ.CLEAN without OLDER, or ZQ.CANCEL"
            }
            Error::EmptyId => c"ERR job ID must not be empty",
            Error::AgainWithoutId => c"ERR AGAIN requires a job ID",
            Error::ScoreNotATime => {
                c"ERR score is not a time; expected 0 to 2^53-1 ms"
            }
            Error::AllExpired => {
                c"ERR every member would expire at once; check UNIT or use FORCE"
            }
            Error::AlreadyExpiring => c"ERR key is already an expiring set; expected neither UNIT s nor PLUS",
            Error::QueueFull => c"QUEUEFULL queue already holds MAXLEN jobs",
            Error::QueueTooLong => {
                c"ERR queue is too large; a change of this setting can affect at most 100000 jobs or groups"
            }
            Error::NoBoard => c"NOBOARD no such leaderboard; use ZLB.CREATE to create it",
            Error::BoardExists => c"BUSYKEY key holds a leaderboard with another schema",
            Error::OtherSchema => c"ERR leaderboards must have the same dimensions, TIES and KEEP",
            Error::NotAFloat => c"ERR value is not a valid float",
            Error::DimensionCount => c"ERR leaderboard must have 1 to 64 dimensions",
            Error::DuplicateDimension => c"ERR duplicate dimension name",
            Error::UnknownDimension => c"ERR no such dimension",
            Error::ValueCount => c"ERR syntax error; expected one value for each dimension",
            Error::Overflow => c"ERR increment or decrement would overflow",
            Error::NotFinite => c"ERR increment would produce NaN or Infinity",
            Error::BoardFull => c"ERR leaderboard is full",
            Error::NoRightToRestore => c"NOPERM this command requires permission to call RESTORE with the same key",
            Error::NoRightToCheck => c"NOPERM RESET requires permission to call ZRL.CHECK with each counted key",
            Error::OutOfMemory => c"OOM command not allowed when used memory > 'maxmemory'.",
            Error::NoPermission => c"NOPERM permission to claim from these keys was revoked",
            Error::InnerCommand => c"ERR server refused ZCOUNT or ZRANGE; nothing was changed",
            Error::Internal => c"ERR internal error in zeitset; see the server log",
        }
    }
}
