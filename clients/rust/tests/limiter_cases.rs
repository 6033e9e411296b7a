//! clients/limiter-cases.json: rates, header fields and decisions of a limiter, the same in all languages.

use super::support::{client, connect};
use redis::aio::MultiplexedConnection;
use serde_json::{Value, json};
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;
use testkit::Server;
use zeitset_client::zrl::Check;
use zeitset_client::{Algorithm, Decision, Error, Limiter, OnError, Policy, Precision, check_all};

fn cases(section: &str) -> Vec<Value> {
    let mut cases: Value = serde_json::from_str(include_str!("../../limiter-cases.json")).expect("the table of cases");
    serde_json::from_value(cases[section].take()).expect("a list of cases")
}

fn text(value: &Value) -> &str {
    value.as_str().expect("text")
}

fn number(value: &Value) -> u64 {
    value.as_u64().expect("a number")
}

fn list<T>(value: &Value, item: impl Fn(&Value) -> T) -> Vec<T> {
    value.as_array().expect("a list").iter().map(item).collect()
}

fn limiter(redis: MultiplexedConnection, options: &Value) -> Result<Limiter<MultiplexedConnection>, Error> {
    let mut builder = Limiter::builder(redis, text(&options["name"]), text(&options["rate"]));
    for (name, value) in options.as_object().expect("options") {
        builder = match (name.as_str(), value.as_str()) {
            ("name" | "rate", _) => builder,
            ("algorithm", Some("sliding")) => builder.algorithm(Algorithm::Sliding),
            ("algorithm", Some("fixed")) => builder.algorithm(Algorithm::Fixed),
            ("algorithm", Some("leaky")) => builder.algorithm(Algorithm::Leaky),
            ("precision", Some("exact")) => builder.precision(Precision::Exact),
            ("precision", Some(period)) => builder.precision(Precision::Of(period.into())),
            ("on_error", Some("allow")) => builder.on_error(OnError::Allow),
            ("on_error", Some("deny")) => builder.on_error(OnError::Deny),
            ("unit", Some(unit)) => builder.unit(unit),
            ("prefix", Some(prefix)) => builder.prefix(prefix),
            ("remember", _) => builder.remember(value == true),
            ("ahead", _) => builder.ahead(number(value)),
            _ => panic!("an unknown option: {name}"),
        };
    }
    builder.timeout("1m").build()
}

#[tokio::test]
async fn rates_and_options_mean_what_they_mean_in_the_other_libraries() {
    let server = Server::start();
    let redis = connect(&server).await;
    for case in cases("rates") {
        let found = Limiter::new(redis.clone(), "a", text(&case[0]));
        match case[1].as_u64() {
            None => assert!(matches!(found, Err(Error::Argument(_))), "{case}"),
            Some(limit) => {
                let found = found.unwrap_or_else(|error| panic!("{case}: {error}"));
                assert_eq!((found.policy().limit, found.policy().window_ms), (limit, number(&case[2])), "{case}");
            }
        }
    }
    for options in cases("refused") {
        assert!(matches!(limiter(redis.clone(), &options), Err(Error::Argument(_))), "{options}");
    }
}

#[test]
fn header_fields_are_those_of_the_other_libraries() {
    let ms = |value: &Value| value.as_u64().map(Duration::from_millis);
    for case in cases("fields") {
        let policies = list(&case["policies"], |policy| {
            let (name, unit) = (text(&policy[0]).to_owned(), policy[3].as_str().map(str::to_owned));
            Arc::new(Policy { name, limit: number(&policy[1]), window_ms: number(&policy[2]), unit })
        });
        let error = case["checks"].is_null().then(|| Error::Timeout("Redis is away".into()));
        let checks = case["checks"].as_array().into_iter().flatten().zip(&policies).map(|(check, policy)| {
            let free = check[1].as_i64().expect("units");
            Check {
                allowed: check[0] == true,
                limit: policy.limit,
                remaining: free.max(0).unsigned_abs(),
                debt: free.min(0).unsigned_abs(),
                retry_after: ms(&check[2]),
                reset_after: ms(&check[3]).expect("a time"),
                charged_until_ms: 0,
            }
        });
        let checks: Vec<_> = checks.collect();
        let allowed = checks.iter().all(|check| check.allowed);
        let decision = Decision { allowed, checks, policies: policies.into(), error };
        let fields: HashMap<_, _> = decision.headers().into_iter().collect();
        assert_eq!(json!(fields), case["fields"], "{case}");
    }
}

/// How many commands for limits the server has got.
fn sent(server: &Server) -> u64 {
    let stats = server.client().info("commandstats");
    let of_limits = stats.iter().filter(|(name, _)| name.to_lowercase().starts_with("cmdstat_zrl."));
    of_limits.map(|(_, stat)| stat.split(['=', ',']).nth(1).and_then(|n| n.parse::<u64>().ok()).expect("calls")).sum()
}

