//! The cost of a call as keys grow, and as the number of keys grows: µs within the command.

use crate::Bench;
use crate::contests::{Grown, Scripts, growing, spreading};
use crate::stats::median;

/// A table with a row per subject and a column per size.
pub struct Growth {
    pub slug: &'static str,
    pub title: &'static str,
    /// The unit of the sizes.
    pub of: &'static str,
    pub sizes: Vec<usize>,
    pub rows: Vec<(&'static str, Vec<f64>)>,
}

/// The number of parts of a measurement. The result is their median.
const PARTS: usize = 5;
const CALLS_A_PART: usize = 400;

pub fn measure(bench: &mut Bench, scripts: &Scripts, largest: usize) -> Vec<Growth> {
    let decades = |from: usize| (0..).map(move |power| from * 10_usize.pow(power)).take_while(|&n| n <= largest);
    vec![
        grow(
            bench,
            "members",
            "As a key grows",
            "members of the set, or requests in the window",
            decades(10).collect(),
            |members| {
                // With many small keys, the measured calls hardly change the size of a key.
                (growing(scripts), (PARTS * CALLS_A_PART / members).max(1), members)
            },
        ),
        grow(bench, "keys", "As keys become many", "keys", decades(1000).collect(), |keys| {
            (spreading(scripts), keys, 1)
        }),
    ]
}

/// Measures each size. For a size, `sizing` returns the ways to measure, the number of keys, and the calls per key
/// before the measurement.
fn grow(
    bench: &mut Bench,
    slug: &'static str,
    title: &'static str,
    of: &'static str,
    sizes: Vec<usize>,
    sizing: impl Fn(usize) -> (Vec<Grown>, usize, usize),
) -> Growth {
    let mut rows: Vec<(&'static str, Vec<f64>)> = Vec::new();
    for &size in &sizes {
        let (grown, keys, fillings) = sizing(size);
        bench.expect(grown.len());
        for grown in grown {
            bench.step(format!("{slug} {size}: {}", grown.fill.name));
            bench.flush();
            bench.fill(&grown.fill, keys, fillings);
            for subject in std::iter::once(&grown.fill).chain(&grown.also) {
                let parts: Vec<_> = (0..PARTS)
                    .map(|_| {
                        let requests = bench.random(subject, keys, CALLS_A_PART);
                        bench.send(&requests)
                    })
                    .collect();
                let cost = median(parts);
                match rows.iter_mut().find(|(name, _)| *name == subject.name) {
                    Some((_, costs)) => costs.push(cost),
                    None => rows.push((subject.name, vec![cost])),
                }
            }
        }
    }
    bench.flush();
    Growth { slug, title, of, sizes, rows }
}
