//! A cluster on loopback: three masters with a replica each, and clients that follow redirections.

use crate::agreement::assert_agree;
use crate::client::Client;
use crate::clock::Clock;
use crate::patience::{PATIENCE, eventually};
use crate::reply::show;
use crate::server::{Builder, Server};
use redis::Value;
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::time::{Duration, Instant};

const MASTERS: usize = 3;
const SLOTS: usize = 16_384;
const NO_FAILOVER: &str = "cluster-node-timeout 15000\ncluster-replica-no-failover yes";

pub struct Cluster {
    /// The masters, followed by their replicas in the same order.
    pub nodes: Vec<Server>,
}

impl Cluster {
    /// Starts a cluster in which no node fails over by itself, however slow the machine is.
    pub fn start() -> Self {
        Self::with(NO_FAILOVER)
    }

    /// Starts a cluster whose nodes have additional lines in their configuration. Returns when the cluster is up.
    pub fn with(config: &str) -> Self {
        Self::of(|_| Server::builder().config(config))
    }

    /// Like [`start`](Self::start), with a clock for each master and its replica.
    pub fn with_clocks(clocks: &[Clock; MASTERS]) -> Self {
        Self::of(|master| Server::builder().config(NO_FAILOVER).clock(&clocks[master]))
    }

    fn of(node: impl Fn(usize) -> Builder) -> Self {
        let node = |n| node(n % MASTERS).cluster().keeping_aof().config("cluster-allow-replica-migration no");
        let nodes: Vec<_> = (0..2 * MASTERS).map(node).map(Builder::start).collect();
        let mut clients: Vec<_> = nodes.iter().map(Server::client).collect();
        for (n, client) in clients.iter_mut().enumerate() {
            client.run(&format!("CLUSTER SET-CONFIG-EPOCH {}", n + 1));
            if n < MASTERS {
                let (first, last) = (n * SLOTS / MASTERS, (n + 1) * SLOTS / MASTERS - 1);
                client.run(&format!("CLUSTER ADDSLOTSRANGE {first} {last}"));
            }
        }
        // CLUSTER SET-CONFIG-EPOCH fails once a node knows another node, so the nodes meet only now.
        for (n, client) in clients.iter_mut().enumerate() {
            for other in &nodes[n + 1..] {
                client.run(&format!("CLUSTER MEET 127.0.0.1 {} {}", other.address().1, other.bus_port()));
            }
        }
        let cluster = Self { nodes };
        for n in 0..MASTERS {
            let replicate = format!("CLUSTER REPLICATE {}", cluster.id(n));
            eventually(3 * PATIENCE, "the master is known", || clients[MASTERS + n].reply(&replicate) == "+OK");
        }
        cluster.wait_until_up();
        cluster
    }

    /// Waits until every node knows and reaches all other nodes, and all replicas are in sync.
    pub fn wait_until_up(&self) {
        for node in &self.nodes {
            let mut client = node.client();
            eventually(3 * PATIENCE, "the cluster is up", || {
                let info = client.info_of("CLUSTER INFO");
                let nodes = client.string("CLUSTER NODES");
                info["cluster_state"] == "ok"
                    && info["cluster_known_nodes"] == (2 * MASTERS).to_string()
                    && nodes.matches("slave").count() == MASTERS
                    && nodes.matches(" connected").count() == 2 * MASTERS
            });
        }
        for n in 0..MASTERS {
            self.nodes[MASTERS + n].wait_for_sync(&self.nodes[n]);
        }
    }

    pub fn id(&self, node: usize) -> String {
        self.nodes[node].client().string("CLUSTER MYID")
    }

    pub fn port(&self, node: usize) -> u16 {
        self.nodes[node].address().1
    }

    pub fn slot(&self, key: &str) -> i64 {
        self.nodes[0].client().int(&format!("CLUSTER KEYSLOT {key}"))
    }

    /// Returns the number of the master that had the key's slot when the cluster was created.
    pub fn home(&self, key: &str) -> usize {
        let slot = usize::try_from(self.slot(key)).expect("a slot");
        (0..MASTERS).find(|n| slot < (n + 1) * SLOTS / MASTERS).expect("a master")
    }

    pub fn replica_of(&self, master: usize) -> usize {
        MASTERS + master
    }

    /// Compares every master with its replica and its AOF. The cluster must have had no failover.
    #[track_caller]
    pub fn assert_agrees(&self) {
        for n in 0..MASTERS {
            assert_agree(&self.nodes[n], &[&self.nodes[self.replica_of(n)]]);
        }
    }

    pub fn client(&self) -> ClusterClient {
        let ports = (0..self.nodes.len()).map(|node| self.port(node)).collect();
        ClusterClient { ports, at: 0, connections: HashMap::new() }
    }

