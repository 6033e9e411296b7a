//! Waiting claims: what wakes the clients, in which order, and how the waiting ends.

use std::thread::{self, JoinHandle};
use testkit::{Client, PATIENCE, Server, assert_agree, eventually, start, start_keeping_aof};

/// A client in a thread of its own. It runs one command, which may block.
pub(super) struct Waiter(JoinHandle<String>);

impl Waiter {
    /// Starts the client. Returns when the client is blocked or, on a slow machine, already served.
    #[track_caller]
    pub(super) fn start(server: &Server, line: &str) -> Waiter {
        Waiter::start_in(server, 0, line)
    }

    #[track_caller]
    fn start_in(server: &Server, database: u32, line: &str) -> Waiter {
        let (mut client, mut control) = (server.client(), server.client());
        client.run(&format!("SELECT {database}"));
        let id = client.int("CLIENT ID");
        let line = line.to_owned();
        let waiter = Waiter(thread::spawn(move || client.reply(&line)));
        eventually(PATIENCE, "the client waits", || has_run_another(&mut control, id));
        waiter
    }

    pub(super) fn is_done(&self) -> bool {
        self.0.is_finished()
    }

    /// Returns the reply.
    #[track_caller]
    pub(super) fn end(self) -> String {
        eventually(PATIENCE, "the client is served", || self.is_done());
        self.0.join().expect("the client's thread ends well")
    }

    /// Returns the ID of the only job in the reply.
    #[track_caller]
    pub(super) fn id(self) -> String {
        let reply = self.end();
        let words: Vec<_> = reply.split(' ').collect();
        assert!(reply.starts_with("[[") && words.len() == 6, "not one job: {reply}");
        words[1].trim_matches('\'').to_owned()
    }
}

/// Whether the server has run a command of this client after CLIENT ID. Then the client is blocked or served.
pub(super) fn has_run_another(c: &mut Client, id: i64) -> bool {
    !c.string(&format!("CLIENT LIST ID {id}")).contains(" cmd=client|id ")
}

pub(super) fn blocked(c: &mut Client) -> i64 {
    c.info_number("clients", "blocked_clients")
}

pub(super) const WAIT: &str = "ZQ.CLAIM 1 q LEASE 1m BLOCK 0";

#[test]
fn pushes_serve_the_client_that_came_first() {
    let (server, mut c) = start();
    let waiters: Vec<_> = (0..4).map(|_| Waiter::start(&server, WAIT)).collect();
    c.run("ZQ.PUSH q x ID 0");
    eventually(PATIENCE, "the first is served", || waiters[0].is_done());
    // Two jobs wake two of the three remaining clients.
    c.script(&[
        ("MULTI", "+OK"),
        ("ZQ.PUSH q x ID 1", "+QUEUED"),
        ("ZQ.PUSH q x ID 2", "+QUEUED"),
        ("EXEC", "['1' '2']"),
    ]);
    eventually(PATIENCE, "two more are served", || waiters[1].is_done() && waiters[2].is_done());
    assert_eq!(blocked(&mut c), 1);
    c.run("ZQ.PUSH q x ID 3");
    let ids: Vec<_> = waiters.into_iter().map(Waiter::id).collect();
    assert_eq!(ids, ["0", "1", "2", "3"]);
}

#[test]
fn one_push_leaves_nothing_to_others() {
    let (server, mut c) = start();
    let many = Waiter::start(&server, "ZQ.CLAIM 1 q LEASE 1m COUNT 10 BLOCK 0");
    let one = Waiter::start(&server, WAIT);
    c.call(redis::cmd("EVAL").arg("for i=1,3 do redis.call('ZQ.PUSH','q',i,'ID',i) end").arg(0));
    let reply = many.end();
    for id in 1..=3 {
        assert!(reply.contains(&format!("'q' '{id}' ")), "{reply}");
    }
    assert!(!one.is_done());
    c.run("ZQ.PUSH q x ID next");
    assert_eq!(one.id(), "next");
}

