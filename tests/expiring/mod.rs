//! Expiring sets without commands of the module and after plain commands: active expiry, moves, sets of version 0.3. Also
//! ordinary sets that resemble expiring sets.

mod announcing;
mod keyspace;
mod legacy;
mod plain_commands;
mod plain_data;
mod sweeping;
mod sweeping_large;
mod sweeping_unknown;
mod unheard;
