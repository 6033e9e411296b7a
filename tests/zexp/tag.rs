//! The tag: the member `zeitset:expiring` with score `-inf` makes a sorted set an expiring set.

use testkit::{
    Client, Dataset, FAR, PATIENCE, Server, after_scan, assert_agree, assert_same_data, eventually, start, start_pair,
};

const TAG: &str = "zeitset:expiring";

/// The errors of commands on an ordinary sorted set.
const ORDINARY: &str = "!NOTEXPIRING ";

fn has_tag(c: &mut Client, key: &str) -> bool {
    c.reply(&format!("ZSCORE {key} {TAG}")) == "'-inf'"
}

/// Waits until `key` has the tag, which a plain command has removed, and other members.
#[track_caller]
fn assert_tag_is_back(c: &mut Client, key: &str, after: &str) {
    eventually(PATIENCE, &format!("{key} has the tag after {after}"), || has_tag(c, key));
}

/// Waits until `key` has no tag, which a STORE command has copied.
#[track_caller]
fn assert_tag_is_gone(c: &mut Client, key: &str, after: &str) {
    let what = format!("{key} has no tag after {after}");
    eventually(PATIENCE, &what, || c.reply(&format!("ZSCORE {key} {TAG}")) == "nil");
}

/// Makes the expiring set `k` with the live members `a`, `b` and `c`.
fn sample(c: &mut Client) {
    c.run("DEL k");
    c.run(&format!("ZEXP.ADD k AT {FAR}ms a {}ms b {}ms c", FAR + 1, FAR + 2));
}

#[test]
fn the_first_member_brings_the_tag_and_no_ttl() {
    let (_server, mut c) = start();
    sample(&mut c);
    c.script(&[
        (
            "ZRANGE k 0 -1 WITHSCORES".to_string(),
            format!("['{TAG}' '-inf' 'a' '{FAR}' 'b' '{}' 'c' '{}']", FAR + 1, FAR + 2),
        ),
        ("PTTL k".to_string(), "-1".into()),
        ("ZCARD k".to_string(), "4".into()),
        (format!("ZCOUNT k {} +inf", c_now()), "3".into()),
    ]);
    // A TTL that somebody sets is the key's TTL, and stays.
    let ttl = FAR + 5000;
    c.script(&[
        (format!("PEXPIREAT k {ttl}"), "1"),
        ("ZEXP.ADD k 5m d".into(), "1"),
        ("ZEXP.REM k d".into(), "1"),
        ("ZEXP.CARD k".into(), "3"),
    ]);
    c.script(&[("PEXPIRETIME k", ttl.to_string()), ("PERSIST k", "1".into()), ("ZEXP.CARD k", "3".into())]);
}

/// Returns a time in the past, for a range of live members.
fn c_now() -> i64 {
    1_700_000_000_000
}

#[test]
fn no_command_shows_counts_or_draws_the_tag() {
    let (_server, mut c) = start();
    sample(&mut c);
    c.script(&[
        ("ZEXP.CARD k", "3"),
        ("ZEXP.MEMBERS k", "['a' 'b' 'c']"),
        ("ZEXP.MEMBERS k LIMIT 2 5", "['c']"),
        ("ZEXP.RANDMEMBER k 9", "['a' 'b' 'c']"),
        ("ZEXP.ISMEMBER k zeitset:expiring", "0"),
        ("ZEXP.MISMEMBER k zeitset:expiring a", "[0 1]"),
        ("ZEXP.PTTL k zeitset:expiring", "[-2]"),
        ("ZEXP.TTL k zeitset:expiring", "[-2]"),
    ]);
    for _ in 0..40 {
        assert!(["'a'", "'b'", "'c'"].contains(&c.reply("ZEXP.RANDMEMBER k").as_str()));
    }
    let drawn = c.strings("ZEXP.RANDMEMBER k -200");
    assert!(drawn.len() == 200 && !drawn.contains(&TAG.to_string()));
    c.script(&[("ZEXP.POP k", "'a'"), ("ZEXP.POP k 9", "['b' 'c']"), ("EXISTS k", "0")]);
}

