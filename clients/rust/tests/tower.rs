//! The layer: keys, responses, header fields, load shedding, cancelled requests.

use super::support::{connect, until};
use axum::body::{Body, to_bytes};
use axum::extract::ConnectInfo;
use axum::http::{Request, Response, StatusCode};
use axum::routing::get;
use axum::{Extension, Router};
use std::convert::Infallible;
use std::net::SocketAddr;
use std::time::Duration;
use testkit::Server;
use tower::limit::ConcurrencyLimitLayer;
use tower::load_shed::LoadShedLayer;
use tower::{Layer, Service, ServiceBuilder, ServiceExt, service_fn};
use zeitset_client::tower::{LimitLayer, by_client, by_client_behind, by_header, by_path};
use zeitset_client::{Decision, Error, Limiter, OnError};

fn request(path: &str, client: &str) -> Request<Body> {
    let address: SocketAddr = client.parse().expect("an address");
    let forwarded = format!("6.6.6.6, {client}");
    let request = Request::builder().uri(path).header("x-api-key", client).header("x-forwarded-for", forwarded);
    request.extension(ConnectInfo(address)).body(Body::empty()).expect("a request")
}

fn field<'a, B>(response: &'a Response<B>, name: &str) -> Option<&'a str> {
    response.headers().get(name).map(|value| value.to_str().expect("a text"))
}

#[tokio::test]
async fn a_denied_request_gets_429_and_a_problem_document() {
    let server = Server::start();
    let redis = connect(&server).await;
    let minute = Limiter::new(redis.clone(), "minute", "2/1m").expect("a limiter");
    let hour = Limiter::new(redis, "hour", "9/1h").expect("a limiter");
    let app = Router::new()
        .route("/", get(async |Extension(decision): Extension<Decision>| decision.remaining().to_string()))
        .layer(LimitLayer::new([minute, hour], by_client()));
    let response = app.clone().oneshot(request("/", "192.0.2.1:80")).await.expect("a response");
    assert_eq!(response.status(), StatusCode::OK);
    assert_eq!(field(&response, "ratelimit-policy"), Some("\"minute\";q=2;w=60, \"hour\";q=9;w=3600"));
    assert!(
        field(&response, "ratelimit").is_some_and(|value| value.starts_with("\"minute\";r=1;t=60, \"hour\";r=8;t="))
    );
    let body = to_bytes(response.into_body(), 100).await.expect("a body");
    assert_eq!(&body[..], b"1", "handlers see the decision");
    for _ in 0..2 {
        app.clone().oneshot(request("/", "192.0.2.1:81")).await.expect("a response");
    }
    let denied = app.clone().oneshot(request("/", "192.0.2.1:82")).await.expect("a response");
    assert_eq!(denied.status(), StatusCode::TOO_MANY_REQUESTS);
    assert_eq!(field(&denied, "retry-after"), Some("60"));
    assert_eq!(field(&denied, "content-type"), Some("application/problem+json"));
    let body = to_bytes(denied.into_body(), 1000).await.expect("a body");
    let problem: serde_json::Value = serde_json::from_slice(&body).expect("JSON");
    assert_eq!(problem["violated-policies"], serde_json::json!(["minute"]));
    assert_eq!(
        (problem["status"].as_u64(), problem["type"].as_str().map(|kind| kind.ends_with("#quota-exceeded"))),
        (Some(429), Some(true))
    );
    let other = app.oneshot(request("/", "192.0.2.2:80")).await.expect("a response");
    assert_eq!(other.status(), StatusCode::OK, "another client has a limit of its own");
}

#[tokio::test]
async fn keys_are_header_fields_paths_or_the_result_of_a_closure() {
    let server = Server::start();
    let limiter = async |name: &str| Limiter::new(connect(&server).await, name, "1/1h").expect("a limiter");
    let ok = || Router::new().fallback(async || "ok");
    let header = ok().layer(LimitLayer::new([limiter("header").await], by_header("x-api-key")));
    let path = ok().layer(LimitLayer::new([limiter("path").await], by_path()));
    let closure = LimitLayer::new([limiter("closure").await], |parts: &axum::http::request::Parts| {
        Some(parts.uri.path().to_owned()).filter(|path| path != "/free")
    });
    let closure = ok().layer(closure);
    let behind = ok().layer(LimitLayer::new([limiter("behind").await], by_client_behind(1, 56)));
    let status = async |app: &Router, path: &str, client: &str| {
        app.clone().oneshot(request(path, client)).await.expect("a response").status().as_u16()
    };
    let cases = [
        (&header, "/a", "1.1.1.1:1", 200),
        (&header, "/b", "1.1.1.1:1", 429),
        (&header, "/b", "1.1.1.1:2", 200),
        (&path, "/a", "1.1.1.1:1", 200),
        (&path, "/a", "1.1.1.1:2", 429),
        (&path, "/b", "1.1.1.1:2", 200),
        (&closure, "/a", "1.1.1.1:1", 200),
        (&closure, "/a", "1.1.1.1:1", 429),
        (&closure, "/free", "1.1.1.1:1", 200),
        (&closure, "/free", "1.1.1.1:1", 200),
        (&behind, "/", "1.1.1.1:1", 200),
        (&behind, "/", "1.1.1.2:1", 200),
        (&behind, "/", "1.1.1.1:2", 429),
    ];
    for (at, (app, path, client, expected)) in cases.into_iter().enumerate() {
        assert_eq!(status(app, path, client).await, expected, "case {at}");
    }
}

