//! ZQ: queues.

mod all;
mod blocking;
mod clock;
mod commands;
mod full;
mod groups;
mod lease_ends;
mod leases;
mod names;
mod operating;
mod persistence;
mod refused;
mod repeated;
mod replication;
mod tokens;
mod turns;
mod unheard;
mod upkeep;
