//! Header fields for HTTP: Retry-After, and the fields of draft-ietf-httpapi-ratelimit-headers-11.

use super::{Decision, Policy};
use crate::zrl::Check;
use std::fmt::Write;
use std::time::Duration;

/// The largest integer of structured fields (RFC 9651).
const MOST: u64 = 999_999_999_999_999;

pub(super) fn fields(decision: &Decision) -> Vec<(&'static str, String)> {
    let (mut policies, mut limits, mut retry_after) = (String::new(), String::new(), None);
    for (at, policy) in decision.policies.iter().enumerate() {
        let Policy { name, limit, window_ms, unit } = &**policy;
        let window = seconds(Duration::from_millis(*window_ms));
        let separator = if at > 0 { ", " } else { "" };
        let _ = write!(policies, "{separator}{};q={};w={window}", quoted(name), whole(*limit));
        if let Some(unit) = unit {
            let _ = write!(policies, ";qu={}", quoted(unit));
        }
        if decision.error.is_some() {
            continue;
        }
        let check = &decision.checks[at];
        let t = effective_window(check, *limit, window);
        let _ = write!(limits, "{separator}{};r={};t={t}", quoted(name), whole(check.remaining));
        if check.retry_after.is_some_and(|wait| !wait.is_zero()) {
            retry_after = retry_after.max(Some(t));
        }
    }
    let mut fields = vec![("RateLimit-Policy", policies)];
    if !limits.is_empty() {
        fields.push(("RateLimit", limits));
    }
    // A call that one limit never allows has no wait.
    let is_hopeless = decision.checks.iter().any(|check| check.retry_after.is_none());
    fields.extend(retry_after.filter(|_| !is_hopeless).map(|wait| ("Retry-After", wait.to_string())));
    fields
}

/// Returns the longer of two times, in seconds: the wait, and `window` × `remaining` / `limit`. So the fields never
/// suggest a rate above the limit.
fn effective_window(check: &Check, limit: u64, window: u64) -> u64 {
    let wait = match check.retry_after {
        Some(wait) if !wait.is_zero() => wait,
        _ => check.reset_after,
    };
    let fair = (u128::from(window) * u128::from(whole(check.remaining))).div_ceil(u128::from(limit.max(1)));
    seconds(wait).max(whole(u64::try_from(fair).unwrap_or(MOST)))
}

/// Returns whole seconds, rounded up, so that a client waits long enough.
fn seconds(duration: Duration) -> u64 {
    whole(u64::try_from(duration.as_millis().div_ceil(1000)).unwrap_or(MOST))
}

fn whole(value: u64) -> u64 {
    value.min(MOST)
}

fn quoted(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
}
