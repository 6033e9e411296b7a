//! Data on their way through time and to other servers: files, formats, replicas, failovers.

mod failover;
mod formats;
mod persistence;
mod replication;
mod swapdb;