#[test]
fn every_write_refuses_the_name_of_the_tag() {
    let (_server, mut c) = start();
    sample(&mut c);
    let before = c.trace("k");
    for call in [
        "ZEXP.ADD k 5m zeitset:expiring",
        "ZEXP.ADD k 5m d 5m zeitset:expiring",
        "ZEXP.ADD k XX 5m zeitset:expiring",
        "ZEXP.ADD k CAP 0 5m zeitset:expiring",
        "ZEXP.EXPIRE k 5m a zeitset:expiring",
        "ZEXP.PERSIST k zeitset:expiring",
        "ZEXP.REM k a zeitset:expiring",
        "ZEXP.ADD new 5m zeitset:expiring",
        "ZEXP.REM new zeitset:expiring",
    ] {
        let reply = c.reply(call);
        assert!(reply.starts_with("!ERR 'zeitset:expiring' "), "{call}: {reply}");
    }
    assert_eq!(c.trace("k"), before);
    c.script(&[("EXISTS new", "0")]);
}

#[test]
fn a_command_that_leaves_only_the_tag_deletes_the_key_at_once() {
    let (_server, mut c) = start();
    c.run("CONFIG SET zeitset.sweep no");
    for call in ["ZEXP.REM k a b c", "ZEXP.POP k 3", "ZEXP.EXPIRE k AT 1 a b c", "ZEXP.ADD k AT 1 a 1 b 1 c"] {
        sample(&mut c);
        c.run(call);
        c.script(&[("EXISTS k", "0")]);
    }
}

#[test]
fn a_set_of_which_a_plain_command_leaves_only_the_tag_is_deleted() {
    let (_server, mut c) = start();
    for call in ["ZREM k a b c", "ZPOPMAX k 3", "ZREMRANGEBYSCORE k 0 +inf", "ZREMRANGEBYRANK k 1 -1"] {
        sample(&mut c);
        c.run(call);
        eventually(PATIENCE, &format!("the set is gone after {call}"), || c.int("EXISTS k") == 0);
    }
}

#[test]
fn zrem_of_the_tag_makes_the_set_ordinary() {
    let (_server, mut c) = start();
    for release in ["ZREM k zeitset:expiring", "ZADD k 5 zeitset:expiring"] {
        sample(&mut c);
        c.run("ZADD k 1000 dead");
        c.run_all(["CONFIG SET zeitset.sweep no", "ZADD k 1000 dead", release, "CONFIG SET zeitset.sweep yes"]);
        let before = c.scores("k");
        c.script(&[("ZEXP.CARD k", "!NOTEXPIRING key is an ordinary sorted set; use ZEXP.ADOPT to convert it")]);
        // A range that the set loses now does not bring a tag.
        c.run("ZPOPMAX k");
        after_scan(&mut c);
        assert_eq!(c.scores("k"), before[..before.len() - 1], "{release}");
    }
}

/// Plain commands that remove the tag together with members, each with the members that stay.
const TAKING: [(&str, &str); 8] = [
    ("ZPOPMIN k", "['a' 'b' 'c']"),
    ("ZPOPMIN k 2", "['b' 'c']"),
    ("BZPOPMIN k 1", "['a' 'b' 'c']"),
    ("ZMPOP 1 k MIN COUNT 3", "['c']"),
    ("ZREMRANGEBYRANK k 0 0", "['a' 'b' 'c']"),
    ("ZREMRANGEBYRANK k 0 1", "['b' 'c']"),
    ("ZREMRANGEBYSCORE k -inf 1700000000000", "['a' 'b' 'c']"),
    ("ZREMRANGEBYSCORE k -inf (4102444800001", "['b' 'c']"),
];

#[test]
fn a_range_that_takes_the_tag_along_leaves_an_expiring_set() {
    let (server, replica, mut c) = start_pair();
    for (call, members) in TAKING {
        for frame in [&["{}"][..], &["MULTI", "{}", "EXEC"], &["EVAL {} 0"]] {
            if call.starts_with('B') && frame.len() == 1 && frame[0].starts_with("EVAL") {
                continue; // A script may not block.
            }
            sample(&mut c);
            for line in frame {
                run_in(&mut c, line, call);
            }
            // Reads and writes go on meanwhile.
            c.script(&[("ZEXP.MEMBERS k", members), ("ZEXP.ADD k 5m new", "1"), ("ZEXP.REM k new", "1")]);
            assert_tag_is_back(&mut c, "k", call);
            c.script(&[("ZEXP.MEMBERS k", members)]);
        }
        sample(&mut c);
        c.run(call);
        assert_tag_is_back(&mut c, "k", call);
        replica.wait_for_sync(&server);
        assert_same_data(&mut c, &mut replica.client());
    }
}

