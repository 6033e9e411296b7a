//! A redis-server for a test, with a free port, its own folder, and a check for crashes at the end.

use crate::built::{module, neighbour};
use crate::client::Client;
use crate::clock::Clock;
use crate::folder::Folder;
use crate::patience::{PATIENCE, eventually};
use std::fmt::Write as _;
use std::fs;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;

/// Texts that a log must not contain when a test ends.
const CRASHES: [&str; 6] =
    ["REDIS BUG REPORT", "VALKEY BUG REPORT", "ASSERTION FAILED", "crashed by signal", "panicked at", "== CRITICAL =="];

pub struct Builder {
    module: bool,
    /// A build of the module other than the one under test.
    build: Option<&'static Path>,
    arguments: &'static str,
    panics: bool,
    cluster: bool,
    neighbour: bool,
    clock: Option<Clock>,
    fills_up: bool,
    config: String,
}

impl Builder {
    /// Starts the server without the module.
    pub fn plain(mut self) -> Self {
        self.module = false;
        self
    }

    /// Loads this build of the module instead of the module under test.
    pub fn build(mut self, module: &'static Path) -> Self {
        self.build = Some(module);
        self
    }

    pub fn arguments(mut self, words: &'static str) -> Self {
        self.arguments = words;
        self
    }

    /// Lets the test pass even if the log has panics or the server has exited.
    pub fn panicking(mut self) -> Self {
        self.panics = true;
        self
    }

    pub fn cluster(mut self) -> Self {
        self.cluster = true;
        self.config("cluster-enabled yes")
    }

    /// Loads a second module, which runs random commands during keyspace events (tests/torture/neighbour/module.rs).
    pub fn neighbour(mut self) -> Self {
        self.neighbour = true;
        self
    }

    pub fn clock(mut self, clock: &Clock) -> Self {
        self.clock = Some(clock.clone());
        self
    }

    /// Allows the test to call [`Server::fill_disk`].
    pub fn on_a_disk_that_fills_up(mut self) -> Self {
        self.fills_up = true;
        self
    }

    /// Keeps an AOF from the start, for [`crate::assert_agree`].
    pub fn keeping_aof(self) -> Self {
        self.config("appendonly yes\nauto-aof-rewrite-percentage 0")
    }

    /// Switches the AOF off, even if ZEITSET_AGREE is set. At a restart, a server with an AOF would load the AOF
    /// instead of the snapshot.
    pub fn without_aof(self) -> Self {
        self.config("appendonly no")
    }

    pub fn config(mut self, line: &str) -> Self {
        self.config.push_str(line);
        self.config.push('\n');
        self
    }

    /// Starts a replica. Returns when it is in sync.
    pub fn replica_of(self, master: &Server) -> Server {
        let replica = self.config(&format!("replicaof 127.0.0.1 {}", master.port)).start();
        replica.wait_for_sync(master);
        replica
    }

    pub fn start(self) -> Server {
        let mut server = Server { folder: Folder::new(), builder: self, port: 0, bus_port: 0, child: None };
        server.launch();
        server
    }

    /// Starts a server that must exit with status 1 before it serves clients. Returns its log.
    #[track_caller]
    pub fn start_and_fail(self) -> String {
        let mut server = Server { folder: Folder::new(), builder: self, port: 0, bus_port: 0, child: None };
        server.spawn();
        assert!(!server.comes_up(), "the server starts");
        let status = server.child.take().expect("just started").wait().expect("our own child");
        let log = server.log();
        assert_eq!(status.code(), Some(1), "{}", tail(&log));
        log
    }
}

pub struct Server {
    folder: Folder,
    builder: Builder,
    port: u16,
    bus_port: u16,
    child: Option<Child>,
}

impl Server {
    pub fn builder() -> Builder {
        Builder {
            module: true,
            build: None,
            arguments: "",
            panics: false,
            cluster: false,
            neighbour: false,
            clock: None,
            fills_up: false,
            config: String::new(),
        }
    }

    pub fn start() -> Self {
        Self::builder().start()
    }

