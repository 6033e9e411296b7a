//! Checks of requests.
//!
//! Another site that is open in the same browser must neither read this page nor press its buttons:
//! - The `Host` header must be one of this program's names. A foreign name that resolves to 127.0.0.1 is refused.
//! - A change is a POST with the forms' token. Its `Origin` header, if any, must have the requested host name or a name
//!   of `--host`.
//! - `Content-Security-Policy` allows nothing from elsewhere and no inline scripts, in case escaping fails.

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
        // Slows down password guessing.
        if headers.contains_key(header::AUTHORIZATION) {
            tokio::time::sleep(Duration::from_millis(500)).await;
        }
        let challenge = [(header::WWW_AUTHENTICATE, "Basic realm=\"zeitset\", charset=\"UTF-8\"")];
        let problem = Problem::new(StatusCode::UNAUTHORIZED, "The password is required.").into_response();
        return Some((challenge, problem).into_response());
    }
    if matches!(method, Method::GET | Method::HEAD) {
        return None;
    }
    if !app.settings.write {
        let why = "This page only reads. Start it with --write to allow actions.";
        return Some(Problem::new(StatusCode::FORBIDDEN, why).into_response());
    }
    // A proxy may replace the name in `Host`. `--host` gives the name that the browser uses.
    let is_own = |name: &str| name == host || app.settings.hosts.iter().any(|known| known.eq_ignore_ascii_case(name));
    let is_foreign = |origin: &str| !origin.split_once("://").is_some_and(|(_, name)| is_own(name));
    if text(headers, header::ORIGIN).is_some_and(is_foreign) {
        return Some(Problem::new(StatusCode::FORBIDDEN, "The request comes from another page.").into_response());
    }
    None
}

fn text(headers: &HeaderMap, name: header::HeaderName) -> Option<&str> {
    headers.get(name)?.to_str().ok()
}

/// Whether `host` names this program: an address on which it listens, `localhost` if it listens on a loopback address
/// or on all addresses, or a name of `--host`. A port after an address or `localhost` must be the program's port.
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
        // If the program listens on all addresses, any IP address is valid. A host name is not.
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

/// Compares two secrets in constant time.
pub fn is_same(one: &[u8], other: &[u8]) -> bool {
    one.len() == other.len() && one.iter().zip(other).fold(0, |all, (a, b)| all | (a ^ b)) == 0
}
