//! What the server believes a waiting client to wait for: a key of the client's own, in the slot of the keys it really waits for.
//!
//! The server asks every client of a key when that key is signalled or created. With thousands of workers at one queue that is a
//! pause. So each client waits for a name of its own, under which the module can have it asked alone. The server goes by the slot of
//! that name when it redirects a waiting client (`MOVED`), so it must be the slot of the queue.

use super::Client;

/// The name for a client that waits for `key`.
///
/// The slot of a key is that of its hash tag, if it has one: what stands between its first `{` and the next `}`, if that is not empty.
/// So the name carries this tag, or the whole key as a tag. A key without a tag that contains a `}`, and the empty key, cannot be put
/// between braces: their own name has to do, and the server asks all their clients.
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