#[tokio::test]
async fn histories_of_a_limiter_are_those_of_the_other_libraries() {
    let server = Server::start();
    let redis = connect(&server).await;
    for case in cases("histories") {
        server.client().run("FLUSHALL");
        let options = case["limits"].as_object().expect("limits").iter();
        let limits: HashMap<_, _> = options
            .map(|(name, options)| (name.as_str(), limiter(redis.clone(), options).expect("a limiter")))
            .collect();
        let mut earlier: Vec<Vec<Check>> = Vec::new();
        for step in case["steps"].as_array().expect("steps") {
            let what = format!("{}: {step}", case["about"]);
            let before = sent(&server);
            let (mut checks, mut returned) = (Vec::new(), Value::Null);
            for _ in 0..step["times"].as_u64().unwrap_or(1) {
                match (act(&server, &limits, step, &earlier).await, step["error"].as_str()) {
                    (Ok(done), None) => (checks, returned) = done,
                    (Err(Error::CostTooHigh { .. }), Some("cost")) | (Err(Error::Argument(_)), Some("argument")) => {}
                    (Err(error), Some(expected)) if error.to_string().contains(expected) => {}
                    (other, _) => panic!("{what}: {other:?}"),
                }
            }
            let calls = sent(&server) - before;
            assert!(step["calls"].is_null() || step["calls"] == calls, "{calls} calls: {what}");
            assert!(step["at_most"].as_u64().is_none_or(|most| calls <= most), "{calls} calls: {what}");
            assert!(step["returns"].is_null() || step["returns"] == returned, "{returned}: {what}");
            if !step["allowed"].is_null() {
                let of_each = |name: &str, all: Value| if step[name].is_null() { all } else { step[name].clone() };
                let each = |field: fn(&Check) -> Value| Value::Array(checks.iter().map(field).collect());
                let allowed = of_each("each", Value::Array(vec![step["allowed"].clone(); checks.len()]));
                assert_eq!(each(|check| check.allowed.into()), allowed, "{what}");
                assert_eq!(each(|check| (check.retry_after == Some(Duration::ZERO)).into()), allowed, "{what}");
                let remaining = each(|check| check.remaining.into());
                assert_eq!(remaining, of_each("remaining", remaining.clone()), "{what}");
                let no_debt = Value::Array(vec![0.into(); checks.len()]);
                assert_eq!(each(|check| check.debt.into()), of_each("debt", no_debt), "{what}");
            }
            earlier.push(checks);
        }
    }
}

/// Carries out a step. Returns the checks, or what the method or command has returned.
async fn act(
    server: &Server,
    limits: &HashMap<&str, Limiter<MultiplexedConnection>>,
    step: &Value,
    earlier: &[Vec<Check>],
) -> Result<(Vec<Check>, Value), Error> {
    let at = |name: &str| step[name].as_u64().and_then(|at| usize::try_from(at).ok()).unwrap_or(0);
    let (name, call) = ["check", "force", "peek", "refund", "reset", "close", "command"]
        .into_iter()
        .find_map(|name| Some((name, step.get(name)?)))
        .expect("what to do");
    let of = |ask: &Value| &limits[text(ask)];
    let checks = match name {
        "check" => {
            let asks = list(call, |ask| (of(&ask[0]), text(&ask[1]).to_owned(), number(&ask[2])));
            let asks: Vec<_> = asks.iter().map(|(limiter, key, cost)| (*limiter, key.as_str(), *cost)).collect();
            let decision = check_all(&asks).await?;
            assert_eq!(decision.allowed, step["allowed"], "{step}");
            decision.checks
        }
        "force" => of(&call[0]).force(text(&call[1]), number(&call[2])).await?.checks,
        "peek" => of(&call[0]).peek(text(&call[1]), number(&call[2])).await?.checks,
        "refund" => {
            let check = &earlier[at("of")][at("at")];
            let refund = of(&call[0]).refund(text(&call[1]), number(&call[2]), check.charged_until_ms);
            return Ok((Vec::new(), refund.await?.into()));
        }
        "reset" => return Ok((Vec::new(), of(&call[0]).reset(text(&call[1])).await?.into())),
        "close" => {
            of(call).close().await;
            Vec::new()
        }
        _ => {
            let words = list(call, |word| text(word).to_owned());
            let mut command = redis::cmd(&words[0]);
            command.arg(&words[1..]);
            let mut connection = client(server).get_connection()?;
            let reply: redis::Value = command.query(&mut connection)?;
            let reply = match reply {
                redis::Value::Array(mut items) => items.swap_remove(at("at")),
                reply => reply,
            };
            let number = redis::from_redis_value_ref::<i64>(&reply).map(Value::from);
            return Ok((Vec::new(), number.or_else(|_| redis::from_redis_value::<String>(reply).map(Value::from))?));
        }
    };
    Ok((checks, Value::Null))
}