    /// Moves a slot from one master to another, key by key, as `redis-cli --cluster reshard` does.
    pub fn move_slot(&self, slot: i64, from: usize, to: usize) {
        let (from_id, to_id) = (self.id(from), self.id(to));
        let (mut source, mut target) = (self.nodes[from].client(), self.nodes[to].client());
        target.run(&format!("CLUSTER SETSLOT {slot} IMPORTING {from_id}"));
        source.run(&format!("CLUSTER SETSLOT {slot} MIGRATING {to_id}"));
        loop {
            let keys = source.strings(&format!("CLUSTER GETKEYSINSLOT {slot} 1"));
            let Some(key) = keys.first() else { break };
            let reply = source.reply(&format!("MIGRATE 127.0.0.1 {} {key} 0 10000", self.port(to)));
            // The key may have expired meanwhile.
            assert!(["+OK", "+NOKEY"].contains(&reply.as_str()), "MIGRATE {key}: {reply}");
        }
        for client in [&mut target, &mut source] {
            client.run(&format!("CLUSTER SETSLOT {slot} NODE {to_id}"));
        }
    }

    /// Waits until all nodes agree on the owner of a slot and on the epochs.
    ///
    /// A node that takes over a slot sets its epoch above every epoch that it knows. If the previous owner has an even
    /// higher epoch, its messages win, and the new owner loses the slot. So a slot must not be moved again before all
    /// nodes know the owner.
    pub fn wait_for_owner(&self, slot: i64, owner: usize) {
        let id = self.id(owner);
        let seen_by = |node: &Server| {
            let mut client = node.client();
            let epoch = client.info_of("CLUSTER INFO")["cluster_current_epoch"].clone();
            let nodes = client.string("CLUSTER NODES");
            let line = nodes.lines().find(|line| line.starts_with(&id)).expect("the owner is known").to_owned();
            let mut fields = line.split(' ').skip(6);
            let its_epoch = fields.next().expect("an epoch").to_owned();
            let has_slot = fields.skip(1).filter_map(|range| {
                let (first, last) = range.split_once('-').unwrap_or((range, range));
                Some(first.parse::<i64>().ok()?..=last.parse::<i64>().ok()?)
            });
            (has_slot.into_iter().any(|range| range.contains(&slot)), epoch, its_epoch)
        };
        eventually(3 * PATIENCE, "all nodes know the owner of the slot", || {
            let views: Vec<_> = self.nodes.iter().map(seen_by).collect();
            views.iter().all(|view| view.0 && *view == views[0])
        });
    }

    /// Returns the commands with which the servers can move whole slots atomically (Valkey from 9.0, Redis from 8.4).
    /// If the servers cannot do this, prints that the test is skipped and returns `None`.
    pub fn atomic_migration(&self) -> Option<AtomicMigration> {
        let mut client = self.nodes[0].client();
        let mut has = |command: &str| !["[nil]", "[]"].contains(&&*client.reply(&format!("COMMAND INFO {command}")));
        if has("CLUSTER|MIGRATESLOTS") {
            return Some(AtomicMigration::Valkey);
        }
        if has("CLUSTER|MIGRATION") {
            return Some(AtomicMigration::Redis);
        }
        eprintln!("skipped: this server moves slots key by key only (as a whole: Valkey 9, Redis 8.4 and later)");
        None
    }

    /// Moves a slot atomically. Returns when the move is complete.
    pub fn migrate_slot_atomically(&self, how: AtomicMigration, slot: i64, from: usize, to: usize) {
        self.begin_atomic_migration(how, slot, from, to);
        self.await_move(how, slot, from, to);
    }

    pub fn begin_atomic_migration(&self, how: AtomicMigration, slot: i64, from: usize, to: usize) {
        match how {
            AtomicMigration::Valkey => {
                let command = format!("CLUSTER MIGRATESLOTS SLOTSRANGE {slot} {slot} NODE {}", self.id(to));
                self.nodes[from].client().run(&command)
            }
            AtomicMigration::Redis => self.nodes[to].client().run(&format!("CLUSTER MIGRATION IMPORT {slot} {slot}")),
        };
    }

