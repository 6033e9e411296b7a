//! A redis-server of a test's own: free port, own folder.

use super::eventually;
use redis::{Connection, Value};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

pub struct Server {
    child: Child,
    folder: PathBuf,
    pub port: u16,
}

impl Server {
    pub fn start() -> Server {
        Server::configured(&["--loadmodule", &module().display().to_string()])
    }

    /// Without the commands of queues and boards.
    pub fn plain() -> Server {
        Server::configured(&["--loadmodule", &module().display().to_string(), "plain"])
    }

    pub fn without_module() -> Server {
        Server::configured(&[])
    }

    /// With these words on its command line.
    pub fn configured(words: &[&str]) -> Server {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let name = format!("zeitset-companion-{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        let folder = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&folder).expect("a temporary folder");
        // A port that was free a moment ago may be taken when the server binds it: then another one.
        for _ in 0..10 {
            let port = free_port();
            let program = std::env::var("REDIS_SERVER").unwrap_or_else(|_| "redis-server".into());
            let child = Command::new(&program)
                .args(["--port", &port.to_string(), "--bind", "127.0.0.1", "--save", "", "--logfile", "log"])
                .args(["--enable-debug-command", "local", "--dir"])
                .arg(&folder)
                .args(words)
                .stdin(Stdio::null())
                .stdout(Stdio::null())
                .spawn()
                .unwrap_or_else(|error| panic!("{program}: {error}"));
            let mut server = Server { child, folder: folder.clone(), port };
            if server.comes_up() {
                return server;
            }
            let log = std::fs::read_to_string(server.folder.join("log")).unwrap_or_default();
            assert!(log.contains("in use") || log.contains("Failed listening"), "the server does not start:\n{log}");
            std::fs::create_dir_all(&folder).expect("a temporary folder");
        }
        panic!("ten ports in a row were taken");
    }

    fn comes_up(&mut self) -> bool {
        let mut up = false;
        eventually("the server starts", || {
            let pid = self.child.id();
            up = self.try_client().is_some_and(|mut c| c.text("INFO server").contains(&format!("process_id:{pid}\r")));
            up || self.child.try_wait().expect("our own child").is_some()
        });
        up
    }

    pub fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }

    pub fn client(&self) -> Client {
        self.try_client().expect("the server accepts connections")
    }

    fn try_client(&self) -> Option<Client> {
        let client = redis::Client::open(self.url()).expect("a URL");
        Some(Client(client.get_connection().ok()?))
    }

    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Ends the server, as a crash would.
    pub fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.kill();
        if std::thread::panicking() {
            eprintln!("{}", std::fs::read_to_string(self.folder.join("log")).unwrap_or_default());
        }
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

/// A connection on which tests write commands as lines.
pub struct Client(pub Connection);

impl Client {
    /// Runs a command whose words hold no blanks.
    #[track_caller]
    pub fn run(&mut self, line: &str) -> Value {
        let words: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
        self.call(&words)
    }

    #[track_caller]
    pub fn call(&mut self, words: &[&[u8]]) -> Value {
        let mut cmd = redis::Cmd::new();
        for word in words {
            cmd.arg(word);
        }
        cmd.query(&mut self.0)
            .unwrap_or_else(|error| panic!("{}: {error}", String::from_utf8_lossy(&words.join(&b' '))))
    }

    #[track_caller]
    pub fn int(&mut self, line: &str) -> i64 {
        redis::from_redis_value(self.run(line)).expect("a number")
    }

    #[track_caller]
    pub fn text(&mut self, line: &str) -> String {
        redis::from_redis_value(self.run(line)).expect("a text")
    }

    /// A field of ZQ.STATS or of another map of numbers.
    #[track_caller]
    pub fn field(&mut self, line: &str, name: &str) -> i64 {
        let Value::Array(values) = self.run(line) else { panic!("{line}: no map") };
        let pair = values.chunks(2).find(|pair| matches!(&pair[0], Value::BulkString(b) if b == name.as_bytes()));
        match pair.map(|pair| &pair[1]) {
            Some(Value::Int(number)) => *number,
            other => panic!("{name} of {line}: {other:?}"),
        }
    }

    /// The same of a text.
    #[track_caller]
    pub fn text_field(&mut self, line: &str, name: &str) -> String {
        let fields: std::collections::BTreeMap<String, Value> = redis::from_redis_value(self.run(line)).expect("a map");
        redis::from_redis_value(fields[name].clone()).expect("a text")
    }

    /// Claims one job: its token.
    #[track_caller]
    pub fn claim(&mut self, line: &str) -> i64 {
        let Value::Array(jobs) = self.run(line) else { panic!("{line}: no array") };
        match jobs.first() {
            // key, id, token, attempt, deadline, payload
            Some(Value::Array(job)) => redis::from_redis_value(job[2].clone()).expect("a token"),
            _ => panic!("{line}: nothing to claim"),
        }
    }
}

pub fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr()).expect("a free port").port()
}

/// The module: $ZEITSET_MODULE, or the library in target/<profile>, brought up to date first.
fn module() -> &'static Path {
    static MODULE: OnceLock<PathBuf> = OnceLock::new();
    MODULE.get_or_init(|| {
        if let Some(path) = std::env::var_os("ZEITSET_MODULE") {
            return std::fs::canonicalize(path).expect("ZEITSET_MODULE names a file");
        }
        // target/<profile>/zeitset
        let folder = Path::new(env!("CARGO_BIN_EXE_zeitset")).parent().expect("cargo's folder");
        if let Some(cargo) = std::env::var_os("CARGO") {
            let profile = match folder.file_name().and_then(|name| name.to_str()) {
                Some("debug") | None => "dev",
                Some(name) => name,
            };
            let status = Command::new(cargo)
                .args(["build", "--quiet", "--locked", "--package", "zeitset", "--lib", "--profile", profile])
                .arg("--target-dir")
                .arg(folder.parent().expect("cargo's target folder"))
                .current_dir(Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the workspace"))
                .status();
            assert!(status.is_ok_and(|status| status.success()), "cargo build");
        }
        folder.join("libzeitset").with_extension(std::env::consts::DLL_EXTENSION)
    })
}
