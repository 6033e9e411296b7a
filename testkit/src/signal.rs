//! Signals to other processes, without the program `kill`, which is missing on small systems.

use rustix::process::{Pid, kill_process, kill_process_group};
use std::process::Child;

pub use rustix::process::Signal;

/// Sends a signal to a child process.
#[track_caller]
pub fn signal(child: &Child, signal: Signal) {
    kill_process(Pid::from_child(child), signal).expect("the child has not been waited for");
}

/// Sends a signal to a process that this test has started, by its ID.
#[track_caller]
pub fn signal_pid(pid: i32, signal: Signal) {
    kill_process(Pid::from_raw(pid).expect("a process ID"), signal).expect("the process runs");
}

/// Sends a signal to the process group of a child, as a terminal does for Ctrl-C. The child must lead the group.
#[track_caller]
pub fn signal_group(child: &Child, signal: Signal) {
    kill_process_group(Pid::from_child(child), signal).expect("the child has not been waited for");
}
