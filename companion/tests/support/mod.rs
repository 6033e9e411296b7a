//! Starts a browser and the companion for a test. Both end with the test.

mod browser;
mod running;

pub use browser::{Browser, ENTER, ESCAPE, Node, TAB};
pub use running::{Running, companion, fetch, printed, ui};

use std::time::Duration;

/// The timeout of all waiting.
pub const PATIENCE: Duration = Duration::from_secs(30);

/// Polls until `condition` holds. Panics with `what` after the timeout.
#[track_caller]
pub fn eventually(what: &str, condition: impl FnMut() -> bool) {
    testkit::eventually(PATIENCE, what, condition);
}

/// Polls until `look` returns something. Panics with `what` after the timeout.
#[track_caller]
pub fn found<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let mut found = None;
    eventually(what, || {
        found = look();
        found.is_some()
    });
    found.expect("just found")
}

/// Returns the texts of the cells of a part of the page, by row.
pub fn rows(page: &str, part: &str) -> Vec<String> {
    let part = page.split(&format!("id=\"{part}\"")).nth(1).expect("the part");
    let rows = part.split("</table>").next().unwrap_or_default().split("<tr").skip(2);
    rows.map(|row| {
        let texts = row.split('>').skip(1).filter_map(|piece| piece.split('<').next()).map(str::trim);
        texts.filter(|text| !text.is_empty()).collect::<Vec<_>>().join("|")
    })
    .collect()
}
