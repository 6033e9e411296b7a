//! What is asked of the Redis server, and how its replies are read.
//!
//! Every question has a bounded cost for the server: INFO, pages of ZQ.LIST and ZQ.PEEK, figures of single keys. Nothing here
//! walks through a keyspace or a queue at once.

mod denied;
mod info;
mod job;
mod names;
mod queue;
pub mod reply;
pub mod ring;

pub use denied::{Denied, Slow};
pub use info::{Command, Info, SECTIONS};
pub use job::{Job, State};
pub use names::unlisted;
pub use queue::{COUNTERS, Counts, Queue};

use crate::Failure;
use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, Client, ConnectionAddr, IntoConnectionInfo, Pipeline};
use redis::{RedisError, RedisResult, TlsCertificates, Value};
use std::time::Duration;
use tokio::sync::Mutex;

/// A key of the server: any bytes.
pub type Key = Vec<u8>;

/// Longer than any answer takes that is expected here; a page that waits longer says so.
const PATIENCE: Duration = Duration::from_secs(5);

/// One server. Its connection is opened when it is needed, and again after it broke.
pub struct Server {
    client: Client,
    connection: Mutex<Option<MultiplexedConnection>>,
    /// For people: without user name and password.
    pub address: String,
}

impl Server {
    /// `certificates`, if any, are for a `rediss://` address.
    pub fn open(url: &str, certificates: Option<TlsCertificates>) -> Result<Server, Failure> {
        // The client's own message may quote the URL, and the URL may hold a password.
        let info = url.into_connection_info();
        let info = info.map_err(|_| "the address of the server is not understood: redis://host:port")?;
        let client = match certificates {
            None => Client::open(info)?,
            Some(_) if !matches!(info.addr(), ConnectionAddr::TcpTls { .. }) => {
                return Err("--cacert, --cert and --key need an address that begins with rediss://".into());
            }
            Some(certificates) => Client::build_with_tls(info, certificates)?,
        };
        let address = client.get_connection_info().addr().to_string();
        Ok(Server { client, connection: Mutex::new(None), address })
    }

    /// The replies in the order of the commands, errors among them. `Err`: the server could not be asked.
    pub async fn ask(&self, mut pipe: Pipeline) -> RedisResult<Vec<RedisResult<Value>>> {
        // The client refuses to send nothing.
        if pipe.is_empty() {
            return Ok(Vec::new());
        }
        let mut connection = self.connect().await?;
        let replies = pipe.ignore_errors().query_async(&mut connection).await;
        if replies.is_err() {
            // Whatever broke: the next question begins with a new connection.
            *self.connection.lock().await = None;
        }
        replies
    }

    /// The reply to one command; its error is an `Err`, too.
    pub async fn one(&self, words: &[&[u8]]) -> RedisResult<Value> {
        let mut pipe = redis::pipe();
        let (name, rest) = words.split_first().expect("a command has a name");
        pipe.cmd(&String::from_utf8_lossy(name)).arg(rest);
        self.ask(pipe).await?.pop().expect("a reply for each command")
    }

    async fn connect(&self) -> RedisResult<MultiplexedConnection> {
        let mut connection = self.connection.lock().await;
        if let Some(open) = &*connection {
            return Ok(open.clone());
        }
        let config =
            AsyncConnectionConfig::new().set_connection_timeout(Some(PATIENCE)).set_response_timeout(Some(PATIENCE));
        let open = self.client.get_multiplexed_async_connection_with_config(&config).await?;
        Ok(connection.insert(open).clone())
    }
}

/// What the server said, for people: without the client's own words around it.
pub fn message(error: &RedisError) -> String {
    match (error.code(), error.detail()) {
        (Some(code), Some(detail)) => format!("{code} {detail}"),
        _ => error.to_string(),
    }
}
