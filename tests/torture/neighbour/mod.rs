//! Another module in the same server (`module.rs`) runs commands during keyspace events. So any key may change in the
//! middle of a ZEXP, ZRL, ZQ or ZLB command or of a sweeper's slice. The server survives, values stay valid, and the
//! module deletes no live member.

mod random;

use testkit::{Client, Dataset, PATIENCE, Server, after_scan, assert_drained, backlog, eventually, show};

fn start() -> (Server, Client) {
    let server = Server::builder().neighbour().start();
    let client = server.client();
    (server, client)
}

#[test]
fn the_neighbour_runs_commands_in_events() {
    let (_server, mut c) = start();
    c.script(&[
        ("EVIL.ON zexp.* SET never x", "+OK"),
        ("EVIL.ON zadd SET seen:{key} x", "+OK"),
        ("ZEXP.ADD set 1w a", "1"),
        ("GET seen:set", "'x'"),
        ("EXISTS never", "0"),
        ("EVIL.OFF", "1"),
        ("EVIL.ONCE * DEL set", "+OK"),
        ("ZEXP.ADD set 1w b", "1"),
        ("ZEXP.ADD set 1w c", "1"),
        ("ZEXP.MEMBERS set", "['c']"),
        ("EVIL.OFF", "1"),
    ]);
}

#[test]
fn a_key_of_mcheck_deleted_while_another_is_announced() {
    let (_server, mut c) = start();
    let keys = ["a", "b", "c"];
    let algorithms = ["SLIDING EXACT", "FIXED", "LEAKY"];
    for (victim, algorithm) in keys.iter().flat_map(|key| algorithms.map(|algorithm| (key, algorithm))) {
        for event in ["*", "zadd", "set", "expire"] {
            c.run("FLUSHALL");
            let check = format!("ZRL.MCHECK 3 a b c 500 1h 500 1h 500 1h COST 2 {algorithm}");
            c.run(&check);
            c.run(&format!("EVIL.ON {event} DEL {victim}"));
            for _ in 0..20 {
                let reply = c.reply(&check);
                assert!(reply.starts_with("[1 [1 500 "), "{reply}");
            }
            c.run("EVIL.OFF");
            for key in keys {
                let reply = c.reply(&format!("ZRL.PEEK {key} 500 1h {algorithm}"));
                assert!(reply.starts_with("[1 500 "), "{key} is broken: {reply}");
            }
        }
    }
}

/// If MCHECK creates a key, or replaces its string, the server sends `new` in the middle of the command. The neighbour
/// may then change a key from which MCHECK has not yet taken units. MCHECK takes units from all keys or from none, and
/// loses none that the neighbour took.
#[test]
fn a_key_of_mcheck_changed_while_another_is_created() {
    let (_server, mut c) = start();
    let keys = ["a", "b", "c"];
    let mut runs = 0;
    for algorithm in ["SLIDING", "FIXED", "LEAKY"] {
        let check = format!("ZRL.MCHECK 3 a b c 10 1000d 10 1000d 10 1000d COST 2 {algorithm}");
        let take = |key: &str, units: i64| format!("ZRL.CHECK {key} 10 1000d COST {units} {algorithm}");
        for (created, victim) in keys.iter().flat_map(|one| keys.map(|other| (*one, other))).filter(|(a, b)| a != b) {
            for (meanwhile, units) in [
                (take(victim, 8), Some(8)),
                (take(victim, 5), Some(5)),
                (format!("DEL {victim}"), None),
                (format!("RENAME {victim} elsewhere"), None),
                (format!("SET {victim} x"), None),
                (format!("RPUSH {victim} x"), None),
            ] {
                for is_victim_there in [true, false] {
                    c.run("FLUSHALL");
                    for key in keys.iter().filter(|key| **key != created && (**key != victim || is_victim_there)) {
                        c.run(&take(key, 1));
                    }
                    let before = keys.map(|key| c.int(&format!("EXISTS {key}")));
                    c.run(&format!("EVIL.ONCE new {meanwhile}"));
                    let reply = c.reply(&check);
                    let ran = c.int("EVIL.OFF");
                    runs += ran;
                    let here = format!("{algorithm}: {created} is created, then {meanwhile} ({ran} times): {reply}");
                    let allowed = reply.starts_with("[1 ");
                    for (key, before) in keys.into_iter().zip(before) {
                        let own = before + if allowed { 2 } else { 0 };
                        let possible = match units {
                            _ if key != victim || ran == 0 => vec![own],
                            // After MCHECK has taken two of ten units, 8 more may not fit.
                            Some(8) if allowed => vec![own + 8, own],
                            Some(units) => vec![own + units],
                            // RPUSH does nothing if the victim exists.
                            None if meanwhile.starts_with("RPUSH") => vec![own],
                            // MCHECK takes from the victim later, or has already taken.
                            None if allowed => vec![2, 0],
                            None => vec![0],
                        };
                        let Ok(peek) = c.try_run(&format!("ZRL.PEEK {key} 10 1000d COST 0 {algorithm}")) else {
                            assert!(key == victim && units.is_none(), "{key}: {here}");
                            continue;
                        };
                        let peek = show(&peek);
                        let remaining: i64 = peek.split(' ').nth(2).and_then(|n| n.parse().ok()).expect("six integers");
                        let used = 10 - remaining;
                        assert!(possible.contains(&used), "{key} has {used} units, not {possible:?}: {here}");
                    }
                }
            }
        }
    }
    assert!(runs > 100, "the neighbour ran {runs} commands");
}

