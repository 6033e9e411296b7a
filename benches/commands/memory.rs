//! The memory of keys and members, in bytes of the server's memory.

use crate::Bench;
use crate::contests::{Abilities, Scripts, Subject, TAKEN, expiring, limits, used_up};
use crate::stats::used_memory;
use std::thread::sleep;
use std::time::{Duration, Instant};

pub struct Memory {
    pub title: &'static str,
    pub rows: Vec<(&'static str, f64)>,
}

const LIMITS: usize = 50;
/// The units of a limit, taken evenly over the window.
const UNITS: usize = TAKEN.0 as usize;
const WINDOW: u64 = TAKEN.1;

pub fn measure(bench: &mut Bench, scripts: &Scripts, abilities: &Abilities, keys: usize) -> Vec<Memory> {
    let mut weigh = |title, subjects: Vec<Subject>, keys, calls| {
        bench.expect(subjects.len());
        let bytes = |subject: &Subject| (subject.name, grown(bench, subject, keys, calls) / (keys * calls) as f64);
        Memory { title, rows: subjects.iter().map(bytes).collect() }
    };
    let mut tables = vec![
        weigh("A limit after one check, per key", limits(scripts, abilities), keys, 1),
        weigh("Bytes per member of a set of 10 expiring members", expiring(scripts, abilities), keys / 10, 10),
        weigh("Bytes per member of a set of many expiring members", expiring(scripts, abilities), 1, keys * 10),
    ];
    tables.push(Memory {
        title: "A limit of 1000 per window with all units in use, per key",
        rows: in_use(bench, used_up(scripts)),
    });
    tables
}

/// Returns the growth of the server's memory after `calls` calls on each of `keys` keys.
fn grown(bench: &mut Bench, subject: &Subject, keys: usize, calls: usize) -> f64 {
    bench.step(format!("memory: {}", subject.name));
    bench.flush();
    let before = used_memory(&mut bench.con);
    bench.fill(subject, keys, calls);
    let after = used_memory(&mut bench.con);
    bench.flush();
    after as f64 - before as f64
}

/// Measures the memory of limits whose units are all in use. The units are taken in small steps over the whole window,
/// as clients do, because the memory depends on the times.
fn in_use(bench: &mut Bench, subjects: Vec<Subject>) -> Vec<(&'static str, f64)> {
    const STEPS: u32 = 100;
    bench.expect(1);
    bench.step("memory: a window of requests".to_owned());
    bench.flush();
    let start = Instant::now();
    for step in 0..STEPS {
        for subject in &subjects {
            let requests: Vec<_> = (0..UNITS / STEPS as usize).flat_map(|_| bench.each(subject, LIMITS)).collect();
            bench.send(&requests);
        }
        // The last step ends shortly before the window, so that the first units are still in use.
        let until = Duration::from_secs(WINDOW) * (step + 1) / (STEPS + 1);
        sleep(until.saturating_sub(start.elapsed()));
    }
    let mut size = |subject: &Subject| -> f64 {
        let sizes = (0..LIMITS).map(|key| {
            let key = subject.key(key);
            let size: u64 = redis::cmd("MEMORY")
                .arg("USAGE")
                .arg(key)
                .arg(&["SAMPLES", "0"])
                .query(&mut bench.con)
                .expect("a size");
            size as f64
        });
        sizes.sum::<f64>() / LIMITS as f64
    };
    subjects.iter().map(|subject| (subject.name, size(subject))).collect()
}
