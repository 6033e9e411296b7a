//! Payloads: JSON, or unchanged bytes; and the header that may precede the JSON.

use crate::error::Error;
use crate::time::Period;
use serde::Serialize;
use serde::de::DeserializeOwned;

/// A payload of unchanged bytes, for queues and handlers.
///
#[doc = example!(builder "let files = Queue::<_, Raw>::new(redis, \"files\");\nfiles.push(&Raw(vec![0, 255])).await?;")]
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Raw(pub Vec<u8>);

/// What a queue can push: a value that serde serializes to JSON, or [`Raw`].
///
/// ```
/// use zeitset_client::{Decode, Encode, Error};
///
/// fn copy<T: Encode + Decode>(payload: &T) -> Result<T, Error> {
///     T::decode(&payload.encode()?)
/// }
/// assert_eq!(copy(&vec![1, 2])?, [1, 2]);
/// # Ok::<(), Error>(())
/// ```
pub trait Encode {
    /// Whether a header may precede the payload.
    #[doc(hidden)]
    const IS_JSON: bool;
    /// Returns the payload.
    fn encode(&self) -> Result<Vec<u8>, Error>;
}

/// What a handler can get: a value that serde reads from JSON, or [`Raw`]. See [`Encode`].
pub trait Decode: Sized {
    /// Whether a header may precede the payload.
    #[doc(hidden)]
    const IS_JSON: bool;
    /// Reads a payload without its header.
    fn decode(raw: &[u8]) -> Result<Self, Error>;
}

impl<T: Serialize + ?Sized> Encode for T {
    const IS_JSON: bool = true;
    fn encode(&self) -> Result<Vec<u8>, Error> {
        serde_json::to_vec(self).map_err(|error| Error::Payload(format!("the payload cannot be written: {error}")))
    }
}

impl<T: DeserializeOwned> Decode for T {
    const IS_JSON: bool = true;
    fn decode(raw: &[u8]) -> Result<Self, Error> {
        serde_json::from_slice(raw).map_err(|error| Error::Payload(format!("the payload cannot be read: {error}")))
    }
}

impl Encode for Raw {
    const IS_JSON: bool = false;
    fn encode(&self) -> Result<Vec<u8>, Error> {
        Ok(self.0.clone())
    }
}

impl Decode for Raw {
    const IS_JSON: bool = false;
    fn decode(raw: &[u8]) -> Result<Self, Error> {
        Ok(Self(raw.to_vec()))
    }
}

/// The header of a job, which is stored before its payload.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Header {
    pub traceparent: Option<String>,
    pub timeout_ms: Option<u64>,
}

/// Returns the payload. If there is a traceparent or a timeout, a header precedes the payload.
pub(crate) fn headed<T: Encode + ?Sized>(
    payload: Vec<u8>,
    traceparent: Option<&str>,
    timeout: Option<&Period>,
) -> Result<Vec<u8>, Error> {
    let mut lines = String::new();
    if let Some(traceparent) = traceparent {
        if !is_traceparent(traceparent) {
            return Err(Error::Argument(format!("not a traceparent: {traceparent}")));
        }
        lines.push_str(&format!("traceparent: {traceparent}\n"));
    }
    if let Some(timeout) = timeout {
        match timeout.millis()? {
            0 => return Err(Error::Argument("timeout must be at least 1 ms".into())),
            ms => lines.push_str(&format!("timeout: {ms}ms\n")),
        }
    }
    if !lines.is_empty() && !T::IS_JSON {
        return Err(Error::Argument("a traceparent and a timeout travel with JSON payloads only".into()));
    }
    Ok([lines.into_bytes(), payload].concat())
}

/// Reads a payload and its header. Fails if the timeout in the header is not a duration.
pub(crate) fn read<T: Decode>(raw: &[u8]) -> Result<(T, Header), Error> {
    let (mut header, mut rest) = (Header::default(), raw);
    while let Some((name, value, after)) = line(rest).filter(|_| T::IS_JSON) {
        match name {
            b"traceparent" => {
                header.traceparent = String::from_utf8(value.to_vec()).ok().filter(|text| is_traceparent(text));
            }
            b"timeout" => header.timeout_ms = Some(Period::from(&*String::from_utf8_lossy(value)).millis()?),
            _ => {}
        }
        rest = after;
    }
    Ok((T::decode(rest)?, header))
}

/// Splits a header line from the rest. Returns the line's name and value, and the rest. No JSON text begins like a
/// header line.
fn line(raw: &[u8]) -> Option<(&[u8], &[u8], &[u8])> {
    let colon = raw.iter().position(|byte| !matches!(byte, b'a'..=b'z' | b'-'))?;
    let (name, rest) = raw.split_at(colon);
    let rest = rest.strip_prefix(b": ")?;
    let end = rest.iter().position(|byte| *byte == b'\n')?;
    name.first().filter(|byte| byte.is_ascii_lowercase())?;
    Some((name, &rest[..end], &rest[end + 1..]))
}

/// The syntax of W3C Trace Context.
fn is_traceparent(text: &str) -> bool {
    let parts: Vec<_> = text.split('-').collect();
    parts.iter().map(|part| part.len()).eq([2, 32, 16, 2])
        && parts.iter().all(|part| part.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f')))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TRACEPARENT: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

    #[test]
    fn a_header_precedes_json_only() {
        let payload = br#"{"to":"ann"}"#.to_vec();
        let body = headed::<str>(payload, Some(TRACEPARENT), Some(&"1m".into())).expect("a body");
        let text = format!("traceparent: {TRACEPARENT}\ntimeout: 60000ms\n{{\"to\":\"ann\"}}");
        assert_eq!(String::from_utf8_lossy(&body), text);
        let (payload, header) = read::<serde_json::Value>(&body).expect("a payload");
        assert_eq!(payload["to"], "ann");
        assert_eq!(header, Header { traceparent: Some(TRACEPARENT.into()), timeout_ms: Some(60_000) });
        assert!(headed::<Raw>(b"x".to_vec(), Some(TRACEPARENT), None).is_err());
        assert_eq!(read::<Raw>(&body).expect("bytes").0, Raw(body));
    }

    #[test]
    fn unknown_lines_are_ignored_and_wrong_timeouts_are_errors() {
        assert_eq!(read::<bool>(b"x-y: 1\ntraceparent: zz\ntrue").expect("a payload"), (true, Header::default()));
        assert!(read::<bool>(b"timeout: soon\ntrue").is_err());
        assert!(read::<bool>(b"timeout: 1s").is_err());
        assert!(read::<bool>(b"nonsense").is_err());
    }
}