/// When MCHECK opens a key that has expired, the server sends an event. The neighbour may then change a key that MCHECK
/// has already checked, or a key that follows. MCHECK takes the units from the changed keys: from all or from none.
#[test]
fn a_key_of_mcheck_changed_while_another_is_found_expired() {
    let (_server, mut c) = start();
    c.run("DEBUG SET-ACTIVE-EXPIRE 0");
    let check = "ZRL.MCHECK 3 a b c 3 1h 3 1h 3 1h EXACT";
    let take_all = |key: &str| format!("ZRL.CHECK {key} 3 1h COST 3 EXACT");
    for victim in ["a", "c"] {
        for (command, allowed, left) in [(format!("DEL {victim}"), "[1 ", 2), (take_all(victim), "[0 ", 3)] {
            c.run("FLUSHALL");
            if allowed == "[1 " {
                c.run(&take_all(victim));
            }
            c.run("ZADD b 1 x");
            c.run("PEXPIRE b 1");
            let gone = c.now() + 3;
            c.wait_until(gone);
            c.run(&format!("EVIL.ONCE expired {command}"));
            let reply = c.reply(check);
            assert!(reply.starts_with(allowed), "{command}: {reply}");
            assert_eq!(c.int("EVIL.OFF"), 1);
            for key in ["a", "b", "c"] {
                let left = if key == victim && allowed == "[0 " { 0 } else { left };
                let reply = c.reply(&format!("ZRL.PEEK {key} 3 1h EXACT"));
                assert!(reply.contains(&format!(" 3 {left} ")), "{command}, {key}: {reply}");
            }
        }
    }
}

/// When ZLB.MERGE finds that a key is missing or has expired, the server sends an event. The neighbour may then change a
/// board of the merge. The merge contains that change, or finds that the schemas differ.
#[test]
fn a_board_of_a_merge_changed_while_another_is_found_missing() {
    let (_server, mut c) = start();
    c.run("DEBUG SET-ACTIVE-EXPIRE 0");
    for (event, is_expired) in [("keymiss", false), ("expired", true)] {
        for dest in ["a", "b", "new"] {
            c.script(&[
                ("FLUSHALL", "+OK"),
                ("ZLB.CREATE a DIM points", "+OK"),
                ("ZLB.SET a ann 1", "1"),
                ("ZLB.CREATE b DIM points", "+OK"),
            ]);
            if is_expired {
                c.run("SET gone x PX 1");
                let gone = c.now() + 3;
                c.wait_until(gone);
            }
            c.run(&format!("EVIL.ONCE {event} ZLB.INCR a ann points 5"));
            assert_eq!(c.reply(&format!("ZLB.MERGE {dest} 3 a gone b")), "1");
            assert_eq!(c.int("EVIL.OFF"), 1);
            assert_eq!(c.reply(&format!("ZLB.GET {dest} ann")), "[[0 6]]", "{event}, {dest}");
        }
        c.run("DEL new");
        if is_expired {
            c.run("SET gone x PX 1");
            let gone = c.now() + 3;
            c.wait_until(gone);
        }
        c.run(&format!("EVIL.ONCE {event} ZLB.CREATE new DIM other"));
        assert!(c.reply("ZLB.MERGE new 2 a gone").starts_with("!ERR leaderboards must have the same"));
        assert_eq!(c.int("EVIL.OFF"), 1);
        assert_eq!(c.reply("ZLB.CARD new"), "0");
    }
}

