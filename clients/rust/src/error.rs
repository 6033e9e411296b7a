//! The errors of this crate, and which of them are temporary.

use redis::{ErrorKind, RedisError};
use std::fmt;

/// Defines the codes, each with the text that the server sends.
macro_rules! codes {
    ($($(#[$doc:meta])* $name:ident = $text:literal)*) => {
        /// The code at the beginning of a server's error reply.
        #[derive(Clone, Debug, PartialEq, Eq)]
        #[non_exhaustive]
        pub enum Code {
            $($(#[$doc])* $name,)*
            /// Any other code, for example `OOM`, `READONLY` or `LOADING`.
            Other(String),
        }

        impl Code {
            fn of(code: &str) -> Self {
                match code {
                    $($text => Self::$name,)*
                    other => Self::Other(other.to_owned()),
                }
            }

            /// Returns the code as the server writes it.
            pub fn as_str(&self) -> &str {
                match self {
                    $(Self::$name => $text,)*
                    Self::Other(code) => code,
                }
            }
        }
    };
}

codes! {
    /// `ERR`: bad arguments, or an unknown command if the module is not loaded.
    Err = "ERR"
    /// `WRONGTYPE`: the key holds another type.
    WrongType = "WRONGTYPE"
    /// `NOTEXPIRING`: the sorted set is no expiring set.
    NotExpiring = "NOTEXPIRING"
    /// `NOTLIMIT`: the string is no limit, or a limit of another algorithm.
    NotLimit = "NOTLIMIT"
    /// `QUEUEFULL`: the queue holds MAXLEN jobs.
    QueueFull = "QUEUEFULL"
    /// `NOBOARD`: there is no such leaderboard.
    NoBoard = "NOBOARD"
    /// `BUSYKEY`: the key holds a leaderboard of another schema.
    BusyKey = "BUSYKEY"
    /// `NOPERM`: the user has no permission.
    NoPermission = "NOPERM"
}

/// An error of this crate.
///
#[doc = example!(
    "match zrl::check(\"search:ann\", 5, \"1m\").query(&mut redis) {\n",
    "    Ok(check) => println!(\"{}\", check.allowed),\n",
    "    Err(error) if error.code() == Some(&zeitset_client::Code::NotLimit) => println!(\"the key holds another type\"),\n",
    "    Err(error) if error.is_refusal() => println!(\"no memory or no replicas, perhaps: {error}\"),\n",
    "    Err(error) if error.is_temporary() => println!(\"Redis is away: {error}\"),\n",
    "    Err(error) => return Err(error),\n}"
)]
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Error {
    /// The server refused the command.
    Server {
        /// The code of the error.
        code: Code,
        /// The text after the code.
        message: String,
    },
    /// The connection failed, or the reply was unexpected.
    Connection(RedisError),
    /// There was no reply in time.
    Timeout(String),
    /// The cost is above the limit, so the call can never succeed. No command was sent.
    CostTooHigh {
        /// The cost of the call.
        cost: u64,
        /// The limit.
        limit: u64,
    },
    /// An argument is invalid. No command was sent.
    Argument(String),
    /// A payload cannot be encoded or decoded.
    Payload(String),
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Server { code, message } => write!(f, "{} {message}", code.as_str()),
            Self::Connection(error) => error.fmt(f),
            Self::CostTooHigh { cost, limit } => write!(f, "a cost of {cost} can never fit into a limit of {limit}"),
            Self::Timeout(text) | Self::Argument(text) | Self::Payload(text) => f.write_str(text),
        }
    }
}

impl std::error::Error for Error {}

impl From<RedisError> for Error {
    fn from(error: RedisError) -> Self {
        match (error.kind(), error.code()) {
            (ErrorKind::Server(_) | ErrorKind::Extension, Some(code)) => {
                Self::Server { code: Code::of(code), message: error.detail().unwrap_or_default().to_owned() }
            }
            // Servers refuse credentials with these codes, which the client replaces with a kind.
            (ErrorKind::AuthenticationFailed, _) => {
                Self::Server { code: Code::Other("WRONGPASS".into()), message: error.to_string() }
            }
            _ => Self::Connection(error),
        }
    }
}