#[test]
fn the_clock_wakes_at_the_due_time_and_not_before() {
    let (server, mut c) = start();
    c.run("ZQ.PUSH q x ID far DELAY 1h");
    let first = Waiter::start(&server, WAIT);
    let second = Waiter::start(&server, WAIT);
    let due = c.now() + 200;
    c.run(&format!("ZQ.PUSH q x ID b AT {due}ms"));
    assert_eq!(first.id(), "b");
    assert!(c.now() >= due);
    assert!(!second.is_done());
    let due = c.now() + 100;
    c.run(&format!("ZQ.RESCHEDULE q far AT {due}ms"));
    assert_eq!(second.id(), "far");
    assert!(c.now() >= due);
}

#[test]
fn the_end_of_a_lease_wakes() {
    let (server, mut c) = start();
    c.run("ZQ.PUSH q x ID a");
    c.run("ZQ.CLAIM 1 q LEASE 100ms");
    let waiter = Waiter::start(&server, WAIT);
    assert_eq!(waiter.id(), "a");
}

/// All other ways in which a job becomes claimable. Each entry has the commands before the wait, and the command that
/// makes the job claimable.
#[test]
fn whatever_makes_a_job_claimable_wakes() {
    let (server, mut c) = start();
    for (setup, wake) in [
        (&["ZQ.PUSH q x ID a", "ZQ.CONFIG q PAUSED yes"][..], "ZQ.CONFIG q PAUSED no"),
        (&["ZQ.PUSH q x ID a DELAY 1h"], "ZQ.RESCHEDULE q a DELAY 0"),
        (&["ZQ.PUSH q x ID a DELAY 1h"], "ZQ.RESCHEDULE q a DELAY 50ms"),
        (&["ZQ.PUSH q x ID a DELAY 1h"], "ZQ.PUSH q x ID a REPLACE"),
        (&["ZQ.PUSH q x ID a", "CLAIM"], "ZQ.NACK q a TOKEN"),
        (&["ZQ.PUSH q x ID a", "CLAIM"], "ZQ.NACK q a TOKEN DELAY 50ms"),
        (&["ZQ.PUSH q x ID a", "CLAIM"], "ZQ.EXTEND q 50ms a TOKEN"),
        (&["ZQ.PUSH q x ID a EVERY 50ms", "CLAIM"], "ZQ.ACK q a TOKEN"),
        (&["ZQ.PUSH q x ID a MAXATTEMPTS 1", "CLAIM", "ZQ.NACK q a TOKEN"], "ZQ.REDRIVE q"),
        (&["ZQ.CONFIG q CONCURRENCY 1", "ZQ.PUSH q x ID b", "CLAIM", "ZQ.PUSH q x ID a"], "ZQ.ACK q b TOKEN"),
        (&["ZQ.CONFIG q CONCURRENCY 1", "ZQ.PUSH q x ID b", "CLAIM", "ZQ.PUSH q x ID a"], "ZQ.CANCEL q b"),
        (&["ZQ.CONFIG q CONCURRENCY 1", "ZQ.PUSH q x ID b", "CLAIM", "ZQ.PUSH q x ID a"], "ZQ.NACK q b TOKEN DELAY 1h"),
        (&["ZQ.CONFIG q CONCURRENCY 1", "ZQ.PUSH q x ID b", "CLAIM", "ZQ.PUSH q x ID a"], "ZQ.CONFIG q CONCURRENCY 2"),
        (&["ZQ.CONFIG q RATE 1 1h", "ZQ.PUSH q x ID b", "CLAIM", "ZQ.PUSH q x ID a"], "ZQ.CONFIG q RATE 2 1h"),
        (&["ZQ.PUSH q x ID a GROUP g", "ZQ.HOLD q g 1h"], "ZQ.HOLD q g 0"),
        (&["ZQ.PUSH q x ID a GROUP g", "ZQ.HOLD q g 1h"], "ZQ.HOLD q g 50ms"),
        (&["ZQ.PUSH q x ID a", "ZQ.HOLD q \"\" 1h"], "ZQ.HOLD q \"\" 0"),
        // Only time ends these holds and windows.
        (&["ZQ.PUSH q x ID a GROUP g", "CLAIM", "ZQ.NACK q a TOKEN HOLD 200ms"], "PING"),
        (&["ZQ.PUSH q x ID a GROUP g", "ZQ.HOLD q g 200ms"], "PING"),
        (&["ZQ.CONFIG q RATE 1 200ms", "ZQ.PUSH q x ID b", "CLAIM", "ZQ.PUSH q x ID a"], "PING"),
        (&["ZQ.PUSH p x ID a"], "RENAME p q"),
        (&["ZQ.PUSH p x ID a DELAY 50ms"], "RENAME p q"),
        (&["ZQ.PUSH p x ID a", "ZQ.PUSH q y ID b DELAY 1h"], "RENAME p q"),
        (&["ZQ.PUSH p x ID a"], "COPY p q"),
        (&["ZQ.PUSH p x ID a DELAY 50ms", "ZQ.PUSH q y ID b DELAY 1h"], "COPY p q REPLACE"),
        (&["SELECT 1", "ZQ.PUSH q x ID a"], "MOVE q 0"),
        (&["SELECT 1", "ZQ.PUSH q x ID a", "SELECT 0", "ZQ.PUSH q x ID b DELAY 1h"], "SWAPDB 0 1"),
        (&["SELECT 1", "ZQ.PUSH q x ID a DELAY 50ms"], "SWAPDB 0 1"),
        (&["SET q x"], "DEL q+"),
    ] {
        c.run("FLUSHALL");
        let mut token = String::new();
        for line in setup {
            match *line {
                "CLAIM" => token = c.claim("ZQ.CLAIM 1 q LEASE 1h").to_string(),
                "SET q x" => {}
                line => drop(c.run(&line.replace("TOKEN", &token))),
            }
        }
        let waiter = Waiter::start(&server, WAIT);
        if wake == "DEL q+" {
            // If the key gets another type, the client keeps waiting, as in BZPOPMIN.
            c.run("SET q x");
            assert!(!waiter.is_done());
            c.run("DEL q");
            c.run("ZQ.PUSH q x ID a");
        } else {
            c.run(&wake.replace("TOKEN", &token));
        }
        c.run("SELECT 0");
        assert_eq!(waiter.id(), "a", "{setup:?} {wake}");
    }
}