/// Runs a line in which `{}` stands for a command. With EVAL, the command is a script.
fn run_in(c: &mut Client, line: &str, command: &str) {
    if line.starts_with("EVAL") {
        let words: Vec<_> = command.split(' ').map(|word| format!("'{word}'")).collect();
        c.call(redis::cmd("EVAL").arg(format!("return redis.call({})", words.join(", "))).arg(0));
    } else {
        c.run(&line.replace("{}", command));
    }
}

/// The key had no tag when ZEXP.ADD removed its only member. Regression test: the key lost its TTL, but not on replicas.
#[test]
fn a_call_that_replaces_the_only_member_of_a_set_without_its_tag_keeps_the_ttl() {
    let (server, replica, mut c) = start_pair();
    c.run_all([&format!("ZEXP.ADD k AT {FAR}ms m"), &format!("PEXPIREAT k {FAR}")]);
    c.run_all(["MULTI", "ZPOPMIN k", &format!("ZEXP.ADD k AT 1 m {FAR}ms n"), "PEXPIRETIME k"]);
    assert_eq!(c.reply("EXEC"), format!("[['{TAG}' '-inf'] 1 {FAR}]"));
    c.script(&[("ZEXP.MEMBERS k", "['n']")]);
    assert_agree(&server, &[&replica]);
}

/// ZPOPMIN sends its event before it has removed all members. Here it removes the tag after the event.
#[test]
fn a_tag_among_other_members_of_its_score_is_given_back_too() {
    let (_server, mut c) = start();
    c.run("CONFIG SET zeitset.sweep no");
    for call in ["ZPOPMIN k 2", "ZMPOP 1 k MIN COUNT 2"] {
        sample(&mut c);
        c.run("ZADD k -inf before -inf zz-after");
        c.script(&[(call.to_string(), c_popped(call))]);
        assert_tag_is_back(&mut c, "k", call);
        c.script(&[("ZRANGE k 0 -1", "['zeitset:expiring' 'zz-after' 'a' 'b' 'c']"), ("ZEXP.CARD k", "3")]);
    }
    c.run("CONFIG SET zeitset.sweep yes");
    eventually(PATIENCE, "the sweeper removes members at -inf", || c.int("ZCARD k") == 4);
}

/// The ZADD after ZPOPMIN shows that the tag is missing, but has not removed it.
#[test]
fn a_plain_zadd_after_a_pop_among_members_of_the_tags_score_releases_no_set() {
    let (_server, mut c) = start();
    c.run("CONFIG SET zeitset.sweep no");
    sample(&mut c);
    c.run("ZADD k -inf before -inf zz-after");
    c.run_all(["MULTI", "ZPOPMIN k 2", &format!("ZADD k {FAR} d"), "EXEC"]);
    assert_tag_is_back(&mut c, "k", "ZADD");
    c.script(&[("ZEXP.MEMBERS k", "['a' 'd' 'b' 'c']")]);
}

fn c_popped(call: &str) -> String {
    match call {
        "ZPOPMIN k 2" => format!("['before' '-inf' '{TAG}' '-inf']"),
        _ => format!("['k' [['before' '-inf'] ['{TAG}' '-inf']]]"),
    }
}

/// Commands that store a result, each with the members of the result. `o` is an ordinary set, `k` an expiring one.
const STORING: [(&str, &str); 9] = [
    ("ZUNIONSTORE t 2 k o", "['x' 'y' 'a' 'b' 'c']"),
    ("ZUNIONSTORE t 1 k", "['a' 'b' 'c']"),
    ("ZUNIONSTORE t 2 k o WEIGHTS 0 1", "['a' 'b' 'c' 'x' 'y']"),
    ("ZUNIONSTORE t 2 k o WEIGHTS -1 1", "['c' 'b' 'a' 'x' 'y']"),
    ("ZUNIONSTORE t 2 k k AGGREGATE MAX", "['a' 'b' 'c']"),
    ("ZINTERSTORE t 2 k k", "['a' 'b' 'c']"),
    ("ZDIFFSTORE t 2 k o", "['a' 'b' 'c']"),
    ("ZRANGESTORE t k 0 -1", "['a' 'b' 'c']"),
    ("ZRANGESTORE t k 0 0", "[]"),
];

