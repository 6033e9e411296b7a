//! The examples do what they promise: the tour prints the same in every language, and the web services keep to their
//! limits under load.
//!
//! Those in other languages fetch client libraries, so only `make examples` runs them. A language that is not installed, or
//! whose library cannot be had, is skipped, which is said; EXAMPLES="python node" names those that must not be.

mod clients;
mod tour;
mod web;
