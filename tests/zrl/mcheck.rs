//! ZRL.MCHECK: several limits, all or nothing.

use redis::Value;
use testkit::{Client, Verdict, start};

/// Returns the first field, and the verdict of each key.
#[track_caller]
fn mcheck(c: &mut Client, line: &str) -> (i64, Vec<Verdict>) {
    let Value::Array(items) = c.run(line) else { panic!("no array") };
    let (Value::Int(allowed), keys) = (&items[0], &items[1..]) else { panic!("no integer") };
    let verdicts = keys.iter().map(|key| {
        let Value::Array(fields) = key else { panic!("no array") };
        let fields: Vec<_> = fields
            .iter()
            .map(|field| match field {
                Value::Int(n) => *n,
                other => panic!("{other:?}"),
            })
            .collect();
        Verdict::from_fields(&fields)
    });
    (*allowed, verdicts.collect())
}

#[test]
fn units_are_taken_from_every_key_or_from_none() {
    let (_server, mut c) = start();
    let call = "ZRL.MCHECK 3 user org day 2 10m 100 10m 1000 1d";
    for n in 1..=2 {
        let (allowed, verdicts) = mcheck(&mut c, call);
        assert_eq!(allowed, 1);
        let remaining: Vec<_> = verdicts.iter().map(|verdict| verdict.remaining).collect();
        assert_eq!(remaining, [2 - n, 100 - n, 1000 - n]);
        assert!(verdicts.iter().all(|verdict| verdict.charged_until > 0));
    }
    let before: Vec<_> = ["user", "org", "day"].iter().map(|key| c.trace(key)).collect();
    let (allowed, verdicts) = mcheck(&mut c, call);
    assert_eq!(allowed, 0);
    // The reply says which key denied the call. No units were taken from the other keys.
    let alone: Vec<_> = verdicts.iter().map(|verdict| (verdict.allowed, verdict.remaining)).collect();
    assert_eq!(alone, [(0, 0), (1, 98), (1, 998)]);
    assert!(verdicts.iter().all(|verdict| verdict.charged_until == 0));
    let after: Vec<_> = ["user", "org", "day"].iter().map(|key| c.trace(key)).collect();
    assert_eq!(after, before);
}

#[test]
fn options_hold_for_every_key() {
    let (_server, mut c) = start();
    let (allowed, verdicts) = mcheck(&mut c, "ZRL.MCHECK 2 a b 5 1d 50 30d COST 4 FIXED");
    assert_eq!((allowed, verdicts[0].remaining, verdicts[1].remaining), (1, 1, 46));
    assert_eq!(verdicts[0].charged_until % 86_400_000, 0);
    let (allowed, verdicts) = mcheck(&mut c, "ZRL.MCHECK 2 c d 5 1d 3 30d COST 4 SLIDING EXACT");
    assert_eq!((allowed, verdicts[0].allowed, verdicts[1].retry_after), (0, 1, -1));
    c.script(&[("EXISTS c d", "0")]);
}

#[test]
fn mcheck_takes_from_all_or_by_force_from_all() {
    let (_server, mut c) = start();
    c.run("ZRL.CHECK a 1 30d FIXED");
    let refused = c.reply("ZRL.MCHECK 2 a b 1 30d 5 30d FIXED");
    assert!(refused.starts_with("[0 [0 1 0 "), "{refused}");
    c.script(&[("EXISTS b", "0")]);
    let forced = c.reply("ZRL.MCHECK 2 a b 1 30d 5 30d FIXED FORCE");
    assert!(forced.starts_with("[1 [1 1 -1 0 ") && forced.contains("[1 5 4 0 "), "{forced}");
    assert!(c.reply("ZRL.INFO a").contains("'units' 2"));
}

#[test]
fn mcheck_takes_a_cost_and_an_algorithm_for_each_key() {
    let (_server, mut c) = start();
    let reply = c.reply("ZRL.MCHECK 3 requests tokens day 60 30d 90000 30d 1000 30d COST 1 850 2 SLIDING LEAKY FIXED");
    assert!(
        reply.starts_with("[1 [1 60 59 0 ") && reply.contains("[1 90000 89150 0 ") && reply.contains("[1 1000 998 0 ")
    );
    c.script(&[("TYPE requests", "+string"), ("TYPE tokens", "+string"), ("TYPE day", "+string")]);
    assert!(c.string("GET tokens").starts_with("leaky:"));
    assert!(c.string("GET day").starts_with("fixed:"));
    // Only SLIDING keys use the grid.
    assert!(c.reply("ZRL.MCHECK 2 p q 500 30d 9 30d SLIDING FIXED EXACT").starts_with("[1 "));
}
