//! Which waiting client is served, and from which of its queues. No client waits because another one has disconnected.

use super::blocking::{WAIT, blocked};
use std::time::{Duration, Instant};
use testkit::{Client, PATIENCE, eventually, start};

/// If a woken client has not claimed within two seconds, the module checks the key again. A shorter time proves that
/// the module needed no such check.
const AT_ONCE: Duration = Duration::from_millis(1500);

const BOTH: &str = "ZQ.CLAIM 2 z-high a-low LEASE 1m BLOCK 0";

fn jobs(c: &mut Client, key: &str, count: usize, at: i64) {
    c.run_all((0..count).map(|n| format!("ZQ.PUSH {key} x ID {key}{n} AT {at}ms")));
}

/// Returns how many of the replies are jobs of the key.
fn from(replies: &[String], key: &str) -> usize {
    replies.iter().filter(|reply| reply.starts_with(&format!("[['{key}' "))).count()
}

/// Several ways in which jobs of two queues become claimable at the same time.
#[test]
fn clients_are_served_from_their_first_queue_that_has_a_job() {
    const CLIENTS: usize = 10;
    let (server, mut c) = start();
    for way in ["due", "leases", "script", "transaction"] {
        // If the leases expired before all clients waited, repeats the setup.
        let mut clients: Vec<_> = loop {
            c.run("FLUSHALL");
            let at = c.now() + 400;
            if way == "leases" {
                for key in ["a-low", "z-high"] {
                    c.run_all((0..CLIENTS).map(|n| {
                        format!("ZQ.APPLY {key} 1000 PUSH {key}{n} x 1000 0 0 0 CLAIM {key}{n} {} {at}", n + 1)
                    }));
                }
            }
            let clients = (0..CLIENTS).map(|_| server.waiting(BOTH)).collect();
            if way != "leases" || c.now() < at {
                break clients;
            }
        };
        match way {
            "due" => {
                let at = c.now() + 400;
                jobs(&mut c, "a-low", CLIENTS, at);
                jobs(&mut c, "z-high", CLIENTS, at);
            }
            "script" => {
                let pushes = format!(
                    "for n = 1, {CLIENTS} do redis.call('ZQ.PUSH', 'a-low', n) redis.call('ZQ.PUSH', 'z-high', n) end"
                );
                c.call(redis::cmd("EVAL").arg(pushes).arg(0));
            }
            "transaction" => {
                let pushes = ["ZQ.PUSH a-low x", "ZQ.PUSH z-high x"].repeat(CLIENTS);
                c.run_all([&["MULTI"][..], &pushes, &["EXEC"]].concat());
            }
            _ => {}
        }
        let replies: Vec<_> = clients.iter_mut().map(Client::receive).collect();
        assert_eq!((from(&replies, "z-high"), from(&replies, "a-low")), (CLIENTS, 0), "{way}");
        assert_eq!(c.field("ZQ.STATS a-low", "ready"), CLIENTS as i64, "{way}");
    }
}

/// A client that waits for two queues gets a job of the first queue. If earlier clients take all jobs of the first
/// queue, it gets a job of the second queue.
#[test]
fn a_client_takes_a_job_of_its_lesser_queue_only_when_its_first_has_none_for_it() {
    let (server, mut c) = start();
    for (high, low) in [(6, 3), (4, 3), (2, 3)] {
        c.run("FLUSHALL");
        let mut first: Vec<_> = (0..3).map(|_| server.waiting("ZQ.CLAIM 1 z-high LEASE 1m BLOCK 0")).collect();
        let mut both: Vec<_> = (0..3).map(|_| server.waiting(BOTH)).collect();
        let pushes = format!(
            "for n = 1, {low} do redis.call('ZQ.PUSH', 'a-low', n) end for n = 1, {high} do redis.call('ZQ.PUSH', 'z-high', n) end"
        );
        c.call(redis::cmd("EVAL").arg(pushes).arg(0));
        let left = usize::saturating_sub(high, 3);
        let replies: Vec<_> = both.iter_mut().map(Client::receive).collect();
        assert_eq!((from(&replies, "z-high"), from(&replies, "a-low")), (left, 3 - left), "{high}");
        let served: Vec<_> = first.iter_mut().take(high).map(Client::receive).collect();
        assert_eq!(from(&served, "z-high"), high.min(3));
    }
}

#[test]
fn a_client_that_is_unblocked_after_a_push_gets_its_job() {
    let (server, mut c) = start();
    let mut client = server.waiting(WAIT);
    c.run_all(["ZQ.PUSH q x ID a", &format!("CLIENT UNBLOCK {}", client.id)]);
    let reply = client.receive();
    assert!(reply.starts_with("[['q' 'a' "), "{reply}");
    // The client got one job only, so the next job stays in the queue.
    c.run("ZQ.PUSH q x ID b");
    assert_eq!(c.field("ZQ.STATS q", "ready"), 1);
    client.script(&[("PING", "+PONG")]);
    assert_eq!((blocked(&mut c), c.info_number("zeitset", "zeitset_clients_waiting")), (0, 0));
}

