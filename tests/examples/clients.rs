//! Runs the examples of each language. Their client libraries are fetched into the target folder.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A command that runs an example, or why this machine cannot run it.
type Prepared = Result<Command, String>;

/// Returns `python3 <script>` with redis-py and the library of clients/python.
pub fn python(script: &str) -> Option<Command> {
    demanded("python", || {
        let venv = folder("python").join("venv");
        run("python3 -m venv", Command::new("python3").args(["-m", "venv"]).arg(&venv))?;
        let python = venv.join("bin/python");
        let requirements = source("python").join("requirements.txt");
        let library = Path::new(env!("CARGO_MANIFEST_DIR")).join("clients/python");
        let install = ["-m", "pip", "install", "-q", "-r"];
        run("pip install", Command::new(&python).args(install).arg(requirements).arg(library))?;
        let mut command = Command::new(python);
        // Without -B, Python would write bytecode next to the source.
        command.arg("-B").arg(source("python").join(script));
        Ok(command)
    })
}

/// Returns `node <script>` with node-redis and the library of clients/node.
pub fn node(script: &str) -> Option<Command> {
    demanded("node", || {
        // npm installs into the folder of the package, so the packages are copied first. The example refers to the
        // library by a relative path.
        let root = folder("node");
        let [library, example] = ["clients/node", "examples/node"].map(|package| {
            let copy = root.join(package);
            copy_sources(&Path::new(env!("CARGO_MANIFEST_DIR")).join(package), &copy);
            copy
        });
        let npm = |what: &str, words: &[&str], folder: &Path| {
            run(what, Command::new("npm").args(words).args(["--no-audit", "--no-fund", "--silent"]).current_dir(folder))
        };
        npm("npm ci in clients/node", &["ci"], &library)?;
        npm("npm run build", &["run", "build"], &library)?;
        npm("npm ci", &["ci"], &example)?;
        let mut command = Command::new("node");
        command.arg(example.join(script));
        Ok(command)
    })
}

/// Copies a package without installed and built files.
fn copy_sources(from: &Path, to: &Path) {
    fs::create_dir_all(to).expect("the target folder can be written");
    for entry in fs::read_dir(from).expect("a package").flatten() {
        let (name, path) = (entry.file_name(), entry.path());
        if !path.is_dir() {
            fs::copy(&path, to.join(name)).expect("the target folder can be written");
        } else if !["node_modules", "dist", "build"].iter().any(|skipped| name == *skipped) {
            copy_sources(&path, &to.join(name));
        }
    }
}

/// Returns the tour, built with go-redis.
pub fn go() -> Option<Command> {
    demanded("go", || {
        let program = folder("go").join("tour");
        run("go build", Command::new("go").args(["build", "-o"]).arg(&program).arg(".").current_dir(source("go")))?;
        Ok(Command::new(program))
    })
}

/// Prints that a language is skipped, or panics if it must not be skipped.
fn demanded(language: &str, prepare: impl FnOnce() -> Prepared) -> Option<Command> {
    let demanded = env::var("EXAMPLES").unwrap_or_default();
    let is_demanded = demanded.split_whitespace().any(|word| word == language);
    if !demanded.is_empty() && !is_demanded {
        eprintln!("examples: {language} is SKIPPED, as EXAMPLES does not name it");
        return None;
    }
    match prepare() {
        Ok(command) => Some(command),
        Err(reason) => {
            assert!(!is_demanded, "{language}: {reason}");
            eprintln!("examples: {language} is SKIPPED: {reason}");
            None
        }
    }
}

fn run(what: &str, command: &mut Command) -> Result<(), String> {
    let output = command.output().map_err(|error| format!("{what}: {error}"))?;
    let error = String::from_utf8_lossy(&output.stderr);
    let last = error.trim_end().lines().next_back().unwrap_or_default();
    if output.status.success() { Ok(()) } else { Err(format!("{what} fails: {last}")) }
}

pub fn source(language: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("examples").join(language)
}

/// Returns a folder for one call, because tests of one language run in parallel.
fn folder(language: &str) -> PathBuf {
    use std::sync::atomic::{AtomicU32, Ordering};
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let test = env::current_exe().expect("the path of the tests");
    let target = test.ancestors().nth(3).expect("cargo's target folder");
    let folder = target.join("examples").join(format!("{language}-{}", COUNT.fetch_add(1, Ordering::Relaxed)));
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).expect("the target folder can be written");
    folder
}
