//! The key names on which waiting clients are blocked. Each client is blocked on its own name.
//!
//! When a key is signalled or created, the server checks all clients that are blocked on it. With thousands of workers
//! at one queue, this would stop the server for a while. So each client is blocked on a separate name, and the module
//! can wake it alone. The name is in the hash slot of the queue's key, because the server redirects a blocked client by
//! the slot of the name (`MOVED`).

use super::Client;

/// Returns the name for a client that waits for `key`.
///
/// The name contains the key's hash tag. If the key has no hash tag, the name contains `{key}`.
///
/// If a key without a hash tag is empty or contains a `}`, then `{key}` would be in another slot. In this case, the
/// name is the key itself. All clients that wait for the key share this name, so the server checks all of them.
pub fn block_name(client: Client, key: &[u8]) -> Vec<u8> {
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
