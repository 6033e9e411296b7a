//! A layer of tower that limits requests, for axum, hyper and tonic. It answers 429 if a limit denies.
//!
//! ```
//! # async fn run() -> Result<(), zeitset_client::Error> {
//! # let Some(url) = std::env::var("ZEITSET_URL").ok() else { return Ok(()) };
//! use axum::{Router, routing::get};
//! use zeitset_client::{Limiter, tower::{LimitLayer, by_header}};
//!
//! let redis = redis::Client::open(url)?.get_connection_manager().await?;
//! let limiter = Limiter::new(redis, "api", "100/1m")?;
//! let app: Router = Router::new()
//!     .route("/", get(async || "hello"))
//!     .layer(LimitLayer::new([limiter], by_header("x-api-key")));
//! # Ok(())
//! # }
//! # tokio::runtime::Runtime::new().unwrap().block_on(run()).unwrap();
//! ```

pub use crate::identity::client_network;

use crate::error::Error;
use crate::identity::{UNKNOWN, client_of};
use crate::limiter::{Connection, Decision, Limiter, check_all, reserve_all};
use http::header::{CONTENT_TYPE, HeaderName, HeaderValue};
use http::request::Parts;
use http::{HeaderMap, Request, Response, StatusCode};
use http_body::Body;
use http_body_util::{Either, Full};
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use tower_layer::Layer;
use tower_service::Service;

type KeyOf = Arc<dyn Fn(&Parts) -> Option<String> + Send + Sync>;
type CostOf = Arc<dyn Fn(&Parts) -> u64 + Send + Sync>;

/// Returns a key function: the client's IPv4 address, or the /56 network of its IPv6 address. Clients without an
/// address, for example on a Unix socket, share the key `unknown`.
///
/// The address is in the extensions of the request, as an [`IpAddr`], as a [`SocketAddr`] or, with the feature `axum`,
/// as `ConnectInfo<SocketAddr>`. Behind a proxy, use [`by_client_behind`].
///
#[doc = example!(limiter "use zeitset_client::tower::*;\nlet layer = LimitLayer::new([limiter], by_client());")]
pub fn by_client() -> impl Fn(&Parts) -> Option<String> + Clone {
    by_client_behind(0, 56)
}

/// Like [`by_client`], behind this number of proxies, each of which adds an address to `X-Forwarded-For`. `ipv6` is the
/// number of bits of IPv6 networks.
///
#[doc = example!(limiter "use zeitset_client::tower::*;\nlet layer = LimitLayer::new([limiter], by_client_behind(1, 56));")]
pub fn by_client_behind(proxies: usize, ipv6: u8) -> impl Fn(&Parts) -> Option<String> + Clone {
    move |parts| {
        let fields: Vec<_> =
            parts.headers.get_all("x-forwarded-for").iter().filter_map(|value| value.to_str().ok()).collect();
        let forwarded = Some(fields.join(",")).filter(|_| proxies > 0);
        let client = client_of(peer_of(parts), forwarded.as_deref(), proxies);
        Some(client.map_or_else(|| UNKNOWN.to_owned(), |client| client_network(client, ipv6)))
    }
}

fn peer_of(parts: &Parts) -> Option<IpAddr> {
    #[cfg(feature = "axum")]
    if let Some(axum::extract::ConnectInfo(address)) = parts.extensions.get::<axum::extract::ConnectInfo<SocketAddr>>()
    {
        return Some(address.ip());
    }
    let address = parts.extensions.get::<IpAddr>().copied();
    address.or_else(|| Some(parts.extensions.get::<SocketAddr>()?.ip()))
}

/// Returns a key function: the value of a header field, for example of an API key that an inner layer has checked. A
/// request without the field has the key "".
///
#[doc = example!(limiter "use zeitset_client::tower::*;\nlet layer = LimitLayer::new([limiter], by_header(\"x-api-key\"));")]
pub fn by_header(name: &'static str) -> impl Fn(&Parts) -> Option<String> + Clone {
    move |parts| {
        let value = parts.headers.get(name).map_or(&[][..], HeaderValue::as_bytes);
        Some(String::from_utf8_lossy(value).into_owned())
    }
}

/// Returns a key function: the path of the request.
///
#[doc = example!(limiter "use zeitset_client::tower::*;\nlet layer = LimitLayer::new([limiter], by_path());")]
pub fn by_path() -> impl Fn(&Parts) -> Option<String> + Clone {
    |parts| Some(parts.uri.path().to_owned())
}