    /// Starts a server that loads a copy of this server's AOF. It is a replica without a master, so it changes nothing
    /// by itself. If this server is a node of a cluster, the new server forms a cluster of its own, without a sweeper.
    pub fn reborn(&self) -> Server {
        let stays = |line: &&str| !line.starts_with("replicaof") && !line.starts_with("cluster-");
        let mut config: String = self.builder.config.lines().filter(stays).flat_map(|line| [line, "\n"]).collect();
        config.push_str("appendonly yes\n");
        config.push_str(match self.builder.cluster {
            // The node knows no other node, and takes over the slots of its keys.
            true => "cluster-enabled yes\ncluster-require-full-coverage no\ncluster-allow-reads-when-down yes\n",
            false => "replicaof 127.0.0.1 1\n",
        });
        if self.builder.module {
            config.push_str("zeitset.sweep no\n");
        }
        let folder = Folder::new();
        let (from, to) = (self.folder.0.join("appendonlydir"), folder.0.join("appendonlydir"));
        fs::create_dir(&to).expect("a folder for the AOF");
        for file in fs::read_dir(from).expect("the server keeps an AOF").map(|file| file.expect("a file")) {
            fs::copy(file.path(), to.join(file.file_name())).expect("the file can be copied");
        }
        let builder = Builder { config, clock: self.builder.clock.clone(), ..self.builder };
        // Marks the new server, so that it is not compared with its own AOF at its end.
        fs::write(folder.0.join("reborn"), "").expect("the folder can be written");
        let mut server = Server { folder, builder, port: 0, bus_port: 0, child: None };
        server.launch();
        server
    }

    /// Loads the module under test from the next start on ([`Builder::build`]).
    pub fn upgrade_module(&mut self) {
        self.builder.build = None;
    }

    pub fn remove_module(&mut self) {
        self.builder.module = false;
    }

    /// Changes the configuration for the next start. `edit` gets the lines that the test has added.
    pub fn edit_config(&mut self, edit: impl FnOnce(&str) -> String) {
        self.builder.config = edit(&self.builder.config);
    }

    pub fn address(&self) -> (&'static str, u16) {
        ("127.0.0.1", self.port)
    }

