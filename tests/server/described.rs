//! The commands of the module as COMMAND DOCS and COMMAND INFO describe them.

use redis::Value;
use std::collections::{BTreeSet, HashMap};
use testkit::{Client, show};

/// A command in COMMAND DOCS.
pub struct Command {
    /// The name as the module has registered it.
    pub name: String,
    pub summary: String,
    pub since: String,
    pub complexity: String,
    pub arguments: Vec<Arg>,
}

pub struct Arg {
    pub name: String,
    pub kind: String,
    pub token: Option<String>,
    /// The version that added the argument, if the command is older.
    pub since: Option<String>,
    pub optional: bool,
    pub multiple: bool,
    pub parts: Vec<Arg>,
}

/// Returns all commands of the module.
pub fn commands(c: &mut Client) -> Vec<Command> {
    let mut names = c.strings("COMMAND LIST FILTERBY MODULE zeitset");
    names.sort();
    assert!(names.len() > 30, "{names:?}");
    names.into_iter().map(|name| command(c, name)).collect()
}

/// Fails unless `place` has exactly these commands.
#[track_caller]
pub fn assert_names(place: &str, found: &BTreeSet<String>, commands: &BTreeSet<String>) {
    let missing: Vec<_> = commands.difference(found).collect();
    let unknown: Vec<_> = found.difference(commands).collect();
    assert!(missing.is_empty(), "{place}: add {missing:?}");
    assert!(unknown.is_empty(), "{place}: remove {unknown:?}, which the module does not register");
}

fn command(c: &mut Client, name: String) -> Command {
    // The reply is a map with one entry.
    let all = pairs(c.run(&format!("COMMAND DOCS {name}")));
    let mut docs = pairs(all.into_values().next().unwrap_or_else(|| panic!("{name} has no documentation")));
    let mut word = |field| text(docs.remove(field)).unwrap_or_else(|| panic!("{name} has no {field}"));
    let (summary, since, complexity) = (word("summary"), word("since"), word("complexity"));
    Command { name, summary, since, complexity, arguments: arguments(docs.remove("arguments")) }
}

fn arguments(list: Option<Value>) -> Vec<Arg> {
    let Some(Value::Array(list)) = list else { return Vec::new() };
    list.into_iter()
        .map(|arg| {
            let mut arg = pairs(arg);
            let flags = show(&arg.remove("flags").unwrap_or(Value::Nil));
            Arg {
                name: text(arg.remove("name")).expect("a name"),
                kind: text(arg.remove("type")).expect("a type"),
                token: text(arg.remove("token")),
                since: text(arg.remove("since")),
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

/// Returns the flags and the ACL categories of any command of the server, as COMMAND INFO reports them. Before Redis
/// 7.2, a module cannot set the categories of its commands.
pub fn flags_and_categories(c: &mut Client, name: &str) -> (Vec<String>, BTreeSet<String>) {
    let Value::Array(commands) = c.run(&format!("COMMAND INFO {name}")) else { panic!("{name}") };
    let Value::Array(fields) = &commands[0] else { panic!("{name} is no command") };
    let words = |value: &Value| match value {
        Value::Array(words) | Value::Set(words) => {
            words.iter().cloned().map(|word| text(Some(word)).expect("a word")).collect()
        }
        other => panic!("{name}: {}", show(other)),
    };
    let flags: Vec<String> = words(&fields[2]);
    (flags, words(&fields[6]).into_iter().collect())
}

/// Returns the ACL categories that a command of the module should have. The server derives those of its own commands
/// from flags and types in the same way.
pub fn categories(name: &str, flags: &[&str]) -> BTreeSet<String> {
    let (has, is_effect) = (|flag| flags.contains(&flag), name.ends_with(".apply"));
    let all = [
        ("@admin", is_effect),
        ("@blocking", has("blocking")),
        ("@dangerous", is_effect),
        ("@fast", has("fast")),
        ("@read", has("readonly")),
        ("@slow", !has("fast")),
        ("@sortedset", name.starts_with("zexp.")),
        ("@string", name.starts_with("zrl.")),
        ("@write", has("write")),
    ];
    all.into_iter().filter(|(_, applies)| *applies).map(|(category, _)| category.to_owned()).collect()
}