/// Limits requests. See the [module](self).
#[derive(Clone)]
pub struct LimitLayer<C> {
    limits: Arc<[Limiter<C>]>,
    key: KeyOf,
    cost: CostOf,
    refunds: bool,
}

impl<C: Connection> LimitLayer<C> {
    /// Returns a layer. A request needs units of all limits. `key` returns the key of the client: it is [`by_client`],
    /// [`by_header`], [`by_path`] or a closure. A request without a key is not limited.
    pub fn new<K: Into<Option<String>>>(
        limits: impl IntoIterator<Item = Limiter<C>>,
        key: impl Fn(&Parts) -> K + Send + Sync + 'static,
    ) -> Self {
        let limits = limits.into_iter().collect();
        Self { limits, key: Arc::new(move |parts| key(parts).into()), cost: Arc::new(|_| 1), refunds: false }
    }

    setters! { self [limiter "use zeitset_client::tower::*;\nlet layer = LimitLayer::new([limiter], by_path())" ";"]
        /// How many units a request costs; 1 by default. A cost above the limit is an error: the layer answers 500.
        cost(cost: impl Fn(&Parts) -> u64 + Send + Sync + 'static = |parts| if parts.method == "POST" { 5 } else { 1 }) {
            self.cost = Arc::new(cost)
        }
        /// Refunds the units of a request that is cancelled before its response, for example because the client has
        /// closed the connection, or because an outer layer has a time limit. False by default.
        refund_cancelled(refunds: bool = true) { self.refunds = refunds }
    }

    async fn decide(&self, parts: &Parts) -> Result<Option<(Decision, Option<crate::Reservation<C>>)>, Error> {
        let Some(key) = (self.key)(parts) else { return Ok(None) };
        let cost = (self.cost)(parts);
        if self.refunds {
            let asks = self.limits.iter().map(|limiter| (limiter.clone(), key.clone(), cost)).collect();
            let reservation = reserve_all(asks).await?;
            return Ok(Some((reservation.decision().clone(), Some(reservation))));
        }
        let asks: Vec<_> = self.limits.iter().map(|limiter| (limiter, key.as_str(), cost)).collect();
        Ok(Some((check_all(&asks).await?, None)))
    }
}

impl<C: Connection, S> Layer<S> for LimitLayer<C> {
    type Service = Limit<C, S>;

    fn layer(&self, inner: S) -> Limit<C, S> {
        Limit { layer: self.clone(), inner }
    }
}

/// The service of a [`LimitLayer`].
///
#[doc = example!(limiter
    "use ::tower::{Layer, ServiceExt, service_fn};\nuse axum::body::Body;\n",
    "use http::{Request, Response};\nuse zeitset_client::tower::{Limit, LimitBody, LimitLayer, by_path};\n\n",
    "let inner = service_fn(async |_: Request<Body>| Ok::<_, Error>(Response::new(Body::empty())));\n",
    "let service: Limit<_, _> = LimitLayer::new([limiter], by_path()).layer(inner);\n",
    "let response: Response<LimitBody<Body>> = service.oneshot(Request::new(Body::empty())).await?;\n",
    "assert!(response.headers().contains_key(\"ratelimit\"));"
)]
#[derive(Clone)]
pub struct Limit<C, S> {
    layer: LimitLayer<C>,
    inner: S,
}

/// The body of the inner service's response, or a problem document.
pub type LimitBody<R> = Either<R, Full<<R as Body>::Data>>;

impl<C, S, B, R> Service<Request<B>> for Limit<C, S>
where
    C: Connection,
    S: Service<Request<B>, Response = Response<R>> + Clone + Send + 'static,
    S::Future: Send,
    B: Send + 'static,
    R: Body<Data: From<Vec<u8>>>,
{
    type Response = Response<LimitBody<R>>;
    type Error = S::Error;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, S::Error>> + Send>>;

    /// Is ready when the inner service is ready, so that load shedding and limits of concurrency work.
    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        // The service that was polled is ready, its clone may not be.
        let clone = self.inner.clone();
        let mut inner = std::mem::replace(&mut self.inner, clone);
        let layer = self.layer.clone();
        Box::pin(async move {
            let (mut parts, body) = request.into_parts();
            let (decision, reservation) = match layer.decide(&parts).await {
                Ok(None) => return Ok(inner.call(Request::from_parts(parts, body)).await?.map(Either::Left)),
                Ok(Some(decided)) => decided,
                Err(error) => return Ok(written(failed(&parts.headers, error))),
            };
            if !decision.allowed {
                return Ok(written(refused(&parts.headers, &decision)));
            }
            let fields = decision.headers();
            parts.extensions.insert(decision);
            let response = inner.call(Request::from_parts(parts, body)).await;
            // The response is there, so the request was not cancelled.
            reservation.map(crate::Reservation::keep);
            let mut response = response?;
            join(response.headers_mut(), fields);
            Ok(response.map(Either::Left))
        })
    }
}

