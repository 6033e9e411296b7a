//! docs/operators.md lists exactly the lines that the module writes to the server's log. The tests compare the page
//! with the sources and need no server.

use std::fs;
use testkit::{Page, root};

/// Returns the constant parts of a line: the text between `{...}` or `…`.
fn pieces(line: &str) -> Vec<String> {
    let mut pieces = vec![String::new()];
    let mut depth = 0;
    for c in line.chars() {
        match c {
            '{' => depth += 1,
            '}' => {
                depth -= 1;
                pieces.push(String::new());
            }
            '…' => pieces.push(String::new()),
            c if depth == 0 => pieces.last_mut().expect("one at least").push(c),
            _ => {}
        }
    }
    // A source may append dots to a long name. The page does not show them.
    pieces.into_iter().filter(|piece| piece.trim().len() > 1).collect()
}

/// Returns the string literals that follow one of these words in a source, without comments and C strings.
fn literals(file: &str, openings: &[&str]) -> Vec<String> {
    let text = fs::read_to_string(root().join("src").join(file)).unwrap_or_else(|error| panic!("{file}: {error}"));
    let code: String =
        text.lines().filter(|line| !line.trim_start().starts_with("//")).flat_map(|l| [l, "\n"]).collect();
    let mut found = Vec::new();
    for opening in openings {
        for rest in code.split(opening).skip(1) {
            let rest = rest.trim_start();
            if let Some(rest) = rest.strip_prefix('"') {
                found.push(rest.split_once('"').expect("a literal ends").0.to_owned());
            }
        }
    }
    found
}

/// Returns the log lines that the sources contain.
fn logged() -> Vec<String> {
    let places: [(&str, &[&str]); 9] = [
        ("lib.rs", &["Err(", "format!(", "map_err(|_|"]),
        ("server/setting.rs", &["return Err("]),
        ("server/module.rs", &["Err("]),
        ("server/io.rs", &["let line = format!("]),
        ("server/data_type.rs", &["Err(format!("]),
        ("base/stream.rs", &["write_str(", "write!(f, "]),
        ("queues/open.rs", &["log(c\"warning\", &format!("]),
        ("boards/open.rs", &["log(c\"warning\", &format!("]),
        ("server/eviction.rs", &["let line = format!("]),
    ];
    let mut lines: Vec<_> = places.iter().flat_map(|(file, openings)| literals(file, openings)).collect();
    // The rest of this line is the panic message.
    lines.push("zeitset: panicked at {}".to_owned());
    lines.retain(|line| !pieces(line).is_empty());
    lines
}

/// Returns the first cells of the two tables.
fn listed() -> Vec<String> {
    let page = Page::read(&root().join("docs/operators.md"));
    let cells = page.section("What the log says").filter_map(|line| {
        line.strip_prefix("| `")?.split_once("` |").or(line.strip_prefix("| `")?.split_once("`` |"))
    });
    cells.map(|(cell, _)| cell.trim_matches('`').to_owned()).collect()
}

#[test]
fn every_line_of_the_log_is_explained_and_no_other() {
    let (logged, listed) = (logged(), listed());
    assert!(logged.len() >= 15, "the sources are read: {logged:?}");
    let is_in = |line: &str, lines: &[String]| lines.iter().any(|other| pieces(other) == pieces(line));
    let missing: Vec<_> = logged.iter().filter(|line| !is_in(line, &listed)).collect();
    assert!(missing.is_empty(), "not in docs/operators.md: {missing:#?}");
    let gone: Vec<_> = listed.iter().filter(|line| !is_in(line, &logged)).collect();
    assert!(gone.is_empty(), "no source says: {gone:#?}");
}

/// If this test fails, add the new file to `logged`.
#[test]
fn lines_are_logged_in_the_places_that_are_read() {
    let mut places = Vec::new();
    for file in crate::repository::sources(&root().join("src")) {
        let text = fs::read_to_string(&file).expect("a source");
        let calls = [".log(c\"", ".log_error(", "RedisModule_Log(", "RedisModule_LogIOError("];
        if calls.iter().any(|call| text.contains(call)) {
            places.push(file.strip_prefix(root().join("src")).expect("below src").to_string_lossy().into_owned());
        }
    }
    places.sort();
    let known = [
        "boards/open.rs",
        "queues/open.rs",
        "server/context.rs",
        "server/data_type.rs",
        "server/eviction.rs",
        "server/io.rs",
        "server/module.rs",
        "server/panic.rs",
    ];
    assert_eq!(places, known);
}