#[tokio::test]
async fn errors_are_500_and_an_absent_redis_is_503_or_no_limit() {
    let mut server = Server::start();
    server.client().run("SET wrong:k x");
    let redis = super::support::manager(&super::support::Proxy::start(&server).await).await;
    let build = |name: &str, on_error| {
        Limiter::builder(redis.clone(), name, "5/1m").on_error(on_error).timeout("200ms").build().expect("a limiter")
    };
    let ok = || Router::new().fallback(async || "ok");
    let layer = |limiter| LimitLayer::new([limiter], |_: &_| "k".to_owned());
    let wrong = ok().layer(layer(build("wrong", OnError::Allow)));
    let response = wrong.oneshot(request("/", "1.1.1.1:1")).await.expect("a response");
    assert_eq!(response.status(), StatusCode::INTERNAL_SERVER_ERROR);
    assert!(matches!(response.extensions().get(), Some(Error::Server { .. })));
    let dear = ok().layer(layer(build("dear", OnError::Deny)).cost(|_| 6));
    let response = dear.oneshot(request("/", "1.1.1.1:1")).await.expect("a response");
    assert!(matches!(response.extensions().get(), Some(Error::CostTooHigh { .. })), "no 429: it can never succeed");
    server.kill();
    for (on_error, expected) in [(OnError::Allow, 200), (OnError::Deny, 503), (OnError::Raise, 503)] {
        let app = ok().layer(layer(build("away", on_error)));
        let response = app.oneshot(request("/", "1.1.1.1:1")).await.expect("a response");
        assert_eq!(response.status().as_u16(), expected, "{on_error:?}");
    }
}

#[tokio::test]
async fn grpc_clients_get_a_status_instead_of_a_document() {
    let server = Server::start();
    let limiter = Limiter::new(connect(&server).await, "grpc", "1/1h").expect("a limiter");
    let app = Router::new().fallback(async || "ok").layer(LimitLayer::new([limiter], by_path()));
    let request = || Request::builder().uri("/a").header("content-type", "application/grpc+proto").body(Body::empty());
    app.clone().oneshot(request().expect("a request")).await.expect("a response");
    let denied = app.oneshot(request().expect("a request")).await.expect("a response");
    assert_eq!((denied.status(), field(&denied, "grpc-status")), (StatusCode::OK, Some("8")));
    assert!(field(&denied, "retry-after").is_some());
}

#[tokio::test]
async fn a_denied_request_holds_no_slot_of_an_inner_limit_and_sheds_no_load() {
    let server = Server::start();
    let limiter = Limiter::new(connect(&server).await, "api", "2/1h").expect("a limiter");
    let (entered, mut entering) = tokio::sync::mpsc::unbounded_channel();
    let (release, released) = tokio::sync::watch::channel(false);
    let slow = service_fn(move |request: Request<Body>| {
        let (entered, mut released) = (entered.clone(), released.clone());
        async move {
            entered.send(()).expect("the test waits");
            if request.uri().path() == "/slow" {
                released.wait_for(|released| *released).await.expect("the test lives");
            }
            Ok::<_, Infallible>(Response::new(Body::empty()))
        }
    });
    let service = ServiceBuilder::new()
        .layer(LoadShedLayer::new())
        .layer(LimitLayer::new([limiter], by_header("x-api-key")))
        .layer(ConcurrencyLimitLayer::new(1))
        .service(slow);
    let mut first = service.clone();
    let slow =
        tokio::spawn(
            async move { first.ready().await.expect("ready").call(request("/slow", "1.1.1.1:1")).await.map(drop) },
        );
    entering.recv().await.expect("the slow request has begun");
    let shed = service.clone().oneshot(request("/", "1.1.1.1:1")).await;
    assert!(shed.is_err_and(|error| error.is::<tower::load_shed::error::Overloaded>()), "the only slot is in use");
    release.send(true).expect("the request waits");
    slow.await.expect("no panic").expect("a response");
    // A shed request takes no unit: the second unit is still there, and each denial frees its slot.
    for expected in [200, 429, 429, 429] {
        let response = service.clone().oneshot(request("/", "1.1.1.1:1")).await.expect("not shed");
        assert_eq!(response.status().as_u16(), expected);
    }
}

#[tokio::test]
async fn a_cancelled_request_refunds_its_units_if_wished() {
    let server = Server::start();
    let limiter = Limiter::new(connect(&server).await, "api", "5/1h").expect("a limiter");
    let (entered, mut entering) = tokio::sync::mpsc::unbounded_channel();
    let service = service_fn(move |request: Request<Body>| {
        let entered = entered.clone();
        async move {
            entered.send(()).expect("the test waits");
            if request.uri().path() == "/slow" {
                std::future::pending::<()>().await;
            }
            Ok::<_, Infallible>(Response::new(Body::empty()))
        }
    });
    for (refunds, left) in [(true, 5), (false, 4)] {
        let layer = LimitLayer::new([limiter.clone()], by_header("x-api-key")).refund_cancelled(refunds);
        let service = layer.layer(service.clone());
        let slow = tokio::spawn(service.clone().oneshot(request("/slow", "1.1.1.1:1")));
        entering.recv().await.expect("the request has begun");
        slow.abort();
        assert!(slow.await.is_err_and(|error| error.is_cancelled()));
        until("the units are refunded", async || {
            limiter.peek("1.1.1.1:1", 1).await.expect("a decision").remaining() == left
        })
        .await;
    }
    let layer = LimitLayer::new([limiter.clone()], by_header("x-api-key")).refund_cancelled(true);
    layer.layer(service).oneshot(request("/", "1.1.1.1:1")).await.expect("a response");
    tokio::time::timeout(Duration::from_secs(60), async {
        assert_eq!(
            limiter.peek("1.1.1.1:1", 1).await.expect("a decision").remaining(),
            3,
            "a finished request keeps its unit"
        );
    })
    .await
    .expect("a reply");
}
