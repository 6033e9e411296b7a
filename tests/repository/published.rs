//! The packages of the client libraries on PyPI, npm and crates.io: all links of their pages work outside of the
//! repository, and each package contains the guarantees.

use std::path::Path;
use std::process::Command;
use std::{env, fs};
use testkit::root;

const URL: &str = "https://example.com/zeitset/blob/v1.2.3";

/// Returns the targets of all links in a text.
fn links(text: &str) -> Vec<&str> {
    text.split("](").skip(1).filter_map(|rest| rest.split_once(')')).map(|(target, _)| target).collect()
}

/// Returns the paths of the repository to which a page links. All other links must work anywhere.
fn paths<'a>(page: &'a str, name: &str) -> Vec<&'a str> {
    let mut paths = Vec::new();
    for target in links(page) {
        assert!(target.starts_with("https://") || target.starts_with('#'), "{name}: {target}");
        if let Some(path) = target.strip_prefix(URL).and_then(|path| path.strip_prefix('/')) {
            let file = path.split('#').next().expect("a path");
            assert!(root().join(file).exists(), "{name}: {path}");
            paths.push(path);
        }
    }
    paths
}

#[test]
fn published_packages_contain_the_guarantees_and_link_to_the_repository() {
    let clients = Path::new(env!("CARGO_TARGET_TMPDIR")).join("published");
    let _ = fs::remove_dir_all(&clients);
    let packages = [("node", "GUARANTEES.md"), ("python", "src/zeitset/GUARANTEES.md"), ("rust", "GUARANTEES.md")];
    for (package, guarantees) in packages {
        let page = root().join("clients").join(package).join("README.md");
        let folder = clients.join(package).join(guarantees);
        fs::create_dir_all(folder.parent().expect("a folder")).expect("the target folder can be written");
        fs::copy(page, clients.join(package).join("README.md")).expect("a page");
    }
    let script = root().join("scripts/published-links.sh");
    assert!(Command::new(script).arg(URL).arg(&clients).status().expect("sh").success());

    let own = fs::read_to_string(root().join("clients/README.md")).expect("a page");
    for (package, guarantees) in packages {
        let page = fs::read_to_string(clients.join(package).join("README.md")).expect("a page");
        let to_guarantees = |path: &&str| path.split('#').next() == Some("clients/README.md");
        assert!(paths(&page, package).iter().any(to_guarantees), "{package}");
        let page = fs::read_to_string(clients.join(package).join(guarantees)).expect("a page");
        assert!(paths(&page, package).contains(&"clients/celery.md"), "{package}");
        let text = |page: &str| page.replace(&format!("]({URL}/clients/"), "](").replace(&format!("]({URL}/"), "](../");
        assert_eq!(text(&page), own, "the page differs only by its links");
    }
}
