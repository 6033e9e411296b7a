//! The pictures of the report.

use crate::growth::Growth;
use plotters::prelude::*;
use std::io;
use std::path::Path;

const OURS: RGBColor = RGBColor(31, 119, 180);
const THEIRS: RGBColor = RGBColor(176, 176, 176);
const FONT: &str = "sans-serif";

pub struct Bar {
    pub name: &'static str,
    pub is_ours: bool,
    pub value: f64,
}

/// Draws a bar per subject. The unit is a thousand requests per second.
pub fn bars(path: &Path, title: &str, bars: &[Bar]) -> io::Result<()> {
    draw_bars(path, title, bars).map_err(io::Error::other)
}

fn draw_bars(path: &Path, title: &str, bars: &[Bar]) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    let height = 70 + 34 * u32::try_from(bars.len())?;
    let root = SVGBackend::new(path, (760, height)).into_drawing_area();
    root.fill(&WHITE)?;
    let most = bars.iter().map(|bar| bar.value).fold(0.0, f64::max);
    let rows = bars.len() as f64;
    let mut chart = ChartBuilder::on(&root)
        .caption(title, (FONT, 17))
        .margin(10)
        .set_label_area_size(LabelAreaPosition::Left, 170)
        .build_cartesian_2d(0.0..most * 1.12, rows..0.0)?;
    let left = (FONT, 14).into_font().color(&BLACK);
    chart.draw_series(bars.iter().enumerate().map(|(row, bar)| {
        let color = if bar.is_ours { OURS } else { THEIRS };
        let top = row as f64;
        Rectangle::new([(0.0, top + 0.15), (bar.value, top + 0.85)], color.filled())
    }))?;
    let area = chart.plotting_area();
    for (row, bar) in bars.iter().enumerate() {
        let (x, y) = area.map_coordinate(&(bar.value, row as f64 + 0.5));
        root.draw(&Text::new(format!("{:.0}", bar.value / 1000.0), (x + 6, y - 7), left.clone()))?;
        root.draw(&Text::new(bar.name, (14, y - 7), left.clone()))?;
    }
    root.present()?;
    Ok(())
}

/// Draws the cost by the size, with logarithmic axes.
pub fn curves(path: &Path, growth: &Growth) -> io::Result<()> {
    draw_curves(path, growth).map_err(io::Error::other)
}

fn draw_curves(path: &Path, growth: &Growth) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    let root = SVGBackend::new(path, (760, 420)).into_drawing_area();
    root.fill(&WHITE)?;
    let costs = || growth.rows.iter().flat_map(|(_, costs)| costs.iter().copied());
    let (least, most) = (costs().fold(f64::MAX, f64::min), costs().fold(0.0, f64::max));
    let size = |index: usize| growth.sizes[index] as f64;
    let mut chart = ChartBuilder::on(&root)
        .caption(format!("{}: µs within the command", growth.title), (FONT, 17))
        .margin(10)
        .margin_right(190)
        .x_label_area_size(40)
        .y_label_area_size(50)
        .build_cartesian_2d(
            (size(0)..size(growth.sizes.len() - 1)).log_scale(),
            (least * 0.8..most * 1.2).log_scale(),
        )?;
    chart
        .configure_mesh()
        .light_line_style(WHITE)
        .x_desc(growth.of)
        .x_label_formatter(&|size| format!("{size:.0}"))
        .label_style((FONT, 13))
        .draw()?;
    let mut labels: Vec<(i32, &str, RGBAColor)> = Vec::new();
    for (row, (name, costs)) in growth.rows.iter().enumerate() {
        let color = Palette99::pick(row).to_rgba();
        let points: Vec<_> = costs.iter().enumerate().map(|(index, &cost)| (size(index), cost)).collect();
        let (_, y) = chart.plotting_area().map_coordinate(points.last().ok_or("no sizes")?);
        labels.push((y, name, color));
        chart.draw_series(LineSeries::new(points.iter().copied(), color.stroke_width(2)))?;
        chart.draw_series(points.into_iter().map(|point| Circle::new(point, 3, color.filled())))?;
    }
    // Each name is next to the end of its curve. Overlapping names move down.
    labels.sort_by_key(|(y, ..)| *y);
    let mut free = 0;
    for (y, name, color) in labels {
        let y = (y - 7).max(free);
        free = y + 16;
        root.draw(&Text::new(name, (580, y), (FONT, 14).into_font().color(&color)))?;
    }
    root.present()?;
    Ok(())
}
