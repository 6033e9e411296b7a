//! `zeitset.announce-members`: a message for each deleted member.

use std::collections::BTreeSet;
use testkit::{Client, PATIENCE, Server, assert_drained, eventually, pairs, plant, start};

/// Subscribes to the messages of all sets.
fn listen(server: &Server) -> Client {
    let mut listener = server.resp3();
    listener.psubscribe("__zeitset@*__:expired:*");
    listener
}

/// Returns the expected message.
fn message(database: i32, key: &str, member: &str) -> String {
    let kind = "__zeitset@*__:expired:*";
    format!(">[PMessage '{kind}' '__zeitset@{database}__:expired:{key}' '{member}']")
}

/// Waits for `count` messages.
fn heard(listener: &mut Client, count: usize) -> Vec<String> {
    let mut heard = Vec::new();
    eventually(PATIENCE, "all messages have come", || {
        heard.extend(listener.pushes());
        heard.len() >= count
    });
    heard
}

fn switched_on() -> (Server, Client) {
    let (server, mut c) = start();
    c.run("CONFIG SET zeitset.announce-members yes");
    (server, c)
}

#[test]
fn nothing_is_announced_unless_asked_for() {
    let (server, mut c) = start();
    let mut listener = listen(&server);
    c.run("ZEXP.ADD s 1ms a 1ms b 1h c");
    assert_drained(&mut c, "s", 1);
    assert!(listener.pushes().is_empty());
    // Only members that expire from now on are announced.
    c.run("CONFIG SET zeitset.announce-members yes");
    c.run("ZEXP.ADD s 1ms d");
    assert_eq!(heard(&mut listener, 1), [message(0, "s", "d")]);
}

#[test]
fn each_deleted_member_is_announced_once() {
    let (server, mut c) = switched_on();
    let mut listener = listen(&server);
    c.run("ZEXP.ADD s 1ms a 1ms b 1h c");
    assert_drained(&mut c, "s", 1);
    assert_eq!(heard(&mut listener, 2), [message(0, "s", "a"), message(0, "s", "b")]);
    c.run("SELECT 5");
    c.run("ZEXP.ADD s 1ms a 1h c");
    assert_drained(&mut c, "s", 1);
    assert_eq!(heard(&mut listener, 1), [message(5, "s", "a")]);
}

/// A small set whose members have all expired is removed as a whole.
#[test]
fn a_set_that_goes_as_a_whole_is_announced_too() {
    let (server, mut c) = switched_on();
    for members in [1, 2, 63, 64, 65, 128, 700, 1500] {
        let mut listener = listen(&server);
        let names: Vec<_> = (0..members).map(|n| format!("m{n}")).collect();
        c.run(&format!("ZEXP.ADD s{members} {}", pairs("1ms", &names)));
        assert_drained(&mut c, &format!("s{members}"), 0);
        let all = heard(&mut listener, members);
        assert_eq!(all.len(), members);
        let expected: BTreeSet<_> = names.iter().map(|name| message(0, &format!("s{members}"), name)).collect();
        assert_eq!(all.into_iter().collect::<BTreeSet<_>>(), expected);
    }
}

#[test]
fn what_clients_remove_or_renew_is_not_announced() {
    let (server, mut c) = switched_on();
    let mut listener = listen(&server);
    c.run("CONFIG SET zeitset.sweep no");
    c.run("ZEXP.ADD s 1ms removed 1ms renewed 1ms deleted 1h stays");
    eventually(PATIENCE, "three have expired", || c.int("ZEXP.CARD s") == 1);
    c.run("ZEXP.ADD s 1h renewed");
    c.run("ZREM s removed");
    c.run("ZEXP.REM s stays");
    c.run("ZEXP.ADD s AT 1 past");
    c.run("CONFIG SET zeitset.sweep yes");
    assert_drained(&mut c, "s", 1);
    assert_eq!(heard(&mut listener, 1), [message(0, "s", "deleted")]);
    c.run("DEL s");
    assert!(listener.pushes().is_empty());
}

#[test]
fn keys_and_members_may_be_any_bytes() {
    let (server, mut c) = switched_on();
    let (key, member) = (b"k\0\r\n%s\xff".as_slice(), b"m\0\r\n*3\r\n%n\xfe".as_slice());
    let mut listener = listen(&server);
    c.call(redis::cmd("ZEXP.ADD").arg(key).arg("1ms").arg(member).arg("1h").arg("stays"));
    let all = heard(&mut listener, 1);
    let shown = |bytes: &[u8]| testkit::show_bytes(bytes);
    let channel = [b"__zeitset@0__:expired:".as_slice(), key].concat();
    assert!(all[0].contains(&shown(&channel)) && all[0].contains(&shown(member)), "{all:?}");
    assert_eq!(all.len(), 1);
}

#[test]
fn sets_that_came_from_elsewhere_are_announced_by_the_master_alone() {
    let (server, mut c) = switched_on();
    let replica = Server::builder().replica_of(&server);
    replica.client().run("CONFIG SET zeitset.announce-members yes");
    let (mut here, mut there) = (listen(&server), listen(&replica));
    plant(&mut c, "s", &[("dead", 1000), ("living", 4_102_444_800_000)]);
    assert_drained(&mut c, "s", 1);
    assert_eq!(heard(&mut here, 1), [message(0, "s", "dead")]);
    replica.wait_for_sync(&server);
    assert!(there.pushes().is_empty());
}
