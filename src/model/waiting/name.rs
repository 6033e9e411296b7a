//! The key names on which waiting clients are blocked. Each client has its own.
//!
//! When a key is signalled or created, the server checks all clients that are blocked on it. With thousands of workers at one queue this
//! would stop the server for a while. So each client is blocked on a name of its own, and the module wakes it alone. The name is in the
//! slot of the queue, because the server redirects a blocked client (`MOVED`) by the slot of the name.

use super::Client;

/// Returns the name for a client that waits for `key`.
///
/// The name has the key's hash tag, or else the whole key as its hash tag. That is not possible for the empty key, nor for a key without a
/// tag that contains a `}`. Then the name is the key itself, and the server checks all its clients.
pub fn name(client: Client, key: &[u8]) -> Vec<u8> {
    let tag = tag(key).unwrap_or(key);
    if tag.is_empty() || tag.contains(&b'}') {
        return key.to_vec();
    }
    let number = format!("zeitset:waiting:{client}:");
    [number.as_bytes(), b"{", tag, b"}"].concat()
}

fn tag(key: &[u8]) -> Option<&[u8]> {
    let start = key.iter().position(|&byte| byte == b'{')? + 1;
    let length = key[start..].iter().position(|&byte| byte == b'}')?;
    (length > 0).then(|| &key[start..start + length])
}

#[cfg(test)]
mod tests;