    pub fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }

    pub fn folder(&self) -> &Path {
        &self.folder.0
    }

    pub fn bus_port(&self) -> u16 {
        self.bus_port
    }

    pub fn client(&self) -> Client {
        self.connect().expect("the server accepts connections")
    }

    pub fn resp3(&self) -> Client {
        let mut client = self.client();
        client.run("HELLO 3");
        client
    }

    /// Opens a client. Returns `None` if the server refuses or closes the connection.
    pub fn try_client(&self) -> Option<Client> {
        self.connect().ok()
    }

    fn connect(&self) -> redis::RedisResult<Client> {
        Client::connect(self.port)
    }

    pub fn log(&self) -> String {
        let log = fs::read(self.folder.0.join("log")).unwrap_or_default();
        String::from_utf8_lossy(&log).into_owned()
    }

    /// Shuts the server down normally and starts it again. The shutdown saves the data as configured.
    pub fn restart(&mut self) {
        // The server closes the connection without a reply.
        let _ = self.client().try_run("SHUTDOWN");
        let mut child = self.child.take().expect("the server runs");
        child.wait().expect("the server ends");
        self.launch();
    }

    pub fn crash_and_restart(&mut self) {
        self.kill();
        self.launch();
    }

    /// Waits until this replica has everything that `master` has replicated so far. Clients may be active.
    #[track_caller]
    pub fn wait_for_sync(&self, master: &Server) {
        let mut ours = self.client();
        let sent = master.client().info_number("replication", "master_repl_offset");
        eventually(PATIENCE, "the replica is in sync", || {
            let info = ours.info("replication");
            info.get("master_link_status").map(String::as_str) == Some("up")
                && info["slave_repl_offset"].parse().is_ok_and(|received: i64| received >= sent)
        });
    }

    /// Makes this server a replica of `master`. Returns when it is in sync.
    pub fn follow(&self, master: &Server) {
        self.client().run(&format!("REPLICAOF 127.0.0.1 {}", master.port));
        self.wait_for_sync(master);
    }

    fn launch(&mut self) {
        // Another program may take the free port before the server binds it. If so, this loop tries another port.
        for _ in 0..10 {
            self.spawn();
            if self.comes_up() {
                return;
            }
            let log = self.log();
            self.kill();
            assert!(
                log.contains("Address already in use") || log.contains("Failed listening"),
                "the server does not start:\n{}",
                tail(&log)
            );
        }
        panic!("ten ports in a row were taken");
    }

    fn spawn(&mut self) {
        (self.port, self.bus_port) = free_ports();
        let conf = self.folder.0.join("redis.conf");
        fs::write(&conf, self.configuration()).expect("the folder can be written");
        let mut command = if self.builder.fills_up {
            // A write beyond the limit sends SIGXFSZ. The server ignores this signal, so the write fails.
            let mut shell = Command::new("sh");
            shell.args(["-c", "trap '' XFSZ; exec \"$0\" \"$@\""]).arg(program());
            shell
        } else {
            Command::new(program())
        };
        if let Some(clock) = &self.builder.clock {
            clock.applies_to(&mut command);
        }
        let child = command
            .arg(&conf)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap_or_else(|error| panic!("{}: {error}", program().display()));
        self.child = Some(child);
    }

    fn configuration(&self) -> String {
        let mut conf = format!(
            "port {port}\nbind 127.0.0.1\ndir \"{dir}\"\nlogfile log\nsave \"\"\n\
             enable-debug-command local\nrepl-diskless-sync-delay 0\n",
            port = self.port,
            dir = self.folder.0.display(),
        );
        // A PING to replicas would change the replication offset in tests that compare it. A SHUTDOWN would wait for
        // replicas that read the stream only on request.
        conf.push_str("repl-ping-replica-period 3600\nshutdown-timeout 0\n");
        if self.builder.module {
            let path = self.builder.build.unwrap_or_else(module);
            let _ = writeln!(conf, "loadmodule \"{}\" {}", path.display(), self.builder.arguments);
        }
        if self.builder.neighbour {
            let _ = writeln!(conf, "loadmodule \"{}\"", neighbour().display());
        }
        if self.builder.cluster {
            let _ = writeln!(conf, "cluster-port {}", self.bus_port);
        }
        // With the default `everysec`, a slow disk delays writes, and a kill loses them. The tests do not need fsync,
        // because no test cuts the power.
        conf.push_str("appendfsync no\n");
        if agrees_always() {
            conf.push_str("appendonly yes\n");
        }
        conf.push_str(&self.builder.config);
        conf
    }

    /// Waits until the server serves clients. Returns `false` if the server has exited.
    fn comes_up(&mut self) -> bool {
        let mut up = false;
        eventually(PATIENCE, "the server starts", || {
            let child = self.child.as_mut().expect("just started");
            let pid = child.id();
            if child.try_wait().expect("our own child").is_some() {
                return true;
            }
            // Another server may have taken the port first. The process ID shows that this server is the one just
            // started.
            up = self.connect().is_ok_and(|mut client| {
                client.reply("PING") == "+PONG" && client.info("server")["process_id"] == pid.to_string()
            });
            up
        });
        up
    }

    /// Shuts the server down normally, so that Valgrind writes its report (scripts/valgrind.sh).
    fn shut_down(&mut self) {
        if let Ok(mut client) = self.connect() {
            let _ = client.try_run("SHUTDOWN NOSAVE");
            let _ = self.child.as_mut().map(Child::wait);
        }
    }

    /// Compares the server with its AOF, if the server is a master that keeps one.
    fn assert_agrees_with_its_aof(&self) {
        let Ok(mut client) = self.connect() else { return };
        let is_kept = client.try_run("INFO persistence").is_ok() && client.info("persistence")["aof_enabled"] == "1";
        let is_master = is_kept && client.info("replication")["role"] == "master";
        if is_master && !self.folder.0.join("reborn").exists() {
            self.assert_agrees();
        }
    }

    /// Limits the size of the server's files, as on a full disk. `None` removes the limit. Returns `false` if the
    /// system has no `prlimit`.
    pub fn fill_disk(&self, bytes: Option<u64>) -> bool {
        let pid = self.child.as_ref().expect("the server runs").id();
        let limit = bytes.map_or("unlimited".into(), |bytes| bytes.to_string());
        // This is the soft limit, which any user can raise again.
        Command::new("prlimit")
            .args(["--pid", &pid.to_string(), &format!("--fsize={limit}:")])
            .status()
            .is_ok_and(|s| s.success())
    }

    pub fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

