//! What happens to expiring sets by itself and by plain commands: sweeping, healing, moving; and ordinary sets that look like them.

mod announcing;
mod healing;
mod keyspace;
mod plain_data;
mod sweeping;
mod sweeping_large;
mod sweeping_unknown;
mod unheard;
