//! Macros for builders and for the examples of the documentation.

/// Returns an example for the documentation, which runs if the environment variable `ZEITSET_URL` names a server. The
/// example has a connection `redis`, or the `limiter`, `queue` or `client` that the first word names. The code may have
/// several parts.
macro_rules! example {
    (limiter $($code:tt)*) => {
        example!(async "# let limiter = Limiter::new(redis, \"examples\", \"100/1m\")?;\n", $($code)*)
    };
    (builder $($code:tt)*) => {
        example!(async "", $($code)*)
    };
    (queue $($code:tt)*) => {
        example!(async "# let queue = Queue::<_, String>::new(redis, \"examples\");\n", $($code)*)
    };
    (worker $($code:tt)*) => {
        example!(async
            "# let client = redis::Client::open(std::env::var(\"ZEITSET_URL\").unwrap())?;\n# async fn handler(_: Job<String>) -> Result<(), Error> { Ok(()) }\n",
            $($code)*)
    };
    (async $start:literal, $($code:tt)*) => {
        concat!(
            "```\n# use zeitset_client::*;\n# let Some(url) = std::env::var(\"ZEITSET_URL\").ok() else { return };\n",
            "# tokio::runtime::Runtime::new().unwrap().block_on(async {\n",
            "# let redis = redis::Client::open(url)?.get_multiplexed_async_connection().await?;\n",
            $start,
            $($code)*,
            "\n# Ok::<(), Error>(())\n# }).unwrap();\n```"
        )
    };
    ($($code:tt)*) => {
        concat!(
            "```\n# use zeitset_client::{zexp, zlb, zq, zrl};\n# fn main() -> Result<(), zeitset_client::Error> {\n",
            "# let Some(url) = std::env::var(\"ZEITSET_URL\").ok() else { return Ok(()) };\n",
            "# let mut redis = redis::Client::open(url)?.get_connection()?;\n",
            $($code)*,
            "\n# Ok(())\n# }\n```"
        )
    };
}

/// Returns the first of one or two texts.
macro_rules! first {
    ($first:literal $($second:literal)?) => {
        $first
    };
}

/// Returns the text of a method call.
macro_rules! call {
    ($method:ident $($first:expr $(, $other:expr)*)?) => {
        concat!(".", stringify!($method), "(", $(stringify!($first), $(", ", stringify!($other),)*)? ")")
    };
}

/// Defines methods of a builder. Each method changes the builder, and returns it. The brackets contain the kind, the
/// beginning and the end of each example. The value after a parameter's `=` is for the example.
#[cfg(any(feature = "limiter", feature = "queue"))]
macro_rules! setters {
    ($this:ident [$kind:ident $base:literal $end:literal] $(
        $(#[$doc:meta])* $name:ident($($arg:ident: $type:ty = $sample:expr)?) $(> $own_base:literal)? $change:block
    )*) => {$(
        $(#[$doc])*
        ///
        #[doc = example!($kind first!($($own_base)? $base), call!($name $($sample)?), $end)]
        pub fn $name(mut $this, $($arg: $type)?) -> Self {
            $change;
            $this
        }
    )*};
}
