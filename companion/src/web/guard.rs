//! Which requests are served.
//!
//! A page of somebody else, open in the same browser, must neither read this one nor press its buttons:
//! - The `Host` header must be a name of this program's own; a foreign name that was made to point to 127.0.0.1 is refused.
//! - What changes something is a POST that carries the token of the forms, and an `Origin`, if any, of this page.
//! - `Content-Security-Policy` allows nothing from elsewhere and no script in the page, if escaping should ever fail.

use super::{App, Problem};
use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use base64::Engine;
use std::sync::Arc;
use std::time::Duration;

const POLICY: &str = "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self'; connect-src 'self'; \
                      form-action 'self'; base-uri 'none'; frame-ancestors 'none'";

pub async fn check(State(app): State<Arc<App>>, request: Request, next: Next) -> Response {
    let mut response = match refusal(&app, request.method().clone(), request.headers().clone()).await {
        Some(refusal) => refusal,
        None => next.run(request).await,
    };
    let headers = response.headers_mut();
    for (name, value) in [
        (header::CONTENT_SECURITY_POLICY, POLICY),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::REFERRER_POLICY, "same-origin"),
        (header::X_FRAME_OPTIONS, "DENY"),
    ] {
        headers.insert(name, HeaderValue::from_static(value));
    }
    headers.entry(header::CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
    response
}

async fn refusal(app: &App, method: Method, headers: HeaderMap) -> Option<Response> {
    let headers = &headers;
    let Some(host) = text(headers, header::HOST).filter(|host| is_known(app, host)) else {
        let why = "This name is not one of the page's own. Start it with --host NAME if it should be.";
        return Some(Problem::new(StatusCode::MISDIRECTED_REQUEST, why).into_response());
    };
    if !has_password(app, headers) {
        // Guessing takes its time.
        if headers.contains_key(header::AUTHORIZATION) {
            tokio::time::sleep(Duration::from_millis(500)).await;
        }
        let challenge = [(header::WWW_AUTHENTICATE, "Basic realm=\"zeitset\", charset=\"UTF-8\"")];
        let problem = Problem::new(StatusCode::UNAUTHORIZED, "The password is wanted.").into_response();
        return Some((challenge, problem).into_response());
    }
    if matches!(method, Method::GET | Method::HEAD) {
        return None;
    }
    if !app.settings.write {
        let why = "This page only reads. Start it with --write to allow actions.";
        return Some(Problem::new(StatusCode::FORBIDDEN, why).into_response());
    }
    let is_foreign = |origin: &str| origin.split_once("://").is_none_or(|(_, name)| name != host);
    if text(headers, header::ORIGIN).is_some_and(is_foreign) {
        return Some(Problem::new(StatusCode::FORBIDDEN, "The request comes from another page.").into_response());
    }
    None
}

fn text(headers: &HeaderMap, name: header::HeaderName) -> Option<&str> {
    headers.get(name)?.to_str().ok()
}

/// The address, `localhost` on it, or a name of `--host`.
fn is_known(app: &App, host: &str) -> bool {
    let (name, port) = match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|digit| digit.is_ascii_digit()) => (name, Some(port)),
        _ => (host, None),
    };
    let settings = &app.settings;
    if settings.hosts.iter().any(|known| known.eq_ignore_ascii_case(name) || known.eq_ignore_ascii_case(host)) {
        return true;
    }
    let is_our_port = port.is_none_or(|port| port.parse() == Ok(app.port));
    let ip = settings.listen.ip();
    let is_address = name.trim_matches(['[', ']']).parse::<std::net::IpAddr>().is_ok_and(|named| {
        // One that listens everywhere is asked by any of its addresses. A name would be another matter.
        ip.is_unspecified() || named == ip || named.is_loopback() && ip.is_loopback()
    });
    is_our_port && (is_address || name.eq_ignore_ascii_case("localhost") && (ip.is_loopback() || ip.is_unspecified()))
}

fn has_password(app: &App, headers: &HeaderMap) -> bool {
    let Some(password) = &app.settings.password else { return true };
    let given = text(headers, header::AUTHORIZATION).and_then(|value| {
        let encoded = value.strip_prefix("Basic ")?;
        let decoded = base64::engine::general_purpose::STANDARD.decode(encoded.trim()).ok()?;
        let colon = decoded.iter().position(|byte| *byte == b':')?;
        Some(decoded[colon + 1..].to_vec())
    });
    given.is_some_and(|given| is_same(&given, password.as_bytes()))
}

/// Compares in a time that does not tell how much of it is right.
pub fn is_same(one: &[u8], other: &[u8]) -> bool {
    one.len() == other.len() && one.iter().zip(other).fold(0, |all, (a, b)| all | (a ^ b)) == 0
}
