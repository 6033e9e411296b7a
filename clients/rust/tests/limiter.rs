//! The limiter: decisions, header fields, remembered denials, units ahead, and Redis that is away.

use super::support::{Proxy, UPSTREAM, connect, manager, until};
use std::time::Duration;
use testkit::Server;
use zeitset_client::{Algorithm, Error, Limiter, OnError, check_all, zrl};

fn header(decision: &zeitset_client::Decision, name: &str) -> Option<String> {
    decision.headers().into_iter().find(|(field, _)| *field == name).map(|(_, value)| value)
}

/// How often the server has run ZRL.CHECK.
fn checks(server: &Server) -> i64 {
    let stats = server.client().info("commandstats");
    let line = stats.get("cmdstat_ZRL.CHECK").map_or("calls=0", String::as_str);
    line.split(['=', ',']).nth(1).and_then(|calls| calls.parse().ok()).expect("a number")
}

#[tokio::test]
async fn decisions_have_header_fields() {
    let server = Server::start();
    let limiter =
        Limiter::builder(connect(&server).await, "search", "5/1m").unit("requests").build().expect("a limiter");
    let allowed = limiter.check("ann", 4).await.expect("a decision");
    assert!(allowed.allowed && allowed.remaining() == 1);
    assert_eq!(header(&allowed, "RateLimit-Policy").as_deref(), Some("\"search\";q=5;w=60;qu=\"requests\""));
    assert_eq!(header(&allowed, "RateLimit").as_deref(), Some("\"search\";r=1;t=60"));
    assert_eq!(header(&allowed, "Retry-After"), None);
    let denied = limiter.check("ann", 2).await.expect("a decision");
    assert!(!denied.allowed && denied.retry_after() > Some(Duration::ZERO));
    assert_eq!(header(&denied, "Retry-After").as_deref(), Some("60"));
    assert!(limiter.check("bob", 1).await.expect("a decision").allowed, "another key has a limit of its own");
    let forced = limiter.force("ann", 3).await.expect("a decision");
    assert!(forced.allowed && forced.checks[0].debt == 2 && header(&forced, "Retry-After").is_none());
    assert!(matches!(limiter.check("ann", 6).await, Err(Error::CostTooHigh { cost: 6, limit: 5 })));
    assert_eq!(limiter.refund("ann", 4, allowed.checks[0].charged_until_ms).await.expect("units"), 4);
    assert!(limiter.check("ann", 2).await.expect("a decision").allowed, "a refund ends the remembered denial");
    assert!(limiter.reset("ann").await.expect("a reply"));
}

#[tokio::test]
async fn a_denial_is_remembered_without_a_call() {
    let server = Server::start();
    let limiter = Limiter::new(connect(&server).await, "api", "2/1h").expect("a limiter");
    assert!(limiter.check("ann", 1).await.expect("a decision").allowed);
    assert!(!limiter.check("ann", 2).await.expect("a decision").allowed);
    let before = checks(&server);
    let remembered = limiter.check("ann", 2).await.expect("a decision");
    assert!(!remembered.allowed && remembered.retry_after() > Some(Duration::from_secs(3000)));
    assert_eq!(checks(&server), before, "the limiter answers by itself");
    assert!(limiter.check("ann", 1).await.expect("a decision").allowed, "a lower cost may fit");
    let forgetful = Limiter::builder(connect(&server).await, "api", "2/1h").remember(false).build().expect("a limiter");
    for _ in 0..2 {
        assert!(!forgetful.check("ann", 1).await.expect("a decision").allowed);
    }
    assert_eq!(checks(&server), before + 3);
}

#[tokio::test]
async fn several_limits_are_checked_together() {
    let server = Server::start();
    let redis = connect(&server).await;
    let second = Limiter::new(redis.clone(), "second", "5/1s").expect("a limiter");
    let day = Limiter::builder(redis, "day", "6/1d").algorithm(Algorithm::Fixed).build().expect("a limiter");
    let asks = [(&second, "ann", 1), (&day, "ann", 4)];
    let first = check_all(&asks).await.expect("a decision");
    assert!(first.allowed && first.remaining() == 2);
    assert_eq!(header(&first, "RateLimit-Policy").as_deref(), Some("\"second\";q=5;w=1, \"day\";q=6;w=86400"));
    for _ in 0..2 {
        let denied = check_all(&asks).await.expect("a decision");
        assert_eq!((denied.allowed, denied.checks[0].allowed, denied.checks[1].allowed), (false, true, false));
    }
    let stats = server.client().info("commandstats");
    assert!(stats["cmdstat_ZRL.MCHECK"].starts_with("calls=2,"), "the second denial is remembered");
}

#[tokio::test]
async fn units_ahead_are_handed_out_without_calls_and_never_above_the_limit() {
    let server = Server::start();
    let build =
        async || Limiter::builder(connect(&server).await, "api", "1000/1m").ahead(50).build().expect("a limiter");
    let (one, two) = (build().await, build().await);
    let mut admitted = 0;
    for round in 0..1200 {
        let limiter = if round % 2 == 0 { &one } else { &two };
        admitted += usize::from(limiter.check("ann", 1).await.expect("a decision").allowed);
    }
    assert!(admitted <= 1000, "{admitted}");
    assert!(admitted >= 900, "{admitted}");
    assert!(checks(&server) < 200, "{} calls for {admitted} units", checks(&server));
    one.close().await;
    two.close().await;
    let info = zrl::info("api:ann").query_async(&mut connect(&server).await).await.expect("a reply").expect("a limit");
    assert_eq!(info.units, u64::try_from(admitted).ok(), "unused units are refunded");
}

