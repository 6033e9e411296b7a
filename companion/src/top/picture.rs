//! The layout of the terminal view: header, tabs, table, and the line of keyboard commands.

use super::keys::{Choice, View};
use super::look::Look;
use super::table::{self, Table};
use crate::text::{bytes, instant, rate, short, span};
use crate::watch::WORRYING_LAG_MS;
use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::style::{Color, Modifier, Style, Stylize};
use ratatui::text::{Line, Span};

/// Returns a summary of the server in five lines of at most 80 columns.
pub fn head(look: &Look, address: &str, width: usize) -> Vec<Line<'static>> {
    let (watch, info) = (&look.watch, &look.watch.now.info);
    let per_second = |field: &str| watch.rate(field).map_or("-".into(), rate);
    let number = |field: &str| short(info.count(field));
    let version = if info.has_module() { info.text("zeitset_version") } else { "is not loaded" };
    let first = format!(
        "Zeitset {version}  {}  {address}  {}  up {}",
        info.server(),
        info.text("role"),
        span(info.count("uptime_in_seconds") * 1000),
    );
    let time = instant(watch.now_ms())[11..19].to_owned();
    let memory = match info.count("maxmemory") {
        0 => bytes(info.count("used_memory")),
        most => format!("{}/{}", bytes(info.count("used_memory")), bytes(most)),
    };
    let checks = ["allowed", "forced", "denied"].map(|kind| info.count(&format!("zeitset_checks_{kind}"))).iter().sum();
    let lag = info.count("zeitset_sweep_lag_ms");
    let lag_style = if lag > WORRYING_LAG_MS { Style::new().fg(Color::Red).bold() } else { Style::new() };
    let busy = watch.rate("zeitset_sweep_cpu_us").map_or("-".into(), |micros| format!("{:.1}", micros / 10_000.0));
    let label = |text: &'static str| Span::raw(format!("{text:<8}")).fg(Color::Cyan);
    vec![
        Line::from(vec![Span::raw(table::fit(&first, width.saturating_sub(9))).bold(), Span::raw(format!(" {time}"))]),
        Line::from(vec![
            label("server"),
            Span::raw(format!(
                "{} calls/s  {} clients  {} blocked  {} keys  {memory}",
                per_second("total_commands_processed"),
                number("connected_clients"),
                number("blocked_clients"),
                short(info.keys()),
            )),
        ]),
        Line::from(vec![
            label("limits"),
            Span::raw(format!(
                "{} allowed/s  {} denied/s  {} units/s  denied {} of {}",
                per_second("zeitset_checks_allowed"),
                per_second("zeitset_checks_denied"),
                per_second("zeitset_units_taken"),
                number("zeitset_checks_denied"),
                short(checks),
            )),
        ]),
        Line::from(vec![
            label("sets"),
            Span::raw(format!(
                "{} tracked  {} expired/s  {} overdue  ",
                number("zeitset_sets_tracked"),
                per_second("zeitset_members_expired"),
                number("zeitset_sweep_backlog_members"),
            )),
            Span::styled(format!("lag {}", span(lag)), lag_style),
            Span::raw(format!("  sweeper {busy}%")),
        ]),
        Line::from(vec![
            label("queues"),
            Span::raw(format!(
                "{} claims/s  {} clients wait  {} claims in all  oldest {}",
                per_second("zeitset_claims"),
                number("zeitset_clients_waiting"),
                number("zeitset_claims"),
                span(watch.longest_wait_ms()),
            )),
        ]),
    ]
}

fn tabs(choice: &Choice) -> Line<'static> {
    let mut spans = Vec::new();
    for (place, view) in View::ALL.into_iter().enumerate() {
        let style =
            if view == choice.view { Style::new().add_modifier(Modifier::REVERSED) } else { Style::new().dim() };
        spans.push(Span::styled(format!(" {} {} ", place + 1, view.name()), style));
        spans.push(Span::raw(" "));
    }
    if choice.is_typing || !choice.filter.is_empty() {
        let cursor = if choice.is_typing { "_" } else { "" };
        spans.push(Span::raw(format!(" / {}{cursor}", choice.filter)).fg(Color::Yellow));
    }
    if choice.is_paused {
        spans.push(Span::raw("  paused").fg(Color::Yellow).bold());
    }
    Line::from(spans)
}

const KEYS: &str = "1-4 view  ←→ sort  i invert  ↑↓ scroll  / filter  space pause  h help  q quit";

const HELP: &[(&str, &str)] = &[
    ("1 2 3 4, Tab", "queues, commands, limits that denied most, slow commands"),
    ("← →", "sort queues by the column to the left, to the right"),
    ("n r d o", "sort by name, ready, dead, oldest"),
    ("i", "invert the order"),
    ("/", "show only queues whose name contains a text (Esc: all)"),
    ("↑ ↓ PgUp PgDn Home", "scroll"),
    ("space", "pause, go on"),
    ("q, Esc", "quit; Esc takes a filter away first"),
];

