//! Clocks that tests control. A server started with a [`Clock`] reads a wall clock and a monotonic clock that the test
//! moves.
//!
//! A small library (`clock.c`) adds offsets to the system's clocks. The library is compiled once per run and preloaded
//! before libc. Only Linux is supported.
//!
//! Time jumps instead of running faster. However far a jump goes, a periodic task of the server runs only once. A test
//! that needs an hour of the server's own work lets the hour pass in steps (`pass`).

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

/// A wall clock and a monotonic clock for the servers that are started with this value or a clone of it. A restarted
/// server keeps its clock.
#[derive(Clone)]
pub struct Clock(Arc<Shared>);

struct Shared {
    folder: Folder,
    file: File,
    state: Mutex<State>,
}

/// The content of the file that `clock.c` reads. The offsets are in nanoseconds.
#[derive(Clone, Copy, Default)]
struct State {
    current: u8,
    wall: i64,
    monotonic: i64,
}

/// Where the two entries with the clocks' offsets begin. The first byte of the file selects the valid entry.
const ENTRIES: u64 = 16;
/// The position in the file at which `clock.c` counts the iterations of the server's event loop.
const TURNS: u64 = 8;
const ENTRY: u64 = 16;

impl Clock {
    #[allow(clippy::new_without_default, reason = "it makes a file, which nobody expects of a default")]
    pub fn new() -> Self {
        let folder = Folder::new();
        let path = folder.0.join("clock");
        let file = OpenOptions::new().read(true).write(true).create_new(true).open(path).expect("a new file");
        file.write_all_at(&[0; (ENTRIES + 2 * ENTRY) as usize], 0).expect("the file can be written");
        Self(Arc::new(Shared { folder, file, state: Mutex::default() }))
    }

    /// Advances the wall clock and the monotonic clock by the same time, as if the server's process had been stopped.
    pub fn advance(&self, time: Duration) {
        let time = nanoseconds(time);
        self.change(|state| {
            state.wall += time;
            state.monotonic += time;
        });
    }

    /// Lets time pass in steps. After each step, `client`'s server runs its event loop and its cron.
    pub fn pass(&self, time: Duration, step: Duration, client: &mut Client) {
        let mut left = time;
        while !left.is_zero() {
            let now = step.min(left);
            self.advance(now);
            client.wait_for_cron();
            left -= now;
        }
    }

    /// Moves only the wall clock forward or, with a negative number, back.
    pub fn step_wall(&self, ms: i64) {
        self.change(|state| state.wall += ms * 1_000_000);
    }

    /// Returns how far this wall clock is ahead of the system's wall clock, in ms.
    pub fn wall_ahead(&self) -> i64 {
        self.state().wall / 1_000_000
    }

    /// Returns the number of event loop iterations of the servers with this clock. An idle server makes a few
    /// iterations per run of its cron. A busy loop makes hundreds of thousands per second.
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
        // Writes the entry that is not selected, and then selects it.
        state.current ^= 1;
        let entry = [state.wall.to_ne_bytes(), state.monotonic.to_ne_bytes()].concat();
        let file = &self.0.file;
        file.write_all_at(&entry, ENTRIES + ENTRY * u64::from(state.current)).expect("the file can be written");
        file.write_all_at(&[state.current], 0).expect("the file can be written");
    }

    /// Sets the environment of a program so that it uses this clock when it starts.
    pub fn applies_to(&self, command: &mut Command) {
        command.env("LD_PRELOAD", library()).env("ZEITSET_CLOCK", self.0.folder.0.join("clock"));
    }
}

fn nanoseconds(time: Duration) -> i64 {
    time.as_nanos().try_into().expect("less than 292 years")
}

fn library() -> &'static PathBuf {
    static LIBRARY: OnceLock<PathBuf> = OnceLock::new();
    LIBRARY.get_or_init(|| {
        if !cfg!(target_os = "linux") {
            panic!("tests that move the clock need Linux");
        }
        let source = concat!(env!("CARGO_MANIFEST_DIR"), "/src/clock.c");
        let library = profile_folder().join("libzeitset_clock.so");
        // Another run of the tests may have loaded the old library. Renaming the new file over the old file does not
        // disturb that run.
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
    /// Waits until the server's cron has run in the current second of the wall clock.
    pub fn wait_for_cron(&mut self) {
        // The server's LRU clock: the seconds of the wall clock at the last run of its cron.
        const LRU_BITS: u32 = 24;
        eventually(PATIENCE, "the server's cron runs", || {
            let seen = self.info_number("server", "lru_clock");
            seen == self.now() / 1000 % (1 << LRU_BITS)
        });
    }
}