#[test]
fn a_store_command_makes_an_ordinary_set() {
    let (server, replica, mut c) = start_pair();
    c.run("ZADD o 5 x 6 y");
    sample(&mut c);
    for (call, members) in STORING {
        c.run_all(["DEL t", "ZEXP.ADD t 5m before"]);
        for frame in [&["{}"][..], &["MULTI", "{}", "EXEC"], &["EVAL {} 0"]] {
            for line in frame {
                run_in(&mut c, line, call);
            }
            if members != "[]" {
                let reply = c.reply("ZEXP.CARD t");
                assert!(reply.starts_with(ORDINARY), "{call}: {reply}");
            }
            assert_tag_is_gone(&mut c, "t", call);
            c.script(&[("ZRANGE t 0 -1", members)]);
        }
        after_scan(&mut c);
        c.script(&[("ZRANGE t 0 -1", members)]);
        replica.wait_for_sync(&server);
        assert_same_data(&mut c, &mut replica.client());
    }
    c.script(&[("ZEXP.MEMBERS k", "['a' 'b' 'c']")]);
}

/// What happens to the result of a STORE command in the same turn. The result is then at `u`.
const FOLLOWING: [&[&str]; 6] = [
    &["RENAME t u"],
    &["COPY t u"],
    &["RENAME t v", "COPY v u", "DEL v"],
    &["COPY t v", "RENAME v u"],
    &["ZADD t 7 z", "RENAME t u", "ZREM u z"],
    &["SELECT 3", "DEL t", "SELECT 0", "MOVE t 3", "SELECT 3", "COPY t u DB 0 REPLACE", "DEL t", "SELECT 0"],
];

#[test]
fn a_copied_tag_is_removed_wherever_its_key_went_in_the_same_turn() {
    let (server, replica, mut c) = start_pair();
    c.run("ZADD o 5 x 6 y");
    sample(&mut c);
    // The last case copies to another database.
    let most = if c.copy_loses_the_database() { FOLLOWING.len() - 1 } else { FOLLOWING.len() };
    for following in &FOLLOWING[..most] {
        for in_transaction in [false, true] {
            c.run("DEL t u v");
            let mut pipe = redis::pipe();
            let calls = std::iter::once(&"ZUNIONSTORE t 2 k o").chain(following.iter());
            if in_transaction {
                pipe.add_command(testkit::command("MULTI"));
            }
            for call in calls {
                pipe.add_command(testkit::command(call)).ignore();
            }
            if in_transaction {
                pipe.add_command(testkit::command("EXEC"));
            }
            c.pipe(&pipe);
            c.run("SELECT 0");
            assert_tag_is_gone(&mut c, "u", &following.join(", "));
            after_scan(&mut c);
            c.script(&[("ZRANGE u 0 -1", "['x' 'y' 'a' 'b' 'c']")]);
            let reply = c.reply("ZEXP.CARD u");
            assert!(reply.starts_with(ORDINARY), "{following:?}: {reply}");
            if c.int("EXISTS t") == 1 {
                assert_tag_is_gone(&mut c, "t", &following.join(", "));
            }
        }
    }
    replica.wait_for_sync(&server);
    assert_same_data(&mut c, &mut replica.client());
    c.script(&[("ZEXP.MEMBERS k", "['a' 'b' 'c']")]);
}

#[test]
fn a_missing_tag_is_given_back_to_a_set_that_was_renamed_in_the_same_turn() {
    let (server, replica, mut c) = start_pair();
    for frame in
        [&["ZPOPMIN k", "RENAME k u"][..], &["MULTI", "ZPOPMIN k", "RENAME k u", "RENAME u v", "RENAME v u", "EXEC"]]
    {
        c.run("DEL u v");
        sample(&mut c);
        let mut pipe = redis::pipe();
        for call in frame {
            pipe.add_command(testkit::command(call)).ignore();
        }
        c.pipe(&pipe);
        assert_tag_is_back(&mut c, "u", "RENAME");
        c.script(&[("ZEXP.MEMBERS u", "['a' 'b' 'c']"), ("EXISTS k v", "0")]);
    }
    replica.wait_for_sync(&server);
    assert_same_data(&mut c, &mut replica.client());
}

