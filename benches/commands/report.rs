//! The report: tables in Markdown for the terminal and for `docs/`, and pictures.

use crate::Round;
use crate::contests::{Contest, Role, Subject};
use crate::growth::Growth;
use crate::memory::Memory;
use crate::picture;
use crate::stats::{median, percentile};
use std::fmt::Write as _;
use std::path::Path;
use std::{fs, io};

pub struct Report<'a> {
    pub server: String,
    pub size: String,
    pub contests: &'a [Contest],
    /// The rounds of each subject of each contest.
    pub results: Vec<Vec<Vec<Round>>>,
    pub growths: Vec<Growth>,
    pub memories: Vec<Memory>,
}

impl Report<'_> {
    /// Returns the tables. `with_pictures` adds links to the pictures that [`Report::write`] draws.
    pub fn text(&self, with_pictures: bool) -> String {
        let picture = |slug: &str| if with_pictures { format!("![]({slug}.svg)\n\n") } else { String::new() };
        let mut text = format!(
            "# Commands against their rivals\n\n`make bench` measured these figures ({}). {} Each figure in a \
             table is the median of all rounds. A ratio is the median of the ratios of all rounds. Compare ratios, not \
             times: times depend on the machine.\n",
            self.server, self.size
        );
        for (contest, results) in self.contests.iter().zip(&self.results) {
            let _ = write!(
                text,
                "\n## {}\n\n{}.\n\n{}",
                contest.title,
                capitalised(contest.setting),
                picture(contest.slug)
            );
            text += &costs(contest, results);
            text += "\n";
            text += &ratios(contest, results);
        }
        for growth in &self.growths {
            let sizes: Vec<_> = growth.sizes.iter().map(|&size| grouped(size as f64)).collect();
            let _ = write!(
                text,
                "\n## {}\n\nThe table has the time within the command, in µs, by the number of {}.\n\n{}",
                growth.title,
                growth.of,
                picture(growth.slug)
            );
            let rows = growth
                .rows
                .iter()
                .map(|(name, costs)| (*name, costs.iter().map(|cost| format!("{cost:.2}")).collect()));
            text += &table(&sizes, rows);
        }
        text += "\n## Memory\n";
        for memory in &self.memories {
            let _ = write!(text, "\n{}:\n\n", memory.title);
            let rows = memory.rows.iter().map(|(name, bytes)| (*name, vec![grouped(bytes.round())]));
            text += &table(&["bytes".to_owned()], rows);
        }
        text
    }

    pub fn write(&self, folder: &Path) -> io::Result<()> {
        fs::create_dir_all(folder)?;
        fs::write(folder.join("commands.md"), self.text(true))?;
        for (contest, results) in self.contests.iter().zip(&self.results) {
            let bars: Vec<_> = contest
                .subjects
                .iter()
                .zip(results)
                .map(|(subject, rounds)| picture::Bar {
                    name: subject.name,
                    is_ours: subject.role == Role::Ours,
                    value: throughput(rounds),
                })
                .collect();
            let title = format!("{}: thousand requests a second, pipelined", contest.title);
            picture::bars(&folder.join(format!("{}.svg", contest.slug)), &title, &bars)?;
        }
        for growth in &self.growths {
            picture::curves(&folder.join(format!("{}.svg", growth.slug)), growth)?;
        }
        Ok(())
    }
}

fn throughput(rounds: &[Round]) -> f64 {
    median(rounds.iter().map(|round| round.pipelined_per_second))
}

fn costs(contest: &Contest, results: &[Vec<Round>]) -> String {
    let columns = ["requests/s, pipelined", "not pipelined", "p50 µs", "p99 µs", "µs in the command", "µs of CPU"];
    let rows = contest.subjects.iter().zip(results).map(|(subject, rounds)| {
        let of = |figure: &dyn Fn(&Round) -> f64| median(rounds.iter().map(figure));
        let cells = vec![
            grouped(throughput(rounds).round()),
            grouped(of(&|round| round.per_second).round()),
            format!("{:.0}", of(&|round| percentile(&round.latencies, 0.5))),
            format!("{:.0}", of(&|round| percentile(&round.latencies, 0.99))),
            format!("{:.2}", of(&|round| round.in_command)),
            format!("{:.2}", of(&|round| round.cpu)),
        ];
        (subject.name, cells)
    });
    table(&columns.map(str::to_owned), rows)
}

/// Returns the table of ratios: the pipelined throughput of the module's commands divided by that of the others, in the
/// same round.
fn ratios(contest: &Contest, results: &[Vec<Round>]) -> String {
    let with_role = |is_wanted: fn(Role) -> bool| -> Vec<(&Subject, &Vec<Round>)> {
        contest.subjects.iter().zip(results).filter(|(subject, _)| is_wanted(subject.role)).collect()
    };
    let (ours, others) = (with_role(|role| role == Role::Ours), with_role(|role| role != Role::Ours));
    let columns: Vec<_> = others.iter().map(|(other, _)| format!("× {}", other.name)).collect();
    let rows = ours.iter().map(|(subject, rounds)| {
        let cells = others.iter().map(|(_, theirs)| {
            let pairs = rounds.iter().zip(theirs.iter());
            let ratio = median(pairs.map(|(ours, theirs)| ours.pipelined_per_second / theirs.pipelined_per_second));
            format!("{ratio:.2}")
        });
        (subject.name, cells.collect())
    });
    table(&columns, rows)
}

fn table<'n>(columns: &[String], rows: impl IntoIterator<Item = (&'n str, Vec<String>)>) -> String {
    let mut text = format!("| | {} |\n|---|{}\n", columns.join(" | "), "--:|".repeat(columns.len()));
    for (name, cells) in rows {
        let _ = writeln!(text, "| {name} | {} |", cells.join(" | "));
    }
    text
}

fn capitalised(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().collect::<String>() + letters.as_str())
}

/// Formats 1234567 as 1,234,567.
fn grouped(number: f64) -> String {
    let digits = format!("{number:.0}");
    let grouped = digits.as_bytes().rchunks(3).rev().map(|group| String::from_utf8_lossy(group).into_owned());
    grouped.collect::<Vec<_>>().join(",")
}