/// Draws the view. Returns the number of table rows that fit on the screen.
pub fn draw(frame: &mut Frame, look: &Look, choice: &mut Choice, address: &str, problem: Option<&str>) -> usize {
    let area = frame.area();
    let width = usize::from(area.width);
    let mut lines = head(look, address, width);
    if let Some(problem) = problem {
        lines.truncate(1);
        lines.push(Line::raw(format!("no answer: {problem}")).fg(Color::Red).bold());
    }
    lines.push(Line::default());
    lines.push(tabs(choice));
    let room = usize::from(area.height).saturating_sub(lines.len() + 2);
    if choice.shows_help {
        lines.push(Line::default());
        lines.extend(HELP.iter().map(|(keys, what)| Line::raw(format!("  {keys:<20}{what}"))));
    } else {
        let Table { head, rows } = table::of(look, choice, width);
        lines.push(head);
        choice.first_row = choice.first_row.min(rows.len().saturating_sub(room));
        lines.extend(rows.into_iter().skip(choice.first_row).take(room));
    }
    let bottom = area.height.saturating_sub(1);
    for (row, line) in (0..bottom).zip(lines) {
        frame.render_widget(line, Rect { y: row, height: 1, ..area });
    }
    frame.render_widget(Line::raw(KEYS).dim(), Rect { y: bottom, height: 1, ..area });
    room
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::server::{Info, Queue};
    use crate::watch::{Sample, Watched};
    use ratatui::{Terminal, backend::TestBackend};

    fn busy() -> Look {
        let mut look = Look::default();
        let sample = |at_us, count: u64| Sample {
            at_us,
            info: Info::read(&format!(
                "redis_version:7.0.15\nrole:master\nuptime_in_seconds:8640000\nmaxmemory:1073741824\n\
                 used_memory:999000000\nconnected_clients:99999\nblocked_clients:99999\n\
                 total_commands_processed:{count}\nzeitset_version:10.10.10\nzeitset_checks_allowed:{count}\n\
                 zeitset_checks_denied:{count}\nzeitset_units_taken:{count}\nzeitset_sets_tracked:{count}\n\
                 zeitset_members_expired:{count}\nzeitset_sweep_backlog_members:{count}\nzeitset_sweep_lag_ms:99999999\n\
                 zeitset_sweep_cpu_us:{}\nzeitset_claims:{count}\nzeitset_clients_waiting:99999\n\
                 db0:keys={count},expires=0\n\
                 cmdstat_zq.push:calls={count},usec={count},rejected_calls=1,failed_calls=0\n",
                count.min(1_000_000)
            )),
        };
        look.watch.before = Some(sample(1_000_000_000_000, 0));
        look.watch.now = sample(1_000_001_000_000, 99_999);
        look.watch.is_complete = true;
        for n in 0..100 {
            let queue = Queue {
                ready: n,
                delayed: 1_234_567,
                claimed: 99_999,
                dead: 1_000_000_000 * (n % 2),
                oldest_ready_ms: Some(1),
                ..Queue::default()
            };
            let name = format!("queue-{n:02}-with-a-name-that-is-rather-long");
            look.watch
                .queues
                .insert(name.into_bytes(), Watched { at_us: 1_000_001_000_000, queue, ..Watched::default() });
        }
        look
    }

    fn screen(width: u16, height: u16, look: &Look, choice: &mut Choice) -> Vec<String> {
        let mut terminal = Terminal::new(TestBackend::new(width, height)).expect("a terminal in memory");
        terminal.draw(|frame| _ = draw(frame, look, choice, "127.0.0.1:6379", None)).expect("drawn");
        let buffer = terminal.backend().buffer();
        let row = |y| (0..width).map(|x| buffer[(x, y)].symbol()).collect::<String>();
        (0..height).map(row).collect()
    }

    #[test]
    fn nothing_is_cut_off_at_80_by_24_on_a_busy_server() {
        for line in head(&busy(), "127.0.0.1:6379", 80) {
            assert!(line.width() <= 80, "{line}");
        }
        let lines = screen(80, 24, &busy(), &mut Choice::default());
        assert!(
            lines[0].starts_with("Zeitset 10.10.10  Redis 7.0.15  127.0.0.1:6379  master  up 100d 0h"),
            "{}",
            lines[0]
        );
        assert!(lines[7].contains("READY DELAYED CLAIMED  DEAD PUSH/S  ACK/S  OLDEST"), "{}", lines[7]);
        let first = &lines[8];
        assert!(
            first.starts_with("queue-99-with-a-name-that-is…     99    1.2M   99999  1.0G      -      -"),
            "{first}"
        );
        assert!(lines[23].contains("q quit"), "{}", lines[23]);
        assert_eq!(lines.iter().filter(|line| line.starts_with("queue-")).count(), 15);
    }

    #[test]
    fn the_order_and_the_filter_are_those_chosen() {
        let look = busy();
        let mut choice = Choice { order: super::super::keys::Order::Name, is_reversed: true, ..Choice::default() };
        assert!(screen(80, 24, &look, &mut choice)[8].starts_with("queue-99"));
        choice.is_reversed = false;
        assert!(screen(80, 24, &look, &mut choice)[8].starts_with("queue-00"));
        choice.filter = "-42-".into();
        let rows = screen(80, 24, &look, &mut choice);
        assert_eq!(rows.iter().filter(|line| line.starts_with("queue-")).count(), 1);
        choice.filter = "nothing".into();
        choice.first_row = 50;
        screen(80, 24, &look, &mut choice);
        assert_eq!(choice.first_row, 0, "what is not there cannot be scrolled to");
    }

    #[test]
    fn a_tiny_terminal_is_no_reason_to_fail() {
        for (width, height) in [(1, 1), (10, 3), (200, 5), (20, 60)] {
            for view in View::ALL {
                let mut choice = Choice { view, shows_help: width == 20, ..Choice::default() };
                screen(width, height, &busy(), &mut choice);
            }
        }
    }
}
