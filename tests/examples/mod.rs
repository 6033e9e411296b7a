//! The examples. The tour prints the same in every language, and the web services enforce their limits under load.
//!
//! Examples in other languages fetch client libraries, so only `make examples` runs them. If a language is not
//! installed, or its library is not available, the tests print that they skip it. EXAMPLES="python node" names
//! languages that must not be skipped.

mod clients;
mod tour;
mod web;
