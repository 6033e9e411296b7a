//! The tables: queues, commands, denied keys, slow commands.

use super::keys::{Choice, Order, View};
use super::look::Look;
use crate::server::{Key, Queue};
use crate::text::{instant, printable, rate, short, span};
use crate::watch::{WORRYING_WAIT_MS, Watched};
use ratatui::style::{Color, Modifier, Style, Stylize};
use ratatui::text::{Line, Span};
use std::cmp::Ordering;

pub struct Table {
    pub head: Line<'static>,
    pub rows: Vec<Line<'static>>,
}

pub fn of(look: &Look, choice: &Choice, width: usize) -> Table {
    match choice.view {
        View::Queues => queues(look, choice, width),
        View::Commands => commands(look, width),
        View::Denied => denied(look, width),
        View::Slow => slow(look, width),
    }
}

/// Pads or truncates a text to exactly `width` columns. East Asian characters take two columns.
pub fn fit(text: &str, width: usize) -> String {
    let columns = |c: char| Span::raw(c.to_string()).width();
    let total: usize = text.chars().map(columns).sum();
    let room = if total <= width { width } else { width.saturating_sub(1) };
    let (mut fitted, mut used) = (String::new(), 0);
    for c in text.chars() {
        if used + columns(c) > room {
            break;
        }
        used += columns(c);
        fitted.push(c);
    }
    if total > width {
        fitted.push('…');
        used += 1;
    }
    fitted.push_str(&" ".repeat(width.saturating_sub(used)));
    fitted
}

const HEAD: Style = Style::new().add_modifier(Modifier::BOLD);

struct Column {
    title: &'static str,
    width: usize,
    order: Order,
}

const fn column(title: &'static str, width: usize, order: Order) -> Column {
    Column { title, width, order }
}

/// The columns of the queues' table, without the column of names. A width includes the blank before the column. In a
/// terminal of 80 columns, 29 columns are left for the name.
const COLUMNS: [Column; 7] = [
    column("READY", 7, Order::Ready),
    column("DELAYED", 8, Order::Delayed),
    column("CLAIMED", 8, Order::Claimed),
    column("DEAD", 6, Order::Dead),
    column("PUSH/S", 7, Order::Pushed),
    column("ACK/S", 7, Order::Acked),
    column("OLDEST", 8, Order::Oldest),
];

fn queues(look: &Look, choice: &Choice, width: usize) -> Table {
    let watch = &look.watch;
    let name_width = width.saturating_sub(COLUMNS.iter().map(|column| column.width).sum()).max(8);
    let title = match (&watch.refusal, watch.is_complete) {
        (Some(_), _) => "QUEUES".into(),
        (None, true) if watch.has_more => format!("QUEUES (the first {})", watch.queues.len()),
        (None, true) => format!("QUEUES ({})", watch.queues.len()),
        (None, false) => format!("QUEUES ({} so far)", watch.queues.len()),
    };
    let marked = |order: Order| if choice.order == order { HEAD.fg(Color::Cyan) } else { HEAD };
    let mut head = vec![Span::styled(fit(&title, name_width), marked(Order::Name))];
    head.extend(
        COLUMNS.iter().map(|column| {
            Span::styled(format!("{:>width$}", column.title, width = column.width), marked(column.order))
        }),
    );
    let mut queues: Vec<(String, &Key, &Watched)> =
        watch.queues.iter().map(|(key, watched)| (printable(key), key, watched)).collect();
    queues.retain(|(name, ..)| name.contains(&choice.filter));
    queues.sort_by(|(_, key, one), (_, other_key, other)| {
        let by_name = key.cmp(other_key);
        let by_choice = if choice.order == Order::Name { by_name } else { compare(choice.order, one, other) };
        let by_choice = if choice.is_reversed { by_choice.reverse() } else { by_choice };
        by_choice.then(other.queue.jobs().cmp(&one.queue.jobs())).then(by_name)
    });
    let row = |(name, _, watched): (String, &Key, &Watched)| {
        let queue = &watched.queue;
        let name = if queue.is_paused { format!("{name} (paused)") } else { name };
        let mut cells = vec![Span::raw(fit(&name, name_width))];
        let cell = |text: String, width: usize| Span::raw(format!("{text:>width$}"));
        for column in &COLUMNS {
            let figure = |number: u64| cell(short(number), column.width);
            let per_second = |counter| cell(watched.rate(counter).map_or("-".into(), rate), column.width);
            cells.push(match column.order {
                Order::Name => Span::default(),
                Order::Ready => figure(queue.ready),
                Order::Delayed => figure(queue.delayed),
                Order::Claimed => figure(queue.claimed),
                Order::Dead if queue.dead > 0 => figure(queue.dead).fg(Color::Red),
                Order::Dead => figure(0),
                Order::Pushed => per_second("pushed"),
                Order::Acked => per_second("acked"),
                Order::Oldest => {
                    let wait = wait(watched);
                    let text = cell(wait.map_or("-".into(), span), column.width);
                    if wait.is_some_and(|wait| wait > WORRYING_WAIT_MS) { text.fg(Color::Yellow) } else { text }
                }
            });
        }
        Line::from(cells)
    };
    let mut rows: Vec<Line> = queues.into_iter().map(row).collect();
    if let Some(refusal) = &watch.refusal {
        rows.push(Line::raw(format!("not to be listed: {refusal}")));
    }
    Table { head: Line::from(head), rows }
}