/// Adds header fields. If an inner layer has set a field, the value of this layer comes first.
fn join(headers: &mut HeaderMap, fields: Vec<(&'static str, String)>) {
    for (name, mut value) in fields {
        let name = name_of(name);
        if let Some(inner) = headers.get(&name) {
            value = format!("{value}, {}", String::from_utf8_lossy(inner.as_bytes()));
        }
        if let Ok(value) = HeaderValue::try_from(value) {
            headers.insert(name, value);
        }
    }
}

fn name_of(name: &'static str) -> HeaderName {
    match name {
        "RateLimit" => HeaderName::from_static("ratelimit"),
        "RateLimit-Policy" => HeaderName::from_static("ratelimit-policy"),
        _ => http::header::RETRY_AFTER,
    }
}

fn refused(request: &HeaderMap, decision: &Decision) -> Response<String> {
    let denied = decision.policies.iter().zip(&decision.checks).filter(|(_, check)| !check.allowed);
    let names: Vec<_> = denied.map(|(policy, _)| format!("{:?}", policy.name)).collect();
    let violated = format!(",\"violated-policies\":[{}]", names.join(","));
    let mut response = match &decision.error {
        None => problem(request, StatusCode::TOO_MANY_REQUESTS, QUOTA, &violated),
        Some(_) => problem(request, StatusCode::SERVICE_UNAVAILABLE, CAPACITY, &violated),
    };
    join(response.headers_mut(), decision.headers());
    response
}

/// The response to an error. The extensions of the response contain the [`Error`].
fn failed(request: &HeaderMap, error: Error) -> Response<String> {
    let mut response = match error.is_temporary() {
        true => problem(request, StatusCode::SERVICE_UNAVAILABLE, CAPACITY, ""),
        false => problem(request, StatusCode::INTERNAL_SERVER_ERROR, ("about:blank", "Internal Server Error"), ""),
    };
    response.extensions_mut().insert(error);
    response
}

const QUOTA: (&str, &str) = (
    "https://iana.org/assignments/http-problem-types#quota-exceeded",
    "Request cannot be satisfied as assigned quota has been exceeded",
);
const CAPACITY: (&str, &str) = (
    "https://iana.org/assignments/http-problem-types#temporary-reduced-capacity",
    "Request cannot be satisfied due to temporary server capacity constraints",
);

/// Returns a problem document (RFC 9457). For a gRPC request, returns a gRPC status: gRPC clients read no document.
fn problem(
    request: &HeaderMap,
    status: StatusCode,
    (kind, title): (&str, &'static str),
    more: &str,
) -> Response<String> {
    let is_grpc = request.get(CONTENT_TYPE).is_some_and(|kind| kind.as_bytes().starts_with(b"application/grpc"));
    if is_grpc {
        // RESOURCE_EXHAUSTED, UNAVAILABLE, INTERNAL
        let code = match status.as_u16() {
            429 => "8",
            503 => "14",
            _ => "13",
        };
        let mut response = Response::default();
        let fields = [("content-type", "application/grpc"), ("grpc-status", code), ("grpc-message", title)];
        let fields = fields.map(|(name, value)| (HeaderName::from_static(name), HeaderValue::from_static(value)));
        response.headers_mut().extend(fields);
        return response;
    }
    let text = format!("{{\"type\":\"{kind}\",\"title\":\"{title}\",\"status\":{}{more}}}", status.as_u16());
    let mut response = Response::new(text);
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
    response
}

/// Converts a response of this layer to the body type that the inner service's responses also get.
fn written<R: Body<Data: From<Vec<u8>>>>(response: Response<String>) -> Response<LimitBody<R>> {
    response.map(|text| Either::Right(Full::new(text.into_bytes().into())))
}
