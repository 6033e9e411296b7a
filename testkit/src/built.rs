//! The programs and libraries that the tests need: the module, a second module that interferes with it, and examples.
//! Before their first use, Cargo builds them.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

pub fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("testkit is a folder of the repository")
}

/// Returns the path of the module under test: `$ZEITSET_MODULE`, or the library in `target/<profile>`. Builds this
/// library first, because `cargo test` and `cargo bench` build no shared library.
pub fn module() -> &'static Path {
    static MODULE: OnceLock<PathBuf> = OnceLock::new();
    MODULE.get_or_init(|| {
        if let Some(path) = std::env::var_os("ZEITSET_MODULE") {
            return fs::canonicalize(path).expect("ZEITSET_MODULE names a file");
        }
        built(&["--lib"], "libzeitset")
    })
}

/// Returns `target/<profile>/examples/libzeitset_neighbour.so`. This second module disturbs the module under test with
/// random commands during keyspace events.
pub(crate) fn neighbour() -> &'static Path {
    static MODULE: OnceLock<PathBuf> = OnceLock::new();
    MODULE.get_or_init(|| built(&["--example", "zeitset_neighbour"], "examples/libzeitset_neighbour"))
}

/// Returns cargo's output folder for the profile of the tests.
pub(crate) fn profile_folder() -> PathBuf {
    let test = std::env::current_exe().expect("the path of the tests");
    // target/<profile>/deps/integration-<hash>
    test.parent().and_then(Path::parent).expect("cargo's target folder").to_owned()
}

/// Builds a library in the profile of the tests. Returns its path.
fn built(target: &[&str], name: &str) -> PathBuf {
    let folder = profile_folder();
    build(&folder, target);
    let library = folder.join(name).with_extension(std::env::consts::DLL_EXTENSION);
    assert!(library.is_file(), "{} is missing: run `cargo build {}` first", library.display(), target.join(" "));
    library
}

/// Builds a program of another package in the profile of the tests. Returns the path of the program.
pub fn program(package: &str, name: &str) -> PathBuf {
    let folder = profile_folder();
    build(&folder, &["--package", package, "--bin", name]);
    folder.join(name)
}

/// Runs `cargo build` for the profile whose output folder is `folder`. Does nothing if cargo did not start the tests.
fn build(folder: &Path, target: &[&str]) {
    let Some(cargo) = std::env::var_os("CARGO") else {
        return;
    };
    let profile = match folder.file_name().and_then(|name| name.to_str()) {
        Some("debug") => "dev",
        Some(name) => name,
        None => return,
    };
    let status = Command::new(cargo)
        .args(["build", "--quiet", "--locked", "--profile", profile])
        .args(target)
        .arg("--target-dir")
        .arg(folder.parent().expect("cargo's target folder"))
        .current_dir(root())
        .status();
    assert!(status.is_ok_and(|status| status.success()), "cargo build");
}
