//! Replies as numbers, bytes and maps, for RESP2 and RESP3. Most replies of the module are read by its crate for Rust.

use redis::{FromRedisValue, RedisResult, Value};

/// Reads a reply of the module.
pub fn read<T: FromRedisValue>(reply: RedisResult<Value>) -> RedisResult<T> {
    Ok(redis::from_redis_value(reply?)?)
}

pub fn number(value: &Value) -> Option<i64> {
    match value {
        Value::Int(number) => Some(*number),
        Value::BulkString(bytes) => std::str::from_utf8(bytes).ok()?.parse().ok(),
        _ => None,
    }
}

/// Returns a number. `None` if it is negative.
pub fn count(value: &Value) -> Option<u64> {
    number(value).and_then(|number| u64::try_from(number).ok())
}

pub fn bytes(value: &Value) -> Option<&[u8]> {
    match value {
        Value::BulkString(bytes) => Some(bytes),
        Value::SimpleString(text) => Some(text.as_bytes()),
        _ => None,
    }
}

/// Returns the elements of an array. A value of another type has no elements.
pub fn array(value: &Value) -> &[Value] {
    match value {
        Value::Array(values) => values,
        _ => &[],
    }
}

/// Returns the pairs of a map, which is a flat array in RESP2.
pub fn pairs(value: &Value) -> Vec<(String, &Value)> {
    let name = |value: &Value| String::from_utf8_lossy(bytes(value).unwrap_or_default()).into_owned();
    match value {
        Value::Map(pairs) => pairs.iter().map(|(key, value)| (name(key), value)).collect(),
        Value::Array(values) => values.chunks_exact(2).map(|pair| (name(&pair[0]), &pair[1])).collect(),
        _ => Vec::new(),
    }
}

pub fn text(value: &Value) -> String {
    match value {
        Value::Nil => "none".into(),
        Value::Okay => "OK".into(),
        Value::Double(number) => number.to_string(),
        Value::Boolean(yes) => if *yes { "yes" } else { "no" }.into(),
        value => match (number(value), bytes(value)) {
            (Some(number), _) => number.to_string(),
            (_, Some(bytes)) => crate::text::printable(bytes),
            _ => "?".into(),
        },
    }
}