/// A genuine copy stays an expiring set, even while the tag of a STORE command's result is pending.
#[test]
fn a_copy_of_an_expiring_set_is_an_expiring_set() {
    let (_server, mut c) = start();
    c.run("ZADD o 5 x 6 y");
    sample(&mut c);
    c.run_all(["MULTI", "ZUNIONSTORE t 2 k o", "ZUNIONSTORE u 2 k o"]);
    c.run_all(["COPY k copy", "COPY k u REPLACE", "RENAME k moved", "EXEC"]);
    assert_tag_is_gone(&mut c, "t", "ZUNIONSTORE");
    for key in ["copy", "u", "moved"] {
        c.script(&[(format!("ZEXP.MEMBERS {key}"), "['a' 'b' 'c']")]);
        assert!(has_tag(&mut c, key), "{key}");
    }
}

/// The module cannot tell of which set these are copies. So they are ordinary sets, and lose no member.
#[test]
fn a_copy_that_may_be_one_of_an_ordinary_set_is_ordinary_and_whole() {
    let (server, replica, mut c) = start_pair();
    let many: Vec<_> = (0..17).map(|n| format!("ZRANGESTORE stored{n} k 0 1")).collect();
    for before in [&["ZPOPMIN k".to_string()][..], &["ZUNIONSTORE t 1 k".to_string()][..], &many[..]] {
        c.run("DEL copy");
        sample(&mut c);
        c.run_all(["MULTI", "ZADD k 1000 dead"]);
        c.run_all(before);
        c.run_all(["COPY k copy", "EXEC"]);
        assert_tag_is_gone(&mut c, "copy", &before[0]);
        after_scan(&mut c);
        c.script(&[
            ("ZEXP.CARD copy", ORDINARY),
            ("ZRANGE copy 0 -1", "['dead' 'a' 'b' 'c']"),
            ("ZEXP.MEMBERS k", "['a' 'b' 'c']"),
        ]);
        replica.wait_for_sync(&server);
        assert_same_data(&mut c, &mut replica.client());
    }
}

/// One script may store and copy any number of results. Each result differs from the others.
#[test]
fn no_copy_of_many_stored_results_is_an_expiring_set() {
    const MANY: usize = 40;
    let (server, replica, mut c) = start_pair();
    c.run("ZADD o 5 x 6 y");
    sample(&mut c);
    let script = "for n = 1, ARGV[1] do \
                    redis.call('ZUNIONSTORE', 'stored' .. n, 2, 'k', 'o') \
                    redis.call('ZADD', 'stored' .. n, ARGV[2], 'last' .. n) \
                    redis.call('COPY', 'stored' .. n, 'copy' .. n) \
                    redis.call('DEL', 'stored' .. n) \
                  end";
    c.call(redis::cmd("EVAL").arg(script).arg(0).arg(MANY).arg(FAR + 9));
    for n in 1..=MANY {
        assert_tag_is_gone(&mut c, &format!("copy{n}"), "the script");
    }
    after_scan(&mut c);
    for n in 1..=MANY {
        c.script(&[
            (format!("ZRANGE copy{n} 0 -1"), format!("['x' 'y' 'a' 'b' 'c' 'last{n}']")),
            (format!("ZEXP.CARD copy{n}"), ORDINARY.into()),
        ]);
    }
    replica.wait_for_sync(&server);
    assert_same_data(&mut c, &mut replica.client());
}

/// ADOPT in the same turn keeps the tag that the STORE command has copied. Regression test: replicas and the AOF did not
/// get this, so the set was ordinary on a replica, and after its promotion or DEBUG LOADAOF for good.
#[test]
fn the_result_of_a_store_command_can_be_adopted_in_the_same_turn() {
    for (adopt, at) in [("ZEXP.ADOPT t", FAR), ("ZEXP.ADOPT t PLUS 1s", FAR + 1000)] {
        let (server, replica, mut c) = start_pair();
        let mut r = replica.client();
        // From now on, the replica gets events.
        r.run("ZEXP.CARD k");
        sample(&mut c);
        c.run_all(["MULTI", "ZUNIONSTORE t 1 k", &format!("PEXPIREAT t {FAR}"), adopt, "ZEXP.CARD t", "PEXPIRETIME t"]);
        assert_eq!(c.reply("EXEC"), format!("[4 1 3 3 {FAR}]"), "{adopt}");
        after_scan(&mut c);
        c.run("ZEXP.ADD t 5m d");
        replica.wait_for_sync(&server);
        r.script(&[("ZEXP.CARD t", "4"), ("ZEXP.MEMBERS t LIMIT 1 9", "['a' 'b' 'c']")]);
        assert_agree(&server, &[&replica]);
        c.run("DEBUG LOADAOF");
        r.run("REPLICAOF NO ONE");
        for c in [&mut c, &mut r] {
            after_scan(c);
            assert!(has_tag(c, "t"), "{adopt}");
            c.script(&[("ZSCORE t a", format!("'{at}'")), ("ZEXP.CARD t", "4".into())]);
        }
    }
}

