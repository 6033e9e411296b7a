//! Expiring sets without commands of the module, and after plain commands: active expiry, restored markers, moves; and ordinary sets that
//! resemble them.

mod announcing;
mod keyspace;
mod plain_data;
mod restoring;
mod sweeping;
mod sweeping_large;
mod sweeping_unknown;
mod unheard;
