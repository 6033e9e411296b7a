//! The dependencies in docs/ARCHITECTURE.md: which folder of `src` may use which other one. The tests read only the
//! sources.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// A folder or file at the top of `src`, and which others of the crate it may use.
const MAY_USE: [(&str, &[&str]); 10] = [
    ("error", &[]),
    ("model", &[]),
    ("config", &["server"]),
    ("server", &["error", "model"]),
    ("expiring", &["config", "error", "model", "server"]),
    ("limits", &["config", "error", "model", "server"]),
    ("queues", &["config", "error", "model", "server"]),
    ("boards", &["config", "error", "model", "server"]),
    ("info", &["config", "expiring", "limits", "queues", "boards", "server"]),
    ("commands", &["error", "model", "server", "expiring", "limits", "queues", "boards"]),
];

pub fn sources(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let mut files = Vec::new();
    for path in entries.map(|entry| entry.expect("the folder can be read").path()) {
        match path.extension() {
            _ if path.is_dir() => files.extend(sources(&path)),
            Some(extension) if extension == "rs" => files.push(path),
            _ => {}
        }
    }
    files
}

/// Returns the parts of the crate that a file uses: the first name after each `crate::`, outside of comments.
/// `crate::{a::b, c}` gives two names.
fn uses(text: &str) -> Vec<String> {
    names_behind("crate::", text)
}

fn names_behind(root: &str, text: &str) -> Vec<String> {
    let is_code = |line: &&str| !line.trim_start().starts_with("//");
    let code = text.lines().filter(is_code).collect::<Vec<_>>().join("\n");
    let mut used = Vec::new();
    for rest in code.split(root).skip(1) {
        let names = match rest.strip_prefix('{') {
            Some(list) => split_at_top(list),
            None => vec![rest],
        };
        let first =
            |name: &str| name.trim().chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect::<String>();
        used.extend(names.into_iter().map(first).filter(|name| !name.is_empty()));
    }
    used
}