/// When the sweeper's deletion sends an event, the neighbour deletes expired members itself. So the sweeper's earlier
/// counts are no longer valid.
#[test]
fn no_living_member_is_lost_to_a_neighbour_that_removes_the_dead() {
    const DEAD: usize = 2_000;
    const LIVING: usize = 3_000;
    let (_server, mut c) = start();
    let named: Vec<_> = (0..DEAD).step_by(2).map(|n| format!("d{n}")).collect();
    for command in [format!("ZREMRANGEBYSCORE {{key}} (-inf {}", c.now()), format!("ZREM {{key}} {}", named.join(" "))]
    {
        c.run("FLUSHALL");
        let living: Vec<_> = (0..LIVING).map(|n| format!("1w live{n}")).collect();
        c.run(&format!("ZEXP.ADD set {}", living.join(" ")));
        backlog(&mut c, "set", DEAD);
        c.run(&format!("EVIL.ON * {command}"));
        c.run("CONFIG SET zeitset.sweep-slice-us 100000 zeitset.sweep-max-duty 90 zeitset.sweep yes");
        let now = c.now();
        eventually(PATIENCE, "no expired member is left", || c.int(&format!("ZCOUNT set (-inf {now}")) == 0);
        assert!(c.int("EVIL.OFF") > 0, "the neighbour did nothing");
        // `backlog` has added one live member.
        assert_eq!(c.int("ZEXP.CARD set"), i64::try_from(LIVING + 1).expect("few"), "{}", &command[..20]);
    }
}

/// RENAME sends two events. Between them, the neighbour moves another key, or moves the same set again. The module
/// still knows the set at its new name, and adds the tag again that ZPOPMIN has taken along.
#[test]
fn a_set_is_known_at_its_new_name_whatever_moves_in_the_middle_of_a_rename() {
    let (_server, mut c) = start();
    after_scan(&mut c);
    for (event, meanwhile, name) in [
        ("rename_from", "RENAME plain other", "new"),
        ("rename_to", "RENAME plain other", "new"),
        ("rename_from", "MOVE plain 5", "new"),
        ("rename_from", "RENAME new further", "further"),
    ] {
        c.run("FLUSHALL");
        c.run("SET plain x");
        c.run("ZEXP.ADD set 1w a");
        c.run(&format!("EVIL.ONCE {event} {meanwhile}"));
        // In a script, the module neither scans the keyspace nor adds the tag between the commands.
        let script = "redis.call('ZPOPMIN', 'set') redis.call('RENAME', 'set', 'new') \
                      return redis.call('INFO', 'zeitset'):match('sets_tracked:%d+')";
        let tracked = show(&c.call(redis::cmd("EVAL").arg(script).arg(0)));
        assert_eq!((c.int("EVIL.OFF"), c.int(&format!("EXISTS {name}"))), (1, 1), "{event} {meanwhile}");
        assert_eq!(tracked, "'sets_tracked:1'", "{event} {meanwhile}");
        assert_drained(&mut c, name, 1);
    }
}

