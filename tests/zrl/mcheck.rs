//! ZRL.MCHECK: several limits, all or nothing.

use redis::Value;
use testkit::{Client, Stream, Verdict, plant, start};

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
fn errors_change_nothing_on_any_key() {
    let (server, mut c) = start();
    c.run("SET string x");
    c.run("RPUSH list x");
    plant(&mut c, "expiring", &[("a", testkit::FAR)]);
    let mut stream = Stream::attach(&server);
    stream.take();
    for (line, error) in [
        ("ZRL.MCHECK", "!ERR wrong number of arguments"),
        ("ZRL.MCHECK 0 5 10m", "!ERR "),
        ("ZRL.MCHECK -1 a 5 10m", "!ERR "),
        ("ZRL.MCHECK x a 5 10m", "!ERR "),
        ("ZRL.MCHECK 2 a 5 10m", "!ERR "),
        ("ZRL.MCHECK 2 a b 5 10m", "!ERR "),
        ("ZRL.MCHECK 2 a b 5 10m 5", "!ERR "),
        ("ZRL.MCHECK 2 a b 5 10m 5 10m 5 10m", "!ERR "),
        ("ZRL.MCHECK 9223372036854775807 a 5 10m", "!ERR "),
        ("ZRL.MCHECK 4294967297 a 5 10m", "!ERR "),
        ("ZRL.MCHECK 2 a a 5 10m 5 10m", "!ERR "),
        ("ZRL.MCHECK 3 a b a 5 10m 5 10m 5 10m", "!ERR "),
        ("ZRL.MCHECK 2 a b 5 10m 0 10m", "!ERR "),
        ("ZRL.MCHECK 2 a b 5 10m 5 0", "!ERR "),
        ("ZRL.MCHECK 1 a 5 10m COST 1 COST 1", "!ERR syntax error"),
        ("ZRL.MCHECK 1 a 5 10m FIXED LEAKY", "!ERR syntax error"),
        ("ZRL.MCHECK 2 a string 5 10m 5 10m", "!NOTLIMIT "),
        ("ZRL.MCHECK 2 a list 5 10m 5 10m", "!WRONGTYPE "),
        ("ZRL.MCHECK 2 a expiring 5 10m 5 10m", "!WRONGTYPE "),
    ] {
        c.script(&[(line, error), ("EXISTS a b", "0")]);
    }
    assert_eq!(stream.take(), [""; 0]);
}
