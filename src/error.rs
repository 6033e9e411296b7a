//! All errors that clients get, and their texts.
//!
//! A command parses all its arguments and checks the key before it changes anything. So if a command returns an error,
//! nothing was changed or replicated. Every text begins with its code, as clients expect. The texts are constants: they
//! contain no bytes from users, which could break the protocol or a log format.

use std::ffi::CStr;

/// Declares the errors, each with its text.
macro_rules! errors {
    ($($(#[$doc:meta])* $name:ident = $text:literal,)*) => {
        /// Why a command was refused.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Error {
            $($(#[$doc])* $name,)*
        }

        impl Error {
            /// Returns the text of the error reply. For [`Error::Arity`], the server sends its own text instead.
            pub fn text(self) -> &'static CStr {
                match self {
                    $(Error::$name => $text,)*
                }
            }
        }
    };
}

errors! {
    Arity = c"ERR wrong number of arguments",
    /// An unknown, repeated or contradictory keyword.
    Syntax = c"ERR syntax error",
    /// ZQ.APPLY or ZLB.APPLY got a change that it cannot decode. These commands carry the module's changes to replicas
    /// and the AOF.
    Effect = c"ERR invalid effect; expected what this version of the module replicates",
    WrongType = c"WRONGTYPE Operation against a key holding the wrong kind of value",
    NotExpiring = c"NOTEXPIRING key is an ordinary sorted set; use ZEXP.ADOPT to convert it",
    NotLimit = c"NOTLIMIT key holds a string that is not a rate limit; use another key",
    OtherAlgorithm = c"NOTLIMIT key holds a rate limit of another algorithm; use another key",
    Duration = c"ERR invalid duration; expected a positive number and an optional unit (ms, s, m, h, d, w)",
    DurationOrZero = c"ERR invalid duration; expected 0 or a positive number and an optional unit (ms, s, m, h, d, w)",
    Instant = c"ERR invalid time; expected a Unix time (s or ms) or a date such as 2026-12-24T18:00:00Z",
    TooFar = c"ERR time is out of range, must be at most 2^53-1 ms",
    NotAnInteger = c"ERR value is not an integer or out of range",
    NotPositive = c"ERR value is out of range, must be positive",
    /// The argument is negative, but must be 0 or more.
    Negative = c"ERR value is out of range, must not be negative",
    NumKeys = c"ERR numkeys should be greater than 0",
    TooManyKeys = c"ERR Number of keys can't be greater than number of args",
    TooManyRepeated = c"ERR value is out of range, a negative count must be at least -1048576",
    Priority = c"ERR value is out of range, a priority must be a signed 32-bit integer",
    OutOfRange = c"ERR value is out of range; the maximum is 2^53-1 for counts, 2^32-1 for attempts, 100 for percentages",
    Units = c"ERR value is out of range; a limit must be 1 to 2^53-1, a cost 0 to 2^53-1",
    Throttle = c"ERR value is out of range; max_burst must be at least 0, count and period at least 1, intervals 1 to 2^63-1 ns",
    KeyNamedTwice = c"ERR the same key is given twice",
    Precision = c"ERR PRECISION must not exceed the window",
    /// A command would write the member `zeitset:expiring`, which marks a sorted set as an expiring set.
    TagAsMember = c"ERR 'zeitset:expiring' marks expiring sets and cannot be a member; use another name",
    /// ZEXP.ADOPT cannot mark the set as an expiring set, because it has an ordinary member of the name
    /// `zeitset:expiring`.
    TagTaken = c"ERR set has a member 'zeitset:expiring', the name of the tag; rename the member first",
    ScoreNotATime = c"ERR score is not a time; expected 0 to 2^53-1 ms",
    /// ZEXP.ADOPT would make every member expire at once.
    AllExpired = c"ERR every member would expire at once; check UNIT or use FORCE",
    /// ZEXP.ADOPT was called with UNIT s or PLUS on a key that is already an expiring set.
    AlreadyExpiring = c"ERR key is already an expiring set; expected neither UNIT s nor PLUS",
    Worker = c"ERR worker name must have 1 to 255 bytes",
    EmptyId = c"ERR job ID must not be empty",
    AgainWithoutId = c"ERR AGAIN requires a job ID",
    Undeclared = c"ERR DECLARE requires a job ID and EVERY",
    ProgressTooLong = c"ERR progress text is too long, must be at most 1024 bytes",
    NotInState = c"ERR no such job in this state and group; continue after another ID or omit AFTER",
    /// ZQ.PEEK did not find the job after which to continue (AFTER) among the first 500 ready jobs. ZQ.PEEK searches no
    /// further if priorities, groups or ORDERED determine the serving order.
    PageTooFar = c"ERR job is not among the first 500 ready jobs; use GROUP, or COUNT without AFTER",
    NoLease = c"ERR only claimed jobs have a lease; use WITHLEASE with CLAIMED",
    /// ZQ.CLEAN found no job to remove among the first 3000 jobs, because all of them are too young or recurring.
    /// ZQ.CLEAN did not check the other jobs.
    CleanUnreached = c"ERR the first 3000 jobs by due time are too young or recurring; use ZQ.CLEAN without OLDER, or ZQ.CANCEL",
    QueueFull = c"QUEUEFULL queue already holds MAXLEN jobs",
    TooManyUpdates = c"ERR queue is too large; a change of this setting can affect at most 100000 jobs or groups",
    NoBoard = c"NOBOARD no such leaderboard; use ZLB.CREATE to create it",
    BoardExists = c"BUSYKEY key holds a leaderboard with another schema",
    OtherSchema = c"ERR leaderboards must have the same dimensions, TIES and KEEP",
    NotAFloat = c"ERR value is not a valid float",
    DimensionCount = c"ERR leaderboard must have 1 to 64 dimensions",
    DuplicateDimension = c"ERR duplicate dimension name",
    UnknownDimension = c"ERR no such dimension",
    ValueCount = c"ERR syntax error; expected one value for each dimension",
    Overflow = c"ERR increment or decrement would overflow",
    NotFinite = c"ERR increment would produce NaN or Infinity",
    BoardFull = c"ERR leaderboard is full",
    /// The caller has no permission for RESTORE. Commands that can store any value in a key require this permission.
    NoRightToRestore = c"NOPERM this command requires permission to call RESTORE with the same key",
    /// The caller has no permission for ZRL.CHECK with one of the counted keys of this database. ZRL.TOP with RESET
    /// requires permission for all of them.
    NoRightToCheck = c"NOPERM RESET requires permission to call ZRL.CHECK with each counted key",
    /// The same text as the server's own OOM error.
    OutOfMemory = c"OOM command not allowed when used memory > 'maxmemory'.",
    /// A client lost its permission to claim jobs while it was waiting for a job.
    NoPermission = c"NOPERM permission to claim from these keys was revoked",
    InnerCommand = c"ERR server refused ZCOUNT or ZRANGE; nothing was changed",
    /// The command panicked: a defect of the module.
    Internal = c"ERR internal error in zeitset; see the server log",
}
