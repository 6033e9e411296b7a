//! Tests of the companion with real servers that have loaded the built module.

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
