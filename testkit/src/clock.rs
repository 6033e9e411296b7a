//! A clock of the tests' own: servers started with it read a wall clock and a monotonic clock that the test moves.
//!
//! A small library (`clock.c`), which is compiled once per run and loaded into the server ahead of libc, adds to what the
//! system's clocks say. Only Linux is supported.
//!
//! Time jumps, it does not run faster: whatever the server does once a second it does once, however far a jump goes. A
//! test that wants an hour of the server's own work lets it pass in steps (`pass`).

use crate::built::profile_folder;
use crate::client::Client;
use crate::folder::Folder;
use crate::patience::{PATIENCE, eventually};
use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::process::Command;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

/// How far the clocks of some servers are ahead of the system's. All clones move the same clock, and a server that is
/// started again still has it.
#[derive(Clone)]
pub struct Clock(Arc<Shared>);

struct Shared {
    folder: Folder,
    file: File,
    state: Mutex<State>,
}

/// In nanoseconds.
#[derive(Clone, Copy, Default)]
struct State {
    current: u8,
    wall: i64,
    monotonic: i64,
}

/// Where the two entries of the file begin, and how long they are; the first byte says which of them counts.
const ENTRIES: u64 = 16;
/// Where the number of turns stands, which `clock.c` counts.
const TURNS: u64 = 8;
const ENTRY: u64 = 16;

impl Clock {
    /// Clocks that are right, to begin with.
    #[allow(clippy::new_without_default, reason = "it makes a file, which nobody expects of a default")]
    pub fn new() -> Self {
        let folder = Folder::new();
        let path = folder.0.join("clock");
        let file = OpenOptions::new().read(true).write(true).create_new(true).open(path).expect("a new file");
        file.write_all_at(&[0; (ENTRIES + 2 * ENTRY) as usize], 0).expect("the file can be written");
        Self(Arc::new(Shared { folder, file, state: Mutex::default() }))
    }

    /// Both clocks: so much time passes at once, as in a process that was stopped meanwhile.
    pub fn advance(&self, time: Duration) {
        let time = nanoseconds(time);
        self.change(|state| {
            state.wall += time;
            state.monotonic += time;
        });
    }

    /// Lets time pass in steps, after each of which `client`'s server has run its event loop, its cron among it.
    pub fn pass(&self, time: Duration, step: Duration, client: &mut Client) {
        let mut left = time;
        while !left.is_zero() {
            let now = step.min(left);
            self.advance(now);
            client.wait_for_cron();
            left -= now;
        }
    }

    /// The wall clock alone is set forward or, with a negative number, back.
    pub fn step_wall(&self, ms: i64) {
        self.change(|state| state.wall += ms * 1_000_000);
    }

    /// How far the wall clock is ahead, in ms.
    pub fn wall_ahead(&self) -> i64 {
        self.state().wall / 1_000_000
    }

    /// How often the servers that have this clock have gone through their event loops. An idle one does so a few times for each
    /// run of its cron, one that spins hundreds of thousands of times a second.
    pub fn turns(&self) -> u64 {
        let mut number = [0; 8];
        self.0.file.read_exact_at(&mut number, TURNS).expect("the file can be read");
        u64::from_ne_bytes(number)
    }

    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn change(&self, change: impl FnOnce(&mut State)) {
        let mut state = self.state();
        change(&mut state);
        // The entry that does not count is written, and then made to count.
        state.current ^= 1;
        let entry = [state.wall.to_ne_bytes(), state.monotonic.to_ne_bytes()].concat();
        let file = &self.0.file;
        file.write_all_at(&entry, ENTRIES + ENTRY * u64::from(state.current)).expect("the file can be written");
        file.write_all_at(&[state.current], 0).expect("the file can be written");
    }

    /// Has a program that is to be started read this clock.
    pub fn applies_to(&self, command: &mut Command) {
        command.env("LD_PRELOAD", library()).env("ZEITSET_CLOCK", self.0.folder.0.join("clock"));
    }
}

fn nanoseconds(time: Duration) -> i64 {
    time.as_nanos().try_into().expect("less than 292 years")
}

/// `clock.c`, compiled.
fn library() -> &'static PathBuf {
    static LIBRARY: OnceLock<PathBuf> = OnceLock::new();
    LIBRARY.get_or_init(|| {
        if !cfg!(target_os = "linux") {
            panic!("tests that move the clock need Linux");
        }
        let source = concat!(env!("CARGO_MANIFEST_DIR"), "/src/clock.c");
        let library = profile_folder().join("libzeitset_clock.so");
        // Another run of the tests may be loading the library: it keeps the file that it has opened.
        let new = library.with_extension(std::process::id().to_string());
        let compiled = Command::new(std::env::var_os("CC").unwrap_or_else(|| "cc".into()))
            .args(["-shared", "-fPIC", "-O2", "-Wall", "-o"])
            .arg(&new)
            .args([source, "-ldl"])
            .status();
        assert!(compiled.is_ok_and(|status| status.success()), "cc compiles {source}");
        fs::rename(&new, &library).expect("the target folder can be written");
        library
    })
}

impl Client {
    /// Returns when the server's cron, which runs `hz` times a second, has seen the time that the wall clock shows now (to
    /// the second).
    pub fn wait_for_cron(&mut self) {
        // The server's clock for LRU: seconds of the wall clock, as its cron has last read it.
        const LRU_BITS: u32 = 24;
        eventually(PATIENCE, "the server's cron runs", || {
            let seen = self.info_number("server", "lru_clock");
            seen == self.now() / 1000 % (1 << LRU_BITS)
        });
    }
}