/// Between the two events of RENAME, the neighbour moves the result of a STORE command again. The module removes the
/// copied tag there, too, and deletes no member.
#[test]
fn a_copied_tag_is_removed_wherever_its_key_moves_in_the_middle_of_a_rename() {
    let (_server, mut c) = start();
    c.run("ZEXP.ADD set 1w a");
    c.run("ZADD plain 1 x");
    for (meanwhile, database) in [("RENAME new further", 0), ("MOVE new 5", 5)] {
        c.run(&format!("EVIL.ONCE rename_from {meanwhile}"));
        let script = "redis.call('ZUNIONSTORE', 'stored', 2, 'set', 'plain') redis.call('RENAME', 'stored', 'new')";
        c.call(redis::cmd("EVAL").arg(script).arg(0));
        assert_eq!(c.int("EVIL.OFF"), 1, "{meanwhile}");
        c.run(&format!("SELECT {database}"));
        let key = meanwhile.rsplit(' ').next().filter(|_| database == 0).unwrap_or("new");
        let ordinary = (format!("ZRANGE {key} 0 -1"), "['x' 'a']");
        eventually(PATIENCE, "the tag is removed", || c.reply(&ordinary.0) == ordinary.1);
        c.run("SELECT 0");
        after_scan(&mut c);
        c.run(&format!("SELECT {database}"));
        c.script(&[ordinary]);
        c.run("SELECT 0");
    }
}

/// Whenever the module removes a copied tag, the neighbour copies it again. From Redis 7.2 on, the module removes the tag
/// in a job after the command.
#[test]
fn a_neighbour_that_copies_a_tag_again_and_again_keeps_no_client_waiting() {
    let (_server, mut c) = start();
    c.run("ZEXP.ADD set 1w a");
    c.run_all(["EVIL.ON zrem ZUNIONSTORE stored 1 set", "EVIL.ONCE zrem SET seen x"]);
    c.script(&[("ZUNIONSTORE stored 1 set", "2")]);
    eventually(PATIENCE, "the neighbour was there", || c.int("EXISTS seen") == 1);
    c.run("EVIL.OFF");
    let ordinary = ("ZRANGE stored 0 -1", "['a']");
    eventually(PATIENCE, "the tag is removed", || c.reply(ordinary.0) == ordinary.1);
}

/// While the sweeper deletes members of a set, the neighbour removes or replaces the set.
#[test]
fn the_set_being_drained_is_replaced() {
    const DEAD: usize = 1_000;
    let (_server, mut c) = start();
    c.run("ZADD plain 1 a 2 b 3 c");
    for command in ["DEL {key}", "SET {key} x", "COPY plain {key} REPLACE", "RENAME {key} elsewhere", "FLUSHDB"] {
        c.run("FLUSHALL");
        c.run("ZADD plain 1 a 2 b 3 c");
        backlog(&mut c, "set", DEAD);
        c.run(&format!("EVIL.ONCE z* {command}"));
        c.run("EVIL.ONCE z* SET seen x");
        c.run("CONFIG SET zeitset.sweep-slice-us 100000 zeitset.sweep-max-duty 90 zeitset.sweep yes");
        eventually(PATIENCE, "the neighbour was there", || c.int("EXISTS seen") == 1);
        c.run("EVIL.OFF");
        if command.starts_with("COPY") {
            c.script(&[("ZCARD plain", "3"), ("ZRANGE set 0 -1", "['a' 'b' 'c']")]);
        }
        // The sweeper still deletes members of other sets.
        c.run("ZEXP.ADD witness 10ms a 1w b");
        assert_drained(&mut c, "witness", 1);
    }
}

/// During an event, a client cannot be blocked, so the claim replies immediately.
#[test]
fn a_claim_within_an_event_does_not_block() {
    let (_server, mut c) = start();
    c.script(&[
        ("EVIL.ON zadd ZQ.CLAIM 1 queue LEASE 1m BLOCK 0", "+OK"),
        ("ZEXP.ADD set 1w a", "1"),
        ("EVIL.OFF", "1"),
        ("ZQ.PUSH queue x ID a", "'a'"),
        ("EVIL.ON zq.* ZQ.CLAIM 1 queue LEASE 1m BLOCK 0", "+OK"),
        ("ZQ.PUSH queue x ID b", "'b'"),
        ("EVIL.OFF", "1"),
    ]);
    assert_eq!(c.info_number("clients", "blocked_clients"), 0);
    assert_eq!(c.info_number("zeitset", "zeitset_clients_waiting"), 0);
    let before = Dataset::of(&mut c);
    c.run("DEBUG RELOAD");
    assert_eq!(Dataset::of(&mut c), before);
}
