//! Parameters of a page and fields of a form. Values are bytes: keys, IDs and groups need not be UTF-8.

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use percent_encoding::{NON_ALPHANUMERIC, percent_decode, percent_encode};
use std::convert::Infallible;

#[derive(Debug, Default)]
pub struct Query(Vec<(String, Vec<u8>)>);

impl Query {
    /// Parses `application/x-www-form-urlencoded`.
    pub fn parse(text: &[u8]) -> Query {
        let decoded = |part: &[u8]| {
            let part: Vec<u8> = part.iter().map(|byte| if *byte == b'+' { b' ' } else { *byte }).collect();
            percent_decode(&part).collect::<Vec<u8>>()
        };
        let pairs = text.split(|byte| *byte == b'&').filter(|pair| !pair.is_empty()).map(|pair| {
            let mut halves = pair.splitn(2, |byte| *byte == b'=');
            let name = decoded(halves.next().unwrap_or_default());
            (String::from_utf8_lossy(&name).into_owned(), decoded(halves.next().unwrap_or_default()))
        });
        Query(pairs.collect())
    }

    /// Returns the first value of this name that is not empty.
    pub fn get(&self, name: &str) -> Option<&[u8]> {
        self.all(name).find(|value| !value.is_empty())
    }

    /// Returns the first value of this name, even if it is empty: keys and groups may be empty.
    pub fn given(&self, name: &str) -> Option<&[u8]> {
        self.all(name).next()
    }

    pub fn all<'a>(&'a self, name: &str) -> impl Iterator<Item = &'a [u8]> {
        self.0.iter().filter(move |(other, _)| other == name).map(|(_, value)| value.as_slice())
    }

    pub fn pairs(&self) -> impl Iterator<Item = (&str, &[u8])> {
        self.0.iter().map(|(name, value)| (name.as_str(), value.as_slice()))
    }

    pub fn text(&self, name: &str) -> String {
        String::from_utf8_lossy(self.get(name).unwrap_or_default()).trim().to_owned()
    }

    pub fn number(&self, name: &str) -> Option<u64> {
        self.text(name).parse().ok()
    }
}

impl<S: Sync> FromRequestParts<S> for Query {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Query, Infallible> {
        Ok(Query::parse(parts.uri.query().unwrap_or_default().as_bytes()))
    }
}

/// Encodes bytes as a parameter. Forms also encode keys in this way, because a browser would change bytes that are not
/// UTF-8.
pub fn encoded(bytes: &[u8]) -> String {
    percent_encode(bytes, NON_ALPHANUMERIC).to_string()
}

pub fn decoded(text: &[u8]) -> Vec<u8> {
    percent_decode(text).collect()
}

/// The maximum length of a link in bytes. It is below the longest URI that the HTTP library accepts.
const LONGEST: usize = 60_000;

/// The parameters whose empty value is a name: the key or the group `""`.
const NAMES: [&str; 2] = ["key", "group"];

/// Returns `path?name=value&…` without the empty values of parameters other than [`NAMES`]. Links do not begin with
/// `/`, because the page may be served below any path. If the values are too long for a link, the link leads to a page
/// that reports this.
pub fn link(path: &str, parameters: &[(&str, &[u8])]) -> String {
    let mut link = path.to_owned();
    for (name, value) in parameters.iter().filter(|(name, value)| !value.is_empty() || NAMES.contains(name)) {
        link.push(if link.len() == path.len() { '?' } else { '&' });
        link.push_str(name);
        link.push('=');
        link.push_str(&encoded(value));
    }
    if link.len() > LONGEST { "too-long".into() } else { link }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_bytes_survive_a_link() {
        let all: Vec<u8> = (0..=255).collect();
        let link = link("queue", &[("key", &all), ("state", b""), ("after", b"a b+c&d=e")]);
        assert!(link.bytes().all(|byte| byte.is_ascii_graphic()) && !link.contains(['<', '>', '"', '\'']), "{link}");
        let query = Query::parse(link.strip_prefix("queue?").expect("parameters").as_bytes());
        assert_eq!(query.get("key"), Some(all.as_slice()));
        assert_eq!((query.get("state"), query.get("after")), (None, Some(&b"a b+c&d=e"[..])));
        assert_eq!(super::link("queue", &[("key", b""), ("tab", b"")]), "queue?key=");
        assert_eq!((Query::parse(b"key=").given("key"), query.given("id")), (Some(&b""[..]), None));
        assert_eq!(decoded(encoded(&all).as_bytes()), all);
    }

    #[test]
    fn a_name_that_no_address_can_hold_leads_to_a_page_that_says_so() {
        assert_eq!(link("queue", &[("key", &b":".repeat(21 * 1024))]), "too-long");
        assert_eq!(link("queue", &[("key", &b"x".repeat(50_000))]).len(), 50_010);
    }

    #[test]
    fn names_may_be_repeated_and_values_missing() {
        let query = Query::parse(b"id=a&id=b+c&id&=x&&n=12&word=%ff%zz");
        assert_eq!(query.all("id").collect::<Vec<_>>(), [&b"a"[..], b"b c", b""]);
        assert_eq!((query.number("n"), query.number("word")), (Some(12), None));
        assert_eq!(query.get("word"), Some(&b"\xff%zz"[..]));
    }
}
