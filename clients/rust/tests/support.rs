//! Servers and connections for the tests.

use redis::AsyncConnectionConfig;
use redis::aio::{ConnectionManager, ConnectionManagerConfig, MultiplexedConnection};
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU16, Ordering};
use std::time::Duration;
use testkit::{PATIENCE, Server};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

/// Connects to the server.
pub async fn connect(server: &Server) -> MultiplexedConnection {
    // The machine may be so slow that the client's own time limit would fail a test.
    let config = AsyncConnectionConfig::new().set_response_timeout(None).set_connection_timeout(None);
    client(server).get_multiplexed_async_connection_with_config(&config).await.expect("a connection")
}

/// Connects by a proxy. The connection is opened again when it is lost.
pub async fn manager(proxy: &Proxy) -> ConnectionManager {
    let config = ConnectionManagerConfig::new().set_max_delay(Duration::from_millis(50)).set_response_timeout(None);
    proxy.client().get_connection_manager_with_config(config).await.expect("a connection")
}

pub fn client(server: &Server) -> redis::Client {
    redis::Client::open(server.url()).expect("a URL")
}

/// Polls until the condition holds.
pub async fn until(what: &str, mut condition: impl AsyncFnMut() -> bool) {
    let start = std::time::Instant::now();
    while !condition().await {
        assert!(start.elapsed() < PATIENCE, "not within {PATIENCE:?}: {what}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// The modes of a proxy.
pub const PASS: u8 = 0;
pub const BREAK: u8 = 1;
pub const DELAY: u8 = 2;
pub const GARBAGE: u8 = 3;
pub const UPSTREAM: u8 = 4;

/// A port that leads to a server, which has another port after each start.
pub struct Proxy {
    port: u16,
    state: Arc<State>,
}

struct State {
    server: AtomicU16,
    mode: AtomicU8,
    /// A text, and the number of requests that wait because they contain it.
    held: watch::Sender<(Option<&'static str>, usize)>,
}

impl State {
    async fn pass(&self, request: &[u8]) {
        let mut held = self.held.subscribe();
        let has = |text: &str| request.windows(text.len()).any(|part| part == text.as_bytes());
        let is_held = held.borrow().0.is_some_and(has);
        if is_held {
            self.held.send_modify(|(_, count)| *count += 1);
            held.wait_for(|(text, _)| text.is_none()).await.expect("the state has the sender");
        }
    }
}

impl Proxy {
    pub async fn start(server: &Server) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let port = listener.local_addr().expect("an address").port();
        let (server, mode) = (AtomicU16::new(server.address().1), AtomicU8::new(PASS));
        let state = Arc::new(State { server, mode, held: watch::Sender::new((None, 0)) });
        let shared = Arc::clone(&state);
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let shared = Arc::clone(&shared);
                tokio::spawn(async move {
                    let Ok(server) = TcpStream::connect(("127.0.0.1", shared.server.load(Ordering::Relaxed))).await
                    else {
                        return;
                    };
                    drop(relay(client, server, &shared).await);
                });
            }
        });
        Self { port, state }
    }

    /// New connections go to this server.
    pub fn follow(&self, server: &Server) {
        self.state.server.store(server.address().1, Ordering::Relaxed);
    }

    pub fn set(&self, mode: u8) {
        self.state.mode.store(mode, Ordering::Relaxed);
    }

    /// Lets requests that contain this text wait.
    pub fn hold(&self, text: &'static str) {
        self.state.held.send_replace((Some(text), 0));
    }

    /// Waits until a request waits.
    pub async fn holds(&self) {
        self.state.held.subscribe().wait_for(|(_, count)| *count > 0).await.expect("the state has the sender");
    }

    pub fn release(&self) {
        self.state.held.send_replace((None, 0));
    }

    pub fn port(&self) -> u16 {
        self.port
    }

    pub fn client(&self) -> redis::Client {
        redis::Client::open(format!("redis://127.0.0.1:{}", self.port)).expect("a URL")
    }
}

async fn relay(client: TcpStream, server: TcpStream, state: &State) -> std::io::Result<()> {
    let (mut from_client, mut to_client) = client.into_split();
    let (mut from_server, mut to_server) = server.into_split();
    let (mut up, mut down) = ([0; 16_384], [0; 16_384]);
    loop {
        let tick = tokio::time::sleep(Duration::from_millis(10));
        tokio::select! {
            read = from_client.read(&mut up) => match read? {
                0 => return Ok(()),
                count => {
                    state.pass(&up[..count]).await;
                    to_server.write_all(&up[..count]).await?;
                }
            },
            read = from_server.read(&mut down) => {
                let count = read?;
                match state.mode.load(Ordering::Relaxed) {
                    _ if count == 0 => return Ok(()),
                    // The server has run the commands, but their replies get lost.
                    BREAK => return Ok(()),
                    GARBAGE => to_client.write_all(b"HTTP/1.1 502 Bad Gateway\r\n\r\n").await?,
                    // The error of a proxy that does not reach its server.
                    UPSTREAM => to_client.write_all(b"-upstream failure\r\n").await?,
                    DELAY => {
                        tokio::time::sleep(Duration::from_millis(30)).await;
                        to_client.write_all(&down[..count]).await?;
                    }
                    _ => to_client.write_all(&down[..count]).await?,
                }
            }
            () = tick => if state.mode.load(Ordering::Relaxed) == BREAK { return Ok(()) },
        }
    }
}
