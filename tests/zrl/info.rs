//! ZRL.INFO: the usage of a limit.

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
        for (key, algorithm, units, slots, next, all) in [
            ("s", "'sliding'", "3", "2", Some(first), Some(last)),
            ("f", "'fixed'", "4", "1", Some(end), Some(end)),
            ("l", "'leaky'", "3", "1", None, Some(empty)),
            ("t", "'throttle'", "nil", "1", None, Some(t)),
        ] {
            let info = c.reply(&format!("ZRL.INFO {key}"));
            assert_eq!(field(&info, "algorithm"), algorithm);
            assert_eq!(field(&info, "units"), units, "{info}");
            assert_eq!(field(&info, "slots"), slots, "{info}");
            if let Some(next) = next {
                assert_eq!(field(&info, "next_available_ms"), next.to_string(), "{info}");
            }
            if let Some(all) = all {
                assert_eq!(field(&info, "all_available_ms"), all.to_string(), "{info}");
            }
        }
    }
}
