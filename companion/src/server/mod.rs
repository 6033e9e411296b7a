//! Requests to the Redis server, and parsing of the replies.
//!
//! Every request has a bounded cost for the server: INFO, pages of ZQ.LIST and ZQ.PEEK, stats of single keys. No
//! request reads a whole keyspace or a whole queue.

mod denied;
mod info;
mod job;
mod names;
mod queue;
pub mod reply;
pub mod ring;

pub use denied::{Denied, Slow};
pub use info::{Command, Info, SECTIONS};
pub use job::{Job, Reader, State};
pub use names::unlisted;
pub use queue::{COUNTERS, Counts, Queue};

use crate::Failure;
use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, Client, ConnectionAddr, ErrorKind, FromRedisValue, IntoConnectionInfo, Pipeline};
use redis::{RedisError, RedisResult, TlsCertificates, Value};
use std::time::Duration;
use tokio::sync::Mutex;
use zeitset_client::Call;

/// A key, which may have any bytes.
pub type Key = Vec<u8>;

/// The timeout of a request to the server. No reply is expected to take this long. If a request times out, the page
/// shows an error.
const PATIENCE: Duration = Duration::from_secs(5);

/// A server. The connection is opened when needed, and again after an error.
pub struct Server {
    client: Client,
    connection: Mutex<Option<MultiplexedConnection>>,
    /// The address for display, without user name and password.
    pub address: String,
}

impl Server {
    /// Creates the client. `certificates` apply to a `rediss://` address.
    pub fn open(url: &str, certificates: Option<TlsCertificates>) -> Result<Server, Failure> {
        // The redis crate's error may contain the URL and its password.
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

    /// Returns the replies in the order of the commands, including errors. `Err` if the server did not answer.
    pub async fn ask(&self, mut pipe: Pipeline) -> RedisResult<Vec<RedisResult<Value>>> {
        // The redis crate refuses an empty pipeline.
        if pipe.is_empty() {
            return Ok(Vec::new());
        }
        let mut connection = self.connect().await?;
        let replies = pipe.ignore_errors().query_async(&mut connection).await;
        if replies.is_err() {
            // After any error, the next request opens a new connection.
            *self.connection.lock().await = None;
        }
        replies
    }

    /// Returns the reply to a command of the module. An error reply is an `Err`, too.
    pub async fn call<C, R: FromRedisValue>(&self, call: Call<C, R>) -> RedisResult<R> {
        let mut pipe = redis::pipe();
        pipe.add_command(call.into());
        reply::read(self.ask(pipe).await?.pop().expect("a reply for each command"))
    }

    /// Returns the reply to one command. An error reply is an `Err`, too.
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

impl Server {
    /// Returns the reason of a failed request, for an operator: the address, the error, and its usual cause.
    pub fn why(&self, error: &RedisError) -> String {
        let uses_tls = matches!(self.client.get_connection_info().addr(), ConnectionAddr::TcpTls { .. });
        let text = message(error);
        let cause = if error.kind() == ErrorKind::AuthenticationFailed || text.starts_with("NOAUTH") {
            ": the user name or the password is missing or wrong"
        } else if error.is_connection_refusal() {
            ": no server listens there"
        } else if error.is_connection_dropped() && !uses_tls {
            ": if the server requires TLS, its address begins with rediss://"
        } else if error.is_timeout() && uses_tls {
            ": if the server does not use TLS, its address begins with redis://"
        } else if text.starts_with("NOPERM") {
            ": docs/operations.md has an ACL line for this program"
        } else {
            ""
        };
        format!("{}: {text}{cause}", self.address)
    }
}

/// Returns the server's error message, without the additions of the redis crate.
pub fn message(error: &RedisError) -> String {
    match (error.code(), error.detail()) {
        (Some(code), Some(detail)) => format!("{code} {detail}"),
        _ => error.to_string(),
    }
}
