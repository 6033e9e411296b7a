//! The companion against real servers with the built module.

mod support;

mod browser;
mod metrics;
mod packaging;
mod tls;
mod top;
mod web;
