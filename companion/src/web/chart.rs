//! Charts: lines over time, as SVG that scales to its frame.

use crate::history::History;
use crate::text;
use maud::{Markup, html};

#[derive(Clone, Copy)]
pub enum Unit {
    Number,
    PerSecond,
    Ms,
    Bytes,
    Percent,
}

impl Unit {
    fn name(self) -> &'static str {
        match self {
            Unit::Number => "number",
            Unit::PerSecond => "rate",
            Unit::Ms => "ms",
            Unit::Bytes => "bytes",
            Unit::Percent => "percent",
        }
    }

    fn show(self, value: f64) -> String {
        match self {
            Unit::Number => text::short(value.round() as u64),
            Unit::PerSecond => format!("{}/s", text::rate(value)),
            Unit::Ms => text::span(value.round() as u64),
            Unit::Bytes => text::bytes(value.round() as u64),
            Unit::Percent => format!("{value:.1} %"),
        }
    }
}

/// A chart of values in the history. Each line has a label and the name of a value.
pub struct Chart {
    pub title: &'static str,
    pub unit: Unit,
    pub lines: &'static [(&'static str, &'static str)],
}

/// The size of the SVG in its own units. CSS scales it.
const WIDTH: f64 = 300.0;
const HEIGHT: f64 = 100.0;

/// The maximum number of drawn points. If a line has more values, its width is divided into columns, and each
/// drawn point is the highest value of a column.
pub const COLUMNS: usize = 150;

pub fn draw<const FIGURES: usize>(chart: &Chart, history: &History<FIGURES>) -> Markup {
    let line = |(name, figure): &(&'static str, &str)| {
        let points = history.series(figure);
        Line { name, now: points.last().map_or(f64::NAN, |(_, value)| *value), points }
    };
    let lines: Vec<Line> = chart.lines.iter().map(line).collect();
    let (first, last) = ends(&lines);
    let from = if last > first { format!("{} ago", text::span(last - first)) } else { String::new() };
    plot(chart.title, chart.unit, &lines, [&from, "now"])
}

pub struct Line {
    pub name: &'static str,
    /// The latest value, shown next to the name. NaN if unknown.
    pub now: f64,
    /// The points of the line: Unix ms and value.
    pub points: Vec<(u64, f64)>,
}

/// Returns the earliest and the latest time of all points.
fn ends(lines: &[Line]) -> (u64, u64) {
    let times = || lines.iter().flat_map(|line| &line.points).map(|(at_ms, _)| *at_ms);
    (times().min().unwrap_or_default(), times().max().unwrap_or_default())
}

/// Draws a chart of `lines`. The time axis begins at the first point of all lines and ends at the last one. `names`
/// labels both ends.
pub fn plot(title: &str, unit: Unit, lines: &[Line], names: [&str; 2]) -> Markup {
    let (first, last) = ends(lines);
    // `max` ignores NaN.
    let highest = lines.iter().flat_map(|line| &line.points).map(|(_, value)| *value).fold(0.0, f64::max);
    let top = round_up(highest, unit);
    html! {
        figure.chart {
            figcaption {
                span.title { (title) }
                span.legend {
                    @for (place, line) in lines.iter().enumerate() {
                        span class={ "s" (place + 1) } {
                            i aria-hidden="true" {}
                            @if !line.name.is_empty() { (line.name) " " }
                            b { @if line.now.is_finite() { (unit.show(line.now)) } @else { "–" } }
                        }
                    }
                }
            }
            div.plot data-unit=(unit.name()) data-top=(top) data-first=(first) data-last=(last) {
                span.top { (unit.show(top)) }
                svg viewBox={ "0 0 " (WIDTH) " " (HEIGHT) } preserveAspectRatio="none" role="img" aria-label=(title) {
                    @for part in 0..=2 {
                        @let y = HEIGHT * f64::from(part) / 2.0;
                        line.grid x1="0" x2=(WIDTH) y1=(y) y2=(y) {}
                    }
                    @for (place, line) in lines.iter().enumerate() {
                        // Unknown values are gaps.
                        g { @for stretch in line.points.split(|(_, value)| !value.is_finite()).filter(|stretch| !stretch.is_empty()) {
                            @let columns = columns(stretch, first, last);
                            @if lines.len() == 1 {
                                polygon.area points=(area(&columns, top)) {}
                            }
                            polyline class={ "s" (place + 1) } points=(coordinates(&columns, top)) {}
                        } }
                    }
                }
            }
            div.span { @for name in names { span { (name) } } }
        }
    }
}

/// Splits the time from `first` to `last` into columns. Returns, for each column with points, its position from 0 to 1
/// and its highest value.
fn columns(points: &[(u64, f64)], first: u64, last: u64) -> Vec<(f64, f64)> {
    let span = (last - first).max(1) as f64;
    let mut columns: Vec<(usize, f64, f64)> = Vec::new();
    for (at, value) in points {
        let x = at.saturating_sub(first) as f64 / span;
        let column = (x * COLUMNS as f64) as usize;
        match columns.last_mut() {
            Some((same, _, highest)) if *same == column => *highest = highest.max(*value),
            _ => columns.push((column, x, *value)),
        }
    }
    columns.into_iter().map(|(_, x, value)| (x, value)).collect()
}

fn coordinates(columns: &[(f64, f64)], top: f64) -> String {
    let points = columns.iter().map(|(x, value)| format!("{:.1},{:.1}", x * WIDTH, HEIGHT - value / top * HEIGHT));
    points.collect::<Vec<_>>().join(" ")
}

fn area(columns: &[(f64, f64)], top: f64) -> String {
    let (from, to) = (columns[0].0 * WIDTH, columns[columns.len() - 1].0 * WIDTH);
    format!("{from:.1},{HEIGHT} {} {to:.1},{HEIGHT}", coordinates(columns, top))
}

/// Returns the upper end of the scale, a round number. No value is above this number.
fn round_up(highest: f64, unit: Unit) -> f64 {
    if highest <= 0.0 || !highest.is_finite() {
        return match unit {
            Unit::Ms => 100.0,
            Unit::Bytes => 1024.0 * 1024.0,
            _ => 1.0,
        };
    }
    if matches!(unit, Unit::Bytes) {
        let power = 2_f64.powf(highest.log2().floor());
        return [1.0, 1.25, 1.5, 2.0]
            .map(|step| step * power)
            .into_iter()
            .find(|top| *top >= highest)
            .unwrap_or(power * 2.0);
    }
    let power = 10_f64.powf(highest.log10().floor());
    [1.0, 2.0, 5.0, 10.0].map(|step| step * power).into_iter().find(|top| *top >= highest).unwrap_or(power * 10.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scale_ends_at_a_round_number_above_all_values() {
        let tops = [0.0, 0.3, 1.0, 7.0, 130.0, 1e9].map(|highest| round_up(highest, Unit::PerSecond));
        assert_eq!(tops.map(|top| format!("{top:.1}")), ["1.0", "0.5", "1.0", "10.0", "200.0", "1000000000.0"]);
        assert_eq!(round_up(1_100_000.0, Unit::Bytes), 1024.0 * 1024.0 * 1.25);
    }

    #[test]
    fn of_many_points_the_highest_are_drawn() {
        let points: Vec<(u64, f64)> = (0..10_000).map(|n| (n, if n == 5_003 { 99.0 } else { 1.0 })).collect();
        let columns = columns(&points, 0, 9_999);
        assert!(columns.len() <= COLUMNS + 1);
        assert!(columns.iter().any(|(_, value)| *value == 99.0), "no peak is lost");
    }
}
