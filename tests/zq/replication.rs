//! The effects of queues on replicas and the AOF: absolute values, and no effect of a call that changes nothing.

use testkit::{Client, Job, Server, Stream, Witness, assert_agree, start_keeping_aof, start_pair};

/// Returns the token and the deadline of the claimed job of `q`.
fn lease(c: &mut Client) -> [String; 2] {
    let page = c.reply("ZQ.PEEK q CLAIMED WITHLEASE");
    let mut words = page.trim_end_matches(']').rsplit(' ').map(str::to_owned);
    let deadline = words.next().unwrap_or_default();
    [words.next().unwrap_or_default(), deadline]
}

/// A call is replicated as one effect with final values. The event has the name of the command.
#[test]
fn effects_are_replicated_and_nothing_else() {
    let (server, mut c) = start_keeping_aof();
    let mut witness = Witness::of(&server, "q", "ZQ.STATS q");
    for (line, effect) in [
        ("ZQ.PUSH q hello ID a AT 5 PRIORITY -2 MAXATTEMPTS 3", "PUSH a hello 5000 -2 3 0"),
        ("ZQ.PUSH q x AT 4102444800 EVERY 1m", "PUSHAUTO MADE x 4102444800000 0 0 60000"),
        ("ZQ.CLAIM 1 q LEASE 1m", "CLAIM a TOKEN DEADLINE"),
        ("ZQ.CLAIM 1 q LEASE 1m", ""),
        ("ZQ.ACK q a 1 b 2", ""),
        ("ZQ.CANCEL q nobody", ""),
        ("ZQ.REDRIVE q", ""),
        ("ZQ.HOLD q none 1h", ""),
        ("ZQ.HOLD q \"\" 0", ""),
        ("ZQ.HOLD none a 1h", ""),
        ("ZQ.PUSH q x ID a", ""),
        ("ZQ.STATS q", ""),
        ("ZQ.PEEK q", ""),
        ("ZQ.CONFIG q MAXLEN 0", ""),
        ("ZQ.RESCHEDULE q MADE PRIORITY 0", ""),
        ("ZQ.CONFIG q", ""),
        ("ZQ.EXTEND q 2m a TOKEN", "EXTEND a DEADLINE"),
        ("ZQ.NACK q a TOKEN DEAD", "DEAD a"),
        ("ZQ.REDRIVE q", "REDRIVE 1"),
        ("ZQ.CONFIG q PAUSED yes", "CONFIGURE paused 1"),
        ("ZQ.CONFIG q PAUSED no", "CONFIGURE"),
        ("ZQ.CLAIM 1 q LEASE 1m", "CLAIM a TOKEN DEADLINE"),
        ("ZQ.NACK q a TOKEN AT 5", "RETRY a 5000"),
        ("ZQ.RESCHEDULE q a AT 6", "MOVE a 6000 -"),
        ("ZQ.CLAIM 1 q LEASE 1m", "CLAIM a TOKEN DEADLINE"),
        ("ZQ.ACK q a TOKEN b 1", "ACK a"),
        ("ZQ.CANCEL q MADE MADE", "CANCEL MADE"),
        ("ZQ.CANCEL q MADE", ""),
    ] {
        let made = c.ids("ZQ.PEEK q DELAYED").pop().unwrap_or_default();
        let call = line.replace("TOKEN", &lease(&mut c)[0]).replace("MADE", &made);
        let told = witness.call(&mut c, &call);
        if effect.is_empty() {
            assert_eq!((told.commands, told.events), (vec![], vec![]), "{line}");
            continue;
        }
        let made = c.ids("ZQ.PEEK q DELAYED").pop().unwrap_or(made);
        let [token, deadline] = lease(&mut c);
        let effect = effect.replace("TOKEN", &token).replace("DEADLINE", &deadline).replace("MADE", &made);
        let [command] = &told.commands[..] else { panic!("{line}: {told:?}") };
        assert!(command.starts_with("ZQ.APPLY q 1") && command.ends_with(&format!(" {effect}")), "{line}: {command}");
        let event =
            if effect == "DEAD a" { "zq.dead" } else { &line.split(' ').next().expect("a word").to_lowercase() };
        assert_eq!(told.events, [format!("{event} q")], "{line}");
    }
    assert_agree(&server, &[]);
}

#[test]
fn a_blocked_claim_is_replicated_when_it_is_served() {
    let (server, mut c) = start_keeping_aof();
    let mut stream = Stream::attach(&server);
    let mut waiter = server.waiting("ZQ.CLAIM 1 q LEASE 1m BLOCK 0");
    c.run("ZQ.PUSH q x ID a DELAY 50ms");
    waiter.receive();
    let told = stream.take().join("\n");
    assert!(told.contains(" PUSH a x ") && told.contains(" CLAIM a "), "{told}");
    assert_agree(&server, &[]);
}

