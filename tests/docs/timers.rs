//! Tiered timers (docs/recipes/tiered-timers.md) with a real PostgreSQL: the schema of the page and
//! examples/promoter.sh.

use std::path::Path;
use std::process::Command;
use testkit::{Client, Page, Postgres, Server, blocks, show, show_bytes, start};

/// Four timers: one was due long ago, one is due in ten minutes and has a payload that needs quoting, one is due in two
/// days, one is done.
const TIMERS: &str = r#"
INSERT INTO timers (due, payload, done) VALUES
    ('2026-01-01', 'remind ann', NULL),
    (now() + interval '10 minutes', E'it''s "so" \\ $(x) `y` %s\n\t\u00fc \U0001f389', NULL),
    (now() + interval '2 days', 'remind bob', NULL),
    ('2026-01-02', 'remind eve', now());
"#;

fn schema() -> String {
    let page =
        Page::all_in("docs/recipes").into_iter().find(|page| page.name() == "tiered-timers").expect("the recipe");
    blocks(&page.lines, "sql").remove(0)
}

fn promoter(postgres: &Postgres, port: u16) -> Command {
    let mut command = Command::new(Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/promoter.sh"));
    postgres.with(command.args(["timers", "1h"])).env("REDIS_PORT", port.to_string());
    command
}

/// Runs the promoter. Returns how many jobs it reports as pushed.
fn promote(postgres: &Postgres, server: &Server) -> usize {
    let output = promoter(postgres, server.address().1).output().expect("the promoter runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).trim().parse().expect("a number")
}

/// Starting PostgreSQL is slow, so all tests share one server.
#[test]
fn timers_move_from_postgresql_into_a_queue() {
    let Some(postgres) = Postgres::start() else { return };
    for scenario in [
        the_promoter_moves_the_next_hour_and_may_run_again,
        two_promoters_at_once_push_each_timer_once,
        a_lost_queue_comes_back_from_the_database,
        a_promoter_that_fails_says_so,
    ] {
        postgres.run("DROP TABLE IF EXISTS timers");
        scenario(&postgres);
    }
}

/// Returns the IDs of waiting jobs.
fn waiting(c: &mut Client) -> Vec<String> {
    ["READY", "DELAYED"].iter().flat_map(|state| c.ids(&format!("ZQ.PEEK timers {state}"))).collect()
}

fn the_promoter_moves_the_next_hour_and_may_run_again(postgres: &Postgres) {
    let (server, mut c) = start();
    postgres.run(&schema());
    postgres.run(TIMERS);

    assert_eq!(promote(postgres, &server), 2);
    assert_eq!(promote(postgres, &server), 0, "pushed twice");
    assert_eq!(waiting(&mut c), ["1", "2"]);
    // Payload and due time are as in the database.
    let job = c.reply("ZQ.GET timers 2");
    let due = postgres.run("SELECT ceil(extract(epoch FROM due) * 1000)::bigint FROM timers WHERE id = 2");
    assert!(job.contains(&format!("'due_ms' {due} ")), "{due}: {job}");
    let jobs = c.run("ZQ.PEEK timers DELAYED");
    let payload = "it's \"so\" \\ $(x) `y` %s\n\t\u{fc} \u{1f389}";
    assert!(show(&jobs).contains(&show_bytes(payload.as_bytes())), "{}", show(&jobs));

    // Does what the worker on the page does: claims the job, marks the timer as done, acknowledges the job.
    let claimed = c.reply("ZQ.CLAIM 1 timers LEASE 30s");
    let token = claimed.split(' ').nth(2).expect("a token").to_owned();
    postgres.run("UPDATE timers SET done = now() WHERE id = 1 AND done IS NULL");
    c.script(&[(format!("ZQ.ACK timers 1 {token}"), "1")]);
    assert_eq!(promote(postgres, &server), 0, "what is done does not come back");
}

fn two_promoters_at_once_push_each_timer_once(postgres: &Postgres) {
    let (server, mut c) = start();
    postgres.run(&schema());
    postgres.run("INSERT INTO timers (due, payload) SELECT now(), 'x' FROM generate_series(1, 500)");
    let pushed: usize = std::thread::scope(|scope| {
        let promoters = [(); 2].map(|()| scope.spawn(|| promote(postgres, &server)));
        promoters.into_iter().map(|promoter| promoter.join().expect("a promoter")).sum()
    });
    assert_eq!(pushed, 500);
    assert_eq!(c.info("keyspace").len(), 1);
    assert!(c.reply("ZQ.STATS timers").contains("'pushed' 500 "));
}

fn a_lost_queue_comes_back_from_the_database(postgres: &Postgres) {
    let (server, mut c) = start();
    postgres.run(&schema());
    postgres.run(TIMERS);
    assert_eq!(promote(postgres, &server), 2);
    c.run("FLUSHALL");
    assert_eq!(promote(postgres, &server), 2);
    assert_eq!(waiting(&mut c), ["1", "2"]);
}

fn a_promoter_that_fails_says_so(postgres: &Postgres) {
    let (server, mut c) = start();
    let run = || promoter(postgres, server.address().1).output().expect("the promoter runs").status.success();
    assert!(!run(), "without a table");
    postgres.run(&schema());
    assert!(run(), "without a timer");
    postgres.run(TIMERS);
    c.run("SET timers x");
    assert!(!run(), "onto another type");
    c.run("DEL timers");
    assert!(run());
    drop(c);
    let port = server.address().1;
    drop(server);
    let output = promoter(postgres, port).output().expect("the promoter runs");
    assert!(!output.status.success(), "without a server");
}
