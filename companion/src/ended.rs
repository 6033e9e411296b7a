//! Serves HTTP until a signal ends the program, and disconnects slow clients. Also prints to the standard output, which
//! may be a closed pipe.

use crate::Failure;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::{Router, extract::Request, middleware};
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::{server::graceful::GracefulShutdown, service::TowerToHyperService};
use std::io::{ErrorKind, Write, stdout};
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::Semaphore;

/// After a signal, requests in progress have this time to finish.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(3);

/// The timeout for receiving the head of a request. It starts with the connection, and again after each response.
const HEADER_TIMEOUT: Duration = Duration::from_secs(10);

/// The timeout for a request's body and its response. It is longer than the timeout of requests to the Redis server.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(20);

/// The maximum duration of a connection. After this time, a client must connect again.
const CONNECTION: Duration = Duration::from_secs(600);

/// The maximum number of connections served at once. Further connections wait.
const CONNECTIONS: usize = 256;

/// Serves HTTP requests until a signal asks the program to end. Incomplete requests do not delay the end by more than
/// [`SHUTDOWN_TIMEOUT`].
pub async fn serve(listener: TcpListener, router: Router) -> Result<(), Failure> {
    let router = router.layer(middleware::from_fn(in_time));
    let (room, open) = (Arc::new(Semaphore::new(CONNECTIONS)), GracefulShutdown::new());
    let accept = async {
        loop {
            let place = room.clone().acquire_owned().await.expect("it is never closed");
            let Ok((socket, _)) = listener.accept().await else {
                // No file descriptor is free, or the client is gone.
                tokio::time::sleep(Duration::from_millis(100)).await;
                continue;
            };
            let service = TowerToHyperService::new(router.clone());
            let mut http = http1::Builder::new();
            let connection = http
                .timer(TokioTimer::new())
                .header_read_timeout(HEADER_TIMEOUT)
                .serve_connection(TokioIo::new(socket), service);
            let connection = open.watch(connection);
            tokio::spawn(async move {
                // If a client violates HTTP or exceeds the timeout, it gets no response.
                let _ = tokio::time::timeout(CONNECTION, connection).await;
                drop(place);
            });
        }
    };
    tokio::select! {
        () = accept => {}
        () = until_ended() => {}
    }
    drop(listener);
    let _ = tokio::time::timeout(SHUTDOWN_TIMEOUT, open.shutdown()).await;
    Ok(())
}

async fn in_time(request: Request, next: middleware::Next) -> Response {
    match tokio::time::timeout(RESPONSE_TIMEOUT, next.run(request)).await {
        Ok(answer) => answer,
        Err(_) => (StatusCode::REQUEST_TIMEOUT, "The request took too long.\n").into_response(),
    }
}

/// Waits until a signal asks the program to end.
async fn until_ended() {
    let mut term = signal(SignalKind::terminate()).expect("signals work");
    tokio::select! {
        _ = term.recv() => {}
        _ = tokio::signal::ctrl_c() => {}
    }
}

/// Prints text. If the reader has closed the pipe, as `head` does, the program exits silently.
pub fn print(text: &str) -> Result<(), Failure> {
    let mut out = stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => std::process::exit(0),
        printed => Ok(printed?),
    }
}
