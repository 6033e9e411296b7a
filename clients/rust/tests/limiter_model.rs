//! Units ahead against a model of the server, in random histories. The model is slow, loses replies, and counts units.

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use redis::aio::ConnectionLike;
use redis::{Arg, Cmd, ErrorKind, Pipeline, RedisFuture, Value};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use zeitset_client::{AtMostOnce, Limiter};

/// A limit of one key, whose window is longer than the test.
struct Server {
    limit: i64,
    slowness: Duration,
    losses: f64,
    books: Mutex<Books>,
}

struct Books {
    random: StdRng,
    taken: i64,
    /// Units of calls whose reply was lost, and of refunds that did not arrive. They become available again when their
    /// window ends.
    lost: i64,
    calls: u64,
}

impl Server {
    fn pause(&self) -> impl Future<Output = ()> + use<> {
        tokio::time::sleep(self.slowness.mul_f64(self.books.lock().expect("no panic").random.random()))
    }

    /// Carries out a command. Returns the reply; None if it gets lost.
    fn execute(&self, words: &[String]) -> Option<Value> {
        let mut books = self.books.lock().expect("no panic");
        let fate: f64 = books.random.random();
        let number = |at: usize| words.get(at).and_then(|word| word.parse::<i64>().ok());
        let reply = match words[0].as_str() {
            "ZRL.REFUND" => {
                let units = number(2).expect("units");
                // Half of the lost refunds do not arrive. Of the other half, only the reply gets lost.
                let arrives = fate >= self.losses / 2.0;
                *(if arrives { &mut books.taken } else { &mut books.lost }) -= if arrives { units } else { -units };
                assert!(units > 0 && books.taken >= 0, "more is refunded than was taken: {words:?}");
                Value::Int(units)
            }
            "ZRL.CHECK" => {
                let cost = number(5).unwrap_or(1);
                books.calls += 1;
                let is_allowed = books.taken + cost <= self.limit;
                books.taken += if is_allowed { cost } else { 0 };
                books.lost += if is_allowed && fate < self.losses { cost } else { 0 };
                let (left, until) = (self.limit - books.taken, 2_000_000_000_000);
                let fields = if is_allowed {
                    [1, self.limit, left, 0, 30_000, until]
                } else {
                    [0, self.limit, left, 30_000, 30_000, 0]
                };
                Value::Array(fields.map(Value::Int).to_vec())
            }
            other => panic!("{other}"),
        };
        (fate >= self.losses).then_some(reply)
    }
}

#[derive(Clone)]
struct Connection(Arc<Server>);

impl AtMostOnce for Connection {}

impl ConnectionLike for Connection {
    fn req_packed_command<'a>(&'a mut self, cmd: &'a Cmd) -> RedisFuture<'a, Value> {
        let server = Arc::clone(&self.0);
        let word = |word| {
            if let Arg::Simple(word) = word { String::from_utf8_lossy(word).into_owned() } else { String::new() }
        };
        let words: Vec<String> = cmd.args_iter().map(word).collect();
        Box::pin(async move {
            server.pause().await;
            let reply = server.execute(&words);
            server.pause().await;
            reply.ok_or_else(|| (ErrorKind::Io, "the connection is lost").into())
        })
    }

    fn req_packed_commands<'a>(&'a mut self, _: &'a Pipeline, _: usize, _: usize) -> RedisFuture<'a, Vec<Value>> {
        unreachable!("a limiter sends single commands")
    }

    fn get_db(&self) -> i64 {
        0
    }
}

#[tokio::test]
async fn units_ahead_are_handed_out_refunded_or_lost_and_never_above_the_limit() {
    let seed = std::env::var("ZEITSET_SEED").ok().and_then(|seed| seed.parse().ok());
    let seed: u64 = seed.unwrap_or_else(rand::random);
    println!("ZEITSET_SEED={seed}");
    let histories: Vec<_> = (0..60).map(|at| tokio::spawn(history(seed.wrapping_add(at)))).collect();
    for history in histories {
        history.await.expect("a history");
    }
}

async fn history(seed: u64) {
    let mut random = StdRng::seed_from_u64(seed);
    let limit = [3, 40, 500, 20_000][random.random_range(0..4)];
    let ahead = [1, 7, 200][random.random_range(0..3)];
    let slowness = Duration::from_millis(if random.random() { 2 } else { 60 });
    let losses = if random.random() { 0.0 } else { 0.1 };
    let books = Books { random: StdRng::seed_from_u64(!seed), taken: 0, lost: 0, calls: 0 };
    let server = Arc::new(Server { limit, slowness, losses, books: Mutex::new(books) });
    // A hold of 50 ms: shorter or longer than a call, and much shorter than the test.
    let limiter = Limiter::builder(Connection(Arc::clone(&server)), "model", &format!("{limit}/5s"));
    let limiter = limiter.ahead(ahead).timeout("1m").build().expect("a limiter");
    let label = format!("seed {seed}: limit {limit}, ahead {ahead}");
    let clients: Vec<_> = (0..random.random_range(1..9))
        .map(|client| tokio::spawn(client_of(limiter.clone(), StdRng::seed_from_u64(seed ^ client << 32), limit)))
        .collect();
    let (mut given, mut decisions) = (0, 0);
    for client in clients {
        let (units, checks) = client.await.expect("a client");
        (given, decisions) = (given + units, decisions + checks);
    }
    // Calls are in flight while the limiter closes.
    let last: Vec<_> = (0..5)
        .map(|_| limiter.clone())
        .map(|limiter| tokio::spawn(async move { limiter.check("key", 1).await }))
        .collect();
    tokio::task::yield_now().await;
    limiter.close().await;
    for check in last {
        given += i64::from(check.await.expect("a check").is_ok_and(|decision| decision.allowed));
    }
    limiter.close().await;
    let books = server.books.lock().expect("no panic");
    assert!(given <= limit, "{label}: {given}");
    assert_eq!(books.taken, given + books.lost, "{label}: the books");
    assert!(books.calls <= 2 * decisions, "{label}: {} calls for {decisions} decisions", books.calls);
}

/// Makes 60 checks. Returns the units of those that were allowed, and the number of checks.
async fn client_of(limiter: Limiter<Connection>, mut random: StdRng, limit: i64) -> (i64, u64) {
    let mut given = 0;
    for _ in 0..60 {
        let cost = if random.random_bool(0.8) { 1 } else { random.random_range(1..=limit.min(12).unsigned_abs()) };
        if let Ok(decision) = limiter.check("key", cost).await {
            assert!(decision.remaining() <= limit.unsigned_abs(), "{decision:?}");
            given += if decision.allowed { cost.cast_signed() } else { 0 };
        }
        if random.random_bool(0.3) {
            tokio::time::sleep(Duration::from_millis(random.random_range(0..40))).await;
        }
    }
    (given, 60)
}