#[test]
fn restore_wakes() {
    let (server, mut c) = start();
    c.run("ZQ.PUSH p x ID a");
    let dump = c.dump("p");
    let waiter = Waiter::start(&server, WAIT);
    c.restore("q", 0, &dump);
    assert_eq!(waiter.id(), "a");
}

/// The server itself wakes the clients of a key that RENAME or COPY creates. All clients must be served.
#[test]
fn a_queue_renamed_to_a_key_that_was_just_found_empty_wakes() {
    let (server, mut c) = start();
    for round in 0..4 {
        let waiters: Vec<_> = (0..20).map(|_| Waiter::start(&server, WAIT)).collect();
        for n in 0..20 {
            c.run(&format!("ZQ.PUSH p x ID {n}"));
        }
        let mut pipeline = redis::pipe();
        pipeline.cmd("ZQ.PUSH").arg("q").arg("x").arg("ID").arg("first");
        if round % 2 == 0 {
            pipeline.cmd("RENAME").arg("p").arg("q");
        } else {
            pipeline.cmd("COPY").arg("p").arg("q").arg("REPLACE");
        }
        let (host, port) = server.address();
        let mut con = redis::Client::open(format!("redis://{host}:{port}/")).unwrap().get_connection().unwrap();
        pipeline.exec(&mut con).unwrap();
        let mut ids: Vec<_> = waiters.into_iter().map(Waiter::id).collect();
        ids.sort_unstable();
        ids.dedup();
        assert_eq!(ids.len(), 20);
        c.run("FLUSHALL");
    }
}

#[test]
fn time_runs_out_with_an_empty_array() {
    let (server, mut c) = start();
    c.run("ZQ.PUSH q x DELAY 1h");
    c.script(&[("ZQ.CLAIM 1 q LEASE 1m BLOCK 60ms", "[]"), ("ZQ.CLAIM 2 p q LEASE 1m BLOCK 0.001", "[]")]);
    let mut client = server.client();
    let id = client.int("CLIENT ID");
    let waiter = Waiter(thread::spawn(move || client.reply(WAIT)));
    eventually(PATIENCE, "the client waits", || blocked(&mut c) == 1);
    c.script(&[(format!("CLIENT UNBLOCK {id}"), "1")]);
    assert_eq!(waiter.end(), "[]");
}

