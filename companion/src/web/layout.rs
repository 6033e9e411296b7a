//! What all pages have around them.

use super::App;
use axum::http::StatusCode;
use maud::{DOCTYPE, Markup, html};

/// Between two looks of the script.
const REFRESH_MS: u32 = 2_000;

const PLACES: [(&str, &str); 5] =
    [("/", "Overview"), ("/queues", "Queues"), ("/limits", "Limits"), ("/sets", "Sets"), ("/boards", "Boards")];

/// A whole page. `place` is the entry of the navigation that it belongs to.
pub async fn page(app: &App, place: &str, title: &str, body: Markup) -> Markup {
    let problem = app.seen.read().await.problem.clone();
    html! {
        (head(title))
        body data-refresh=(REFRESH_MS) {
            header.bar {
                a.brand href="/" { span.mark aria-hidden="true" {} "Zeitset" }
                nav aria-label="Pages" {
                    @for (path, name) in PLACES {
                        a href=(path) aria-current=[(path == place).then_some("page")] { (name) }
                    }
                }
                span.target {
                    span #pulse .pulse title="live" {}
                    (app.server.address)
                    @if app.settings.write { span.badge.warn { "write" } } @else { span.badge { "read-only" } }
                }
            }
            main {
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

/// A page that says why there is no page.
pub fn problem(status: StatusCode, text: &str) -> Markup {
    html! {
        (head("Problem"))
        body {
            header.bar { a.brand href="/" { span.mark aria-hidden="true" {} "Zeitset" } }
            main {
                h1 { (status.as_u16()) " " (status.canonical_reason().unwrap_or_default()) }
                p.notice.bad role="alert" { (text) }
                p { a href="/" { "To the overview" } }
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
            link rel="icon" type="image/svg+xml" href="/assets/icon.svg";
            link rel="stylesheet" href="/assets/style.css";
            script src="/assets/live.js" defer {}
        }
    }
}
