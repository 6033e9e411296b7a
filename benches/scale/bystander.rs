//! The cost of plain commands with and without the module, measured in turns.

use super::cpu::{Served, median, words};
use super::fill::by_script;
use redis::Pipeline;
use testkit::Server;

const ROUNDS: usize = 9;
const CALLS: usize = 10_000;
/// The number of calls without a pipeline. Each takes the server about ten times as long as a pipelined call.
const LONE_CALLS: usize = 2_000;
/// The goal: if the module is loaded and tracks no set, a command may cost at most this much more, in percent.
const AIM: f64 = 3.0;

/// A command to measure, and the call that creates its keys.
struct Bill {
    name: &'static str,
    before: &'static str,
    calls: &'static [&'static str],
}

/// In a call, `{k}` is replaced by the number of the call.
const BILLS: &[Bill] = &[
    Bill { name: "SET", before: "", calls: &["SET s:{k} x"] },
    Bill { name: "ZADD", before: "", calls: &["ZADD z:{k} 1 m"] },
    Bill { name: "ZADD, a member more", before: "ZADD z:{k} 1 m", calls: &["ZADD z:{k} 2 n"] },
    Bill { name: "DEL of a string", before: "SET s:{k} x", calls: &["DEL s:{k}"] },
    Bill { name: "DEL of a sorted set", before: "ZADD z:{k} 1 m", calls: &["DEL z:{k}"] },
    Bill { name: "EXPIRE of a string", before: "SET s:{k} x", calls: &["EXPIRE s:{k} 1000"] },
    Bill { name: "EXPIRE of a sorted set", before: "ZADD z:{k} 1 m", calls: &["EXPIRE z:{k} 1000"] },
    Bill { name: "ZADD and EXPIRE", before: "", calls: &["ZADD z:{k} 1 m", "EXPIRE z:{k} 1000"] },
    Bill { name: "RENAME of a string", before: "SET s:{k} x", calls: &["RENAME s:{k} t:{k}"] },
    Bill { name: "RENAME of a sorted set", before: "ZADD z:{k} 1 m", calls: &["RENAME z:{k} y:{k}"] },
];

pub fn run() {
    let quiet = "save \"\"\nhz 10\n";
    let mut without = Server::builder().config(quiet).start();
    without.remove_module();
    without.restart();
    let mut without_but_sets = Server::builder().config(quiet).start();
    without_but_sets.remove_module();
    without_but_sets.restart();
    let mut servers = [
        Served::new(without),
        Served::new(Server::builder().config(quiet).start()),
        Served::new(without_but_sets),
        Served::new(Server::builder().config(quiet).start()),
    ];
    fill(&mut servers[2], "redis.call('ZADD', 'e:' .. n, 1, 'm') redis.call('EXPIRE', 'e:' .. n, 777600)");
    fill(&mut servers[3], "redis.call('ZEXP.ADD', 'e:' .. n, '9d', 'm')");
    println!("\n## The cost for plain commands\n");
    println!(
        "The server's time for a plain command, in ns. Each figure is the median of {ROUNDS} rounds. In each round, \
         four servers take turns: a server without the module, a server with the module, and two such servers with \
         100,000 sets in each of two databases. These sets are expiring sets on the server with the module, and sorted \
         sets with a TTL on the server without the module."
    );
    for is_pipelined in [true, false] {
        table(&mut servers, is_pipelined);
    }
}

fn table(servers: &mut [Served; 4], is_pipelined: bool) {
    println!(
        "\n{}:\n",
        if is_pipelined {
            format!("The costs of {CALLS} commands in one pipeline")
        } else {
            format!("The costs of {LONE_CALLS} commands one by one, as most applications call commands")
        }
    );
    println!(
        "| command | without | with | more | without, 200,000 sets | with | more | aim |\n|---|--:|--:|--:|--:|--:|--:|--:|"
    );
    for bill in BILLS {
        let mut costs = [const { Vec::new() }; 4];
        for round in 0..ROUNDS {
            for turn in 0..costs.len() {
                let at = (turn + round) % costs.len();
                costs[at].push(cost(&mut servers[at], bill, is_pipelined));
            }
        }
        let [without, with, without_but_sets, tracking] = costs.map(|mut costs| median(&mut costs));
        let more = |cost: f64, than: f64| (cost / than - 1.0) * 100.0;
        println!(
            "| {} | {without:.0} | {with:.0} | {:+.1} % | {without_but_sets:.0} | {tracking:.0} | {:+.1} % | {:.0} % |",
            bill.name,
            more(with, without),
            more(tracking, without_but_sets),
            AIM
        );
    }
}

fn fill(served: &mut Served, calls: &str) {
    for database in [1, 0] {
        redis::cmd("SELECT").arg(database).exec(&mut served.con).expect("SELECT");
        by_script(served, 100_000, calls);
    }
}

/// Returns ns per call.
fn cost(served: &mut Served, bill: &Bill, is_pipelined: bool) -> f64 {
    let count = if is_pipelined { CALLS } else { LONE_CALLS };
    let pipeline = |lines: &[&str]| {
        let mut pipe = Pipeline::new();
        for k in 0..count {
            for line in lines {
                let command = pipe.add_command(words(&line.replace("{k}", &k.to_string())));
                command.ignore();
            }
        }
        pipe
    };
    if !bill.before.is_empty() {
        pipeline(&[bill.before]).exec(&mut served.con).expect("a plain command");
    }
    let calls = pipeline(bill.calls);
    let before = served.settled();
    if is_pipelined {
        calls.exec(&mut served.con).expect("a plain command");
    } else {
        calls.cmd_iter().for_each(|call| call.exec(&mut served.con).expect("a plain command"));
    }
    let used = served.settled() - before;
    pipeline(&["UNLINK s:{k} z:{k} t:{k} y:{k}"]).exec(&mut served.con).expect("UNLINK");
    used * 1000.0 / count as f64
}
