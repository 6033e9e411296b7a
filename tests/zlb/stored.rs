//! Boards survive saves, rewrites, replication, COPY, RENAME, DUMP and RESTORE.

use testkit::{Client, PATIENCE, Server, assert_agree, eventually, start, start_keeping_aof};

/// Boards with all kinds of options. Some have more members than one command of a rewritten AOF adds.
const BOARDS: [&str; 5] = ["b:first", "b:last", "b:name", "b:keep", "b:empty"];

fn fill(c: &mut Client) {
    c.run("ZLB.CREATE b:first DIM x DIM time ASC FLOAT");
    c.run("ZLB.CREATE b:last DIM x TIES LAST");
    c.run("ZLB.CREATE b:name DIM ASC ASC DIM \"\" TIES NAME");
    c.run("ZLB.CREATE b:keep DIM x FLOAT KEEP 700 TIES LAST");
    c.run("ZLB.CREATE b:empty DIM x DIM y ASC FLOAT KEEP 9223372036854775807");
    for n in 0..2000_i64 {
        c.run(&format!("ZLB.SET b:first m{n} {} {}", n % 3, (n % 5) as f64 / 10.0));
        c.run(&format!("ZLB.SET b:last m{n} {}", n % 7));
        c.run(&format!("ZLB.SET b:name m{n} {} {}", n % 2, i64::MAX - n % 3));
        c.run(&format!("ZLB.INCR b:keep m{n} x {}e-3", n % 11));
    }
    // Some members get another value and then the old one again, which other members have, too.
    for n in (0..2000).step_by(9) {
        c.run(&format!("ZLB.INCR b:last m{n} x 100"));
        c.run(&format!("ZLB.INCR b:last m{n} x -100"));
        c.run(&format!("ZLB.REM b:first m{n}"));
    }
    c.script(&[("ZLB.CARD b:keep", "700"), ("ZLB.CARD b:last", "2000")]);
}

/// Returns everything that clients can read of the boards.
fn all(c: &mut Client) -> Vec<String> {
    let lines = |key: &str| {
        [format!("DEBUG DIGEST-VALUE {key}"), format!("ZLB.INFO {key}"), format!("ZLB.RANGE {key} 0 -1 WITHVALUES")]
    };
    BOARDS.iter().flat_map(|key| lines(key)).map(|line| c.reply(&line)).collect()
}

#[test]
fn an_rdb_file_holds_boards() {
    let mut server = Server::builder().config("save 3600 1000000").start();
    let mut c = server.client();
    fill(&mut c);
    c.run("PEXPIREAT b:last 4102444800000");
    let before = all(&mut c);
    server.restart();
    let mut c = server.client();
    assert_eq!(all(&mut c), before);
    c.script(&[("PEXPIRETIME b:last", "4102444800000"), ("ZLB.INCR b:last m5 x 1000", "[1005]")]);
    c.run("DEBUG RELOAD");
    c.script(&[("ZLB.RANK b:last m5", "0")]);
}

#[test]
fn a_rewritten_aof_makes_the_same_boards() {
    for preamble in ["yes", "no"] {
        let config = format!("aof-use-rdb-preamble {preamble}");
        // Other policies of fsync may delay a write while the disk is busy, and a crash would lose the write.
        let builder = Server::builder().config("appendonly yes").config("appendfsync always");
        let mut server = builder.config(&config).start();
        let mut c = server.client();
        fill(&mut c);
        let before = all(&mut c);
        c.rewrite_aof();
        assert_eq!(c.info("persistence")["aof_last_bgrewrite_status"], "ok");
        c.run("ZLB.SET b:first new 1 0.05");
        c.run("ZLB.REM b:first new");
        server.crash_and_restart();
        let mut c = server.client();
        assert_eq!(all(&mut c), before, "preamble {preamble}");
        // Members with equal values also keep their internal order, so later members would get the same positions.
        c.run("DEBUG RELOAD");
        assert_eq!(all(&mut c), before, "preamble {preamble}");
    }
}

#[test]
fn a_replica_has_the_same_boards() {
    let (server, mut c) = start_keeping_aof();
    fill(&mut c);
    // The replica gets one half of the history as an RDB file, the other half as a stream.
    let replica = Server::builder().keeping_aof().replica_of(&server);
    for n in 0..500 {
        c.run(&format!("ZLB.INCR b:last m{} x {}", n * 3, n % 4));
        c.run(&format!("ZLB.SET b:keep BEST n{n} {}e-3 m{n} 0.009", n % 13));
        c.run(&format!("ZLB.SET b:name NX m{n} 1 1 n{n} 0 {n}"));
    }
    c.run("COPY b:last b:copy");
    replica.wait_for_sync(&server);
    let mut r = replica.client();
    assert_eq!(all(&mut r), all(&mut c));
    assert_eq!(r.reply("DEBUG DIGEST"), c.reply("DEBUG DIGEST"));
    assert_agree(&server, &[&replica]);
    r.script(&[("ZLB.SET b:last m 1", "!READONLY ")]);
}

