//! The web page.
//!
//! - `guard`: who may ask what; headers that keep browsers from doing what a page should not.
//! - `query`: parameters as bytes, since keys are bytes.
//! - `layout`, `chart`, `parts`: what pages are made of.
//! - `overview`, `queues`, `queue` with `settings`, `job`, `limits`, `sets`, `boards`: the pages.
//! - `actions`: what `--write` allows.
//!
//! Pages are whole without any script. A script of some lines asks for the page again every few seconds, and exchanges the parts
//! that have changed.

mod actions;
mod boards;
mod chart;
mod guard;
mod job;
mod layout;
mod limits;
mod overview;
mod parts;
mod query;
mod queue;
mod queues;
mod sets;
mod settings;

use crate::server::Server;
use crate::{Failure, history::History, metrics, watch::Watch};
use axum::http::{HeaderName, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Router, extract::State, middleware};
use maud::Markup;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::RwLock;

pub struct Settings {
    pub listen: SocketAddr,
    /// Actions are allowed.
    pub write: bool,
    pub password: Option<String>,
    /// Names besides that of the address, by which browsers may ask.
    pub hosts: Vec<String>,
    /// Between two samples.
    pub interval: Duration,
    /// How many queues /metrics shows.
    pub queues: usize,
}

pub struct App {
    server: Server,
    settings: Settings,
    seen: RwLock<Seen>,
    /// In every form; a page of somebody else does not know it.
    token: String,
    /// The port that was bound.
    port: u16,
}

/// What the sampler has seen.
#[derive(Default)]
pub struct Seen {
    pub watch: Watch,
    pub history: History,
    /// Why the last sample failed.
    pub problem: Option<String>,
}

type Shared = State<Arc<App>>;

/// A page, or why there is none.
type Page = Result<Markup, Problem>;

pub struct Problem {
    status: StatusCode,
    text: String,
}

impl Problem {
    fn new(status: StatusCode, text: impl Into<String>) -> Problem {
        Problem { status, text: text.into() }
    }
}

impl From<redis::RedisError> for Problem {
    fn from(error: redis::RedisError) -> Problem {
        Problem::new(StatusCode::BAD_GATEWAY, crate::server::message(&error))
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        (self.status, layout::problem(self.status, &self.text)).into_response()
    }
}

pub async fn serve(server: Server, settings: Settings) -> Result<(), Failure> {
    let listen = settings.listen;
    let listener = tokio::net::TcpListener::bind(listen).await.map_err(|error| format!("{listen}: {error}"))?;
    let address = listener.local_addr()?;
    let mut token = [0; 16];
    getrandom::fill(&mut token).map_err(|error| error.to_string())?;
    let token = token.iter().map(|byte| format!("{byte:02x}")).collect();
    let mode = if settings.write { "with actions" } else { "read-only" };
    println!("{} at http://{address}/ ({mode})", server.address);
    let app = Arc::new(App { server, settings, seen: RwLock::default(), token, port: address.port() });
    tokio::spawn(sample(app.clone()));
    axum::serve(listener, router(app)).with_graceful_shutdown(crate::ended::until_ended()).await?;
    Ok(())
}

fn router(app: Arc<App>) -> Router {
    Router::new()
        .route("/", get(overview::page))
        .route("/queues", get(queues::page))
        .route("/queue", get(queue::page))
        .route("/job", get(job::page))
        .route("/payload", get(job::payload))
        .route("/limits", get(limits::page))
        .route("/sets", get(sets::page))
        .route("/boards", get(boards::page))
        .route("/act", post(actions::act))
        .route("/metrics", get(scrape))
        .route("/assets/style.css", get(|| asset("text/css; charset=utf-8", include_str!("assets/style.css"))))
        .route("/assets/live.js", get(|| asset("text/javascript; charset=utf-8", include_str!("assets/live.js"))))
        .route("/assets/icon.svg", get(|| asset("image/svg+xml", include_str!("assets/icon.svg"))))
        .fallback(|| async { Problem::new(StatusCode::NOT_FOUND, "There is no such page.") })
        .layer(middleware::from_fn_with_state(app.clone(), guard::check))
        .with_state(app)
}

async fn asset(kind: &'static str, text: &'static str) -> impl IntoResponse {
    const CACHE: HeaderName = header::CACHE_CONTROL;
    ([(header::CONTENT_TYPE, kind), (CACHE, "max-age=3600")], text)
}

async fn scrape(State(app): Shared) -> impl IntoResponse {
    ([(header::CONTENT_TYPE, metrics::CONTENT_TYPE)], metrics::page(&app.server, app.settings.queues).await)
}

/// Looks at the server at every interval, for as long as the program runs.
async fn sample(app: Arc<App>) {
    let mut ticks = tokio::time::interval(app.settings.interval);
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    // Asked without holding the lock, so that no page waits for the server twice.
    let mut watch = Watch::default();
    loop {
        ticks.tick().await;
        let outcome = watch.look(&app.server).await;
        let mut seen = app.seen.write().await;
        seen.problem = outcome.as_ref().err().map(crate::server::message);
        if outcome.is_ok() {
            seen.history.add(&watch);
            seen.watch.clone_from(&watch);
        }
    }
}
