//! The connections of a pump: one waits for jobs, the other sends everything else. In a cluster, finds the node of a
//! slot.

use crate::commands::{items, next};
use crate::error::Error;
use crate::patience::within;
use crate::shards::slot_of;
use redis::aio::{ConnectionLike, MultiplexedConnection};
use redis::{AsyncConnectionConfig, Client, Cmd, ConnectionAddr, ConnectionInfo, IntoConnectionInfo, Pipeline, Value};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::watch;

/// Where the queues of a worker are: one server, or the nodes of a cluster.
#[derive(Clone)]
pub struct Place {
    pub(super) is_cluster: bool,
    /// The known nodes by their addresses. Outside of a cluster, the server.
    nodes: Arc<Mutex<BTreeMap<String, ConnectionInfo>>>,
    patience: Duration,
}

impl From<Client> for Place {
    fn from(client: Client) -> Self {
        Self::new(false, [client.get_connection_info().clone()])
    }
}

impl Place {
    /// Returns a cluster. `nodes` are URLs of some of its nodes; the worker finds the others.
    ///
    #[doc = example!(worker r#"let worker = Worker::new(Place::cluster(["redis://node1", "redis://node2"])?, "mails", handler);"#, "\n# drop(worker);")]
    pub fn cluster<N: IntoConnectionInfo>(nodes: impl IntoIterator<Item = N>) -> Result<Self, Error> {
        let nodes: Result<Vec<_>, _> = nodes.into_iter().map(IntoConnectionInfo::into_connection_info).collect();
        Ok(Self::new(true, nodes?))
    }

    fn new(is_cluster: bool, nodes: impl IntoIterator<Item = ConnectionInfo>) -> Self {
        let nodes = nodes.into_iter().map(|info| (info.addr().to_string(), info)).collect();
        Self { is_cluster, nodes: Arc::new(Mutex::new(nodes)), patience: Duration::from_secs(10) }
    }

    /// How long a server may take to reply to a command that does not wait.
    pub(super) fn patient(self, patience: Duration) -> Self {
        Self { patience, ..self }
    }

    /// Connects to the server that has the key. In a cluster, `asked` is the node that an ASK error names.
    pub(super) async fn open(self, key: String, asked: Option<(String, u16)>) -> Result<Link, Error> {
        let info = match (&asked, self.is_cluster) {
            (Some((host, port)), true) => self.known().first().map(|info| at(info, host, *port)),
            (None, true) => Some(self.find(slot_of(&key)).await?),
            (_, false) => self.known().into_iter().next(),
        };
        let client = Client::open(info.ok_or_else(|| Error::Timeout("no node is known".into()))?)?;
        let (control, claims) = (self.connect(&client).await?, self.connect(&client).await?);
        let mut link = Link {
            control,
            claims,
            claims_id: None,
            is_asking: asked.is_some(),
            patience: self.patience,
            dropped: Arc::default(),
        };
        let id = link.wait(redis::cmd("CLIENT").arg("ID").take(), Duration::ZERO).await;
        link.claims_id = match id {
            Ok(id) => Some(redis::from_redis_value(id)?),
            // The user has no permission for CLIENT ID.
            Err(error) if error.code() == Some(&crate::Code::NoPermission) => None,
            Err(error) => return Err(error),
        };
        Ok(link)
    }

    async fn connect(&self, client: &Client) -> Result<MultiplexedConnection, Error> {
        // The worker has time limits of its own, because a claim may wait.
        let config =
            AsyncConnectionConfig::new().set_response_timeout(None).set_connection_timeout(Some(self.patience));
        within(self.patience, async { Ok(client.get_multiplexed_async_connection_with_config(&config).await?) }).await
    }

    fn known(&self) -> Vec<ConnectionInfo> {
        self.nodes.lock().unwrap_or_else(PoisonError::into_inner).values().cloned().collect()
    }

    /// Asks the nodes for the slots, until one replies. The order is random, because a node that is cut off from the
    /// cluster may reply wrongly.
    async fn find(&self, slot: u16) -> Result<ConnectionInfo, Error> {
        let mut nodes = self.known();
        let mut problem = Error::Timeout(format!("slot {slot} has no node"));
        while !nodes.is_empty() {
            let at = usize::try_from(crate::random::random() % nodes.len() as u64).unwrap_or_default();
            match self.ask(&nodes.swap_remove(at), slot).await {
                Ok(Some(node)) => return Ok(node),
                Ok(None) => {}
                Err(error) => problem = error,
            }
        }
        Err(problem)
    }

    async fn ask(&self, node: &ConnectionInfo, slot: u16) -> Result<Option<ConnectionInfo>, Error> {
        let mut connection = self.connect(&Client::open(node.clone())?).await?;
        let slots = redis::cmd("CLUSTER").arg("SLOTS").take();
        let rows: Vec<Vec<Value>> =
            within(self.patience, async { Ok(slots.query_async(&mut connection).await?) }).await?;
        let mut found = None;
        for row in rows {
            let row = &mut row.into_iter();
            let (first, last): (u16, u16) = (next(row)?, next(row)?);
            for (place, fields) in row.enumerate() {
                let fields = &mut items(fields)?;
                // A node that does not know its own address replies with an empty address.
                let host: Option<String> = next(fields)?;
                let host = host.filter(|host| !host.is_empty()).unwrap_or_else(|| host_of(node));
                let info = self::at(node, &host, next(fields)?);
                if place == 0 && (first..=last).contains(&slot) {
                    found = Some(info.clone());
                }
                self.nodes.lock().unwrap_or_else(PoisonError::into_inner).insert(info.addr().to_string(), info);
            }
        }
        Ok(found)
    }
}

