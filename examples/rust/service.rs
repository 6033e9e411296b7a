//! A web service with a limit for each client, and a worker that sends mails: service [redis://localhost:6379] [port]
//!
//! The header X-Api-Key identifies a client. The environment variables LIMIT and WINDOW (seconds) set the limit.

use axum::extract::Path;
use axum::routing::{get, post};
use axum::{Extension, Router};
use std::env;
use zeitset_client::tower::{LimitLayer, by_header};
use zeitset_client::{Decision, Error, Job, Limiter, Queue, Worker};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    let client = redis::Client::open(env::args().nth(1).unwrap_or("redis://localhost:6379".into()))?;
    let port: u16 = env::args().nth(2).unwrap_or("8000".into()).parse()?;
    let redis = client.get_connection_manager().await?;
    let set = |name, default: &str| env::var(name).unwrap_or(default.into());
    let limiter = Limiter::new(redis.clone(), "default", &format!("{}/{}s", set("LIMIT", "10"), set("WINDOW", "60")))?;
    let mails = Queue::<_, String>::new(redis, "mails");
    let push = async move |Path(to): Path<String>| mails.push(&to).await.map(|_| to).map_err(|error| error.to_string());
    let app = Router::new()
        .route("/", get(hello))
        .route("/mails/{to}", post(push))
        .layer(LimitLayer::new([limiter], by_header("x-api-key")));
    let listener = tokio::net::TcpListener::bind(("127.0.0.1", port)).await?;
    println!("http://{}/", listener.local_addr()?);
    // SIGTERM and SIGINT stop the worker, which finishes its jobs.
    tokio::select! { served = axum::serve(listener, app) => served?, stopped = Worker::new(client, "mails", mail).run() => stopped? }
    Ok(())
}

async fn hello(Extension(decision): Extension<Decision>) -> String {
    format!("{{\"charged_until_ms\": {}}}\n", decision.checks[0].charged_until_ms)
}

async fn mail(job: Job<String>) -> Result<(), Error> {
    println!("a mail to {}", job.payload);
    Ok(())
}
