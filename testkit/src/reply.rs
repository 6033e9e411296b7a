//! A notation for replies that shows their exact types, so that a test can compare a whole reply with one string:
//!
//! | reply | notation | | reply | notation |
//! |---|---|---|---|---|
//! | integer | `42` | | array | `[1 'a' nil]` |
//! | bulk string | `'text'`, other bytes as `\x00` | | map | `{'a': 1}` |
//! | simple string | `+OK` | | set | `~['a']` |
//! | null | `nil` | | push | `>[...]` |
//! | double, boolean | `,1.5` `#t` | | error | `!ERR text` |

use redis::Value;

pub fn show(value: &Value) -> String {
    match value {
        Value::Nil => "nil".into(),
        Value::Int(n) => n.to_string(),
        Value::BulkString(bytes) => show_bytes(bytes),
        Value::SimpleString(text) => format!("+{text}"),
        Value::Okay => "+OK".into(),
        Value::Array(items) => format!("[{}]", show_all(items)),
        Value::Set(items) => format!("~[{}]", show_all(items)),
        Value::Push { kind, data } => format!(">[{kind:?} {}]", show_all(data)),
        Value::Map(pairs) => {
            let pairs: Vec<_> = pairs.iter().map(|(key, value)| format!("{}: {}", show(key), show(value))).collect();
            format!("{{{}}}", pairs.join(" "))
        }
        Value::Double(number) => format!(",{number}"),
        Value::Boolean(yes) => (if *yes { "#t" } else { "#f" }).into(),
        Value::ServerError(error) => format!("!{} {}", error.code(), error.details().unwrap_or_default()),
        other => format!("{other:?}"),
    }
}

fn show_all(items: &[Value]) -> String {
    items.iter().map(show).collect::<Vec<_>>().join(" ")
}

/// Formats a string in quotes, with every byte other than printable ASCII as `\xNN`.
pub fn show_bytes(bytes: &[u8]) -> String {
    let mut text = String::from("'");
    for &byte in bytes {
        match byte {
            b' '..=b'~' => text.push(char::from(byte)),
            _ => text.push_str(&format!("\\x{byte:02x}")),
        }
    }
    text.push('\'');
    text
}
