//! The dependencies in docs/ARCHITECTURE.md: which folder of `src` may use which other one. The tests read only the
//! sources.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// A part of `src`, and which other parts it may use. The longest name of a part that begins a file's path counts. So
/// the pure part of a family may use less than the family.
const MAY_USE: [(&str, &[&str]); 13] = [
    ("base", &[]),
    ("error", &[]),
    ("server", &["base", "error"]),
    ("args", &["base", "error", "server"]),
    ("sets", &["args", "base", "error", "server"]),
    ("sets::index", &["base"]),
    ("limits", &["args", "base", "error", "server"]),
    ("limits::model", &["base"]),
    ("queues", &["args", "base", "error", "server"]),
    ("queues::model", &["base"]),
    ("queues::waiting::model", &["base"]),
    ("boards", &["args", "base", "error", "server"]),
    ("boards::model", &["base"]),
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
    // In `pub(in crate::a)`, the path says who may use an item.
    lines.fold(String::new(), |code, line| code + &line.replace("pub(in crate::", "pub(") + "\n")
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
        if !path.contains("::") {
            return None;
        }
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

/// Returns the modules that each module uses. A re-export is no use.
fn uses(modules: &BTreeMap<String, String>) -> BTreeMap<&str, BTreeSet<String>> {
    let (mut imports, mut paths) = (BTreeMap::new(), BTreeMap::<_, Vec<_>>::new());
    for (name, text) in modules {
        let code = code(text);
        let (mut imported, mut used, mut before) =
            (Vec::new(), Vec::new(), code.split("use ").next().unwrap_or_default());
        let is_of_path = |c: char| c.is_alphanumeric() || c == '_' || c == ':';
        let inline = |code: &str| code.split(|c| !is_of_path(c)).map(str::to_owned).collect::<Vec<_>>();
        used.extend(inline(before));
        for part in code.split("use ").skip(1) {
            let (path, rest) = part.split_once(';').unwrap_or((part, ""));
            imported.extend(expand(path));
            if !before.ends_with("pub ") {
                used.extend(expand(path));
            }
            used.extend(inline(rest));
            before = part;
        }
        imports.insert(name.as_str(), imported);
        paths.insert(name.as_str(), used);
    }
    let graph = Graph { imports };
    let used_by = |name, paths: &[String]| paths.iter().filter_map(|path| graph.module_of(name, path, 0)).collect();
    paths.iter().map(|(&name, paths)| (name, used_by(name, paths))).collect()
}

/// Whether a module is `part`, or in `part`.
fn is_in(part: &str, module: &str) -> bool {
    part.is_empty() || module.strip_prefix(part).is_some_and(|rest| rest.is_empty() || rest.starts_with("::"))
}

/// Returns the modules that use each other in a circle. A module may use its parents, because a folder's `mod.rs` has
/// the type that the folder's files implement.
fn circles(modules: &BTreeMap<String, String>) -> Vec<String> {
    let mut used = uses(modules);
    used.iter_mut().for_each(|(name, others)| others.retain(|other| !is_in(other, name)));
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

/// Returns which modules use a part that [`MAY_USE`] does not allow them.
fn forbidden(modules: &BTreeMap<String, String>) -> Vec<String> {
    let mut wrong = Vec::new();
    for (name, others) in uses(modules).into_iter().filter(|(name, _)| !name.is_empty()) {
        let rules = MAY_USE.iter().filter(|(part, _)| is_in(part, name));
        let (part, may) = rules.max_by_key(|(part, _)| part.len()).unwrap_or_else(|| panic!("{name} has no rule"));
        let is_allowed = |other: &String| is_in(part, other) || may.iter().any(|may| is_in(may, other));
        wrong.extend(others.iter().filter(|other| !is_allowed(other)).map(|other| format!("{name} uses {other}")));
    }
    wrong
}

#[test]
fn each_part_uses_only_what_the_floor_plan_allows() {
    let src = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let wrong = forbidden(&modules(&src));
    assert!(wrong.is_empty(), "{wrong:#?}");
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
        [("p", "mod a; mod b; pub use {a::A, b::B};"), ("p::a", "use super::B;"), ("p::b", "use super::A;")];
    assert_eq!(crates(&behind_the_parent).len(), 2);
}

#[test]
fn uses_that_the_floor_plan_forbids_are_found() {
    let files = |text: &str| {
        [("queues", "mod model;"), ("queues::model", text), ("queues::registry", ""), ("base", ""), ("sets", "")]
            .map(|(name, text)| (name.to_owned(), text.to_owned()))
            .into()
    };
    assert!(forbidden(&files("use crate::{base::Time, queues::model::Job};")).is_empty());
    for text in ["use super::registry::list;", "use crate::sets;", "fn f() { crate::queues::registry::g(); }"] {
        assert_eq!(forbidden(&files(text)).len(), 1, "{text}");
    }
}