impl From<redis::ParsingError> for Error {
    fn from(error: redis::ParsingError) -> Self {
        Self::Connection(error.into())
    }
}

/// Codes of errors after which the same connection works: memory or disk is full, replicas are missing, a script runs.
const REFUSALS: [&str; 4] = ["OOM", "MISCONF", "NOREPLICAS", "BUSY"];

/// Codes of permanent errors. All other codes are temporary: they may come from a proxy, or from a later server.
const PERMANENT: [&str; 12] = [
    "WRONGTYPE",
    "NOTEXPIRING",
    "NOTLIMIT",
    "NOBOARD",
    "BUSYKEY",
    "QUEUEFULL",
    "NOPERM",
    "NOAUTH",
    "WRONGPASS",
    "NOPROTO",
    "CROSSSLOT",
    "EXECABORT",
];

/// The beginnings of permanent `ERR` errors. Other `ERR` errors are temporary, such as `max number of clients reached`.
const LASTING: [&str; 15] = [
    "unknown ",
    "wrong number ",
    "syntax error",
    "invalid",
    "value ",
    "time is ",
    "the ",
    "db index",
    "numkeys",
    "a key ",
    "precision ",
    "number of keys ",
    "worker name ",
    "job id ",
    "again requires ",
];

impl Error {
    /// Returns the code, if the error is a reply of the server.
    pub fn code(&self) -> Option<&Code> {
        match self {
            Self::Server { code, .. } => Some(code),
            _ => None,
        }
    }

    /// Whether the server refuses the command for now, although it is the right server for the key.
    pub fn is_refusal(&self) -> bool {
        self.code().is_some_and(|code| REFUSALS.contains(&code.as_str()))
    }

    /// Whether the error is temporary: Redis is away, is loading its data, or has no memory. An error reply with an
    /// unknown code is temporary.
    pub fn is_temporary(&self) -> bool {
        match self {
            Self::Server { code: Code::Err, message } => {
                let text = message.to_ascii_lowercase();
                !LASTING.iter().any(|start| text.starts_with(start))
            }
            Self::Server { code, .. } => !PERMANENT.contains(&code.as_str()),
            Self::Connection(error) => error.kind() != ErrorKind::InvalidClientConfig,
            Self::Timeout(_) => true,
            Self::CostTooHigh { .. } | Self::Argument(_) | Self::Payload(_) => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn server(reply: &str) -> Error {
        let (code, message) = reply.split_once(' ').unwrap_or((reply, ""));
        Error::Server { code: Code::of(code), message: message.into() }
    }

    #[test]
    fn lasting_errors_are_told_from_temporary_ones() {
        let temporary = ["LOADING", "OOM x", "MOVED 1 h:1", "ERR max number of clients reached", "ERR upstream", ""];
        for reply in temporary.into_iter().chain(["upstream failure", "NEWCODE x", "NOSCRIPT", "-"]) {
            assert!(server(reply).is_temporary(), "{reply}");
        }
        let permanent = ["WRONGTYPE", "NOPERM", "NOAUTH", "CROSSSLOT", "EXECABORT", "ERR unknown command 'ZQ.CLAIM'"];
        let of_the_module = [
            "ERR worker name must have 1 to 255 bytes",
            "ERR job ID must not be empty",
            "ERR AGAIN requires a job ID",
            "ERR Number of keys can't be greater than number of args",
        ];
        for reply in permanent.into_iter().chain(of_the_module) {
            assert!(!server(reply).is_temporary(), "{reply}");
        }
        assert!(server("BUSY").is_refusal() && !server("READONLY").is_refusal());
    }
}
