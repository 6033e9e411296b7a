//! Typed commands: one function for each command of the module. The result of a function has a method for each option,
//! with the name of the option.
//!
//! ```
//! # fn main() -> Result<(), zeitset_client::Error> {
//! # let Some(url) = std::env::var("ZEITSET_URL").ok() else { return Ok(()) };
//! use zeitset_client::{zexp, zrl};
//!
//! let mut connection = redis::Client::open(url)?.get_connection()?;
//! let check = zrl::check("search:ann", 5, "1m").cost(2).query(&mut connection)?;
//! println!("{} {}", check.allowed, check.remaining);
//!
//! // A call is a command of the crate redis: in pipelines, in transactions, on any connection.
//! let mut pipe = redis::pipe();
//! pipe.atomic().add_command(zexp::add("seen", "60d", ["message-1"]).nx().into());
//! pipe.add_command(zexp::card("seen").into());
//! let (is_new, count): (bool, u64) = pipe.query(&mut connection)?;
//! # assert!(!is_new || count > 0);
//! # Ok(())
//! # }
//! ```

use crate::error::Error;
use redis::{Cmd, FromRedisValue, ToRedisArgs};
use std::fmt;
use std::marker::PhantomData;

/// A command that has not been sent. `C` is the command, which determines the options; `R` is the type of the reply.
#[must_use = "a call does nothing until it is sent"]
pub struct Call<C, R> {
    cmd: Cmd,
    /// The arguments that follow the options.
    tail: Vec<Vec<u8>>,
    types: PhantomData<fn() -> (C, R)>,
}

impl<C, R> Call<C, R> {
    fn new(name: &str) -> Self {
        // Room for the arguments of most calls.
        let mut cmd = Cmd::with_capacity(8, 96);
        cmd.arg(name);
        Self { cmd, tail: Vec::new(), types: PhantomData }
    }

    /// Returns options without a command, for [`with_options`](Self::with_options).
    #[cfg(feature = "queue")]
    pub(crate) fn options() -> Self {
        Self { cmd: Cmd::new(), tail: Vec::new(), types: PhantomData }
    }

    #[cfg(feature = "queue")]
    pub(crate) fn with_options(mut self, options: Self) -> Self {
        for argument in options.cmd.args_iter() {
            if let redis::Arg::Simple(argument) = argument {
                self.cmd.arg(argument);
            }
        }
        self
    }

    fn with(mut self, argument: impl ToRedisArgs) -> Self {
        self.cmd.arg(argument);
        self
    }

    /// Adds arguments after the options.
    fn then(mut self, arguments: impl ToRedisArgs) -> Self {
        self.tail.extend(arguments.to_redis_args());
        self
    }

    /// Reads the reply as another type, for example IDs as bytes.
    pub fn reply_as<T>(self) -> Call<C, T> {
        Call { cmd: self.cmd, tail: self.tail, types: PhantomData }
    }

    /// Returns the command.
    ///
    #[doc = example!(r#"let get: redis::Cmd = zq::get("letters", "mail:1").into_cmd();"#)]
    pub fn into_cmd(self) -> Cmd {
        let mut cmd = self.cmd;
        cmd.arg(self.tail);
        cmd
    }
}

impl<C, R: FromRedisValue> Call<C, R> {
    /// Sends the command, and reads the reply.
    pub fn query(self, connection: &mut dyn redis::ConnectionLike) -> Result<R, Error> {
        Ok(self.into_cmd().query(connection)?)
    }

    /// Sends the command, and reads the reply.
    ///
    #[doc = example!(builder "let mut redis = redis;\nlet live = zexp::card(\"online\").query_async(&mut redis).await?;")]
    #[cfg(feature = "async")]
    pub async fn query_async(self, connection: &mut impl redis::aio::ConnectionLike) -> Result<R, Error> {
        Ok(self.into_cmd().query_async(connection).await?)
    }
}

impl<C, R> From<Call<C, R>> for Cmd {
    fn from(call: Call<C, R>) -> Cmd {
        call.into_cmd()
    }
}

impl<C, R> Clone for Call<C, R> {
    fn clone(&self) -> Self {
        Self { cmd: self.cmd.clone(), tail: self.tail.clone(), types: PhantomData }
    }
}

impl<C, R> fmt::Debug for Call<C, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let words = self.clone().into_cmd();
        let words = words.args_iter().map(|word| match word {
            redis::Arg::Simple(bytes) => String::from_utf8_lossy(bytes).into_owned(),
            _ => "?".into(),
        });
        f.debug_list().entries(words).finish()
    }
}

/// The type of a parameter, by its kind.
macro_rules! kind {
    (text) => { impl redis::ToSingleRedisArg };
    (texts) => { impl redis::ToRedisArgs };
    (period) => { impl Into<crate::Period> };
    (moment) => { impl Into<crate::Moment> };
    (yes_no) => { bool };
    ($number:ident) => { $number };
}

