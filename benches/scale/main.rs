//! No call stops the server: `cargo bench --bench scale`, into docs/benchmarks/scale.md by `make bench`.
//!
//! Three parts: the bystander's bill, what happens to a whole dataset of expiring sets, and every command with N keys, members or jobs.
//! All figures are processor time of the server's main thread. Bounded: some five minutes.
//!
//! | variable | meaning |
//! |---|---|
//! | `SCALE` | N (1,000,000) |
//! | `ONLY` | `bystander`, `dataset`, `waiting` or `table` |

#[path = "../../tests/support/mod.rs"]
#[allow(dead_code, unused_imports, unused_macros)]
mod support;

mod bystander;
mod cpu;
mod dataset;
mod fill;
mod rows;
mod table;

fn scale() -> u64 {
    std::env::var("SCALE").map_or(1_000_000, |text| text.parse().expect("SCALE is a number"))
}

fn main() {
    println!("# No call stops the server\n\nMeasured by `make bench` (benches/scale).");
    let only = std::env::var("ONLY").unwrap_or_default();
    let parts: [(&str, fn()); 4] = [
        ("bystander", bystander::run),
        ("dataset", || dataset::run(scale())),
        ("waiting", dataset::waiting),
        ("table", || table::run(scale())),
    ];
    parts.iter().filter(|(name, _)| only.is_empty() || only == *name).for_each(|(_, run)| run());
}
