//! ZEXP.ADD: lifetimes, times, conditions, and the reply.

use testkit::{FAR, assert_tagged, plant, start};

#[test]
fn new_members_are_counted_and_live_ones_refreshed() {
    let (_server, mut c) = start();
    c.script(&[
        ("ZEXP.ADD k 5m a 5m b", "2"),
        ("ZEXP.ADD k 5m b 5m c", "1"),
        ("ZEXP.ADD k 10m a 10m b 10m c", "0"),
        ("TYPE k", "+zset"),
        ("ZRANGE k 0 -1", "['zeitset:expiring' 'a' 'b' 'c']"),
    ]);
    assert_tagged(&mut c, "k");
}

#[test]
fn options_stand_in_any_order_and_case_and_a_member_may_look_like_one() {
    let (_server, mut c) = start();
    c.script(&[
        ("zexp.add k nx ch cap 9 5M a", "1"),
        ("ZEXP.ADD k Xx gT cH 6H a", "1"),
        (&format!("ZEXP.ADD k at {FAR}MS b"), "1"),
        ("ZSCORE k b", &format!("'{FAR}'")),
        ("ZEXP.ADD l CAP 3 CH NX 5m a", "1"),
        ("ZEXP.ADD l CH GT XX CAP 1 6m a", "1"),
        ("ZEXP.ADD l CH LT CAP 1 XX 5m a", "1"),
        ("ZEXP.ADD m 5m AT 5m NX 5m CAP 5m 5m 5m CH", "5"),
        ("ZEXP.MISMEMBER m AT NX CAP 5m CH", "[1 1 1 1 1]"),
    ]);
}

#[test]
fn a_lifetime_counts_from_the_servers_clock_to_the_millisecond_rounded_up() {
    let (_server, mut c) = start();
    let minute = 60_000;
    let hour = 60 * minute;
    for (ttl, ms) in [
        ("250000ms", 250_000),
        ("90", 90_000),
        ("2w", 14 * 24 * hour),
        ("1.5h", hour + 30 * minute),
        ("60.0001", 60_001),
        ("1ms", 1),
        ("0.001", 1),
        ("0.0001", 1),
        ("0.0001ms", 1),
        ("0.00000001h", 1),
    ] {
        let before = c.now();
        // In the transaction, the sweeper does not run.
        c.run_all(["MULTI".into(), format!("ZEXP.ADD {ttl} {ttl} m"), format!("ZSCORE {ttl} m")]);
        let reply = c.reply("EXEC");
        let after = c.now();
        let at: i64 = reply.trim_start_matches("[1 '").trim_end_matches("']").parse().expect(&reply);
        assert!((before + ms..=after + ms).contains(&at), "{ttl}: expires at {at}");
    }
}

#[test]
fn each_member_has_its_own_ttl() {
    let (_server, mut c) = start();
    c.script(&[
        ("ZEXP.ADD k 5m a 1h b 2 c", "3"),
        ("ZEXP.MEMBERS k", "['c' 'a' 'b']"),
        ("ZEXP.MEMBERS k WITHIN 10m", "['c' 'a']"),
        ("ZEXP.ADD k GT CH 10m a 10m b 10m c", "2"),
    ]);
    c.script(&[
        (format!("ZEXP.ADD at AT {FAR}ms a 1 b {}ms c", FAR + 1), "2"),
        (format!("ZEXP.ADD at CH AT 1 a {}ms c {FAR}ms d", FAR + 1), "2"),
        ("ZEXP.MEMBERS at".into(), "['d' 'c']"),
    ]);
    assert_tagged(&mut c, "k");
    assert_tagged(&mut c, "at");
}

