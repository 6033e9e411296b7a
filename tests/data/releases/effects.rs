//! The bytes of the effects of queues and boards. A server replays what a release has written into its AOF. It writes
//! the same effects in today's form.

use super::{commands, hex, making, read};
use std::path::Path;
use testkit::{Clock, Server, redis};

/// A day in 2001, before all times in the files: nothing ends while the server replays them.
const EARLY: i64 = 1_000_000_000_000;

/// Returns the number of the format, and a line for each effect: command, key and argument.
pub fn effects(release: &Path) -> (u8, String) {
    let clock = Clock::new();
    let server = Server::builder().keeping_aof().clock(&clock).config("aof-use-rdb-preamble no").start();
    let mut c = server.client();
    clock.step_wall(EARLY - c.now());
    let mut replay = redis::pipe();
    replay.atomic();
    for command in ["base.aof", "tail.aof"].iter().flat_map(|file| commands(&read(&release.join(file)))) {
        if is_of_queue_or_board(&command) {
            command.iter().fold(replay.add_command(redis::Cmd::new()), |replay, word| replay.arg(word));
        }
    }
    // The pause keeps the upkeep from writing effects of its own.
    replay.cmd("CLIENT").arg("PAUSE").arg(1_000_000).arg("WRITE");
    c.pipe(&replay);
    let mut written = commands(&read(&making::aof(&server, 'i')));
    c.rewrite_aof();
    // The server rewrites its keys in any order.
    let mut rewritten = commands(&read(&making::aof(&server, 'b')));
    rewritten.sort_by(|one, other| one.get(1).cmp(&other.get(1)));
    written.append(&mut rewritten);
    written.retain(|command| is_of_queue_or_board(command));
    let format = written.iter().find(|command| command[0] == b"ZQ.APPLY").expect("effects")[2][0];
    let line = |command: &Vec<Vec<u8>>| {
        let words: Vec<_> = command[2..].iter().map(|word| hex(word)).collect();
        format!("{} {} {}\n", text(&command[0]), text(&command[1]), words.join(" "))
    };
    (format, written.iter().map(line).collect())
}

fn is_of_queue_or_board(command: &[Vec<u8>]) -> bool {
    command[0].starts_with(b"ZQ.") || command[0].starts_with(b"ZLB.")
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).expect("text")
}
