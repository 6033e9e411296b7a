//! The terminal view.
//!
//! `look` has the data of a view, `picture` formats it, `keys` has the operator's choices, `screen` is the terminal.

mod keys;
mod look;
mod picture;
mod screen;
mod table;

use crate::{Failure, server::Server};
use keys::{Choice, View};
use look::Look;
use std::io::IsTerminal;
use std::time::Duration;

/// Rows per table in printed output.
const ROWS: usize = 50;

pub async fn run(server: Server, interval: Duration, once: bool) -> Result<(), Failure> {
    let mut look = Look::default();
    look.again(&server).await.map_err(|error| crate::server::message(&error))?;
    if !once && std::io::stdout().is_terminal() {
        return screen::live(server, look, interval).await;
    }
    loop {
        tokio::time::sleep(interval).await;
        look.again(&server).await.map_err(|error| crate::server::message(&error))?;
        print(&look, &server.address)?;
        if once {
            return Ok(());
        }
    }
}

/// Prints all views as text, one below the other.
fn print(look: &Look, address: &str) -> Result<(), Failure> {
    const WIDTH: usize = 100;
    let mut lines = picture::head(look, address, WIDTH);
    for view in View::ALL {
        let choice = Choice { view, ..Choice::default() };
        let table = table::of(look, &choice, WIDTH);
        if view == View::Queues || !table.rows.is_empty() {
            lines.push(String::new().into());
            lines.push(table.head);
            let hidden = table.rows.len().saturating_sub(ROWS);
            lines.extend(table.rows.into_iter().take(ROWS));
            if hidden > 0 {
                lines.push(format!("... and {hidden} more").into());
            }
        }
    }
    let lines: String = lines.iter().map(|line| format!("{}\n", line.to_string().trim_end())).collect();
    crate::ended::print(&lines)
}
