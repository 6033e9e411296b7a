//! Programs other than servers. They end no later than the test.

use crate::patience::{PATIENCE, eventually};
use std::io::Read;
use std::process::{Child, ChildStdout, Command, Stdio};

pub struct Program {
    child: Child,
    command: String,
}

impl Program {
    #[track_caller]
    pub fn start(command: &mut Command) -> Self {
        let child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn();
        let command = format!("{command:?}");
        Self { child: child.unwrap_or_else(|error| panic!("{command}: {error}")), command }
    }

    /// Runs a program, which must succeed. Returns its output, which must fit into a pipe's buffer.
    #[track_caller]
    pub fn output(command: &mut Command) -> String {
        let mut program = Self::start(command);
        let mut status = None;
        eventually(PATIENCE, &program.command, || {
            status = program.child.try_wait().expect("our own child");
            status.is_some()
        });
        let mut output = String::new();
        program.stdout().read_to_string(&mut output).expect("text");
        assert!(status.is_some_and(|status| status.success()), "{}: {status:?}\n{output}", program.command);
        output
    }

    pub fn has_ended(&mut self) -> bool {
        self.child.try_wait().expect("our own child").is_some()
    }

    /// Returns the program's output. May be called once.
    pub fn stdout(&mut self) -> ChildStdout {
        self.child.stdout.take().expect("a pipe, and not taken yet")
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
