//! All errors that clients get, and their texts.
//!
//! A command parses all its arguments and checks the key before it changes anything. So a command that returns an error
//! has changed and replicated nothing. Every text begins with its code, as clients expect. The texts are constants:
//! they contain no bytes from users, which could break the protocol or a log format.

use std::ffi::CStr;

/// Why a command was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Error {
    /// Too few or too many arguments. The server adds the command's name to the text.
    Arity,
    /// An unknown, repeated or contradictory keyword.
    Syntax,
    /// The key holds another type.
    WrongType,
    /// The key holds an ordinary sorted set.
    NotExpiring,
    /// The key holds a string that is not a rate limit.
    NotLimit,
    /// The key holds a rate limit of another algorithm.
    OtherAlgorithm,
    /// An argument that is not a duration of at least 1 ms.
    Duration,
    /// An argument that is not a duration. The duration may be 0.
    Wait,
    /// An argument that is neither a Unix time nor a date with a time zone.
    Instant,
    /// `now` plus a duration exceeds 2^53-1 ms.
    TooFar,
    NotAnInteger,
    NotPositive,
    /// A negative number, for an argument that accepts 0.
    Negative,
    /// `numkeys` is not a positive number.
    NumKeys,
    /// `numkeys` is larger than the number of remaining arguments.
    TooManyKeys,
    /// A negative count of RANDMEMBER below -1048576.
    TooManyRepeated,
    /// A priority that exceeds 32 bits.
    Priority,
    /// A count above 2^53-1, a number of attempts that exceeds 32 bits, or more than 100 percent.
    OutOfRange,
    /// A limit or a cost outside its range.
    Units,
    /// Arguments of THROTTLE that are out of range, or whose intervals in nanoseconds exceed 64 bits.
    Throttle,
    /// The same key is given twice in ZRL.MCHECK.
    KeyNamedTwice,
    /// A PRECISION longer than the window.
    Precision,
    /// A score that is not a time.
    ScoreNotATime,
    /// ADOPT would make every member expire at once.
    AllExpired,
    /// ADOPT with UNIT s or PLUS on a key that is already an expiring set.
    AlreadyExpiring,
    /// A worker name that is empty or longer than 255 bytes.
    Worker,
    /// An empty job ID.
    EmptyId,
    /// AGAIN without a job ID.
    AgainWithoutId,
    /// AFTER names a job that is not in the requested state.
    NotInState,
    /// AFTER names a ready job that is not among the first 500, and the order of the ready jobs is not indexed.
    PageTooFar,
    /// WITHLEASE with a state other than claimed.
    NoLease,
    /// CLEAN with OLDER found only jobs that are too young, and stopped at its bound.
    CleanUnreached,
    /// A PUSH to a queue that has MAXLEN jobs.
    QueueFull,
    /// A setting whose change would affect too many jobs or groups at once.
    QueueTooLong,
    /// The board to change is missing.
    NoBoard,
    /// The key of CREATE holds a board with another schema.
    BoardExists,
    /// The boards of MERGE have different schemas.
    OtherSchema,
    NotAFloat,
    /// A schema without dimensions, or with more than 64.
    DimensionCount,
    /// Two dimensions with the same name.
    DuplicateDimension,
    /// A dimension that the board does not have.
    UnknownDimension,
    /// Too few or too many values for the board's dimensions.
    ValueCount,
    /// An increment whose result exceeds 64 bits.
    Overflow,
    /// An increment whose result is not a finite double.
    NotFinite,
    /// More members than a board can have.
    BoardFull,
    /// The ACL denies the caller RESTORE. Commands that can store any value in a key require this permission.
    NoRightToRestore,
    /// The ACL denies the caller ZRL.CHECK, which RESET requires.
    NoRightToCheck,
    /// The server uses more than its `maxmemory`. The text is that of the server's own error.
    OutOfMemory,
    /// A waiting client lost its permission to claim.
    NoPermission,
    /// The server refused a command that the module called.
    InnerCommand,
    /// The command panicked, which is a defect of the module.
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
