//! `zeitset`: what a server with the Zeitset module is doing, as a web page, as metrics for Prometheus, and in a terminal.
//!
//! - `server`: all that is asked of the Redis server; every question has a bounded cost, however much the server holds.
//! - `watch`: the sampler that the page and the terminal view share: queues looked at in turns, rates between two looks.
//! - `history`: the last hour of a server, in memory.
//! - `metrics`, `top`, `web`: the three views.
//! - `text`: numbers, spans and foreign bytes as text.

mod cli;
mod ended;
mod history;
mod metrics;
mod server;
mod text;
mod top;
mod watch;
mod web;

/// What ends the program: a sentence for the operator.
type Failure = Box<dyn std::error::Error + Send + Sync>;

fn main() -> std::process::ExitCode {
    match cli::run() {
        Ok(()) => std::process::ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("zeitset: {failure}");
            std::process::ExitCode::FAILURE
        }
    }
}
