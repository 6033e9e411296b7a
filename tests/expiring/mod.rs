//! Expiring sets without commands of the module and after plain commands: active expiry, restored markers, moves. Also
//! ordinary sets that resemble expiring sets.

mod announcing;
mod keyspace;
mod plain_data;
mod restoring;
mod sweeping;
mod sweeping_large;
mod sweeping_unknown;
mod unheard;