#[test]
fn nothing_blocks_in_a_transaction_or_a_script() {
    let (_server, mut c) = start();
    c.script(&[("MULTI", "+OK"), (WAIT, "+QUEUED"), ("EXEC", "[[]]")]);
    let reply = c.call(redis::cmd("EVAL").arg("return redis.call('ZQ.CLAIM','1','q','LEASE','1m','BLOCK','0')").arg(0));
    assert_eq!(reply, redis::Value::Array(vec![]));
    c.run("ZQ.PUSH q x ID a");
    c.script(&[("MULTI", "+OK"), (WAIT, "+QUEUED")]);
    assert!(c.reply("EXEC").contains("'q' 'a' "));
}

#[test]
fn a_client_that_went_away_takes_no_job_with_it() {
    let (server, mut c) = start();
    let mut gone = server.client();
    let id = gone.int("CLIENT ID");
    let first = Waiter(thread::spawn(move || gone.reply(WAIT)));
    eventually(PATIENCE, "the client waits", || blocked(&mut c) == 1);
    let second = Waiter::start(&server, WAIT);
    c.run(&format!("CLIENT KILL ID {id}"));
    eventually(PATIENCE, "the client is gone", || blocked(&mut c) == 1);
    c.run("ZQ.PUSH q x ID a DELAY 50ms");
    assert_eq!(second.id(), "a");
    first.end();
    // No client waits any more, and INFO has no waiting client.
    c.run("ZQ.PUSH q x ID b");
    assert_eq!(blocked(&mut c), 0);
}

#[test]
fn several_keys_and_databases() {
    let (server, mut c) = start();
    let both = Waiter::start(&server, "ZQ.CLAIM 3 p q p LEASE 1m BLOCK 0");
    let other = Waiter::start_in(&server, 3, WAIT);
    c.run("ZQ.PUSH q x ID a DELAY 50ms");
    assert_eq!(both.id(), "a");
    assert!(!other.is_done());
    c.run("SELECT 3");
    c.run("ZQ.PUSH q x ID b DELAY 50ms");
    c.run("SELECT 0");
    assert_eq!(other.id(), "b");
}

#[test]
fn waiting_clients_are_served_before_later_ones() {
    let (server, mut c) = start();
    let first = Waiter::start(&server, WAIT);
    c.run("ZQ.PUSH q x ID a DELAY 50ms");
    let second = Waiter::start(&server, WAIT);
    assert_eq!(first.id(), "a");
    c.run("ZQ.PUSH q x ID b");
    assert_eq!(second.id(), "b");
}

/// While the server is busy, two jobs become due. Then it reads a claim before the timer can wake the waiting client.
#[test]
fn a_newcomer_waits_behind_clients_that_were_not_woken_yet() {
    let (server, _c) = start();
    let waiter = Waiter::start(&server, WAIT);
    let (host, port) = server.address();
    let mut newcomer = redis::Client::open(format!("redis://{host}:{port}/")).unwrap().get_connection().unwrap();
    let mut pipeline = redis::pipe();
    for line in ["ZQ.PUSH q x ID a DELAY 20ms", "ZQ.PUSH q x ID b DELAY 20ms", "DEBUG SLEEP 0.1", WAIT] {
        let mut words = line.split(' ');
        let mut command = redis::cmd(words.next().unwrap());
        words.for_each(|word| {
            command.arg(word);
        });
        pipeline.add_command(command);
    }
    let replies: Vec<redis::Value> = pipeline.query(&mut newcomer).unwrap();
    assert!(testkit::show(&replies[3]).starts_with("[['q' 'b' "), "{replies:?}");
    assert_eq!(waiter.id(), "a");
}

