//! Macros for builders and for the examples of the documentation.

/// Returns an example for the documentation, which runs if the environment variable `ZEITSET_URL` names a server. The
/// example has a connection `redis`, or the `limiter` or `queue` that the first word names.
macro_rules! example {
    (limiter $code:literal) => {
        example!(async "# let limiter = Limiter::new(redis, \"examples\", \"100/1m\")?;\n", $code)
    };
    (queue $code:literal) => {
        example!(async "# let queue = Queue::<_, String>::new(redis, \"examples\");\n", $code)
    };
    (async $start:literal, $code:literal) => {
        concat!(
            "```\n# use zeitset_client::*;\n# let Some(url) = std::env::var(\"ZEITSET_URL\").ok() else { return };\n",
            "# tokio::runtime::Runtime::new().unwrap().block_on(async {\n",
            "# let redis = redis::Client::open(url)?.get_multiplexed_async_connection().await?;\n",
            $start,
            $code,
            "\n# Ok::<(), Error>(())\n# }).unwrap();\n```"
        )
    };
    ($code:literal) => {
        concat!(
            "```\n# use zeitset_client::{zexp, zlb, zq, zrl};\n# fn main() -> Result<(), zeitset_client::Error> {\n",
            "# let Some(url) = std::env::var(\"ZEITSET_URL\").ok() else { return Ok(()) };\n",
            "# let mut redis = redis::Client::open(url)?.get_connection()?;\n",
            $code,
            "\n# Ok(())\n# }\n```"
        )
    };
}

/// Defines methods of a builder: each changes the builder, and returns it.
#[cfg(any(feature = "limiter", feature = "queue"))]
macro_rules! setters {
    ($this:ident; $($(#[$doc:meta])* $name:ident($($arg:ident: $type:ty)?) $change:block)*) => {$(
        $(#[$doc])*
        pub fn $name(mut $this, $($arg: $type)?) -> Self {
            $change;
            $this
        }
    )*};
}
