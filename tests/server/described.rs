//! The commands of the module as COMMAND DOCS describes them.

use redis::Value;
use std::collections::HashMap;
use testkit::Client;

/// A command in COMMAND DOCS.
pub struct Command {
    pub name: String,
    pub arguments: Vec<Arg>,
}

pub struct Arg {
    pub name: String,
    pub kind: String,
    pub token: Option<String>,
    pub optional: bool,
    pub multiple: bool,
    pub parts: Vec<Arg>,
}

/// Returns all commands of the module.
pub fn commands(c: &mut Client) -> Vec<Command> {
    let mut names = c.strings("COMMAND LIST FILTERBY MODULE zeitset");
    names.sort();
    assert!(names.len() > 30, "{names:?}");
    names
        .into_iter()
        .map(|name| {
            let docs = pairs(c.run(&format!("COMMAND DOCS {name}"))).remove(&name.to_lowercase());
            let docs = docs.or_else(|| pairs(c.run(&format!("COMMAND DOCS {name}"))).remove(&name));
            let mut docs = pairs(docs.unwrap_or_else(|| panic!("{name} has no documentation")));
            Command { arguments: arguments(docs.remove("arguments")), name }
        })
        .collect()
}

fn arguments(list: Option<Value>) -> Vec<Arg> {
    let Some(Value::Array(list)) = list else { return Vec::new() };
    list.into_iter()
        .map(|arg| {
            let mut arg = pairs(arg);
            let flags = testkit::show(&arg.remove("flags").unwrap_or(Value::Nil));
            Arg {
                name: text(arg.remove("name")).expect("a name"),
                kind: text(arg.remove("type")).expect("a type"),
                token: text(arg.remove("token")),
                optional: flags.contains("optional"),
                multiple: flags.contains("multiple"),
                parts: arguments(arg.remove("arguments")),
            }
        })
        .collect()
}

/// Returns the pairs of a RESP3 map or a RESP2 array.
fn pairs(value: Value) -> HashMap<String, Value> {
    match value {
        Value::Map(pairs) => pairs.into_iter().filter_map(|(key, value)| Some((text(Some(key))?, value))).collect(),
        Value::Array(items) => {
            let mut items = items.into_iter();
            std::iter::from_fn(|| Some((text(items.next())?, items.next()?))).collect()
        }
        _ => HashMap::new(),
    }
}

fn text(value: Option<Value>) -> Option<String> {
    match value? {
        Value::BulkString(bytes) => String::from_utf8(bytes).ok(),
        Value::SimpleString(text) => Some(text),
        _ => None,
    }
}
