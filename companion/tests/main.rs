//! Tests of the companion with real servers that have loaded the built module.

mod support;

mod browser;
mod celery;
mod demo;
mod letters;
mod limits;
mod metrics;
mod packaging;
mod pages;
mod proxy;
mod screens;
mod search;
mod slow;
mod tasks;
mod tls;
mod top;
mod views;
mod web;