/// Returns the parts of `a::{b, c}, d}...` up to the closing brace: `a::{b, c}` and `d`.
fn split_at_top(list: &str) -> Vec<&str> {
    let (mut depth, mut start, mut parts) = (0, 0, Vec::new());
    for (at, char) in list.char_indices() {
        match char {
            '{' => depth += 1,
            '}' if depth == 0 => {
                parts.push(&list[start..at]);
                break;
            }
            '}' => depth -= 1,
            ',' if depth == 0 => {
                parts.push(&list[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    parts
}

#[test]
fn folders_use_only_what_the_floor_plan_allows() {
    let src = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let allowed: BTreeMap<_, _> = MAY_USE.into_iter().collect();
    let mut wrong = Vec::new();
    for file in sources(&src) {
        let shown = file.strip_prefix(&src).expect("below src").display().to_string();
        let top = shown.split('/').next().and_then(|name| name.split('.').next()).unwrap_or_default().to_owned();
        if top == "lib" {
            continue;
        }
        let may = allowed.get(top.as_str()).unwrap_or_else(|| panic!("src/{top} is not on the floor plan"));
        // The allocator with which tests count memory is in `server`, because it needs unsafe code. Any folder may use
        // it.
        let text = fs::read_to_string(&file).expect("a source can be read").replace("crate::server::counting", "");
        for used in uses(&text) {
            // Constants and macros at the root of the crate are in no folder.
            if allowed.contains_key(used.as_str()) && used != top && !may.contains(&used.as_str()) {
                wrong.push(format!("{shown} uses {used}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// Returns the code of each file of `src` that is not a test, by its module: `queues::open` for `queues/open.rs`,
/// `queues` for `queues/mod.rs`.
fn modules(src: &Path) -> BTreeMap<String, String> {
    let files = sources(src).into_iter().filter_map(|file| {
        let path = file.strip_prefix(src).expect("below src").with_extension("");
        let mut names: Vec<_> = path.iter().map(|name| name.to_str().expect("a name of a file")).collect();
        names.pop_if(|last| *last == "mod" || *last == "lib");
        let text = fs::read_to_string(&file).expect("a source can be read");
        (!names.contains(&"tests")).then(|| (names.join("::"), text))
    });
    files.collect()
}

/// Returns the code of a file without comments and tests.
fn code(text: &str) -> String {
    let text = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
    let lines = text.lines().filter(|line| !line.trim_start().starts_with("//"));
    lines.fold(String::new(), |code, line| code + line + "\n")
}

/// Returns the paths of a list in braces: `a::{b, c::{d, e}}` gives `a::b`, `a::c::d` and `a::c::e`.
fn expand(path: &str) -> Vec<String> {
    let Some((prefix, list)) = path.split_once('{') else {
        return vec![path.split(" as ").next().unwrap_or_default().trim().to_owned()];
    };
    let paths = split_at_top(list).into_iter().flat_map(expand).filter(|path| !path.is_empty());
    paths.map(|path| format!("{}{path}", prefix.trim())).collect()
}

/// The modules of a crate, and the paths that each of them imports.
struct Graph<'a> {
    imports: BTreeMap<&'a str, Vec<String>>,
}

impl Graph<'_> {
    /// Returns the module in which the item of a path is defined. Follows re-exports.
    fn module_of(&self, from: &str, path: &str, depth: usize) -> Option<String> {
        let mut base: Vec<_> = from.split("::").filter(|name| !name.is_empty()).collect();
        let mut names = path.split("::").peekable();
        let is_child = |name: &str| self.imports.contains_key([from, name].join("::").trim_start_matches(':'));
        match *names.peek()? {
            "crate" => base.clear(),
            "super" | "self" => {}
            name if is_child(name) => {}
            _ => return None,
        }
        let mut item = None;
        for name in names {
            match name {
                "crate" | "self" => {}
                "super" => drop(base.pop()),
                name => {
                    base.push(name);
                    if !self.imports.contains_key(base.join("::").as_str()) {
                        item = base.pop();
                        break;
                    }
                }
            }
        }
        let module = base.join("::");
        let reexported = self.imports[module.as_str()].iter().find(|path| path.rsplit("::").next() == item);
        let origin = reexported.filter(|_| depth < 5).and_then(|path| self.module_of(&module, path, depth + 1));
        Some(origin.unwrap_or(module))
    }
}

/// Returns the modules that use each other in a circle. A module may use its parents, because a folder's `mod.rs` has
/// the type that the folder's files implement.
fn circles(modules: &BTreeMap<String, String>) -> Vec<String> {
    let codes: BTreeMap<_, _> = modules.iter().map(|(name, text)| (name.as_str(), code(text))).collect();
    let statements = |code: &str| {
        let uses = code.split("use ").skip(1).filter_map(|rest| rest.split_once(';'));
        uses.flat_map(|(path, _)| expand(path)).collect::<Vec<_>>()
    };
    let graph = Graph { imports: codes.iter().map(|(&name, code)| (name, statements(code))).collect() };
    let mut used: BTreeMap<&str, BTreeSet<String>> = BTreeMap::new();
    for (&name, code) in &codes {
        let is_of_path = |c: char| c.is_alphanumeric() || c == '_' || c == ':';
        let inline = code.split(|c| !is_of_path(c)).filter(|path| path.contains("::")).map(str::to_owned);
        let paths = graph.imports[name].iter().cloned().chain(inline);
        let of_others = paths.filter_map(|path| graph.module_of(name, &path, 0));
        let is_parent = |other: &str| other.is_empty() || name == other || name.starts_with(&format!("{other}::"));
        used.insert(name, of_others.filter(|other| !is_parent(other)).collect());
    }
    // A module that uses no remaining module, or that no remaining module uses, is in no circle.
    let is_free = |used: &BTreeMap<&str, BTreeSet<String>>, name: &str| {
        used[name].is_empty() || !used.values().flatten().any(|other| other == name)
    };
    while let Some(&free) = used.keys().find(|name| is_free(&used, name)) {
        used.remove(free);
        used.values_mut().for_each(|others| others.retain(|other| other != free));
    }
    used.iter().map(|(name, others)| format!("{name} uses {others:?}")).collect()
}

#[test]
fn files_do_not_use_each_other_in_circles() {
    let src = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let circles = circles(&modules(&src));
    assert!(circles.is_empty(), "{circles:#?}");
}

#[test]
fn circles_are_found_in_every_form() {
    let crates = |files: &[(&str, &str)]| {
        circles(&files.iter().map(|&(name, text)| (name.to_owned(), text.to_owned())).collect())
    };
    let none = [("", "mod a; mod b;"), ("a", "use crate::b::B;"), ("b", "//! crate::a\nuse std::fmt;")];
    assert!(crates(&none).is_empty());
    let child = [("a", "mod b; use b::B; struct A;"), ("a::b", "use super::A;")];
    assert!(crates(&child).is_empty());
    for back in ["use crate::{c, a::A};", "fn f() { super::a::f(); }", "use super::A;"] {
        assert_eq!(
            crates(&[("", "mod a; mod b; use a::A;"), ("a", "use crate::b::B;"), ("b", back)]).len(),
            2,
            "{back}"
        );
    }
    let behind_the_parent =
        [("p", "mod a; mod b; pub use a::A; use b::B;"), ("p::a", "use super::B;"), ("p::b", "use super::A;")];
    assert_eq!(crates(&behind_the_parent).len(), 2);
}

#[test]
fn uses_are_found_in_every_form_and_not_in_comments() {
    let text =
        "use crate::a::{b, c};\n//! crate::never\nuse crate::{d::{e, f}, g};\nfn x() { crate::h::i(); }\n// crate::no";
    assert_eq!(uses(text), ["a", "d", "g", "h"]);
}
