//! ZQ: queues.

mod again;
mod all;
mod blocking;
mod clock;
mod commands;
mod crashes;
mod declare;
mod expired_leases;
mod full;
mod groups;
mod holds;
mod leases;
mod names;
mod operating;
mod progress;
mod refused;
mod repeated;
mod replication;
mod ttl;
mod turns;
mod unheard;
mod upkeep;
