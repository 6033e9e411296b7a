//! `zeitset`: a web page, Prometheus metrics and a terminal view of a server with the Zeitset module.
//!
//! - `server`: all requests to the Redis server. Each has a bounded cost, however large the dataset is.
//! - `watch`: the sampler of the page and the terminal view. Each sample reads some of the queues. The sampler computes
//!   rates between two reads of a queue.
//! - `history`: the last hour of a server, in memory.
//! - `metrics`, `top`, `web`: the three views.
//! - `text`: formatting of numbers, durations and arbitrary bytes. `json`: adds line breaks to JSON payloads. `kinds`:
//!   tells which errors are alike.

mod cli;
mod ended;
mod history;
mod json;
mod kinds;
mod metrics;
mod server;
mod text;
mod top;
mod watch;
mod web;

/// An error that ends the program. The program prints it for the operator.
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
