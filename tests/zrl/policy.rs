//! Changes of a limit's policy: another limit, a longer or a shorter window, another TTL.

use testkit::{Stream, assert_agree, start, start_pair};

#[test]
fn a_shorter_window_is_settled_by_the_first_call_even_if_denied() {
    let (server, mut c) = start();
    for _ in 0..5 {
        c.verdict("ZRL.CHECK k 5 10m");
        let tick = c.now() + 2;
        c.wait_until(tick);
    }
    let mut stream = Stream::attach(&server);
    stream.take();
    let before = c.trace("k");

    // PEEK does not apply the new window, so `retry_after` is computed with the old times. After a minute, the call
    // would still be denied.
    let peeked = c.verdict("ZRL.PEEK k 5 1m");
    assert!(peeked.allowed == 0 && peeked.retry_after > 500_000, "{peeked:?}");
    assert_eq!(c.trace("k"), before);

    let (earliest, denied, latest) = c.timed_verdict("ZRL.CHECK k 5 1m");
    assert_eq!((denied.allowed, denied.remaining), (0, 0));
    assert_eq!((denied.retry_after, denied.reset_after), (60_000, 60_000));
    let slots = c.slots("k");
    assert!(matches!(slots[..], [(5, at)] if (earliest + 60_000..=latest + 60_000).contains(&at)), "{slots:?}");
    assert!(!stream.take().is_empty());

    // The denied call has applied the new window. The next denied call changes nothing.
    let settled = c.trace("k");
    let denied = c.verdict("ZRL.CHECK k 5 1m");
    assert!(denied.allowed == 0 && denied.retry_after <= 60_000);
    assert_eq!(c.trace("k"), settled);
    assert_eq!(stream.take(), [""; 0]);
}

/// The value itself identifies a limit, whatever clients do to the key's name and TTL.
#[test]
fn a_limit_is_one_whatever_becomes_of_its_ttl_and_its_name() {
    let (server, replica, mut c) = start_pair();
    for options in ["", "FIXED", "LEAKY"] {
        c.run("FLUSHALL");
        c.verdict(&format!("ZRL.CHECK k 10 30d {options} COST 2"));
        let ttl = c.int("PEXPIRETIME k");
        let dump = c.dump("k");
        // With TTLs that other clients have set: shorter, longer, none.
        for (n, at) in [ttl - 5_000_000, ttl - 5, ttl + 5, ttl + 5_000_000, 0].into_iter().enumerate() {
            let name = format!("restored{n}");
            c.restore(&name, at, &dump);
            assert_eq!(c.verdict(&format!("ZRL.CHECK {name} 10 30d {options}")).remaining, 7, "{options} {n}");
            assert!(at < ttl || c.int(&format!("PEXPIRETIME {name}")) >= ttl, "{options} {n}");
        }
        c.script(&[("RENAME restored0 l", "+OK"), ("COPY k m", "1"), ("PERSIST m", "1"), ("MOVE k 1", "1")]);
        assert_eq!(c.verdict(&format!("ZRL.CHECK l 10 30d {options}")).remaining, 6);
        assert_eq!(c.verdict(&format!("ZRL.CHECK m 10 30d {options}")).remaining, 7);
        // After PERSIST, a FIXED limit gets a TTL only with its next window.
        assert!(c.int("PTTL m") > 0 || options == "FIXED", "a charge gives it a TTL again");
        c.run("SELECT 1");
        assert_eq!(c.verdict(&format!("ZRL.CHECK k 10 30d {options}")).remaining, 7);
        c.run("SELECT 0");
        assert_agree(&server, &[&replica]);
    }
}
