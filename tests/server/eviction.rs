//! The warning that the server may evict queues and boards.

use testkit::{PATIENCE, Server, eventually};

fn warnings(server: &Server) -> usize {
    server.log().matches("the server may evict whole queues and leaderboards").count()
}

#[test]
fn the_first_queue_or_board_under_an_allkeys_policy_is_warned_of_once() {
    for (create, other) in [("ZQ.PUSH a x", "ZLB.CREATE b DIM points"), ("ZLB.CREATE a DIM points", "ZQ.PUSH b x")] {
        let mut server = Server::builder().config("maxmemory-policy allkeys-lru").start();
        let mut c = server.client();
        c.script(&[("SET plain 1", "+OK"), ("ZRL.CHECK limit 5 1m COST 0", "[1 5 5 0 0 0]")]);
        assert_eq!(warnings(&server), 0, "no queue, no board");
        c.run(create);
        eventually(PATIENCE, "the warning", || warnings(&server) == 1);
        c.run(other);
        // The next job of a waiting client needs several runs of the cron.
        c.run("ZQ.PUSH soon x DELAY 1s");
        c.run("ZQ.CLAIM 1 soon LEASE 1s BLOCK 0");
        assert_eq!(warnings(&server), 1);
        c.run("SAVE");
        server.restart();
        eventually(PATIENCE, "the warning after a restart", || warnings(&server) >= 1);
    }
}

#[test]
fn no_other_policy_is_warned_of() {
    let server = Server::builder().config("maxmemory-policy volatile-lru").start();
    let mut c = server.client();
    c.run("ZQ.PUSH soon x DELAY 1s");
    c.run("ZQ.CLAIM 1 soon LEASE 1s BLOCK 0");
    assert_eq!(warnings(&server), 0);
}
