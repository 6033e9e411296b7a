//! Loss of data in a crash: after the crash, the server has an earlier state than its clients expect.

use crate::client::Client;
use crate::clock::Clock;
use crate::server::{Builder, Server};
use redis::Value;

/// How a server returns to an earlier state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Loss {
    /// `kill -9`, and a restart with an earlier RDB file.
    Snapshot,
    /// A failover to a replica that lacks the latest writes.
    Failover,
    /// FLUSHALL, and a RESTORE of earlier dumps.
    Restore,
}

pub const LOSSES: [Loss; 3] = [Loss::Snapshot, Loss::Failover, Loss::Restore];

/// A server that will lose the writes after the call of [`keep`](Self::keep).
pub struct Lossy {
    pub loss: Loss,
    pub clock: Clock,
    master: Server,
    replica: Option<Server>,
    /// The name, the dump and the expiry of each key.
    dumps: Vec<(Vec<u8>, Value, i64)>,
}

impl Lossy {
    pub fn start(loss: Loss, config: &str) -> Self {
        let clock = Clock::new();
        let builder = || Server::builder().clock(&clock).without_aof().config("repl-timeout 1000000").config(config);
        let master = Builder::start(builder());
        let replica = (loss == Loss::Failover).then(|| builder().replica_of(&master));
        Self { loss, clock, master, replica, dumps: Vec::new() }
    }

    pub fn client(&self) -> Client {
        self.master.client()
    }

    pub fn server(&self) -> &Server {
        &self.master
    }

    /// Saves the current state of the server. [`lose`](Self::lose) returns to this state.
    pub fn keep(&mut self) {
        let mut client = self.client();
        match self.loss {
            Loss::Snapshot => drop(client.run("SAVE")),
            Loss::Failover => {
                let replica = self.replica.as_ref().expect("started with one");
                replica.wait_for_sync(&self.master);
                // The replica gets no more writes from its master. `lose` makes the replica a master.
                replica.client().run("REPLICAOF 127.0.0.1 1");
            }
            Loss::Restore => {
                let Value::Array(keys) = client.run("KEYS *") else { panic!("KEYS answers an array") };
                for key in keys {
                    let Value::BulkString(key) = key else { panic!("a key is a string") };
                    let payload = client.call(redis::cmd("DUMP").arg(&key));
                    let Value::Int(expires_at) = client.call(redis::cmd("PEXPIRETIME").arg(&key)) else {
                        panic!("PEXPIRETIME answers a number")
                    };
                    self.dumps.push((key, payload, expires_at));
                }
            }
        }
    }

    /// Returns the server to the state that [`keep`](Self::keep) saved. Clients must reconnect.
    pub fn lose(&mut self) {
        match self.loss {
            Loss::Snapshot => self.master.crash_and_restart(),
            Loss::Failover => {
                let replica = self.replica.take().expect("once");
                replica.client().run("REPLICAOF NO ONE");
                self.master = replica;
            }
            Loss::Restore => {
                let mut client = self.client();
                client.run("FLUSHALL");
                for (key, payload, expires_at) in self.dumps.drain(..) {
                    let Value::BulkString(payload) = payload else { continue };
                    let mut command = redis::cmd("RESTORE");
                    command.arg(key).arg(expires_at.max(0)).arg(payload).arg("ABSTTL");
                    client.call(&command);
                }
            }
        }
    }
}
