//! The pages of the client libraries as PyPI, npm and crates.io show them: all links work outside of the repository.

use std::path::Path;
use std::process::Command;
use std::{env, fs};
use testkit::root;

/// Returns the targets of all links in a text.
fn links(text: &str) -> Vec<&str> {
    text.split("](").skip(1).filter_map(|rest| rest.split_once(')')).map(|(target, _)| target).collect()
}

#[test]
fn links_of_published_pages_name_files_of_the_repository() {
    const URL: &str = "https://example.com/zeitset/blob/v1.2.3";
    let clients = Path::new(env!("CARGO_TARGET_TMPDIR")).join("published");
    let _ = fs::remove_dir_all(&clients);
    let packages = ["node", "python", "rust"];
    for package in packages {
        fs::create_dir_all(clients.join(package)).expect("the target folder can be written");
        let page = root().join("clients").join(package).join("README.md");
        fs::copy(page, clients.join(package).join("README.md")).expect("a page");
    }
    let script = root().join("scripts/published-links.sh");
    assert!(Command::new(script).arg(URL).arg(&clients).status().expect("sh").success());

    for package in packages {
        let page = fs::read_to_string(clients.join(package).join("README.md")).expect("a page");
        let targets = links(&page);
        let ours: Vec<_> = targets.iter().filter_map(|target| target.strip_prefix(URL)?.strip_prefix('/')).collect();
        assert!(ours.contains(&"clients/README.md") || ours.iter().any(|path| path.starts_with("clients/README.md#")));
        for path in ours {
            let file = path.split('#').next().expect("a path");
            assert!(root().join(file).exists(), "{package}: {path}");
        }
        for target in targets {
            assert!(target.starts_with("https://") || target.starts_with('#'), "{package}: {target}");
        }
    }
}
