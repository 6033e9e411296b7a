//! How a program that serves learns that it is to end.

use tokio::signal::unix::{SignalKind, signal};

/// Returns when the operator or the service manager wants the program to end.
pub async fn until_ended() {
    let mut term = signal(SignalKind::terminate()).expect("signals work");
    tokio::select! {
        _ = term.recv() => {}
        _ = tokio::signal::ctrl_c() => {}
    }
}
