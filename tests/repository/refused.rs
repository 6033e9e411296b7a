//! The compiler refuses the statements of src/server/refused.rs, which would crash the server.

use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;
use testkit::root;

const FILE: &str = "src/server/refused.rs";

/// Returns the function of `FILE` that contains the line.
fn function_at(source: &str, line: usize) -> Option<&str> {
    let before = source.lines().take(line).filter_map(|line| line.trim_start().strip_prefix("fn "));
    before.last().map(|name| name.split(['(', '<']).next().expect("a name"))
}

/// Compiles the module with the statements of one kind. Returns the errors by function.
fn errors(kind: &str, source: &str) -> BTreeMap<String, BTreeSet<String>> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new(cargo)
        .args(["rustc", "--locked", "--package", "zeitset", "--lib", "--message-format", "short", "--"])
        .args(["--cfg", &format!("refused=\"{kind}\"")])
        .current_dir(root())
        .output()
        .expect("cargo runs");
    let lines = String::from_utf8(output.stderr).expect("UTF-8");
    let mut found = BTreeMap::<_, BTreeSet<_>>::new();
    for line in lines.lines().filter(|line| line.contains(": error")) {
        // src/server/refused.rs:30:34: error[E0599]: no method named `unlink` found
        let at = line.strip_prefix(FILE).and_then(|rest| rest.split(':').nth(1)?.parse().ok());
        let function = at.and_then(|at| function_at(source, at)).unwrap_or_else(|| panic!("{line}"));
        let code = line.split(['[', ']']).nth(1).unwrap_or_default();
        found.entry(function.to_owned()).or_default().insert(code.to_lowercase());
    }
    assert!(!output.status.success() && !found.is_empty(), "{lines}");
    found
}

#[test]
fn the_compiler_refuses_what_would_crash_the_server() {
    let source = std::fs::read_to_string(root().join(FILE)).expect("the file");
    for kind in ["types", "borrows"] {
        let start = source.find(&format!("mod {kind} {{")).expect("a module");
        let module = &source[start..];
        let module = &module[..module.find("\n}").expect("its end")];
        let names = module.lines().filter_map(|line| line.trim_start().strip_prefix("fn "));
        let expected: BTreeMap<_, _> = names
            .filter_map(|name| name.split(['(', '<']).next())
            .filter(|name| name.starts_with("e0"))
            .map(|name| (name.to_owned(), BTreeSet::from([name[..5].to_owned()])))
            .collect();
        assert_eq!(errors(kind, &source), expected);
    }
}