/// Compares random calls with ZADD. The calls have every combination of conditions, and may name a member several
/// times.
#[test]
fn conditions_and_repeated_members_mean_what_they_mean_in_zadd() {
    let (_server, mut c) = start();
    let mut state = 0x2545_f491_4f6c_dd1d_u64;
    let mut random = |below: u64| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (state >> 33) % below
    };
    for round in 0..700 {
        if round % 10 == 0 {
            c.run("DEL k model");
        }
        let order = ["", "NX", "XX", "GT", "LT", "XX GT", "XX LT"][round % 7];
        let changed = ["", "CH"][random(2) as usize];
        let options = format!("{order} {changed}");
        let mut members: Vec<_> = (0..=random(5)).map(|_| (FAR + random(4) as i64, random(4))).collect();
        if changed == "CH" {
            // ZEXP.ADD counts a member once, ZADD each of its changes.
            members.sort_unstable_by_key(|(_, member)| *member);
            members.dedup_by_key(|(_, member)| *member);
        }
        let line = |unit: &str| {
            let words: Vec<_> = members.iter().map(|(at, member)| format!("{at}{unit} m{member}")).collect();
            words.join(" ")
        };
        let expected = c.reply(&format!("ZADD model {options} {}", line("")));
        c.script(&[(format!("ZEXP.ADD k {options} AT {}", line("ms")), expected)]);
        let [ours, model] = ["k", "model"].map(|key| c.reply(&format!("ZRANGEBYSCORE {key} 0 +inf WITHSCORES")));
        assert_eq!(ours, model, "{options} {}", line(""));
        if c.int("EXISTS k") == 1 {
            assert_tagged(&mut c, "k");
        }
    }
}

#[test]
fn a_member_named_twice_counts_once() {
    let (_server, mut c) = start();
    c.script(&[
        ("ZEXP.ADD k 5m a 5m a 5m a", "1"),
        ("ZEXP.ADD k CH 6m a 6m a 6m b 6m b", "2"),
        ("ZEXP.ADD k CAP 3 6m c 6m c", "1"),
        ("ZEXP.ADD k CH AT 1 a 1 a", "1"),
        ("ZEXP.CARD k", "2"),
        // A member that one call adds and removes leaves no key behind.
        ("ZEXP.ADD k AT 9000000000 x 1 x", "0"),
        ("ZEXP.ADD k CAP 2 AT 9000000000 x 1 x", "0"),
        ("ZEXP.ISMEMBER k x", "0"),
        ("ZEXP.ADD k AT 1 x 9000000000 x", "1"),
    ]);
}

#[test]
fn an_instant_in_the_past_removes_or_does_not_add() {
    let (_server, mut c) = start();
    c.script(&[
        ("ZEXP.ADD k AT 0 a", "0"),
        ("ZEXP.ADD k XX 5m a", "0"),
        ("ZEXP.ADD k XX GT CH 5m a", "0"),
        ("EXISTS k", "0"),
        ("ZEXP.ADD k CH AT 1 a", "0"),
        ("ZEXP.ADD k 5m a 5m b 5m c 5m d 5m e", "5"),
        // The condition fails, so the member stays.
        ("ZEXP.ADD k NX CH AT 1 a", "0"),
        ("ZEXP.ADD k GT CH AT 1 a", "0"),
        ("ZEXP.ISMEMBER k a", "1"),
        // The condition holds, so the member is removed. Only CH counts it.
        ("ZEXP.ADD k AT 1 a", "0"),
        ("ZEXP.ADD k CH AT 1 b", "1"),
        ("ZEXP.ADD k LT CH AT 1 c 1 absent", "1"),
        ("ZEXP.ADD k XX CH AT 1 d 1 absent", "1"),
        ("ZRANGE k 1 -1", "['e']"),
    ]);
    assert_tagged(&mut c, "k");
    c.script(&[("ZEXP.ADD k CH AT 1 e", "1"), ("EXISTS k", "0")]);
}

#[test]
fn an_expired_member_counts_as_absent() {
    let (_server, mut c) = start();
    for (line, reply, alive) in [
        ("ZEXP.ADD k 5m dead", "1", true),
        ("ZEXP.ADD k CH 5m dead", "1", true),
        ("ZEXP.ADD k NX 5m dead", "1", true),
        ("ZEXP.ADD k XX CH 5m dead", "0", false),
        ("ZEXP.ADD k GT 5m dead", "1", true),
        // The member has expired, so LT does not compare with its old expiry.
        ("ZEXP.ADD k LT 5m dead", "1", true),
        ("ZEXP.ADD k CH AT 1 dead", "0", false),
    ] {
        plant(&mut c, "k", &[("dead", 1000), ("live", FAR)]);
        c.script(&[
            (line, reply),
            ("ZEXP.ISMEMBER k dead", if alive { "1" } else { "0" }),
            ("ZEXP.ISMEMBER k live", "1"),
        ]);
        assert_tagged(&mut c, "k");
    }
}
