//! ZRL.INFO: what of a limit is in use.

use testkit::start;

#[test]
fn each_algorithm_tells_what_is_in_use_and_when_it_comes_back() {
    let (server, mut c) = start();
    c.script(&[("ZRL.INFO missing", "nil")]);
    let first = c.verdict("ZRL.CHECK s 9 30d COST 2").charged_until;
    let tick = c.now() + 2;
    c.wait_until(tick);
    let last = c.verdict("ZRL.CHECK s 9 30d").charged_until;
    let end = c.verdict("ZRL.CHECK f 9 30d FIXED COST 4").charged_until;
    let empty = c.verdict("ZRL.CHECK l 9 30d LEAKY COST 3").charged_until;
    c.run("ZRL.THROTTLE t 8 1 3600 2");
    let t = c.string("GET t").parse::<i64>().unwrap().div_euclid(1_000_000) + 1;
    for mut c in [c, server.resp3()] {
        let field = |info: &str, name: &str| {
            let info = info.replace(['{', '}', '[', ']', ':', ','], " ");
            let words: Vec<_> = info.split_whitespace().map(str::to_owned).collect();
            let at = words.iter().position(|word| *word == format!("'{name}'")).expect(name);
            words[at + 1].clone()
        };
        for (key, algorithm, units, entries, next, all) in [
            ("s", "'sliding'", "3", "2", Some(first), Some(last)),
            ("f", "'fixed'", "4", "1", Some(end), Some(end)),
            ("l", "'leaky'", "3", "1", None, Some(empty)),
            ("t", "'throttle'", "nil", "1", None, Some(t)),
        ] {
            let info = c.reply(&format!("ZRL.INFO {key}"));
            assert_eq!(field(&info, "algorithm"), algorithm);
            assert_eq!(field(&info, "units"), units, "{info}");
            assert_eq!(field(&info, "entries"), entries, "{info}");
            if let Some(next) = next {
                assert_eq!(field(&info, "next_back_ms"), next.to_string(), "{info}");
            }
            if let Some(all) = all {
                assert_eq!(field(&info, "all_back_ms"), all.to_string(), "{info}");
            }
        }
    }
}

/// Dead entries lie about until they are trimmed; they do not count.
#[test]
fn dead_entries_do_not_count() {
    let (_server, mut c) = start();
    let now = c.now();
    let (dead, far) = (now - 1000, now + 3_600_000);
    c.run(&format!("ZADD s {dead} 5 {} 6:2 {far} 8:3 {} 11", dead + 1, far + 1));
    c.run(&format!("PEXPIREAT s {}", (far / 1000 + 2) * 1000 + 1));
    let info = c.reply("ZRL.INFO s");
    for field in ["'units' 4", "'entries' 2", &format!("'next_back_ms' {far}"), &format!("'all_back_ms' {}", far + 1)] {
        assert!(info.contains(field), "{info}");
    }
}

#[test]
fn what_is_no_limit_is_an_error() {
    let (_server, mut c) = start();
    c.run("SET string x");
    c.run("ZADD scores 1 a");
    c.run("RPUSH list x");
    c.script(&[
        ("ZRL.INFO string", "!NOTLIMIT "),
        ("ZRL.INFO scores", "!NOTLIMIT "),
        ("ZRL.INFO list", "!WRONGTYPE "),
        ("ZRL.INFO", "!ERR wrong number of arguments"),
        ("ZRL.INFO a b", "!ERR wrong number of arguments"),
    ]);
}
