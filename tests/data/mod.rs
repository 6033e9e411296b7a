//! Data over time and on other servers: files, formats, replicas, failovers.

mod failover;
mod formats;
mod persistence;
mod releases;
mod replication;
mod swapdb;
mod values;
