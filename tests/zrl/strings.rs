//! Limits are strings: their format, and what replicas, the AOF and listeners of keyspace events get.

use testkit::{Client, Server, Stream, start};

#[test]
fn a_string_says_itself_what_it_is() {
    let (_server, mut c) = start();
    let end = c.verdict("ZRL.CHECK f 100 30d FIXED COST 7").charged_until;
    c.script(&[("GET f", format!("'fixed:{end}:7'")), ("PEXPIRETIME f", end.to_string())]);

    let empty = c.verdict("ZRL.CHECK l 100 100s LEAKY COST 7").charged_until;
    let written = empty - 7000;
    c.script(&[("GET l", format!("'leaky:{empty}:100/100000!{written}'"))]);
    // The key's TTL is a little longer than necessary, so that it changes rarely.
    let ttl = c.int("PEXPIRETIME l");
    assert!((empty..=empty + 12_500).contains(&ttl), "{ttl}, empty at {empty}");

    c.run("ZRL.THROTTLE t 9 10 100 7");
    let nanos: i64 = c.string("GET t").parse().expect("nanoseconds");
    assert!((0..2).contains(&(nanos / 1_000_000 - c.int("PEXPIRETIME t"))));
    for key in ["f", "l", "t"] {
        let bytes = c.int(&format!("MEMORY USAGE {key} SAMPLES 0")) - 16;
        assert!(bytes <= 96, "{key}: {bytes} bytes besides its name");
    }
}

/// Runs a script that creates keys with `call`. Returns how much `used_memory` grows per key.
fn bytes_a_key(c: &mut Client, call: &str) -> i64 {
    // This number is not close to a power of two, at which the server's tables grow.
    const KEYS: i64 = 12_000;
    let script = format!("for i = 1, ARGV[1] do local key = string.format('limit:%08d', i); redis.call({call}) end");
    let fill = |c: &mut Client, keys: i64| {
        c.run("FLUSHALL SYNC");
        c.call(redis::cmd("EVAL").arg(&script).arg(0).arg(keys));
        c.info_number("memory", "used_memory")
    };
    // The first fill allocates what the server keeps for a script.
    let before = fill(c, 1);
    (fill(c, KEYS) - before) / (KEYS - 1)
}

/// Most of the memory is the server's own: for the name, the TTL and a short value.
#[test]
fn a_limit_takes_no_more_memory_than_the_same_string_by_hand() {
    let (_server, mut c) = start();
    let bare = bytes_a_key(&mut c, "'SET', key, 1, 'PX', 3600000");
    for call in [
        "'ZRL.CHECK', key, 100, 3600, 'FIXED'",
        "'ZRL.CHECK', key, 100, 3600, 'LEAKY'",
        "'ZRL.THROTTLE', key, 99, 100, 3600",
    ] {
        let ours = bytes_a_key(&mut c, call);
        let value = c.string("GET limit:00000001");
        let by_hand = bytes_a_key(&mut c, &format!("'SET', key, '{value} ', 'PX', 3600000"));
        println!("{call}: {ours} bytes; as a string by hand: {by_hand}; SET key 1 PX: {bare}");
        // SET stores a short value right after its header. The allocator then rounds up once less.
        assert!(ours <= by_hand + 32, "{call}: {ours} bytes, {by_hand} by hand");
    }
}

#[test]
fn a_key_of_one_algorithm_is_none_of_another() {
    let (_server, mut c) = start();
    c.run("ZRL.CHECK s 5 1h");
    c.run("ZRL.CHECK f 5 1h FIXED");
    c.run("ZRL.CHECK l 5 1h LEAKY");
    c.run("ZRL.THROTTLE t 5 5 3600");
    for key in ["s", "f", "l", "t"] {
        let before = c.trace(key);
        for (of, call) in [
            ("s", "ZRL.CHECK {} 5 1h"),
            ("f", "ZRL.CHECK {} 5 1h FIXED"),
            ("l", "ZRL.CHECK {} 5 1h LEAKY"),
            ("t", "ZRL.THROTTLE {} 5 5 3600"),
            ("s", "ZRL.PEEK {} 5 1h"),
            ("f", "ZRL.MCHECK 1 {} 5 1h FIXED"),
        ] {
            if of != key {
                let line = call.replace("{}", key);
                c.script(&[(&line, "!NOTLIMIT key holds a rate limit of another algorithm")]);
                assert_eq!(c.trace(key), before, "{line}");
            }
        }
    }
}