    /// Begins an atomic move of a slot, and delays its end until `let_move_end`. Returns when the server has taken the
    /// snapshot for the target. Later writes are not in the snapshot.
    pub fn begin_to_move_slowly(&self, how: AtomicMigration, slot: i64, from: usize, to: usize) {
        let mut source = self.nodes[from].client();
        match how {
            AtomicMigration::Valkey => drop(source.run("DEBUG SLOTMIGRATION PREVENT-PAUSE 1")),
            // The process that sends the snapshot reads this setting when it starts, and waits 300 ms after each key.
            // With 40 keys, the snapshot takes 12 s.
            AtomicMigration::Redis => drop(source.run("CONFIG SET rdb-key-save-delay 300000")),
        }
        self.begin_atomic_migration(how, slot, from, to);
        eventually(3 * PATIENCE, "the snapshot is taken", || match how {
            AtomicMigration::Valkey => {
                let all = source.reply("CLUSTER GETSLOTMIGRATIONS");
                all.contains("'replicating'") || all.contains("'waiting-to-pause'")
            }
            AtomicMigration::Redis => {
                let all = source.reply("CLUSTER MIGRATION STATUS ALL");
                all.contains("'send-bulk-and-stream'") || all.contains("'send-stream'")
            }
        });
    }

    pub fn let_move_end(&self, how: AtomicMigration, from: usize) {
        let mut source = self.nodes[from].client();
        match how {
            AtomicMigration::Valkey => source.run("DEBUG SLOTMIGRATION PREVENT-PAUSE 0"),
            AtomicMigration::Redis => source.run("CONFIG SET rdb-key-save-delay 0"),
        };
    }

    pub fn await_move(&self, how: AtomicMigration, slot: i64, from: usize, to: usize) {
        let (mut source, mut target) = (self.nodes[from].client(), self.nodes[to].client());
        let (list, done) = match how {
            AtomicMigration::Valkey => ("CLUSTER GETSLOTMIGRATIONS", "'success'"),
            AtomicMigration::Redis => ("CLUSTER MIGRATION STATUS ALL", "'completed'"),
        };
        let latest = |client: &mut Client| {
            let Value::Array(all) = client.run(list) else { panic!("no list of migrations") };
            all.first().map(show).unwrap_or_default()
        };
        eventually(3 * PATIENCE, &format!("slot {slot} has moved"), || {
            let states = [latest(&mut source), latest(&mut target)];
            assert!(!states.iter().any(|state| state.contains("'failed'")), "{states:?}");
            states.iter().all(|state| state.contains(done))
        });
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub enum AtomicMigration {
    /// The test sends CLUSTER MIGRATESLOTS to the source.
    Valkey,
    /// The test sends CLUSTER MIGRATION IMPORT to the target.
    Redis,
}

/// Connections to all nodes used so far, and the node that answered last. All keys of a test should be in the same
/// slot.
pub struct ClusterClient {
    ports: Vec<u16>,
    at: usize,
    connections: HashMap<u16, Client>,
}

impl ClusterClient {
    /// Sends a command to the node that owns its keys. Waits if no node owns them. After an error that begins with
    /// `connection lost`, the command may or may not have run.
    pub fn try_run(&mut self, line: &str) -> Result<Value, String> {
        let started = Instant::now();
        let mut asked_at = None;
        loop {
            assert!(started.elapsed() < 3 * PATIENCE, "{line}: nobody has the keys");
            let port = asked_at.unwrap_or(self.ports[self.at]);
            let Some(client) = self.connection(port) else {
                self.at = (self.at + 1) % self.ports.len();
                std::thread::sleep(Duration::from_millis(20));
                continue;
            };
            if asked_at.take().is_some() {
                client.run("ASKING");
            }
            let error = match client.try_run(line) {
                Ok(value) => return Ok(value),
                Err(error) => error,
            };
            let word = error.split(' ').next().unwrap_or_default();
            let address = || error.rsplit(':').next().and_then(|port| port.parse().ok()).expect("an address");
            match word {
                "MOVED" => self.at = self.ports.iter().position(|&port| port == address()).expect("a node"),
                "ASK" => asked_at = Some(address()),
                "TRYAGAIN" | "CLUSTERDOWN" | "LOADING" | "MASTERDOWN" | "READONLY" | "UNBLOCKED" => {
                    std::thread::sleep(Duration::from_millis(5));
                }
                _ => {
                    if error.starts_with("connection lost") {
                        self.connections.remove(&port);
                        self.at = (self.at + 1) % self.ports.len();
                    }
                    return Err(error);
                }
            }
        }
    }

    #[track_caller]
    pub fn run(&mut self, line: &str) -> Value {
        self.try_run(line).unwrap_or_else(|error| panic!("{line}: {error}"))
    }

    #[track_caller]
    pub fn reply(&mut self, line: &str) -> String {
        show(&self.run(line))
    }

    /// Returns the connection that answered last.
    pub fn owner(&mut self) -> &mut Client {
        let port = self.ports[self.at];
        self.connection(port).expect("it answered a moment ago")
    }

    fn connection(&mut self, port: u16) -> Option<&mut Client> {
        match self.connections.entry(port) {
            Entry::Occupied(known) => Some(known.into_mut()),
            Entry::Vacant(new) => Some(new.insert(Client::connect(port).ok()?)),
        }
    }
}
