//! Checks that a master, its replicas, and a server that loads the master's AOF have equal data. Tests of persistence,
//! replication and clusters end with this check.
//!
//! A difference means that an effect was not replicated, or that another server applied it differently. Neither error
//! is visible in the master's data alone.
//!
//! With ZEITSET_AGREE=1 in the environment, every server of every test keeps an AOF. When the test ends, the
//! server's data is compared with this AOF. A test can switch the AOF off.

use crate::dataset::Dataset;
use crate::patience::{PATIENCE, eventually};
use crate::server::Server;
use std::time::Instant;

/// Fails if the data of the replicas, or of a server that loads the master's AOF, differ from the master's data. The
/// master must have kept an AOF from its start. Clients may be active: this function pauses their writes.
#[track_caller]
pub fn assert_agree(master: &Server, replicas: &[&Server]) {
    let mut control = master.client();
    assert_eq!(control.info("persistence")["aof_enabled"], "1", "the test asks for an AOF: Builder::keeping_aof");
    let started = Instant::now();
    loop {
        let differences = {
            // CLIENT PAUSE stops the sweeper, too.
            control.run("CLIENT PAUSE 120000 WRITE");
            replicas.iter().for_each(|replica| replica.wait_for_sync(master));
            eventually(PATIENCE, "no AOF is being rewritten", || {
                let info = control.info("persistence");
                info["aof_rewrite_in_progress"] == "0" && info["aof_rewrite_scheduled"] == "0"
            });
            let expected = Dataset::of(&mut control);
            let reborn = master.reborn();
            // The output of DUMP depends on this setting.
            let [_, compresses] = &control.strings("CONFIG GET rdbcompression")[..] else { panic!("a setting") };
            reborn.client().run(&format!("CONFIG SET rdbcompression {compresses}"));
            let mut differences = of("the AOF", &expected, &Dataset::of(&mut reborn.client()));
            for (n, replica) in replicas.iter().enumerate() {
                differences += &of(&format!("replica {n}"), &expected, &Dataset::of(&mut replica.client()));
            }
            control.run("CLIENT UNPAUSE");
            differences
        };
        if differences.is_empty() {
            return;
        }
        // Keys and members may have expired between the two reads, and the server may write its AOF a little later.
        assert!(started.elapsed() < PATIENCE, "{differences}");
    }
}

fn of(name: &str, expected: &Dataset, found: &Dataset) -> String {
    if expected == found {
        return String::new();
    }
    format!("the master and {name} differ:\n{}", expected.differences(found))
}

impl Server {
    #[track_caller]
    pub(crate) fn assert_agrees(&self) {
        assert_agree(self, &[]);
    }
}
