//! `src/server/native.rs` lists the server's commands that the module needs. This test compares that list with the
//! commands in the sources.

use super::architecture::sources;
use std::fs;
use std::path::Path;

/// Returns the constants `c"..."` after each `opening`, across line breaks.
fn constants_behind(opening: &str, text: &str) -> Vec<String> {
    let starts = text.split(opening).skip(1).map(str::trim_start);
    starts.filter_map(|rest| rest.strip_prefix("c\"")?.split_once('"')).map(|(name, _)| name.to_owned()).collect()
}

#[test]
fn every_command_that_is_replicated_or_called_is_asked_for_at_load() {
    let src = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let list = fs::read_to_string(src.join("server/native.rs")).expect("the list");
    let listed: Vec<_> = list.split("c\"").skip(1).filter_map(|rest| rest.split('"').next()).collect();
    let mut used = Vec::new();
    for file in sources(&src) {
        let text = fs::read_to_string(&file).expect("a source can be read");
        for opening in ["replicate(", "replicate_bytes(", ".call("] {
            used.extend(constants_behind(opening, &text));
        }
    }
    assert!(used.len() > 10 && used.iter().any(|name| name == "ZADD"), "the sources are read: {used:?}");
    used.retain(|name| !listed.contains(&name.as_str()));
    assert!(used.is_empty(), "not in src/server/native.rs: {used:?}");
}

#[test]
fn constants_are_found_in_every_form() {
    let text =
        "ctx.replicate(c\"A\", x); ctx\n.try_replicate(\n  c\"B\",\n x); replicate(command); replicate(APPLY, c\"C\")";
    assert_eq!(constants_behind("replicate(", text), ["A", "B"]);
}
