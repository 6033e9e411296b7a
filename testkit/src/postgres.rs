//! A PostgreSQL server for a test. The programs come from the system's packages. The data and the socket are in a
//! temporary folder.

use crate::folder::Folder;
use crate::patience::{PATIENCE, eventually};
use crate::signal::{Signal, signal};
use std::io::Write;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// The name of the database's superuser. PostgreSQL refuses to run as root. So if the test runs as root, the system
/// user of this name runs PostgreSQL. Debian's package creates this user.
const USER: &str = "postgres";

pub struct Postgres {
    folder: Folder,
    child: Child,
}

impl Postgres {
    /// Starts a server. If PostgreSQL is not installed, prints that and returns `None`.
    pub fn start() -> Option<Self> {
        let Some(programs) = programs() else {
            eprintln!("skipped: PostgreSQL is not installed (on Debian: apt-get install postgresql)");
            return None;
        };
        let folder = Folder::new();
        let data = folder.0.join("data");
        if is_root() {
            assert!(succeeds(Command::new("chown").arg(USER).arg(&folder.0)), "chown {USER}");
        }
        let mut initdb = unprivileged(&programs.join("initdb"));
        initdb.arg("-D").arg(&data).args(["-U", USER, "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync"]);
        assert!(succeeds(initdb.current_dir(&folder.0)), "initdb");
        let child = unprivileged(&programs.join("postgres"))
            .arg("-D")
            .arg(&data)
            .arg("-k")
            .arg(&folder.0)
            .args(["-c", "listen_addresses=", "-c", "fsync=off"])
            .current_dir(&folder.0)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("postgres starts");
        let postgres = Self { folder, child };
        eventually(3 * PATIENCE, "PostgreSQL serves", || {
            succeeds(postgres.with(Command::new("psql").args(["-c", ""])))
        });
        Some(postgres)
    }

    /// Sets the environment of a command that calls psql, so that it finds the server.
    pub fn with<'c>(&self, command: &'c mut Command) -> &'c mut Command {
        let quiet = ("PGOPTIONS", "--client-min-messages=warning");
        command.env("PGHOST", &self.folder.0).envs([("PGUSER", USER), ("PGDATABASE", USER), quiet])
    }

    /// Runs statements. Returns the queries' output, one line per row.
    #[track_caller]
    pub fn run(&self, sql: &str) -> String {
        let mut psql = Command::new("psql");
        psql.args(["--no-psqlrc", "--quiet", "--tuples-only", "--no-align", "--set=ON_ERROR_STOP=1"]);
        let mut child =
            self.with(&mut psql).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("psql is in PATH");
        child.stdin.take().expect("piped").write_all(sql.as_bytes()).expect("psql reads");
        let output = child.wait_with_output().expect("psql ends");
        assert!(output.status.success(), "{sql}");
        String::from_utf8(output.stdout).expect("text").trim_end().to_owned()
    }
}

impl Drop for Postgres {
    fn drop(&mut self) {
        // SIGINT is the fast shutdown, which also ends the server's child processes.
        signal(&self.child, Signal::INT);
        let _ = self.child.wait();
    }
}

/// Returns the folder of the newest installed server. `None` if no server or no psql is installed.
fn programs() -> Option<PathBuf> {
    let mut folders: Vec<_> = std::fs::read_dir("/usr/lib/postgresql")
        .ok()?
        .filter_map(|entry| Some(entry.ok()?.path().join("bin")))
        .filter(|folder| folder.join("initdb").is_file() && folder.join("postgres").is_file())
        .collect();
    folders.sort();
    succeeds(Command::new("psql").arg("--version")).then(|| folders.pop())?
}

fn is_root() -> bool {
    std::fs::metadata("/proc/self").is_ok_and(|process| process.uid() == 0)
}

fn unprivileged(program: &Path) -> Command {
    if !is_root() {
        return Command::new(program);
    }
    let mut command = Command::new("setpriv");
    command.args([&format!("--reuid={USER}"), &format!("--regid={USER}"), "--clear-groups"]).arg(program);
    command
}

fn succeeds(command: &mut Command) -> bool {
    command.stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok_and(|status| status.success())
}