#[tokio::test]
async fn units_of_a_cancelled_caller_stay_in_stock() {
    let server = Server::start();
    let limiter = Limiter::builder(manager(&Proxy::start(&server).await).await, "api", "100/1m")
        .ahead(10)
        .build()
        .expect("a limiter");
    // The callers wait for one call to the server, and are dropped before the reply.
    for _ in 0..20 {
        let mut asking = Box::pin(limiter.check("ann", 2));
        tokio::select! {
            biased;
            _ = &mut asking => {}
            () = tokio::task::yield_now() => {}
        }
    }
    limiter.close().await;
    let left = zrl::peek("api:ann", 100, "60601ms").query_async(&mut connect(&server).await).await.expect("a reply");
    // A caller may also be dropped after the reply.
    assert!(left.remaining >= 60, "{left:?}");
}

#[tokio::test]
async fn a_reservation_refunds_units_unless_they_are_kept() {
    let server = Server::start();
    let limiter = Limiter::new(connect(&server).await, "api", "5/1m").expect("a limiter");
    drop(limiter.reserve("ann", 4).await.expect("a reservation"));
    until("the units are refunded", async || limiter.peek("ann", 1).await.expect("a decision").remaining() == 5).await;
    let decision = limiter.reserve("ann", 4).await.expect("a reservation").keep();
    assert!(decision.allowed);
    assert_eq!(limiter.peek("ann", 1).await.expect("a decision").remaining(), 1);
}

#[tokio::test]
async fn waiting_takes_units_as_soon_as_they_fit() {
    let server = Server::start();
    let limiter = Limiter::new(connect(&server).await, "api", "1/200ms").expect("a limiter");
    for _ in 0..3 {
        assert!(limiter.wait("ann", 1, None).await.expect("a decision").allowed);
    }
    let hourly = Limiter::new(connect(&server).await, "hourly", "1/1h").expect("a limiter");
    hourly.wait("ann", 1, None).await.expect("a decision");
    let late = hourly.wait("ann", 1, Some(Duration::from_secs(60))).await;
    assert!(matches!(late, Err(Error::Timeout(_))), "{late:?}");
}

#[tokio::test]
async fn on_error_decides_while_redis_is_away() {
    let mut server = Server::start();
    let proxy = Proxy::start(&server).await;
    let redis = manager(&proxy).await;
    let build = |on_error| {
        Limiter::builder(redis.clone(), "api", "5/1m").on_error(on_error).timeout("300ms").build().expect("a limiter")
    };
    let limits = [OnError::Allow, OnError::Deny, OnError::Raise].map(build);
    server.kill();
    let [allow, deny, raise] = &limits;
    let decision = allow.check("ann", 1).await.expect("a decision");
    assert!(decision.allowed && decision.error.is_some());
    assert_eq!(decision.headers(), [("RateLimit-Policy", "\"api\";q=5;w=60".to_owned())]);
    let decision = deny.check("ann", 1).await.expect("a decision");
    assert!(!decision.allowed && decision.error.is_some());
    assert!(raise.check("ann", 1).await.is_err_and(|error| error.is_temporary()));
    let strict = check_all(&[(allow, "ann", 1), (deny, "bob", 1)]).await.expect("a decision");
    assert!(!strict.allowed, "the strictest decides");
    server.crash_and_restart();
    proxy.follow(&server);
    until("the limiter is connected again", async || allow.check("ann", 1).await.is_ok_and(|d| d.error.is_none()))
        .await;
}

#[tokio::test]
async fn an_unknown_error_code_counts_as_redis_away() {
    let server = Server::start();
    let proxy = Proxy::start(&server).await;
    let redis = manager(&proxy).await;
    let limiter = |on_error| Limiter::builder(redis.clone(), "api", "5/1m").on_error(on_error).build();
    let [allow, raise] = [OnError::Allow, OnError::Raise].map(|on_error| limiter(on_error).expect("a limiter"));
    proxy.set(UPSTREAM);
    let decision = allow.check("ann", 1).await.expect("a decision");
    assert!(decision.allowed && decision.error.is_some());
    assert!(raise.check("ann", 1).await.is_err_and(|error| error.is_temporary()));
}

#[tokio::test]
async fn wrong_types_are_errors_whatever_on_error_says() {
    let server = Server::start();
    server.client().run("SET api:ann x");
    let limiter =
        Limiter::builder(connect(&server).await, "api", "5/1m").on_error(OnError::Allow).build().expect("a limiter");
    let error = limiter.check("ann", 1).await.expect_err("a string");
    assert_eq!(error.code(), Some(&zeitset_client::Code::NotLimit));
    for (name, rate) in [("", "5/1m"), ("a\nb", "5/1m"), ("api", "5")] {
        assert!(Limiter::new(connect(&server).await, name, rate).is_err(), "{name:?} {rate}");
    }
    let leaky = Limiter::builder(connect(&server).await, "api", "5/1m").algorithm(Algorithm::Leaky).ahead(2).build();
    assert!(leaky.is_err(), "units ahead are for SLIDING limits");
}
