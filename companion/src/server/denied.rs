//! The most denied keys (ZRL.TOP) and the slow commands (SLOWLOG).

use super::{Key, info::is_ours, reply};
use redis::Value;

pub type Denied = zeitset_client::zrl::Denied<Key>;

#[derive(Clone)]
pub struct Slow {
    /// Unix seconds.
    pub at: u64,
    pub micros: u64,
    /// The command's name and its first arguments.
    pub words: Vec<Vec<u8>>,
}

impl Slow {
    /// Parses the reply of SLOWLOG GET. Returns the module's commands, newest first.
    pub fn read(value: &Value) -> Vec<Slow> {
        let entry = |entry: &Value| match reply::array(entry) {
            [_, at, micros, words, ..] => {
                let words: Vec<_> = reply::array(words).iter().filter_map(reply::bytes).take(8).collect();
                let name = words.first()?;
                is_ours(&String::from_utf8_lossy(name)).then_some(())?;
                let words = words.into_iter().map(<[u8]>::to_vec).collect();
                Some(Slow { at: reply::count(at)?, micros: reply::count(micros)?, words })
            }
            _ => None,
        };
        reply::array(value).iter().filter_map(entry).collect()
    }
}