/// Without its tag, such a result is a missing key.
#[test]
fn a_result_of_nothing_but_the_tag_is_not_adopted() {
    let (server, replica, mut c) = start_pair();
    sample(&mut c);
    for adopt in ["ZEXP.ADOPT t", "ZEXP.ADOPT t FORCE", "ZEXP.ADOPT t UNIT s PLUS 1h"] {
        c.run_all(["MULTI", "ZRANGESTORE t k 0 0", adopt, "ZEXP.ADD t 5m a"]);
        let reply = c.reply("EXEC");
        assert!(reply.starts_with(&format!("[1 0 {ORDINARY}")), "{adopt}: {reply}");
        eventually(PATIENCE, &format!("t is gone after {adopt}"), || c.int("EXISTS t") == 0);
        assert_agree(&server, &[&replica]);
    }
}

#[test]
fn adopt_refuses_a_set_with_a_member_of_the_tags_name() {
    let (_server, mut c) = start();
    c.run(&format!("ZADD o {FAR} a 7 {TAG}"));
    let before = c.trace("o");
    let reply = c.reply("ZEXP.ADOPT o");
    assert!(reply.starts_with("!ERR set has a member 'zeitset:expiring'"), "{reply}");
    assert_eq!(c.trace("o"), before);
}

/// The work is done with `zeitset.sweep no`, too.
#[test]
fn tags_are_settled_while_the_sweeper_is_off() {
    let (_server, mut c) = start();
    c.run("CONFIG SET zeitset.sweep no");
    sample(&mut c);
    c.run_all(["ZUNIONSTORE t 1 k", "ZPOPMIN k"]);
    assert_tag_is_gone(&mut c, "t", "ZUNIONSTORE");
    assert_tag_is_back(&mut c, "k", "ZPOPMIN");
}

/// From Redis 7.2 on, the server settles a tag before it replies, and writes both into the AOF together.
#[test]
fn a_crash_leaves_no_copied_tag_where_the_server_has_jobs() {
    let mut server = Server::builder().config("appendonly yes\nappendfsync always").start();
    let mut c = server.client();
    if c.info("server")["redis_version"].starts_with("7.0.") {
        return;
    }
    c.run("ZADD o 5 x 6 y");
    sample(&mut c);
    c.script(&[("ZUNIONSTORE t 2 k o", "6"), ("ZSCORE t zeitset:expiring", "nil")]);
    c.script(&[("ZPOPMIN k", "['zeitset:expiring' '-inf']"), ("ZSCORE k zeitset:expiring", "'-inf'")]);
    let before = Dataset::of(&mut c);
    server.crash_and_restart();
    let mut c = server.client();
    after_scan(&mut c);
    assert_eq!(Dataset::of(&mut c), before);
}

/// A trim by hand on a set that the scan may not have found yet: the set stays an expiring set, or is ordinary. Either
/// way, no member that the command did not name is lost.
#[test]
fn a_trim_by_hand_right_after_a_start_loses_no_member() {
    let mut server = Server::builder().config("save 3600 1").start();
    let mut c = server.client();
    sample(&mut c);
    for n in 0..2000 {
        c.run(&format!("ZADD filler:{n} 1 a"));
    }
    server.restart();
    let mut c = server.client();
    c.run("ZREMRANGEBYSCORE k -inf 1000");
    after_scan(&mut c);
    let members = c.strings("ZRANGE k 0 -1");
    assert!(members.ends_with(&["a".into(), "b".into(), "c".into()]), "{members:?}");
    let reply = c.reply("ZEXP.MEMBERS k");
    assert!(reply == "['a' 'b' 'c']" || reply.starts_with(ORDINARY), "{reply}");
}
