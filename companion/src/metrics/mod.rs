//! Metrics in the text format of Prometheus.
//!
//! Each scrape reads INFO, a page of queue names, and the stats of those queues. Nothing is kept between scrapes.

mod fields;
mod page;

use crate::Failure;
use crate::server::Server;
use axum::{Router, extract::State, http::header, response::IntoResponse, routing::get};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};

/// The default number of queues that are shown individually.
pub const QUEUES: usize = 200;

pub const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// The reason why `zeitset_up` was 0 in the latest page, or `None` if it was 1. The log gets a line when it changes.
#[derive(Default)]
pub struct Problem(Mutex<Option<String>>);

impl Problem {
    fn note(&self, now: Option<String>) {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if *known != now {
            match &now {
                Some(why) => eprintln!("zeitset: zeitset_up is 0: {why}"),
                None => eprintln!("zeitset: zeitset_up is 1 again"),
            }
            *known = now;
        }
    }
}

pub async fn page(server: &Server, queues: usize, problem: &Problem) -> String {
    let (page, why) = page::page(server, queues).await;
    problem.note(why);
    page
}

pub async fn print(server: &Server, queues: usize) -> Result<(), Failure> {
    let (page, why) = page::page(server, queues).await;
    crate::ended::print(&page)?;
    why.map_or(Ok(()), |why| Err(format!("zeitset_up is 0: {why}").into()))
}

pub async fn serve(server: Server, listen: SocketAddr, queues: usize) -> Result<(), Failure> {
    let listener = tokio::net::TcpListener::bind(listen).await.map_err(|error| format!("{listen}: {error}"))?;
    if !listen.ip().is_loopback() {
        eprintln!(
            "zeitset: warning: metrics at {listen} have no password: every client that can connect reads them, and the names of queues"
        );
    }
    println!("Metrics of {} at http://{}/metrics", server.address, listener.local_addr()?);
    let scrape = move |State(target): State<Arc<(Server, Problem)>>| async move {
        ([(header::CONTENT_TYPE, CONTENT_TYPE)], page(&target.0, queues, &target.1).await).into_response()
    };
    let router = Router::new()
        .route("/metrics", get(scrape))
        .route("/", get(|| async { "Metrics are at /metrics\n" }))
        .with_state(Arc::new((server, Problem::default())));
    crate::ended::serve(listener, router).await
}
