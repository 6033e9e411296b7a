//! The identity of a client: the key of its limit.

use std::net::{IpAddr, Ipv6Addr};

/// How many bits of an IPv6 address identify a client by default. One client may have all addresses of a /56 network.
pub const IPV6_BITS: u8 = 56;

/// Returns the key of a client's limit: its IPv4 address, or the network of `ipv6` bits of its IPv6 address.
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
