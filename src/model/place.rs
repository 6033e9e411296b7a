//! A key of one of the server's databases, as what is known of keys is kept by.

use hashbrown::Equivalent;
use std::hash::{Hash, Hasher};
use std::rc::Rc;

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    pub database: i32,
    pub key: Rc<[u8]>,
}

impl Place {
    pub fn new(database: i32, key: &[u8]) -> Place {
        Place { database, key: key.into() }
    }
}

/// A [`Place`] to be looked up, without a copy of the key.
#[derive(Clone, Copy, Hash)]
pub struct PlaceRef<'k> {
    pub database: i32,
    pub key: &'k [u8],
}

impl Hash for Place {
    fn hash<H: Hasher>(&self, state: &mut H) {
        PlaceRef { database: self.database, key: &self.key }.hash(state);
    }
}

impl Equivalent<Place> for PlaceRef<'_> {
    fn equivalent(&self, place: &Place) -> bool {
        self.database == place.database && *self.key == *place.key
    }
}