#[test]
fn jobs_due_while_writes_are_paused_are_served_afterwards() {
    let (server, mut c) = start();
    let replica = Server::builder().replica_of(&server);
    // If the job was due before the pause began, repeats the test.
    loop {
        let due = c.now() + 200;
        c.run(&format!("ZQ.PUSH q x ID a AT {due}ms"));
        let waiter = Waiter::start(&server, WAIT);
        let until = c.now() + 500;
        c.run("CLIENT PAUSE 500 WRITE");
        let in_time = c.now() < due;
        assert_eq!(waiter.id(), "a");
        if in_time {
            assert!(c.now() >= until);
            break;
        }
        c.run("DEL q");
    }
    replica.wait_for_sync(&server);
}

#[test]
fn deletion_leaves_them_waiting() {
    let (server, mut c) = start();
    for delete in ["DEL q", "UNLINK q", "FLUSHALL", "PEXPIREAT q 1", "RENAME q elsewhere"] {
        // If the job was due before it was deleted, repeats the test.
        let waiter = loop {
            let due = c.now() + 200;
            c.run(&format!("ZQ.PUSH q x ID a AT {due}ms"));
            let waiter = Waiter::start(&server, WAIT);
            c.run(delete);
            let in_time = c.now() < due;
            c.wait_until(due + 50);
            if in_time {
                break waiter;
            }
            c.run("ZQ.PUSH q x ID again");
            waiter.end();
            c.run("FLUSHALL");
        };
        assert!(!waiter.is_done(), "{delete}");
        c.run("ZQ.PUSH q x ID b");
        assert_eq!(waiter.id(), "b", "{delete}");
        c.run("FLUSHALL");
    }
}

#[test]
fn waiting_on_a_replica_goes_on_after_its_promotion() {
    let (_server, mut c, replica, waiter, due) = loop {
        let (server, mut c) = start();
        let replica = Server::builder().config("replica-read-only no").replica_of(&server);
        let waiter = Waiter::start(&replica, WAIT);
        let due = c.now() + 100;
        c.run(&format!("ZQ.PUSH q x ID a AT {due}ms"));
        replica.wait_for_sync(&server);
        // If the job is due already, the replica serves it on arrival, as to any client of a writable replica. Then the
        // test is repeated.
        if c.now() < due {
            break (server, c, replica, waiter, due);
        }
    };
    let mut r = replica.client();
    c.wait_until(due + 200);
    assert!(!waiter.is_done(), "a replica does not act by itself");
    r.run("REPLICAOF NO ONE");
    assert_eq!(waiter.id(), "a");
}

#[test]
fn who_waits_on_a_master_that_becomes_a_replica_is_told() {
    let (server, mut c) = start();
    let waiter = Waiter::start(&server, WAIT);
    let other = Server::start();
    c.run(&format!("REPLICAOF 127.0.0.1 {}", other.address().1));
    assert!(waiter.end().starts_with("!UNBLOCKED"), "as of a client that waits in BLPOP");
}

#[test]
fn many_clients_are_woken_one_for_each_job() {
    let (server, mut c) = start();
    c.run("ZQ.PUSH q x ID a DELAY 1h");
    let mut clients: Vec<_> = (0..100).map(|_| server.client()).collect();
    let mut threads = Vec::new();
    for (n, mut client) in clients.drain(..).enumerate() {
        threads.push(thread::spawn(move || client.reply(&format!("ZQ.CLAIM 2 q k{n} LEASE 1m BLOCK 0"))));
    }
    eventually(PATIENCE, "all wait", || blocked(&mut c) == 100);
    for n in 0..50 {
        c.run(&format!("ZQ.PUSH q x ID {n}"));
    }
    eventually(PATIENCE, "as many are woken as there are jobs", || blocked(&mut c) == 50);
    for n in 0..50 {
        c.run(&format!("ZQ.PUSH q x ID more{n} DELAY 20ms"));
    }
    let mut ids: Vec<_> =
        threads.into_iter().map(|thread| thread.join().unwrap().split(' ').nth(1).map(str::to_owned)).collect();
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), 100);
}

