//! The identity of a client: the key of its limit. clients/identity-cases.json has the cases of all libraries.

use std::net::{IpAddr, Ipv6Addr};

/// The key of clients whose address is not known, for example on a Unix socket. These clients share one limit.
pub(crate) const UNKNOWN: &str = "unknown";

/// Returns the key of a client's limit: its IPv4 address, or the network of `ipv6` bits of its IPv6 address, because
/// one client may have all addresses of a network.
///
/// ```
/// use zeitset_client::tower::client_network;
///
/// assert_eq!(client_network("203.0.113.7".parse().unwrap(), 56), "203.0.113.7");
/// assert_eq!(client_network("2001:db8:1:2ff::7".parse().unwrap(), 56), "2001:db8:1:200::/56");
/// assert_eq!(client_network("::ffff:203.0.113.7".parse().unwrap(), 56), "203.0.113.7");
/// ```
pub fn client_network(address: IpAddr, ipv6: u8) -> String {
    // A dual-stack socket shows an IPv4 address as ::ffff:192.0.2.1
    match address.to_canonical() {
        IpAddr::V4(address) => address.to_string(),
        IpAddr::V6(address) => {
            let bits = ipv6.clamp(1, 128);
            let mask = u128::MAX << (128 - u32::from(bits));
            format!("{}/{bits}", Ipv6Addr::from_bits(address.to_bits() & mask))
        }
    }
}

/// Returns the address of the client. `forwarded` is the value of X-Forwarded-For. Each of the service's `proxies` has
/// added one item at the end. Earlier items may be forged.
pub(crate) fn client_of(peer: Option<IpAddr>, forwarded: Option<&str>, proxies: usize) -> Option<IpAddr> {
    let item = forwarded.and_then(|list| list.rsplit(',').nth(proxies.checked_sub(1)?));
    item.and_then(address_of).or(peer)
}

/// Reads an address that may have brackets, a zone and a port. Some proxies write the port.
fn address_of(text: &str) -> Option<IpAddr> {
    let text = text.trim();
    let (host, port) = match text.strip_prefix('[') {
        Some(rest) => {
            let (host, port) = rest.split_once(']')?;
            (host, if port.is_empty() { None } else { Some(port.strip_prefix(':')?) })
        }
        None if text.matches(':').count() == 1 => text.split_once(':').map(|(host, port)| (host, Some(port)))?,
        None => (text, None),
    };
    port.is_none_or(|port| port.parse::<u16>().is_ok()).then_some(())?;
    host.split('%').next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_has_the_key_of_all_libraries() {
        let cases: Vec<serde_json::Value> =
            serde_json::from_str(include_str!("../cases/identity.json")).expect("the table of cases");
        assert!(cases.len() > 40);
        for case in cases {
            let number = |name: &str| case[name].as_u64().expect("a number");
            let peer = case["peer"].as_str().and_then(address_of);
            let proxies = usize::try_from(number("proxies")).expect("a number");
            let ipv6 = u8::try_from(number("ipv6")).expect("a number of bits");
            let client = client_of(peer, case["forwarded"].as_str(), proxies);
            let key = client.map_or_else(|| UNKNOWN.to_owned(), |client| client_network(client, ipv6));
            assert_eq!(key, case["key"].as_str().expect("a key"), "{case}");
        }
    }
}
