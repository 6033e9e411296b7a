//! Metrics in the text format of Prometheus.
//!
//! Each scrape reads INFO, a page of queue names, and the stats of those queues. Nothing is kept between scrapes.

mod fields;
mod page;

pub use page::page;

use crate::Failure;
use crate::server::Server;
use axum::{Router, extract::State, http::header, response::IntoResponse, routing::get};
use std::net::SocketAddr;
use std::sync::Arc;

/// The default number of queues that are shown individually.
pub const QUEUES: usize = 200;

pub const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

pub async fn print(server: &Server, queues: usize) -> Result<(), Failure> {
    let page = page(server, queues).await;
    crate::ended::print(&page)?;
    if page.contains("\nzeitset_up 1\n") { Ok(()) } else { Err("the server cannot be asked".into()) }
}

pub async fn serve(server: Server, listen: SocketAddr, queues: usize) -> Result<(), Failure> {
    let listener = tokio::net::TcpListener::bind(listen).await.map_err(|error| format!("{listen}: {error}"))?;
    if !listen.ip().is_loopback() {
        eprintln!(
            "zeitset: warning: metrics at {listen} have no password: every client that can connect reads them, and the names of queues"
        );
    }
    println!("Metrics of {} at http://{}/metrics", server.address, listener.local_addr()?);
    let scrape = |State(target): State<Arc<(Server, usize)>>| async move {
        ([(header::CONTENT_TYPE, CONTENT_TYPE)], page(&target.0, target.1).await).into_response()
    };
    let router = Router::new()
        .route("/metrics", get(scrape))
        .route("/", get(|| async { "Metrics are at /metrics\n" }))
        .with_state(Arc::new((server, queues)));
    crate::ended::serve(listener, router).await
}
