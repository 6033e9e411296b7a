//! Dead letters by the kind of their error, and the progress of retrying or deleting those of a kind.

use super::App;
use super::letters::{Act, End, Kind, Task};
use super::parts::{form, moment, name};
use super::query::{encoded, link};
use crate::server::Queue;
use crate::text::{grouped, printable, shortened};
use maud::{Markup, html};
use redis::RedisResult;

/// Kinds per page.
const ROWS: usize = 50;

pub async fn show(app: &App, key: &[u8], queue: &Queue, now_ms: u64) -> RedisResult<Markup> {
    let (view, task) = app.letters.look(&app.server, key, queue).await?;
    let write = app.settings.write;
    let has_tasks = view.kinds.iter().any(|(kind, _)| !kind.task.is_empty());
    let act = |kind: &Kind, button: Markup| {
        form(
            app,
            key,
            "inline",
            html! {
                input type="hidden" name="tab" value="errors";
                input type="hidden" name="kind" value=(encoded(&kind.error));
                @if !kind.task.is_empty() { input type="hidden" name="task" value=(encoded(&kind.task)); }
                (button)
            },
        )
    };
    Ok(html! {
        div #task data-live { @if let Some(task) = &task { (progress(app, key, task)) } }
        div #errors data-live {
            @if let Some(read) = view.reading { p.quiet data-soon { "Read " (grouped(read.min(queue.dead))) " of " (grouped(queue.dead)) " dead letters." } }
            @if view.is_part { p.quiet { "There are more dead letters than are counted: only the oldest." } }
            @if view.kinds.is_empty() && view.others == 0 { @if view.reading.is_none() { p.quiet { "No dead job." } } } @else {
                div.scroll tabindex="0" role="region" aria-label="Errors" { table {
                    thead { tr {
                        th { "Error" } @if has_tasks { th { "Celery task" } } th.number { "Jobs" } th { "First died" } th { "Last died" }
                        @if write { th { span.hidden { "Actions" } } }
                    } }
                    tbody { @for (kind, of_kind) in view.kinds.iter().take(ROWS) { tr id={ "kind-" (encoded(&kind.error)) "-" (encoded(&kind.task)) } {
                        td.error { a href=(link("job", &[("key", key), ("id", &of_kind.example)])) { (text_of(&kind.error)) } }
                        @if has_tasks { td { @if kind.task.is_empty() { "–" } @else { (name(&kind.task)) } } }
                        td.number { (grouped(of_kind.count)) }
                        td { (moment(of_kind.first_ms, now_ms)) }
                        td { (moment(of_kind.last_ms, now_ms)) }
                        @if write { td { div.acts {
                            (act(kind, html! { button.main name="do" value="retry-kind" aria-label={ "Retry " (spoken(kind)) } { "Retry" } }))
                            (act(kind, html! { button.danger name="do" value="delete-kind" aria-label={ "Delete " (spoken(kind)) } { "Delete" } }))
                        } } }
                    } } }
                } }
                @if view.kinds.len() > ROWS { p.quiet { "and " (grouped((view.kinds.len() - ROWS) as u64)) " more errors" } }
                @if view.others > 0 { p.quiet { "and " (grouped(view.others)) " jobs with other errors" } }
                p.quiet { "IDs, numbers, addresses and times are replaced, so that equal errors are counted together. The link leads to the job that died last." }
            }
        }
    })
}

/// Returns the name of a kind for the label of a button.
fn spoken(kind: &Kind) -> String {
    format!("all: {}", [&kind.task, &kind.error].map(|part| printable(part)).join(" ").trim())
}

fn text_of(error: &[u8]) -> Markup {
    if error.is_empty() {
        return html! { "without an error" };
    }
    let text = printable(error);
    html! { span.key title=(text) { (shortened(&text, 80)) } }
}

fn progress(app: &App, key: &[u8], task: &Task) -> Markup {
    let (done, end) = (task.done(), task.end());
    let total = task.total.max(done);
    let what = if task.act == Act::Retry { "Retry" } else { "Delete" };
    html! {
        div.notice.bad[matches!(end, Some(End::Failed(_)))] role="status" data-soon[end.is_none()] {
            p {
                (what) ": " @if !task.kind.task.is_empty() { (name(&task.kind.task)) ", " } (text_of(&task.kind.error)) ", " (grouped(done)) " of " (grouped(total)) " jobs"
                @match &end {
                    None => ".",
                    Some(End::Finished) => ", finished.",
                    Some(End::Stopped) => ", stopped.",
                    Some(End::Failed(error)) => { ". It failed: " (crate::server::message(error)) },
                }
            }
            @if end.is_none() {
                progress value=(done) max=(total.max(1)) aria-label="Progress" {}
                @if app.settings.write {
                    (form(app, key, "acts", html! {
                        input type="hidden" name="tab" value="errors";
                        button name="do" value="stop" { "Stop" }
                    }))
                }
            }
        }
    }
}