/// The argument of a command, by the kind of the parameter.
macro_rules! argument {
    (period $value:expr) => {
        Into::<crate::Period>::into($value)
    };
    (moment $value:expr) => {
        Into::<crate::Moment>::into($value)
    };
    (yes_no $value:expr) => {
        if $value { "yes" } else { "no" }
    };
    ($kind:ident $value:expr) => {
        $value
    };
}

/// Defines commands:
///
/// - The parameters after `;` follow the options.
/// - `+` lists tokens that code below the macro sends.
/// - `&` lists commands with the same options that code below the macro calls.
/// - `>` begins the example of a public function. Before options, `>` begins the call for the examples of the options.
/// - The value after a parameter's `=` is for the example.
macro_rules! commands {
    ($(
        $(#[$doc:meta])*
        $(> $example:literal $visible:vis)?
        $command:ident $name:ident($($arg:ident: $kind:ident),* $(; $($last:ident: $last_kind:ident),*)?) -> $reply:ty = $word:literal
        $({
            > $base:literal
            $(
                $(#[$option_doc:meta])*
                $option:ident($($value:ident: $value_kind:ident = $sample:expr),*) = $token:literal $(> $own_base:literal)?,
            )*
        })?
        $(+ [$($also:literal)*])?
        $(& [$($alike:literal)*])?
    )*) => {
        $(
            #[doc = concat!("The command `", $word, "`.")]
            #[derive(Clone, Copy, Debug)]
            pub struct $command;

            impl $command {
                const TOKENS: &[&str] = &[$($($token,)*)? $($($also,)*)?];
            }

            $(#[$doc])*
            ///
            #[doc = concat!("Calls `", $word, "`.")]
            ///
            $(#[doc = example!($example)])?
            $($visible)? fn $name($($arg: $crate::commands::kind!($kind),)* $($($last: $crate::commands::kind!($last_kind)),*)?) -> Call<$command, $reply> {
                Call::new($word)
                    $(.with($crate::commands::argument!($kind $arg)))*
                    $($(.then($crate::commands::argument!($last_kind $last)))*)?
            }

            $(impl<R> Call<$command, R> { $(
                $(#[$option_doc])*
                ///
                #[doc = concat!("Adds `", $token, "`.")]
                ///
                #[doc = example!(first!($($own_base)? $base), call!($option $($sample),*), ".query(&mut redis)?;")]
                pub fn $option(self, $($value: $crate::commands::kind!($value_kind)),*) -> Self {
                    self.with($token) $(.with($crate::commands::argument!($value_kind $value)))*
                }
            )* })?
        )*

        /// The commands of this module, and the tokens of their options.
        #[doc(hidden)]
        pub const COMMANDS: &[(&str, &[&str])] =
            &[$(($word, $command::TOKENS), $($(($alike, $command::TOKENS),)*)?)*];
    };
}
pub(crate) use {argument, kind};

/// Returns the items of a reply that is an array.
pub(crate) fn items(reply: redis::Value) -> Result<std::vec::IntoIter<redis::Value>, redis::ParsingError> {
    match reply {
        redis::Value::Array(items) => Ok(items.into_iter()),
        other => Ok(Vec::<redis::Value>::from_redis_value(other)?.into_iter()),
    }
}

/// Reads the next item of an array. A missing item is read like null. Newer versions of the module may add items.
pub(crate) fn next<T: FromRedisValue>(items: &mut std::vec::IntoIter<redis::Value>) -> Result<T, redis::ParsingError> {
    T::from_redis_value(items.next().unwrap_or(redis::Value::Nil))
}

/// Returns the fields of a reply that is a map.
fn fields(reply: redis::Value) -> Result<std::collections::HashMap<String, redis::Value>, redis::ParsingError> {
    redis::from_redis_value(reply)
}

/// Defines a struct of a reply. `map`: a map whose fields have the names of the struct's fields. `array`: an array whose
/// items have the order of the struct's fields.
macro_rules! reply {
    ($kind:ident $(#[$doc:meta])* $name:ident $(<$text:ident>)? { $($(#[$field_doc:meta])* $field:ident: $type:ty,)* }) => {
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq, Eq)]
        pub struct $name $(<$text = String>)? { $($(#[$field_doc])* pub $field: $type,)* }

        impl $(<$text: redis::FromRedisValue>)? redis::FromRedisValue for $name $(<$text>)? {
            fn from_redis_value(reply: redis::Value) -> Result<Self, redis::ParsingError> {
                let mut parts = reply!($kind reply);
                Ok(Self { $($field: reply!($kind parts $field)),* })
            }
        }
    };
    (map $reply:ident) => { $crate::commands::fields($reply)? };
    (map $fields:ident $name:ident) => {
        redis::from_redis_value($fields.remove(stringify!($name)).unwrap_or(redis::Value::Nil))?
    };
    (array $reply:ident) => { $crate::commands::items($reply)? };
    (array $items:ident $name:ident) => { $crate::commands::next(&mut $items)? };
}
pub(crate) use reply;

pub mod zexp;
pub mod zlb;
pub mod zq;
pub mod zrl;
