//! The frame of all pages.

use super::App;
use axum::http::StatusCode;
use maud::{DOCTYPE, Markup, html};

/// The interval at which the script reloads the page.
const REFRESH_MS: u32 = 2_000;

const PLACES: [(&str, &str); 6] = [
    ("./", "Overview"),
    ("queues", "Queues"),
    ("workers", "Workers"),
    ("limits", "Limits"),
    ("sets", "Sets"),
    ("boards", "Boards"),
];

/// Returns a whole page, which the script keeps up to date. `place` is the page's entry in the navigation.
pub async fn page(app: &App, place: &str, title: &str, body: Markup) -> Markup {
    whole(app, place, title, body, Some(REFRESH_MS)).await
}

/// Returns a page that the script in the browser (`live.js`) does not reload: the response to a POST, or the result of a
/// search.
pub async fn still(app: &App, place: &str, title: &str, body: Markup) -> Markup {
    whole(app, place, title, body, None).await
}

async fn whole(app: &App, place: &str, title: &str, body: Markup, refresh_ms: Option<u32>) -> Markup {
    let problem = app.seen.read().await.problem.clone();
    html! {
        (head(title))
        body data-refresh=[refresh_ms] {
            a.skip href="#main" { "Skip to the content" }
            header.bar {
                a.brand href="./" { span.mark aria-hidden="true" {} "Zeitset" }
                nav aria-label="Pages" {
                    @for (path, name) in PLACES {
                        a href=(path) aria-current=[(path == place).then_some("page")] { (name) }
                    }
                }
                form.search method="get" action="search" role="search" aria-label="All of the server" {
                    input name="q" placeholder="Job, queue, limit, member" aria-label="Search all" required autocomplete="off" spellcheck="false";
                    button { "Search" }
                    button #pause type="button" hidden { "Pause" }
                }
                span.target {
                    span #pulse .pulse title="live" {}
                    (app.server.address)
                    @if app.settings.write { span.badge.warn { "write" } } @else { span.badge { "read-only" } }
                }
            }
            main #main tabindex="-1" {
                p #stale .notice.bad role="alert" hidden {}
                div #problem data-live {
                    @if let Some(problem) = &problem {
                        p.notice.bad role="alert" { "The server does not answer: " (problem) }
                    }
                }
                (body)
            }
        }
    }
}

pub fn problem(status: StatusCode, text: &str) -> Markup {
    html! {
        (head("Problem"))
        body {
            header.bar { a.brand href="./" { span.mark aria-hidden="true" {} "Zeitset" } }
            main {
                h1 { (status.as_u16()) " " (status.canonical_reason().unwrap_or_default()) }
                p.notice.bad role="alert" { (text) }
                p { a href="./" { "To the overview" } }
            }
        }
    }
}

fn head(title: &str) -> Markup {
    html! {
        (DOCTYPE)
        html lang="en";
        head {
            meta charset="utf-8";
            meta name="viewport" content="width=device-width, initial-scale=1";
            meta name="color-scheme" content="light dark";
            title { (title) " · Zeitset" }
            link rel="icon" type="image/svg+xml" href="assets/icon.svg";
            link rel="stylesheet" href="assets/style.css";
            script src="assets/live.js" defer {}
        }
    }
}
