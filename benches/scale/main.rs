//! Checks that no call stops the server for long: `cargo bench -p zeitset-benches --bench scale`. `make bench` writes
//! the result to docs/benchmarks/scale.md.
//!
//! There are three parts: operations on a whole dataset of expiring sets, pushes to waiting clients, and every command
//! with N keys, members or jobs. All figures are CPU time of the server's main thread. The
//! benchmark takes about ten minutes and 6 GB of memory.
//!
//! | variable | meaning |
//! |---|---|
//! | `SCALE` | N, or several values of N, measured one after the other (1000000,5000000) |
//! | `ONLY` | `dataset`, `waiting` or `table` |

mod cpu;
mod dataset;
mod fill;
mod rows;
mod table;

fn scales() -> Vec<u64> {
    let text = std::env::var("SCALE").unwrap_or_else(|_| "1000000,5000000".to_owned());
    text.split(',').map(|text| text.parse().expect("SCALE is a number, or several")).collect()
}

fn main() {
    println!(
        "# No call stops the server\n\n`make bench` (benches/scale) measured these figures. All figures are processor \
         time of the server's main thread, unless a line says wall-clock time. [The \
         summary](README.md#single-calls-at-scale) discusses the figures."
    );
    let only = std::env::var("ONLY").unwrap_or_default();
    let parts: [(&str, fn()); 3] = [
        ("dataset", || scales().into_iter().for_each(dataset::run)),
        ("waiting", dataset::waiting),
        ("table", || scales().into_iter().for_each(table::run)),
    ];
    parts.iter().filter(|(name, _)| only.is_empty() || only == *name).for_each(|(_, run)| run());
}
