//! ZQ: queues.

mod again;
mod all;
mod blocking;
mod clock;
mod commands;
mod expired_leases;
mod full;
mod groups;
mod holds;
mod leases;
mod names;
mod operating;
mod persistence;
mod refused;
mod repeated;
mod replication;
mod tokens;
mod ttl;
mod turns;
mod unheard;
mod upkeep;