fn wait(watched: &Watched) -> Option<u64> {
    watched.queue.wait_ms(watched.at_us / 1000)
}

/// Compares two queues by the column that `order` names. The larger value is first.
fn compare(order: Order, one: &Watched, other: &Watched) -> Ordering {
    let by = |figure: fn(&Queue) -> u64| figure(&other.queue).cmp(&figure(&one.queue));
    let by_rate = |counter| other.rate(counter).unwrap_or(-1.0).total_cmp(&one.rate(counter).unwrap_or(-1.0));
    match order {
        Order::Name => Ordering::Equal,
        Order::Ready => by(|queue| queue.ready),
        Order::Delayed => by(|queue| queue.delayed),
        Order::Claimed => by(|queue| queue.claimed),
        Order::Dead => by(|queue| queue.dead),
        Order::Pushed => by_rate("pushed"),
        Order::Acked => by_rate("acked"),
        Order::Oldest => wait(other).cmp(&wait(one)),
    }
}

fn commands(look: &Look, width: usize) -> Table {
    let name_width = width.saturating_sub(50).min(30);
    let titles = format!("{:>10}{:>10}{:>10}{:>10}{:>8}", "CALLS/S", "CALLS", "µs/CALL", "p99 µs", "ERRORS");
    let head = Line::styled(fit("COMMANDS", name_width) + &titles, HEAD);
    let mut commands = look.watch.now.info.commands();
    let per_second = |name, calls| look.calls_per_second(name, calls).unwrap_or_default();
    commands.sort_by(|one, other| {
        let rates = per_second(other.name, other.calls).total_cmp(&per_second(one.name, one.calls));
        rates.then(other.calls.cmp(&one.calls)).then(one.name.cmp(other.name))
    });
    let rows = commands.iter().map(|command| {
        let calls = command.calls.max(1) as f64;
        let errors = command.failed + command.rejected;
        let figures = format!(
            "{:>10}{:>10}{:>10.1}{:>10}",
            look.calls_per_second(command.name, command.calls).map_or("-".into(), rate),
            short(command.calls),
            command.micros as f64 / calls,
            command.p99.map_or("-".into(), |p99| format!("{p99:.0}")),
        );
        let errors =
            Span::raw(format!("{:>8}", short(errors))).fg(if errors > 0 { Color::Yellow } else { Color::Reset });
        Line::from(vec![Span::raw(fit(&command.name.to_uppercase(), name_width) + &figures), errors])
    });
    Table { head, rows: rows.collect() }
}

fn denied(look: &Look, width: usize) -> Table {
    let name_width = width.saturating_sub(24);
    let head = fit("LIMITS THAT DENIED MOST", name_width) + &format!("{:>10}{:>14}", "DENIED", "COUNTED FOR");
    let rows = look.denied.iter().map(|denied| {
        let counted = span(look.watch.now_ms().saturating_sub(denied.since_ms));
        let count = if denied.error > 0 { "≤" } else { "" }.to_owned() + &short(denied.denied);
        Line::raw(fit(&printable(&denied.key), name_width) + &format!("{count:>10}{counted:>14}"))
    });
    Table { head: Line::styled(head, HEAD), rows: rows.collect() }
}

fn slow(look: &Look, width: usize) -> Table {
    let head = format!("{:<10}{:>10}  SLOW COMMANDS", "AT (UTC)", "MS");
    let rows = look.slow.iter().map(|slow| {
        let words: Vec<String> = slow.words.iter().map(|word| printable(word)).collect();
        let (at, ms) = (instant(slow.at * 1000), slow.micros as f64 / 1000.0);
        Line::raw(format!("{:<10}{ms:>10.1}  {}", &at[11..19], fit(&words.join(" "), width.saturating_sub(22))))
    });
    Table { head: Line::styled(head, HEAD), rows: rows.collect() }
}

#[cfg(test)]
mod tests {
    use super::fit;

    #[test]
    fn names_fill_their_column_and_no_more() {
        assert_eq!(
            ["mails", "reports", "日本語", "日本"].map(|name| fit(name, 5)),
            ["mails", "repo…", "日本…", "日本 "]
        );
    }
}
