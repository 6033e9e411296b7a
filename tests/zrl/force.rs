//! FORCE: units are taken even if they do not fit, and the debt is paid before anything is free again.

use testkit::{Stream, start};

#[test]
fn a_forced_call_is_told_what_it_would_have_been_told_and_takes_the_units() {
    let (server, mut c) = start();
    let mut stream = Stream::attach(&server);
    for algorithm in ["SLIDING", "FIXED", "LEAKY"] {
        let call = |c: &mut testkit::Client, options: &str| {
            c.ints(&format!("ZRL.CHECK {algorithm} 5 30d {algorithm} {options}"))
        };
        call(&mut c, "COST 4");
        let forced = call(&mut c, "COST 3 FORCE");
        assert_eq!(forced[..3], [0, 5, 0], "{algorithm}");
        assert!(forced[3] > 0 && forced[5] > 0, "{algorithm}: {forced:?}");
        assert!(stream.take().iter().any(|command| command.starts_with("SET") || command.starts_with("ZADD")));
        assert_eq!(
            c.ints(
                &format!("ZRL.INFO {algorithm}")
                    .replace("INFO", "PEEK")
                    .replace(algorithm, &format!("{algorithm} 5 30d {algorithm}"))
            )[2],
            0
        );
        // Of more than the limit, too; and a call that fits is allowed as without it.
        assert_eq!(call(&mut c, "COST 9 FORCE")[3], -1, "{algorithm}");
        let fits = c.ints(&format!("ZRL.CHECK fresh:{algorithm} 5 30d {algorithm} FORCE"));
        assert_eq!(fits[..4], [1, 5, 4, 0], "{algorithm}");
        let info = c.reply(&format!("ZRL.INFO {algorithm}"));
        assert!(info.contains("'units' 16"), "{algorithm}: {info}");
    }
}

#[test]
fn a_debt_is_paid_before_anything_is_free() {
    let (_server, mut c) = start();
    for algorithm in ["SLIDING", "LEAKY"] {
        c.run(&format!("ZRL.CHECK {algorithm} 4 400ms {algorithm} COST 6 FORCE"));
        let denied = c.ints(&format!("ZRL.CHECK {algorithm} 4 400ms {algorithm}"));
        let now = c.now();
        assert_eq!((denied[0], denied[2]), (0, 0), "{algorithm}");
        // LEAKY: two units of debt and one more at 100 ms each; SLIDING: all of them at once.
        let most = if algorithm == "LEAKY" { 300 } else { 400 };
        assert!((1..=most).contains(&denied[3]), "{algorithm}: {denied:?}");
        c.wait_until(now + denied[3]);
        assert_eq!(c.ints(&format!("ZRL.CHECK {algorithm} 4 400ms {algorithm}"))[0], 1, "{algorithm}");
    }
}

#[test]
fn mcheck_takes_from_all_or_by_force_from_all() {
    let (_server, mut c) = start();
    c.run("ZRL.CHECK a 1 30d FIXED");
    let refused = c.reply("ZRL.MCHECK 2 a b 1 30d 5 30d FIXED");
    assert!(refused.starts_with("[0 [0 1 0 "), "{refused}");
    c.script(&[("EXISTS b", "0")]);
    let forced = c.reply("ZRL.MCHECK 2 a b 1 30d 5 30d FIXED FORCE");
    assert!(forced.starts_with("[0 [0 1 0 ") && forced.contains("[1 5 4 0 "), "{forced}");
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
    for line in [
        "ZRL.MCHECK 3 x y z 9 1h 9 1h 9 1h COST 1 2",
        "ZRL.MCHECK 2 x y 9 1h 9 1h COST 1 2 3",
        "ZRL.MCHECK 3 x y z 9 1h 9 1h 9 1h FIXED LEAKY",
        "ZRL.MCHECK 2 x y 9 1h 9 1h FIXED COST 1 LEAKY",
        "ZRL.MCHECK 2 x y 9 1h 9 1h FIXED LEAKY EXACT",
        "ZRL.MCHECK 2 x y 9 1h 9 1h FORCE FORCE",
        "ZRL.CHECK x 9 1h COST 1 2",
        "ZRL.CHECK x 9 1h FORCE FORCE",
    ] {
        c.script(&[(line, "!ERR syntax error"), ("EXISTS x y z", "0")]);
    }
    // The grid is for those that are SLIDING.
    assert!(c.reply("ZRL.MCHECK 2 p q 500 30d 9 30d SLIDING FIXED EXACT").starts_with("[1 "));
}