fn host_of(node: &ConnectionInfo) -> String {
    match node.addr() {
        ConnectionAddr::Tcp(host, _) | ConnectionAddr::TcpTls { host, .. } => host.clone(),
        _ => String::new(),
    }
}

/// Returns the connection of another address, with the credentials and the TLS of a node.
fn at(node: &ConnectionInfo, host: &str, port: u16) -> ConnectionInfo {
    let mut address = node.addr().clone();
    match &mut address {
        ConnectionAddr::Tcp(to, at) => (*to, *at) = (host.to_owned(), port),
        ConnectionAddr::TcpTls { host: to, port: at, .. } => (*to, *at) = (host.to_owned(), port),
        _ => {}
    }
    node.clone().set_addr(address)
}

/// The two connections of a pump.
#[derive(Clone)]
pub(super) struct Link {
    control: MultiplexedConnection,
    claims: MultiplexedConnection,
    /// The client ID of `claims`, for CLIENT UNBLOCK.
    claims_id: Option<i64>,
    /// Whether the slot is being moved to this server. The server then takes only commands that follow ASKING.
    is_asking: bool,
    patience: Duration,
    /// Whether the pump has dropped the link.
    dropped: Arc<watch::Sender<bool>>,
}

impl Link {
    /// Makes waiting requests fail.
    pub fn abandon(&self) {
        self.dropped.send_replace(true);
    }

    /// Sends units in one pipeline. A unit is a command, or several commands that are sent in one MULTI. Returns the
    /// replies of each unit, or the error with which the server refused it.
    pub async fn request(&self, units: Vec<Vec<Cmd>>) -> Result<Vec<Result<Vec<Value>, Error>>, Error> {
        let mut commands = Vec::with_capacity(units.len());
        let mut lengths = Vec::with_capacity(units.len());
        for unit in units {
            commands.extend(self.is_asking.then(|| redis::cmd("ASKING")));
            lengths.push(unit.len());
            let is_transaction = unit.len() > 1;
            commands.extend(is_transaction.then(|| redis::cmd("MULTI")));
            commands.extend(unit);
            commands.extend(is_transaction.then(|| redis::cmd("EXEC")));
        }
        let mut replies = self.send(&self.control, commands, Duration::ZERO).await?.into_iter();
        let mut next = || replies.next().unwrap_or(Value::Nil);
        let unit = |length: usize| {
            if self.is_asking {
                next();
            }
            if length == 1 {
                return Ok(vec![next().extract_error()?]);
            }
            let queued: Vec<_> = (0..=length).map(|_| next()).collect();
            let last = next();
            for reply in queued {
                reply.extract_error()?;
            }
            match last.extract_error()? {
                Value::Array(replies) => Ok(replies),
                _ => Err(Error::Timeout("EXEC has no replies".into())),
            }
        };
        Ok(lengths.into_iter().map(unit).collect())
    }

    /// Sends commands. Returns the replies, or the first error reply.
    pub async fn ask(&self, commands: Vec<Cmd>) -> Result<Vec<Value>, Error> {
        let replies = self.request(commands.into_iter().map(|command| vec![command]).collect()).await?;
        Ok(replies.into_iter().collect::<Result<Vec<_>, _>>()?.into_iter().flatten().collect())
    }

    /// Sends a command that may wait for jobs.
    pub async fn wait(&self, command: Cmd, block: Duration) -> Result<Value, Error> {
        let commands = if self.is_asking { vec![redis::cmd("ASKING"), command] } else { vec![command] };
        let reply = self.send(&self.claims, commands, block).await?.pop();
        Ok(reply.unwrap_or(Value::Nil).extract_error()?)
    }

    async fn send(&self, to: &MultiplexedConnection, commands: Vec<Cmd>, block: Duration) -> Result<Vec<Value>, Error> {
        let count = commands.len();
        if count == 0 {
            return Ok(Vec::new());
        }
        let mut pipe = Pipeline::with_capacity(count);
        for command in commands {
            pipe.add_command(command);
        }
        let mut connection = to.clone();
        let sent = async { Ok(connection.req_packed_commands(&pipe, 0, count).await?) };
        let mut dropped = self.dropped.subscribe();
        let replies = tokio::select! {
            replies = within(self.patience + block, sent) => replies?,
            _ = dropped.wait_for(|dropped| *dropped) => return Err(Error::Timeout("the connection was dropped".into())),
        };
        let enough = replies.len() == count;
        if enough { Ok(replies) } else { Err(Error::Timeout("a pipeline got too few replies".into())) }
    }

    /// The longest BLOCK of a claim. If the worker cannot end the claim by CLIENT UNBLOCK, BLOCK is short, because the
    /// worker must wait for the claim before it stops. BLOCK is at most a third of the lease, because the worker counts
    /// the lease of a claimed job from the moment at which it sent the claim.
    pub fn longest_wait(&self, lease: Duration) -> Duration {
        Duration::from_secs(if self.claims_id.is_some() { 5 } else { 1 }).min(lease / 3)
    }

    /// Ends the wait of a claim, so that the server replies at once.
    pub async fn end_wait(&self) -> Result<(), Error> {
        let Some(id) = self.claims_id else { return Ok(()) };
        self.ask(vec![redis::cmd("CLIENT").arg("UNBLOCK").arg(id).take()]).await.map(drop)
    }
}
