//! Programs that a system may lack. `scripts/need.sh` and `scripts/run.sh --free` report missing programs before
//! anything is built: the tests use fake programs in an otherwise empty PATH. Tests and scripts start only the programs
//! that `scripts/programs.txt` lists.

use super::package::empty_root;
use super::shell;
use std::collections::BTreeSet;
use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;
use testkit::free_port;

const ROOT: &str = env!("CARGO_MANIFEST_DIR");

/// Creates a folder with the tools that the script calls, and with programs that print these lines.
fn path_with(name: &str, programs: &[(&str, &str)]) -> PathBuf {
    let folder = empty_root(name);
    for tool in ["sh", "sed", "sort", "head", "id", "dirname", "ls"] {
        let found =
            ["/usr/bin", "/bin"].map(|place| Path::new(place).join(tool)).into_iter().find(|path| path.exists());
        symlink(found.expect("a tool of every system"), folder.join(tool)).expect("the folder can be written");
    }
    for (program, line) in programs {
        let path = folder.join(program);
        fs::write(&path, format!("#!/bin/sh\necho '{line}'\n")).expect("the folder can be written");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("it is ours");
    }
    folder
}

/// Runs `scripts/need.sh` without installing anything. Returns whether it found everything, and its output.
fn need(path: &Path, needs: &[&str]) -> (bool, String) {
    let mut command = Command::new("/bin/sh");
    command.arg(format!("{ROOT}/scripts/need.sh")).args(needs);
    command.env_clear().env("PATH", path).env("NEED_INSTALL", "no");
    let done = command.output().expect("a shell");
    (done.status.success(), String::from_utf8_lossy(&done.stderr).into_owned())
}

#[test]
fn rust_that_is_missing_or_too_old_is_said_first_then_all_else_that_is_missing() {
    let oldest = env!("CARGO_PKG_RUST_VERSION");
    let none = path_with("need-none", &[("apt-get", "")]);
    let (is_there, said) = need(&none, &["rust", "cc", "redis"]);
    assert!(!is_there && said.contains("cargo is missing") && said.contains(oldest), "{said}");
    assert!(said.contains("cargo-web") && said.contains("bookworm-security") && said.contains("rustup.rs"), "{said}");
    assert!(said.contains("install -y --no-install-recommends gcc libc6-dev redis-server"), "{said}");

    let old = path_with("need-old", &[("cargo", "cargo 1.63.0 (abc 2022-07-09)"), ("dnf", "")]);
    let (is_there, said) = need(&old, &["rust"]);
    assert!(!is_there && said.contains("version 1.63.0") && said.contains("dnf install cargo"), "{said}");

    let new = path_with("need-new", &[("cargo", "cargo 1.200.1 (abc 2030-01-01)")]);
    assert_eq!(need(&new, &["rust"]), (true, String::new()));
    let same = path_with("need-same", &[("cargo", &format!("cargo {oldest}.0 (abc)"))]);
    assert_eq!(need(&same, &["rust"]), (true, String::new()));
}

#[test]
fn what_a_package_manager_can_install_is_named_as_it_names_it() {
    let alpine = path_with("need-alpine", &[("apk", "")]);
    let (is_there, said) = need(&alpine, &["cc", "bash"]);
    assert!(!is_there && said.contains("apk add gcc musl-dev bash"), "{said}");

    let arch = path_with("need-arch", &[("pacman", "")]);
    let (is_there, said) = need(&arch, &["cc"]);
    assert!(!is_there && said.contains("pacman -S --needed --noconfirm gcc"), "{said}");
}

#[test]
fn a_port_that_is_taken_is_said_before_the_build() {
    let script = format!("{ROOT}/scripts/run.sh");
    let free = |port: u16| {
        let done = Command::new(&script).args(["--free", &port.to_string()]).output().expect("bash");
        (done.status.success(), String::from_utf8_lossy(&done.stderr).into_owned())
    };
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("bound").port();
    let (is_free, said) = free(port);
    assert!(!is_free && said.contains(&format!("Port {port} is taken")), "{said}");
    drop(listener);
    // Another program may take the port meanwhile.
    assert!((0..10).any(|_| free(free_port()) == (true, String::new())), "no port is free");

    let plan = Command::new("make").args(["-n", "run", "PORT=6399"]).current_dir(ROOT).output().expect("make");
    let plan = String::from_utf8_lossy(&plan.stdout).into_owned();
    let built = plan.find("build --release").expect("make run builds");
    let before = &plan[..built];
    assert!(before.contains("--free") && before.contains("need.sh rust cc libclang redis bash"), "{plan}");
}