/// Clients are woken one after the other. Some find no job, just before other jobs become due. All clients must get
/// these jobs.
#[test]
fn jobs_that_become_due_while_clients_are_woken_reach_all_clients() {
    const CLIENTS: usize = 300;
    let (server, mut c) = start();
    let mut clients: Vec<_> = (0..CLIENTS).map(|_| server.client()).collect();
    for round in 0..40 {
        clients.iter_mut().for_each(|client| client.send("ZQ.CLAIM 1 q LEASE 1h BLOCK 0"));
        eventually(PATIENCE, "all wait", || blocked(&mut c) == CLIENTS as i64);
        let due = c.now() + 40;
        for n in 0..CLIENTS {
            c.run(&format!("ZQ.PUSH q x ID {round}-{n} AT {due}ms"));
        }
        // Each push wakes clients, some of them just before the other jobs are due.
        let mut more = 0;
        while c.now() < due && more < CLIENTS {
            c.run(&format!("ZQ.PUSH q x ID {round}-more{more}"));
            more += 1;
        }
        let mut ids: Vec<_> = clients.iter_mut().map(Client::receive).collect();
        ids.sort_unstable();
        ids.dedup();
        assert_eq!(ids.len(), CLIENTS);
        c.run("DEL q");
    }
}

/// With thousands of workers at one queue, a push must not wake all of them, because all other clients would wait
/// meanwhile.
#[test]
fn a_push_checks_the_queue_once_for_each_client_that_it_serves() {
    const CLIENTS: u64 = 3000;
    let server = Server::builder().config(&format!("maxclients {}", CLIENTS + 100)).start();
    let mut c = server.client();
    let mut clients: Vec<_> = (0..CLIENTS).map(|_| server.client()).collect();
    // Each client waits for a missing key and for a queue without due jobs.
    c.run("ZQ.PUSH other x ID far DELAY 1h");
    clients.iter_mut().for_each(|client| client.send("ZQ.CLAIM 2 q other LEASE 1h BLOCK 0"));
    eventually(PATIENCE, "all wait", || blocked(&mut c) == CLIENTS as i64);
    let checks = |c: &mut Client| c.info_number("zeitset", "zeitset_clients_checks");
    let mut first = 0;
    for (command, jobs) in [
        ("ZQ.PUSH q x ID a", 1),
        ("ZQ.PUSH q x ID b", 1),
        // This push serves no client.
        ("ZQ.PUSH q x ID c DELAY 1h", 0),
        ("ZQ.RESCHEDULE q c DELAY 0", 1),
        ("EVAL for\u{a0}i=1,50\u{a0}do\u{a0}redis.call('ZQ.PUSH','q',i)\u{a0}end 0", 50),
        ("RENAME other q", 0),
        ("ZQ.RESCHEDULE q far DELAY 0", 1),
        ("ZQ.PUSH other x ID new", 1),
    ] {
        let before = checks(&mut c);
        let mut words = command.split(' ');
        let mut call = redis::cmd(words.next().unwrap());
        words.for_each(|word| {
            call.arg(word.replace('\u{a0}', " "));
        });
        c.call(&call);
        for client in &mut clients[first..first + jobs] {
            assert!(client.receive().starts_with("[['"), "{command}: who came first is served first");
        }
        first += jobs;
        let cost = checks(&mut c) - before;
        assert!(cost <= jobs as i64 + 1, "{command}: {cost} looks");
    }
    assert_eq!(blocked(&mut c), (CLIENTS as usize - first) as i64);
}

#[test]
fn no_job_is_delivered_before_its_time() {
    let (server, mut c) = start_keeping_aof();
    let start = c.now();
    for n in 0..200 {
        let due = start + n % 50 * 10;
        c.run(&format!("ZQ.PUSH q {due} ID {n} AT {due}ms"));
    }
    let late = thread::scope(|scope| {
        let workers: Vec<_> = (0..4)
            .map(|_| {
                let mut c = server.client();
                scope.spawn(move || {
                    let mut count = 0;
                    loop {
                        let jobs = c.jobs("ZQ.CLAIM 1 q LEASE 1h COUNT 3 BLOCK 700ms");
                        let now = c.now();
                        for job in &jobs {
                            let due: i64 = job.payload.parse().unwrap();
                            assert!(due <= now, "due {due}, delivered by {now}");
                        }
                        count += jobs.len();
                        if jobs.is_empty() {
                            return count;
                        }
                    }
                })
            })
            .collect();
        workers.into_iter().map(|worker| worker.join().unwrap()).sum::<usize>()
    });
    assert_eq!(late, 200);
    assert_agree(&server, &[]);
}
