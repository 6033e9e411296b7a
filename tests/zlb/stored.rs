//! The memory of boards, and their number in INFO. (data/values.rs saves, loads, copies and replicates boards.)

use testkit::{Client, PATIENCE, Server, eventually, start, start_keeping_aof};

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

/// The memory of large boards is free soon after each command that removes their members. If every board had its own
/// thread, there would be as many threads as boards.
#[test]
fn one_thread_frees_all_large_boards() {
    let (_server, mut c) = start();
    let used = c.info_number("memory", "used_memory");
    let rows: Vec<_> = (0..50_000).map(|n| format!("m{n} {n}")).collect();
    let set = format!("ZLB.SET b0 {}", rows.join(" "));
    c.run("ZLB.CREATE b0 DIM x");
    c.run(&set);
    (1..8).for_each(|n| drop(c.run(&format!("COPY b0 b{n}"))));
    c.run("ZLB.CREATE empty DIM x");
    (0..6).for_each(|n| c.script(&[(format!("ZLB.CLEAR b{n}"), "50000")]));
    c.script(&[("ZLB.REMRANGE b6 0 -1", "50000"), ("ZLB.MERGE b7 1 b7", "50000"), ("ZLB.MERGE b7 1 empty", "0")]);
    eventually(PATIENCE, "the memory is free", || c.info_number("memory", "used_memory") < used + 1_000_000);
    // The thread that frees boards sets its name first, and does not end.
    let tasks = format!("/proc/{}/task", c.info("server")["process_id"]);
    let tasks = std::fs::read_dir(tasks).expect("the server's threads").map(|task| task.expect("a thread").path());
    let names = tasks.filter_map(|task| std::fs::read_to_string(task.join("comm")).ok());
    assert_eq!(names.filter(|name| name.trim_end() == "zeitset-free").count(), 1);
}
