//! FORCE takes units even if they do not fit, and so creates a debt. No unit is available before the debt is paid.

use testkit::{Stream, start};

#[test]
fn a_forced_call_takes_the_units_and_tells_the_debt() {
    let (server, mut c) = start();
    let mut stream = Stream::attach(&server);
    for algorithm in ["SLIDING", "FIXED", "LEAKY"] {
        let call = |c: &mut testkit::Client, options: &str| {
            c.ints(&format!("ZRL.CHECK {algorithm} 5 30d {algorithm} {options}"))
        };
        call(&mut c, "COST 4");
        let forced = call(&mut c, "COST 3 FORCE");
        assert_eq!(forced[..4], [1, 5, -2, 0], "{algorithm}");
        assert!(forced[5] > 0, "{algorithm}: {forced:?}");
        assert!(stream.take().iter().any(|command| command.starts_with("SET")));
        let peek = |c: &mut testkit::Client, options: &str| {
            c.ints(&format!("ZRL.PEEK {algorithm} 5 30d {algorithm} {options}"))
        };
        // PEEK returns what CHECK would return, also with FORCE. The reply to a denied call also shows the debt.
        let (peeked, forced, denied) = (peek(&mut c, ""), peek(&mut c, "FORCE"), call(&mut c, ""));
        assert_eq!((&peeked[..3], peeked[5]), (&[0, 5, -2][..], 0), "{algorithm}");
        assert_eq!((&forced[..4], forced[5]), (&[1, 5, -2, 0][..], 0), "{algorithm}");
        assert_eq!((&denied[..3], denied[5]), (&[0, 5, -2][..], 0), "{algorithm}");
        assert!(peeked[3] > 0 && denied[3] > 0, "{algorithm}: {peeked:?} {denied:?}");
        // FORCE takes even more units than the limit has. If a call fits, FORCE has no effect.
        assert_eq!(call(&mut c, "COST 9 FORCE")[..4], [1, 5, -11, 0], "{algorithm}");
        let fits = c.ints(&format!("ZRL.CHECK fresh:{algorithm} 5 30d {algorithm} FORCE"));
        assert_eq!(fits[..4], [1, 5, 4, 0], "{algorithm}");
        let info = c.reply(&format!("ZRL.INFO {algorithm}"));
        assert!(info.contains("'units' 16"), "{algorithm}: {info}");
    }
}

#[test]
fn what_did_not_fit_counts_as_forced_and_not_as_denied() {
    let (_server, mut c) = start();
    c.run_all([
        "ZRL.CHECK a 1 30d FORCE",
        "ZRL.CHECK a 1 30d COST 4 FORCE",
        "ZRL.CHECK a 1 30d COST 0 FORCE",
        "ZRL.CHECK a 1 30d",
        "ZRL.MCHECK 2 a b 1 30d 9 30d FORCE",
        "ZRL.MCHECK 1 b 9 30d FORCE",
        "ZRL.PEEK a 1 30d FORCE",
    ]);
    let info = c.info("zeitset");
    for (field, value) in [("allowed", "2"), ("forced", "3"), ("denied", "1")] {
        assert_eq!(info[&format!("zeitset_checks_{field}")], value, "{field}");
    }
    assert_eq!(info["zeitset_units_taken"], "8");
    let top = c.reply("ZRL.TOP");
    assert!(top.starts_with("[['a' 1 ") && top.matches("['").count() == 1, "{top}");
}