#[test]
fn make_deb_says_before_building_that_dpkg_dev_is_missing() {
    let plan = Command::new("make").args(["-n", "deb"]).current_dir(ROOT).output().expect("make");
    let plan = String::from_utf8_lossy(&plan.stdout).into_owned();
    let built = plan.find("build --release").expect("make deb builds");
    assert!(plan[..built].contains("scripts/deb.sh --need"), "{plan}");
    // The script is of bash, and calls no other program before it asks.
    let empty = empty_root("need-dpkg");
    let done =
        Command::new("/bin/bash").args(["scripts/deb.sh", "--need"]).current_dir(ROOT).env("PATH", empty).output();
    let done = done.expect("bash");
    let said = String::from_utf8_lossy(&done.stderr).into_owned();
    assert!(!done.status.success() && said.contains("apt-get install dpkg-dev"), "{said}");
}

#[test]
fn installing_what_is_built_needs_no_rust() {
    let built = empty_root("need-built");
    for (folder, file) in [("release", "libzeitset.so"), ("companion", "zeitset")] {
        fs::create_dir_all(built.join(folder)).expect("the folder can be written");
        fs::write(built.join(folder).join(file), "").expect("the folder can be written");
    }
    fs::write(built.join("third-party.txt"), "").expect("the folder can be written");
    let mut make = Command::new("make");
    make.args(["-n", "install", "CARGO=no-such-cargo", "DESTDIR=/nowhere"]).current_dir(ROOT);
    let done = make.arg(format!("CARGO_TARGET_DIR={}", built.display())).output().expect("make");
    let plan = String::from_utf8_lossy(&done.stdout).into_owned();
    assert!(done.status.success() && plan.contains("install -m 755") && !plan.contains("no-such-cargo"), "{plan}");
}

/// Returns the shell commands of a Makefile. A name of make's, such as `$(CARGO)`, becomes a name of the shell's.
fn recipes(makefile: &str) -> String {
    let lines = makefile.lines().filter_map(|line| line.strip_prefix('\t'));
    let script: String = lines.flat_map(|line| [line.trim_start_matches('@'), "\n"]).collect();
    let mut shell = String::new();
    for part in script.split("$$") {
        let (mut depth, mut is_name) = (0, false);
        for char in part.chars() {
            match char {
                '$' => is_name = true,
                '(' if is_name => depth += 1,
                ')' if is_name => depth -= 1,
                _ if !is_name => {}
                _ => continue,
            }
            if !is_name {
                shell.push(char);
            } else if depth == 0 && char == ')' {
                shell.push_str("$NAME");
                is_name = false;
            }
        }
        shell.push('$');
    }
    shell
}

/// Returns the programs that Rust code starts by a literal name.
fn programs_of_rust(text: &str) -> impl Iterator<Item = &str> {
    text.split("Command::new(\"").skip(1).filter_map(|rest| rest.split('"').next())
}

/// On a minimal Debian 12, `make test` must pass with what `make` installs. `.ci/run` runs it so.
#[test]
fn tests_and_scripts_start_only_programs_that_the_list_names() {
    let list = fs::read_to_string(format!("{ROOT}/scripts/programs.txt")).expect("the list");
    let lines = list.lines().filter(|line| !line.starts_with('#'));
    let listed: BTreeSet<&str> =
        lines.filter_map(|line| Some(line.split_once(": ")?.1)).flat_map(|names| names.split(' ')).collect();

    let tracked = Command::new("git").arg("ls-files").current_dir(ROOT).output().expect("git");
    if !tracked.status.success() {
        eprintln!("skipped: this is no git checkout");
        return;
    }
    let files: Vec<_> = String::from_utf8_lossy(&tracked.stdout).lines().map(str::to_owned).collect();
    let mut used: BTreeSet<(String, String)> = BTreeSet::new();
    for file in files {
        let Ok(text) = fs::read_to_string(Path::new(ROOT).join(&file)) else { continue };
        let first = text.lines().next().unwrap_or_default();
        let programs: BTreeSet<String> = match &*file {
            "Makefile" => shell::programs(&recipes(&text)),
            _ if file.ends_with(".rs") => programs_of_rust(&text).map(str::to_owned).collect(),
            _ if first.starts_with("#!") && (first.ends_with("/sh") || first.ends_with(" bash")) => {
                shell::programs(&text)
            }
            _ => continue,
        };
        used.extend(programs.into_iter().map(|program| (program, file.clone())));
    }
    let is_listed = |program: &str| listed.contains(program.rsplit('/').next().expect("a name"));
    let missing: Vec<_> = used.iter().filter(|(program, _)| !is_listed(program)).collect();
    assert!(missing.is_empty(), "scripts/programs.txt does not name: {missing:#?}");
    let is_used = |name: &str| used.iter().any(|(program, _)| program.rsplit('/').next() == Some(name));
    assert!(is_used("prlimit") && is_used("mktemp") && is_used("tar"), "nothing was found: {used:?}");
}
