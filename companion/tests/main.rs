//! The companion against real servers with the built module.

mod support;

mod browser;
mod demo;
mod metrics;
mod packaging;
mod proxy;
mod slow;
mod tls;
mod top;
mod views;
mod web;