#[test]
fn a_copy_goes_its_own_way() {
    let (server, mut c) = start_keeping_aof();
    fill(&mut c);
    let before = all(&mut c);
    for key in BOARDS {
        c.script(&[(format!("COPY {key} copy"), "1")]);
        let digests = [c.reply(&format!("DEBUG DIGEST-VALUE {key}")), c.reply("DEBUG DIGEST-VALUE copy")];
        assert_eq!(digests[0], digests[1]);
        c.run("DEL copy");
    }
    c.run("COPY b:last copy");
    c.run("ZLB.REM copy m1 m2 m3");
    c.run("ZLB.INCR copy m4 x 55");
    assert_eq!(all(&mut c), before);
    c.run("RENAME b:last elsewhere");
    c.run("MOVE elsewhere 1");
    c.run("SELECT 1");
    c.run("RENAME elsewhere b:last");
    c.run("SWAPDB 0 1");
    // SWAPDB has swapped the database that this client had selected.
    c.script(&[("ZLB.CARD b:last", "0"), ("ZLB.CARD copy", "1997"), ("SELECT 0", "+OK"), ("ZLB.CARD b:last", "2000")]);
    assert_agree(&server, &[]);
}

#[test]
fn dump_and_restore() {
    let (_server, mut c) = start();
    fill(&mut c);
    for key in BOARDS {
        let dump = c.dump(key);
        c.restore("r", 0, &dump);
        let digests = [c.reply(&format!("DEBUG DIGEST-VALUE {key}")), c.reply("DEBUG DIGEST-VALUE r")];
        assert_eq!(digests[0], digests[1]);
        assert_eq!(c.dump("r"), dump);
        c.script(&[("ZLB.SET r", "!ERR wrong number"), ("EXISTS r", "1")]);
    }
}

#[test]
fn memory_usage_grows_and_shrinks_with_the_board() {
    let (_server, mut c) = start();
    c.run("ZLB.CREATE b DIM x DIM y DIM z");
    let empty = c.int("MEMORY USAGE b");
    assert!((100..4096).contains(&empty), "{empty}");
    let used = c.info_number("memory", "used_memory");
    for chunk in 0..200 {
        let members: String = (0..100).map(|n| format!(" member:{:06} {n} {chunk} 1", chunk * 100 + n)).collect();
        c.run(&format!("ZLB.SET b{members}"));
    }
    let grown = c.info_number("memory", "used_memory") - used;
    for samples in ["", " SAMPLES 0", " SAMPLES 5", " SAMPLES 100000"] {
        let full = c.int(&format!("MEMORY USAGE b{samples}"));
        // `grown` also contains other allocations of the server and the rounding of the allocator.
        assert!(full > grown / 2 && full < grown * 3 / 2, "{full} of {grown}");
    }
    for chunk in 0..200 {
        let members: String = (0..100).map(|n| format!(" member:{:06}", chunk * 100 + n)).collect();
        c.run(&format!("ZLB.REM b{members}"));
    }
    let emptied = c.int("MEMORY USAGE b");
    assert!(emptied < 16 * 1024, "{emptied}");
}

#[test]
fn a_large_board_is_freed_in_the_background() {
    let (_server, mut c) = start();
    c.run("ZLB.CREATE b DIM x");
    for chunk in 0..100 {
        let members: String = (0..200).map(|n| format!(" member:{:06} {n}", chunk * 200 + n)).collect();
        c.run(&format!("ZLB.SET b{members}"));
    }
    let before = c.info_number("memory", "lazyfreed_objects");
    c.run("UNLINK b");
    eventually(PATIENCE, "the board is freed", || c.info_number("memory", "lazyfreed_objects") == before + 1);
    c.script(&[("ZLB.CREATE b DIM x", "+OK"), ("FLUSHALL", "+OK"), ("ZLB.CARD b", "0")]);
}

#[test]
fn info_counts_boards_however_they_come_and_go() {
    let (mut server, mut c) = start_keeping_aof();
    let expect = |c: &mut Client, boards: i64| {
        eventually(PATIENCE, "the boards are counted", || c.info_number("zeitset", "zeitset_boards") == boards);
    };
    expect(&mut c, 0);
    c.run("ZLB.CREATE a DIM x");
    c.run("ZLB.SET a m 1 n 2");
    c.run("ZLB.CREATE a DIM x");
    expect(&mut c, 1);
    c.run("COPY a b");
    c.run("ZLB.MERGE c 2 a b");
    c.run("ZLB.MERGE c 2 a b");
    c.run("RENAME b d");
    c.run("ZLB.CLEAR d");
    expect(&mut c, 3);
    let replica = Server::builder().replica_of(&server);
    expect(&mut replica.client(), 3);
    c.run("UNLINK d");
    c.run("SET c text");
    expect(&mut c, 1);
    expect(&mut replica.client(), 1);
    server.restart();
    let mut c = server.client();
    expect(&mut c, 1);
    c.run("FLUSHALL");
    expect(&mut c, 0);
}

/// If every board had its own thread, there would be as many threads as boards.
#[test]
fn one_thread_frees_all_large_boards() {
    let (_server, mut c) = start();
    let rows: Vec<_> = (0..50_000).map(|n| format!("m{n} {n}")).collect();
    let set = format!("ZLB.SET b0 {}", rows.join(" "));
    c.run("ZLB.CREATE b0 DIM x");
    c.run(&set);
    (1..8).for_each(|n| drop(c.run(&format!("COPY b0 b{n}"))));
    let before = c.info_number("memory", "used_memory");
    (0..8).for_each(|n| c.script(&[(format!("ZLB.CLEAR b{n}"), "50000")]));
    eventually(PATIENCE, "the memory is free", || c.info_number("memory", "used_memory") < before / 2);
    // The thread that frees boards sets its name first, and does not end.
    let tasks = format!("/proc/{}/task", c.info("server")["process_id"]);
    let tasks = std::fs::read_dir(tasks).expect("the server's threads").map(|task| task.expect("a thread").path());
    let names = tasks.filter_map(|task| std::fs::read_to_string(task.join("comm")).ok());
    assert_eq!(names.filter(|name| name.trim_end() == "zeitset-free").count(), 1);
}