/// Returns the keyspace events, except those of the marks that `Stream` writes.
fn heard(listener: &mut Client) -> Vec<String> {
    listener.pushes().into_iter().filter(|push| !push.contains("'test:")).collect()
}

#[test]
fn a_change_is_one_command_and_one_event() {
    let server = Server::builder().config("notify-keyspace-events KEA").start();
    let (mut c, mut listener) = (server.client(), server.resp3());
    listener.psubscribe("__keyevent@0__:*");
    let mut stream = Stream::attach(&server);
    stream.take();
    for line in ["ZRL.CHECK k 2 30d FIXED", "ZRL.CHECK l 2 1h LEAKY", "ZRL.THROTTLE t 1 1 3600"] {
        for (is_allowed, is_first) in [(true, true), (true, false), (false, false)] {
            c.run(line);
            let (commands, heard) = (stream.take(), heard(&mut listener));
            if is_allowed {
                let [command] = &commands[..] else { panic!("{line}: {commands:?}") };
                // Within a window, a call changes only some digits of the count. The TTL stays.
                let (word, event) = if line.ends_with("FIXED") && !is_first {
                    ("SETRANGE ", ":setrange' ")
                } else {
                    ("SET ", ":set' ")
                };
                assert!(
                    command.starts_with(word) && command.contains(" PXAT ") == (word == "SET "),
                    "{line}: {command}"
                );
                assert!(heard.len() == 1 && heard[0].contains(event), "{line}: {heard:?}");
            } else {
                assert_eq!(commands.len() + heard.len(), 0, "{line}");
            }
        }
    }
    // A key whose units were all refunded is removed.
    let until = c.verdict("ZRL.CHECK g 5 30d FIXED COST 2").charged_until;
    stream.take();
    heard(&mut listener);
    c.script(&[(format!("ZRL.REFUND g 9 AT {until}"), "2"), ("EXISTS g".into(), "0")]);
    assert_eq!(stream.take(), ["UNLINK g"]);
    assert!(heard(&mut listener)[0].contains(":del' 'g'"));
}

#[test]
fn a_server_without_the_module_holds_the_same() {
    let (server, mut c) = start();
    let replica = Server::builder().plain().replica_of(&server);
    for cost in [1, 2, 1, 3] {
        c.run(&format!("ZRL.CHECK f 100 30d FIXED COST {cost}"));
        c.run(&format!("ZRL.CHECK l 3000 7000s LEAKY COST {cost}"));
        c.run(&format!("ZRL.THROTTLE t 99 7 60 {cost}"));
        c.run(&format!("ZRL.CHECK d 3 1000s LEAKY COST {cost} FORCE"));
    }
    replica.wait_for_sync(&server);
    let mut r = replica.client();
    for key in ["f", "l", "t", "d"] {
        assert_eq!(r.string(&format!("GET {key}")), c.string(&format!("GET {key}")), "{key}");
        assert_eq!(r.int(&format!("PEXPIRETIME {key}")), c.int(&format!("PEXPIRETIME {key}")), "{key}");
    }
}

#[test]
fn a_longer_ttl_that_somebody_set_loses_no_units() {
    let (server, mut c) = start();
    let replica = Server::builder().replica_of(&server);
    for (key, options) in [("f", "10 30d FIXED"), ("l", "10 30d LEAKY")] {
        c.run(&format!("ZRL.CHECK {key} {options} COST 3"));
        let ttl = c.int(&format!("PEXPIRETIME {key}"));
        for word in ["PERSIST {}", "EXPIRE {} 5000000"] {
            c.run(&word.replace("{}", key));
            assert_eq!(c.verdict(&format!("ZRL.PEEK {key} {options}")).remaining, 7);
        }
        assert_eq!(c.verdict(&format!("ZRL.CHECK {key} {options}")).remaining, 6);
        assert!(c.int(&format!("PEXPIRETIME {key}")) >= ttl, "{key}");
        replica.wait_for_sync(&server);
        let at = format!("PEXPIRETIME {key}");
        assert_eq!(replica.client().int(&at), c.int(&at), "{key}");
    }
}
