//! ZEXP.ADOPT converts an existing sorted set whose scores are times into an expiring set, in place.

use testkit::{FAR, NEVER, assert_tagged, plant, start};

/// FAR in seconds.
const FAR_S: i64 = FAR / 1000;

#[test]
fn scores_in_milliseconds_are_taken_as_they_are_or_rounded_up() {
    let (_server, mut c) = start();
    for adopt in ["ZEXP.ADOPT k", "ZEXP.ADOPT k UNIT ms", "ZEXP.ADOPT k unit MS FORCE"] {
        c.script(&[
            (format!("ZADD k {FAR} a {FAR}.5 b {} c", FAR + 2), "3"),
            // The key keeps its TTL.
            (format!("PEXPIREAT k {}", FAR - 7), "1"),
            (adopt.into(), "3"),
            ("PEXPIRETIME k".into(), &(FAR - 7).to_string()),
            ("PERSIST k".into(), "1"),
            ("ZEXP.MEMBERS k".into(), "['a' 'b' 'c']"),
            ("ZSCORE k a".into(), &format!("'{FAR}'")),
            ("ZSCORE k b".into(), &format!("'{}'", FAR + 1)),
        ]);
        assert_tagged(&mut c, "k");
        c.run("DEL k");
    }
    c.script(&[("ZEXP.ADOPT k", "0"), ("ZEXP.ADOPT k UNIT s PLUS 5m FORCE", "0"), ("EXISTS k", "0")]);
}

#[test]
fn seconds_are_converted() {
    let (_server, mut c) = start();
    for size in [2, 300, 20_000] {
        c.run("DEL k");
        c.run_all((2..size).map(|n| format!("ZADD k {} m{n}", FAR_S + n)));
        c.script(&[
            (format!("ZADD k {FAR_S}.25 a {FAR_S} b"), "2".to_owned()),
            ("ZEXP.ADOPT k UNIT s".into(), size.to_string()),
            ("ZSCORE k a".into(), format!("'{}'", FAR + 250)),
            ("ZSCORE k b".into(), format!("'{FAR}'")),
            ("ZEXP.CARD k".into(), size.to_string()),
        ]);
        assert_tagged(&mut c, "k");
    }
}

#[test]
fn a_lifetime_is_added_to_sets_scored_by_creation() {
    let (_server, mut c) = start();
    c.script(&[
        (format!("ZADD k {FAR} a"), "1".to_owned()),
        ("ZEXP.ADOPT k PLUS 1.5h".into(), "1".into()),
        ("ZSCORE k a".into(), format!("'{}'", FAR + 5_400_000)),
        (format!("ZADD s {FAR_S} a 1000 old"), "2".into()),
        ("ZEXP.ADOPT s PLUS 1h UNIT s".into(), "1".into()),
        ("ZEXP.MEMBERS s".into(), "['a']".into()),
        ("ZSCORE s a".into(), format!("'{}'", FAR + 3_600_000)),
    ]);
    assert_tagged(&mut c, "k");
    assert_tagged(&mut c, "s");
}

#[test]
fn members_past_their_time_are_not_live_and_all_of_them_is_an_error() {
    let (_server, mut c) = start();
    c.run(&format!("ZADD some 1000 a 2000 b {FAR} live"));
    c.script(&[("ZEXP.ADOPT some", "1"), ("ZEXP.MEMBERS some", "['live']")]);
    assert_tagged(&mut c, "some");
    // If the set remained, the sweeper's changes would affect the comparison below.
    c.run("DEL some");

    c.run("ZADD all 1000 a 2000 b");
    let before = c.trace("all");
    c.script(&[("ZEXP.ADOPT all", "!ERR "), ("ZEXP.ADOPT all UNIT s", "!ERR "), ("ZEXP.ADOPT all PLUS 1d", "!ERR ")]);
    assert_eq!(c.trace("all"), before);
    c.script(&[
        ("ZEXP.ADOPT all FORCE", "0"),
        ("ZEXP.CARD all", "0"),
        ("ZEXP.ADD all 5m new", "1"),
        ("ZEXP.CARD all", "1"),
    ]);
}

#[test]
fn scores_that_are_no_times_are_an_error_and_change_nothing() {
    let (_server, mut c) = start();
    for score in ["inf", "-inf", "-1", "9007199254740992", "1e300"] {
        for options in ["", "UNIT s", "PLUS 5m", "FORCE"] {
            c.run("DEL k");
            c.run(&format!("ZADD k {FAR_S} a {score} bad"));
            let before = c.trace("k");
            c.script(&[(format!("ZEXP.ADOPT k {options}"), "!ERR ")]);
            assert_eq!(c.trace("k"), before, "{score} {options}");
        }
    }
    // The scores are in range, but the options would move them out of range.
    c.run("DEL k");
    c.run(&format!("ZADD k {FAR} a {} b", NEVER - 1));
    let before = c.trace("k");
    c.script(&[
        ("ZEXP.ADOPT k UNIT s", "!ERR "),
        ("ZEXP.ADOPT k PLUS 1s", "!ERR "),
        ("ZEXP.ADOPT k UNIT s PLUS 1s FORCE", "!ERR "),
    ]);
    assert_eq!(c.trace("k"), before);
}

#[test]
fn adopting_twice_changes_nothing() {
    let (_server, mut c) = start();
    plant(&mut c, "k", &[("a", FAR), ("b", FAR + 1)]);
    let before = c.trace("k");
    c.script(&[
        ("ZEXP.ADOPT k", "2"),
        ("ZEXP.ADOPT k UNIT ms", "2"),
        ("ZEXP.ADOPT k FORCE", "2"),
        // These options would shift every member a second time.
        ("ZEXP.ADOPT k UNIT s", "!ERR "),
        ("ZEXP.ADOPT k PLUS 5m", "!ERR "),
        ("ZEXP.ADOPT k PLUS 5m FORCE", "!ERR "),
    ]);
    assert_eq!(c.trace("k"), before);
}