impl Drop for Server {
    /// Ends the server. Fails the test if the server has crashed.
    fn drop(&mut self) {
        let ended = match &mut self.child {
            Some(child) => child.try_wait().expect("our own child"),
            None => None,
        };
        if agrees_always() && ended.is_none() && !std::thread::panicking() {
            self.assert_agrees_with_its_aof();
        }
        if std::env::var_os("ZEITSET_SHUTDOWN").is_some() && ended.is_none() {
            self.shut_down();
        }
        self.kill();
        let log = self.log();
        if std::thread::panicking() {
            eprintln!("--- server log ---\n{}", tail(&log));
            return;
        }
        if self.builder.panics {
            return;
        }
        assert!(ended.is_none(), "the server has ended by itself ({ended:?}):\n{}", tail(&log));
        // Valkey 9 logs this command when it loads the AOF of a node whose slots it does not own. The line contains `==
        // CRITICAL ==`.
        let log: String =
            log.lines().filter(|line| !line.ends_with("'cluster|syncslots'")).map(|l| format!("{l}\n")).collect();
        for crash in CRASHES {
            assert!(!log.contains(crash), "{crash} in the log:\n{}", tail(&log));
        }
    }
}

/// Whether every server is compared with its AOF (ZEITSET_AGREE=1).
fn agrees_always() -> bool {
    std::env::var_os("ZEITSET_AGREE").is_some()
}

pub fn free_port() -> u16 {
    free_ports().0
}

fn free_ports() -> (u16, u16) {
    // Both listeners are open at once, so that their ports differ.
    let listeners = [(); 2].map(|()| TcpListener::bind("127.0.0.1:0").expect("a free port"));
    let [one, other] = listeners.map(|listener| listener.local_addr().expect("bound").port());
    (one, other)
}

fn tail(log: &str) -> String {
    let lines: Vec<_> = log.lines().collect();
    lines[lines.len().saturating_sub(60)..].join("\n")
}

fn program() -> &'static Path {
    static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
    PROGRAM.get_or_init(|| {
        if let Some(path) = std::env::var_os("REDIS_SERVER") {
            return path.into();
        }
        let path = std::env::var_os("PATH").unwrap_or_default();
        ["redis-server", "valkey-server"]
            .iter()
            .flat_map(|name| std::env::split_paths(&path).map(move |folder| folder.join(name)))
            .find(|program| program.is_file())
            .expect("redis-server is not in PATH (`make test` sees to that, or set REDIS_SERVER)")
    })
}

/// Starts a server with the module and opens a client. Most tests begin with this.
pub fn start() -> (Server, Client) {
    let server = Server::start();
    let client = server.client();
    (server, client)
}

/// Starts a server with the module and an AOF, and opens a client. `assert_agree` requires the AOF.
pub fn start_keeping_aof() -> (Server, Client) {
    let server = Server::builder().keeping_aof().start();
    let client = server.client();
    (server, client)
}

/// Starts a server with the module, a clock of its own and more lines of configuration, and opens a client.
pub fn start_with_clock(config: &str) -> (Clock, Server, Client) {
    let clock = Clock::new();
    let server = Server::builder().clock(&clock).config(config).start();
    let client = server.client();
    (clock, server, client)
}

/// Starts a master and its replica, both with the module and an AOF, and opens a client of the master.
pub fn start_pair() -> (Server, Server, Client) {
    let (server, client) = start_keeping_aof();
    let replica = Server::builder().keeping_aof().replica_of(&server);
    (server, replica, client)
}
