//! Keys with their databases.

use hashbrown::Equivalent;
use std::hash::{Hash, Hasher};
use std::rc::Rc;

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct DbKey {
    pub database: i32,
    pub name: Rc<[u8]>,
}

impl DbKey {
    pub fn new(database: i32, name: &[u8]) -> DbKey {
        DbKey { database, name: name.into() }
    }
}

/// A borrowed [`DbKey`], for lookups.
#[derive(Clone, Copy, Hash)]
pub struct DbKeyRef<'k> {
    pub database: i32,
    pub name: &'k [u8],
}

impl Hash for DbKey {
    fn hash<H: Hasher>(&self, state: &mut H) {
        DbKeyRef { database: self.database, name: &self.name }.hash(state);
    }
}

impl Equivalent<DbKey> for DbKeyRef<'_> {
    fn equivalent(&self, key: &DbKey) -> bool {
        self.database == key.database && *self.name == *key.name
    }
}
