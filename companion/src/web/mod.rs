//! The web page.
//!
//! - `guard`: checks of requests, and response headers.
//! - `query`: parameters as bytes, since keys are bytes.
//! - `layout`, `chart`, `parts`: the parts of pages.
//! - `overview`, `queues`, `queue` with `errors`, `groups` and `settings`, `job`, `workers`, `limits`, `sets`,
//!   `boards`, `search`: the pages.
//! - `celery`, `tasks`: tasks of Celery, counted and listed by name.
//! - `letters`: counts dead letters by error, and retries or deletes those of one error.
//! - `actions`: the actions that `--write` allows.
//!
//! Links are relative and all pages are in one folder, so a proxy may serve them below any path.
//!
//! Pages are complete without a script. A short script reloads the page every few seconds and replaces the parts that
//! have changed.

mod actions;
mod boards;
mod celery;
mod chart;
mod errors;
mod groups;
mod guard;
mod job;
mod layout;
mod letters;
mod limits;
mod overview;
mod parts;
mod query;
mod queue;
mod queues;
mod search;
mod sets;
mod settings;
mod tasks;
mod workers;

use crate::server::Server;
use crate::{Failure, history::Histories, history::Usage, metrics, watch::Watch};
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
    pub write: bool,
    pub password: Option<String>,
    /// Additional host names that browsers may use.
    pub hosts: Vec<String>,
    pub interval: Duration,
    pub queues: usize,
}

pub struct App {
    server: Server,
    settings: Settings,
    seen: RwLock<Seen>,
    letters: letters::Letters,
    usage: std::sync::Mutex<Usage>,
    /// The token that every HTML form of the page sends. Other sites do not know the token.
    token: String,
    port: u16,
    metrics: metrics::Problem,
}

#[derive(Default)]
pub struct Seen {
    pub watch: Watch,
    pub history: Histories,
    /// Why the last sample failed.
    pub problem: Option<String>,
}

type Shared = State<Arc<App>>;

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
    let app = Arc::new(App {
        server,
        settings,
        seen: RwLock::default(),
        letters: Default::default(),
        usage: Default::default(),
        token,
        port: address.port(),
        metrics: Default::default(),
    });
    tokio::spawn(sample(app.clone()));
    crate::ended::serve(listener, router(app)).await
}

const TOO_LONG: &str =
    "This name is longer than the address of a page can be (about 20,000 bytes). Look at it with redis-cli.";

fn router(app: Arc<App>) -> Router {
    Router::new()
        .route("/", get(overview::page))
        .route("/queues", get(queues::page))
        .route("/queue", get(queue::page))
        .route("/job", get(job::page))
        .route("/payload", get(job::payload))
        .route("/workers", get(workers::page))
        .route("/limits", get(limits::page))
        .route("/sets", get(sets::page))
        .route("/boards", get(boards::page))
        .route("/search", get(search::page))
        .route("/act", post(actions::act))
        .route("/metrics", get(scrape))
        .route("/assets/style.css", get(|| asset("text/css; charset=utf-8", include_str!("assets/style.css"))))
        .route("/assets/live.js", get(|| asset("text/javascript; charset=utf-8", include_str!("assets/live.js"))))
        .route("/assets/icon.svg", get(|| asset("image/svg+xml", include_str!("assets/icon.svg"))))
        .route("/too-long", get(|| async { Problem::new(StatusCode::URI_TOO_LONG, TOO_LONG) }))
        .fallback(|| async { Problem::new(StatusCode::NOT_FOUND, "There is no such page.") })
        .layer(middleware::from_fn_with_state(app.clone(), guard::check))
        .with_state(app)
}

async fn asset(kind: &'static str, text: &'static str) -> impl IntoResponse {
    const CACHE: HeaderName = header::CACHE_CONTROL;
    ([(header::CONTENT_TYPE, kind), (CACHE, "max-age=3600")], text)
}

async fn scrape(State(app): Shared) -> impl IntoResponse {
    (
        [(header::CONTENT_TYPE, metrics::CONTENT_TYPE)],
        metrics::page(&app.server, app.settings.queues, &app.metrics).await,
    )
}

/// Samples the server at every interval, until the program ends.
async fn sample(app: Arc<App>) {
    let mut ticks = tokio::time::interval(app.settings.interval);
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    // Takes samples without the lock, so that pages do not wait for the server.
    let mut watch = Watch::default();
    loop {
        ticks.tick().await;
        let outcome = watch.look(&app.server).await;
        let mut seen = app.seen.write().await;
        seen.problem = outcome.as_ref().err().map(crate::server::message);
        if outcome.is_ok() {
            seen.history.add(&watch);
            seen.watch.clone_from(&watch);
        } else {
            seen.history.miss(app.settings.interval);
        }
    }
}
