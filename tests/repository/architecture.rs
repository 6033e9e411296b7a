//! The dependencies in docs/ARCHITECTURE.md: which folder of `src` may use which other one. The tests read only the
//! sources.

use std::collections::BTreeMap;
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

/// The files of `expiring`. Each may use only earlier ones.
const IN_EXPIRING: [&str; 9] =
    ["tag", "legacy", "effects", "scan", "tracker", "expiring_set", "sweeper", "key_events", "mod"];

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

#[test]
fn files_of_expiring_use_only_those_below_them() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/expiring");
    let mut files: Vec<_> = sources(&folder).iter().map(|file| stem(file)).collect();
    let mut known = IN_EXPIRING.map(str::to_owned);
    files.sort();
    known.sort();
    assert_eq!(files, known, "each file has its place");
    for (at, file) in IN_EXPIRING.iter().enumerate() {
        let text = fs::read_to_string(folder.join(file).with_extension("rs")).expect("a source can be read");
        let wrong: Vec<_> = names_behind("super::", &text)
            .into_iter()
            .filter(|used| !IN_EXPIRING[..at].contains(&used.as_str()))
            .collect();
        assert!(wrong.is_empty(), "{file} uses {wrong:?}");
    }
}

fn stem(file: &Path) -> String {
    file.file_stem().expect("a file has a name").to_string_lossy().into_owned()
}

#[test]
fn uses_are_found_in_every_form_and_not_in_comments() {
    let text =
        "use crate::a::{b, c};\n//! crate::never\nuse crate::{d::{e, f}, g};\nfn x() { crate::h::i(); }\n// crate::no";
    assert_eq!(uses(text), ["a", "d", "g", "h"]);
}
