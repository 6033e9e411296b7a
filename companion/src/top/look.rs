//! The data that the terminal view shows: samples of the server, the keys with the most denials, and the slow log.

use crate::server::{Denied, Server, Slow, reply};
use crate::watch::Watch;
use redis::{RedisResult, pipe};
use std::collections::BTreeMap;
use zeitset_client::zrl;

#[derive(Clone, Default)]
pub struct Look {
    pub watch: Watch,
    pub denied: Vec<Denied>,
    pub slow: Vec<Slow>,
    /// The number of calls of each command of the module, as of the previous sample.
    calls: BTreeMap<String, u64>,
}

impl Look {
    pub async fn again(&mut self, server: &Server) -> RedisResult<()> {
        let info = &self.watch.now.info;
        self.calls = info.commands().iter().map(|command| (command.name.to_owned(), command.calls)).collect();
        self.watch.look(server).await?;
        let mut pipe = pipe();
        pipe.add_command(zrl::top().count(50).into());
        pipe.cmd("SLOWLOG").arg("GET").arg(64);
        let mut replies = server.ask(pipe).await?.into_iter();
        // If the user may not call one of these commands, the table of that command is empty.
        self.denied = reply::read(replies.next().expect("ZRL.TOP")).unwrap_or_default();
        self.slow = replies.next().expect("SLOWLOG").as_ref().map(Slow::read).unwrap_or_default();
        Ok(())
    }

    /// Returns a command's calls per second since the previous sample, or `None` if there is no previous sample.
    pub fn calls_per_second(&self, command: &str, calls: u64) -> Option<f64> {
        let before = self.watch.before.as_ref()?;
        let span = self.watch.now.at_us.checked_sub(before.at_us).filter(|span| *span > 0)?;
        let grown = calls.saturating_sub(self.calls.get(command).copied().unwrap_or_default());
        Some(grown as f64 * 1e6 / span as f64)
    }
}