#[test]
fn the_next_in_line_is_served_at_once_when_the_first_goes_in_the_same_turn() {
    let (server, mut c) = start();
    for goes_first in [true, false] {
        for _ in 0..5 {
            let (first, mut second) = (server.waiting(WAIT), server.waiting(WAIT));
            let kill = format!("CLIENT KILL ID {}", first.id);
            let lines = if goes_first { [&kill, "ZQ.PUSH q x ID a"] } else { ["ZQ.PUSH q x ID a", &kill] };
            let begin = Instant::now();
            c.run_all(lines);
            if goes_first {
                let reply = second.receive();
                assert!(reply.starts_with("[['q' 'a' "), "{reply}");
                assert!(begin.elapsed() < AT_ONCE, "{:?}", begin.elapsed());
            }
            drop((first, second));
            eventually(PATIENCE, "nobody waits", || blocked(&mut c) == 0);
            c.run("FLUSHALL");
        }
    }
}

/// The server is busy while the first client disconnects and the other sends a push. So it reads both in the same
/// iteration of its event loop.
#[test]
fn the_next_in_line_is_served_at_once_when_the_first_closes_its_connection_meanwhile() {
    let (server, mut c) = start();
    for round in 0..12 {
        let (mut pusher, mut busy) = (server.client(), server.client());
        pusher.run("PING");
        let (first, mut second) = (server.waiting(WAIT), server.waiting(WAIT));
        busy.send("DEBUG SLEEP 0.05");
        drop(first);
        pusher.send(&format!("ZQ.PUSH q x ID {round}"));
        pusher.receive();
        let begin = Instant::now();
        // The server may have served the first client before it noticed the disconnect.
        if c.field("ZQ.STATS q", "ready") == 0 && blocked(&mut c) == 1 {
            c.run("ZQ.PUSH q x");
        }
        let reply = second.receive();
        assert!(reply.starts_with("[['q' "), "{reply}");
        assert!(begin.elapsed() < AT_ONCE, "round {round}: {:?}", begin.elapsed());
        c.run("FLUSHALL");
    }
}

/// A client that may not claim any more gets an error, as in BLPOP of Redis 7.2 and later.
#[test]
fn a_client_that_may_not_claim_any_more_gets_an_error_and_the_next_one_the_job() {
    let (server, mut c) = start();
    for take_away in [
        "ACL SETUSER bob -zq.claim",
        "ACL SETUSER bob resetkeys",
        "ACL SETUSER bob resetkeys ~p",
        "ACL SETUSER bob resetkeys %R~q ~p",
        "ACL SETUSER bob -@all",
    ] {
        c.run("FLUSHALL");
        c.run("ACL SETUSER bob reset on >pw ~p ~q +zq.claim +client");
        let mut bob = server.client();
        bob.run("AUTH bob pw");
        let mut bob = bob.waits(&mut c, "ZQ.CLAIM 2 p q LEASE 1m BLOCK 0");
        let mut next = server.waiting(WAIT);
        let served = c.info_number("zeitset", "zeitset_clients_served");
        let begin = Instant::now();
        c.run_all([take_away, "ZQ.PUSH q x ID a"]);
        let reply = bob.receive();
        assert!(reply.starts_with("!NOPERM"), "{take_away}: {reply}");
        let reply = next.receive();
        assert!(reply.starts_with("[['q' 'a' "), "{take_away}: {reply}");
        assert!(begin.elapsed() < AT_ONCE, "{take_away}: {:?}", begin.elapsed());
        assert_eq!(c.info_number("zeitset", "zeitset_clients_served"), served + 1);
    }
}

#[test]
fn a_client_whose_user_is_deleted_takes_no_job_with_it() {
    let (server, mut c) = start();
    c.run("ACL SETUSER bob reset on >pw ~* +zq.claim");
    let mut bob = server.client();
    bob.run("AUTH bob pw");
    let _bob = bob.waits(&mut c, WAIT);
    let mut next = server.waiting(WAIT);
    let begin = Instant::now();
    c.run_all(["ACL DELUSER bob", "ZQ.PUSH q x ID a"]);
    let reply = next.receive();
    assert!(reply.starts_with("[['q' 'a' "), "{reply}");
    assert!(begin.elapsed() < AT_ONCE, "{:?}", begin.elapsed());
    assert_eq!(blocked(&mut c), 0);
}

/// On Redis 7.0, the module can find out only by a call whether the server would refuse a write.
#[test]
fn serving_clients_shows_no_failed_calls_and_asks_once_for_all() {
    const CLIENTS: usize = 50;
    let (server, mut c) = start();
    let mut clients: Vec<_> = (0..CLIENTS).map(|_| server.waiting(WAIT)).collect();
    c.run("CONFIG RESETSTAT");
    let pushes = format!("for n = 1, {CLIENTS} do redis.call('ZQ.PUSH', 'q', n) end");
    c.call(redis::cmd("EVAL").arg(pushes).arg(0));
    clients.iter_mut().for_each(|client| drop(client.receive()));
    let stats = c.info("commandstats");
    for (command, figures) in &stats {
        assert!(figures.contains("failed_calls=0"), "{command}: {figures}");
        let ours = ["claim", "push", "eval", "config", "info"];
        let calls: usize = figures.split(['=', ',']).nth(1).unwrap().parse().unwrap();
        let is_ours = ours.iter().any(|ours| command.to_ascii_lowercase().contains(ours));
        assert!(is_ours || calls <= 3, "{command}: {figures}");
    }
}
