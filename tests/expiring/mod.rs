//! What happens to expiring sets by itself and by plain commands: active expiry, restored markers, moves; and ordinary sets that look like them.

mod announcing;
mod keyspace;
mod plain_data;
mod restoring;
mod sweeping;
mod sweeping_large;
mod sweeping_unknown;
mod unheard;