/// A chain of replicas with AOFs. After all kinds of changes, all servers have the same data.
#[test]
fn replicas_agree() {
    let (server, mut c) = start_keeping_aof();
    let mut replica = Server::builder().keeping_aof().replica_of(&server);
    let far = Server::builder().keeping_aof().replica_of(&replica);
    c.run("ZQ.CONFIG q MAXATTEMPTS 2 BACKOFF 5ms 50ms RATE 100000 1h CONCURRENCY 30 AGING 1s");
    let mut random = 1_u64;
    for n in 0..600_u64 {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        let id = (random >> 40) % 50;
        match (random >> 33) % 9 {
            0..=3 => drop(c.run(&format!("ZQ.PUSH q {n} ID {id} REPLACE DELAY {}ms PRIORITY {}", n % 7, id % 3))),
            4 => {
                for (nth, Job { id, token, .. }) in c.jobs("ZQ.CLAIM 1 q LEASE 3ms COUNT 3").into_iter().enumerate() {
                    match nth {
                        0 => drop(c.run(&format!("ZQ.ACK q {id} {token}"))),
                        1 => drop(c.run(&format!("ZQ.NACK q {id} {token}"))),
                        _ => {}
                    }
                }
            }
            5 => drop(c.run(&format!("ZQ.CANCEL q {id}"))),
            6 => drop(c.run(&format!("ZQ.RESCHEDULE q {id} DELAY 2ms"))),
            7 => drop(c.run("ZQ.REDRIVE q COUNT 2")),
            _ => drop(c.run(&format!("ZQ.PUSH q {n} EVERY 10ms"))),
        }
    }
    let digest = c.reply("DEBUG DIGEST");
    assert_agree(&server, &[&replica, &far]);
    for server in [&replica, &far] {
        assert_eq!(server.client().reply("DEBUG DIGEST"), digest);
    }
    replica.client().run("REPLICAOF NO ONE");
    assert!(!replica.log().contains("zeitset: rejected") && !far.log().contains("zeitset: rejected"));
    // The replica loads its own AOF.
    replica.client().run("CONFIG REWRITE");
    replica.client().run("DEBUG LOADAOF");
    assert_eq!(replica.client().reply("DEBUG DIGEST"), digest);
    drop(far);
    replica.crash_and_restart();
}

#[test]
fn a_promoted_replica_knows_leases_tokens_and_attempts() {
    let (server, replica, mut c) = start_pair();
    c.run("ZQ.PUSH q x ID a MAXATTEMPTS 2");
    c.run("ZQ.PUSH q x ID b");
    let a = c.claim("ZQ.CLAIM 1 q LEASE 150ms");
    let b = c.claim("ZQ.CLAIM 1 q LEASE 1h");
    replica.wait_for_sync(&server);
    let mut r = replica.client();
    r.script(&[("ZQ.CLAIM 1 q LEASE 1", "!READONLY "), (&format!("ZQ.ACK q a {a}"), "!READONLY ")]);
    assert!(r.reply("ZQ.GET q b").contains("'state' 'claimed'"));
    drop(server);
    r.run("REPLICAOF NO ONE");
    r.script(&[(format!("ZQ.ACK q b {b}"), "1")]);
    let token = r.claim("ZQ.CLAIM 1 q LEASE 1m BLOCK 0");
    assert!(token > b, "tokens go on growing");
    r.script(&[(format!("ZQ.ACK q a {a}"), "0"), (format!("ZQ.NACK q a {token}"), "1")]);
    assert!(r.reply("ZQ.GET q a").contains("'state' 'dead'"), "two attempts, across the promotion");
    assert_agree(&replica, &[]);
}

#[test]
fn an_aof_can_be_piped_by_an_ordinary_client() {
    let (server, mut c) = start_keeping_aof();
    let mut stream = Stream::attach(&server);
    c.run("ZQ.PUSH q hello ID a AT 5");
    c.run("ZQ.CLAIM 1 q LEASE 1h");
    let (other, mut o) = start_keeping_aof();
    for words in stream.take_raw() {
        o.call(redis::cmd("ZQ.APPLY").arg(&words[1..]));
    }
    let digest = c.reply("DEBUG DIGEST-VALUE q");
    o.script(&[("DEBUG DIGEST-VALUE q", digest)]);
    assert_agree(&server, &[]);
    assert_agree(&other, &[]);
}
