//! The module, the companion, the client libraries, the lock files and the changelog have the same version. The test
//! needs no server.

use std::fs;
use std::path::Path;

const VERSION: &str = env!("CARGO_PKG_VERSION");

fn text(path: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(path);
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Returns the quoted text in the first line of `path` that begins with `field` and follows `behind`.
fn version_in(path: &str, behind: &str, field: &str) -> String {
    let text = text(path);
    let at = text.find(behind).unwrap_or_else(|| panic!("{path}: no {behind}"));
    let line = text[at..].lines().map(str::trim_start).find(|line| line.starts_with(field));
    let value = line.and_then(|line| line[field.len()..].split('"').nth(1));
    value.unwrap_or_else(|| panic!("{path}: no {field} behind {behind}")).to_owned()
}

#[test]
fn what_is_released_together_has_one_version() {
    for (path, behind, field) in [
        ("companion/Cargo.toml", "[package]", "version"),
        ("clients/rust/Cargo.toml", "[package]", "version"),
        ("Cargo.lock", "name = \"zeitset\"", "version"),
        ("Cargo.lock", "name = \"zeitset-companion\"", "version"),
        ("clients/python/pyproject.toml", "[project]", "version"),
        ("clients/node/package.json", "\"name\": \"zeitset\"", "\"version\""),
        ("clients/node/package-lock.json", "\"name\": \"zeitset\"", "\"version\""),
        ("clients/node/package-lock.json", "\"packages\"", "\"version\""),
        ("examples/node/package-lock.json", "\"name\": \"zeitset\"", "\"version\""),
    ] {
        assert_eq!(version_in(path, behind, field), VERSION, "{path}, behind {behind}");
    }
}

/// The section has the date of the release, or says that the version is not released yet. The version changes together
/// with the words of effects or a stored format, so two builds of one version understand each other.
#[test]
fn the_changelog_has_a_section_for_this_version() {
    let changelog = text("CHANGELOG.md");
    let heading = format!("## [{VERSION}] - ");
    let date = changelog.lines().find_map(|line| line.strip_prefix(&heading)).expect("a section for this version");
    let is_date = date.len() == 10 && date.split('-').all(|part| part.parse::<u32>().is_ok());
    assert!(is_date || date == "unreleased", "{date}");
}
