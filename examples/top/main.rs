//! Limits, sweeps and queues of a server, live: `make top`, or
//!
//!     cargo run --example top -- [redis://127.0.0.1:6379] [--interval seconds] [--once]
//!
//! Two samples make a picture: rates are what has been counted between them. `--once` prints one picture and ends; so does
//! not, but prints picture after picture, a view whose output goes to a file or a pipe. `q` ends the live view.

mod sample;
mod view;

use crossterm::event::{self, Event, KeyCode, KeyModifiers};
use crossterm::{cursor, execute, queue, style::Print, terminal};
use sample::{Sample, Source};
use std::io::{self, IsTerminal, Write};
use std::time::{Duration, Instant};

type Failure = Box<dyn std::error::Error>;

struct Options {
    url: String,
    interval: Duration,
    once: bool,
}

fn main() -> Result<(), Failure> {
    let options = options(std::env::args().skip(1))?;
    let mut source = Source::open(&options.url)?;
    if options.once || !io::stdout().is_terminal() { print(&mut source, &options) } else { live(&mut source, &options) }
}

fn options(mut words: impl Iterator<Item = String>) -> Result<Options, Failure> {
    let mut options = Options { url: "redis://127.0.0.1:6379".into(), interval: Duration::from_secs(1), once: false };
    while let Some(word) = words.next() {
        match word.as_str() {
            "--once" => options.once = true,
            "--interval" => {
                let seconds = words.next().ok_or("--interval: how many seconds?")?.parse()?;
                options.interval = Duration::try_from_secs_f64(seconds)?.max(Duration::from_millis(100));
            }
            url if !url.starts_with('-') => options.url = word,
            _ => {
                return Err(
                    format!("unknown option: {word} (known: --once, --interval seconds, a redis:// URL)").into()
                );
            }
        }
    }
    Ok(options)
}

/// Pictures one below the other, as text.
fn print(source: &mut Source, options: &Options) -> Result<(), Failure> {
    const ROWS: usize = 50;
    let mut before = source.sample(ROWS)?;
    loop {
        std::thread::sleep(options.interval);
        let now = source.sample(ROWS)?;
        for line in view::picture(&before, &now, ROWS) {
            println!("{}", line.trim_end());
        }
        if options.once {
            return Ok(());
        }
        before = now;
    }
}

/// A picture that is drawn anew every interval, until somebody presses `q`.
fn live(source: &mut Source, options: &Options) -> Result<(), Failure> {
    let screen = Screen::open()?;
    let mut before: Option<Sample> = None;
    loop {
        let (width, height) = terminal::size()?;
        // What is not the table of queues takes some lines; where there is less room, the picture is cut off below.
        let rows = usize::from(height).saturating_sub(view::LINES_AROUND).max(1);
        let now = source.sample(rows)?;
        screen.draw(&view::picture(before.as_ref().unwrap_or(&now), &now, rows), width, height)?;
        before = Some(now);
        let next = Instant::now() + options.interval;
        while let Some(left) = next.checked_duration_since(Instant::now()) {
            if event::poll(left)? && is_end(&event::read()?) {
                return Ok(());
            }
        }
    }
}

fn is_end(event: &Event) -> bool {
    let Event::Key(key) = event else { return false };
    matches!(key.code, KeyCode::Char('q') | KeyCode::Esc)
        || key.code == KeyCode::Char('c') && key.modifiers.contains(KeyModifiers::CONTROL)
}

/// The terminal's second screen; the first one comes back when this is dropped.
struct Screen;

impl Screen {
    fn open() -> io::Result<Screen> {
        terminal::enable_raw_mode()?;
        let screen = Screen;
        execute!(io::stdout(), terminal::EnterAlternateScreen, cursor::Hide)?;
        Ok(screen)
    }

    fn draw(&self, lines: &[String], width: u16, height: u16) -> io::Result<()> {
        let mut out = io::stdout().lock();
        for (row, line) in (0..height).zip(lines) {
            let line: String = line.chars().take(width.into()).collect();
            queue!(out, cursor::MoveTo(0, row), Print(line), terminal::Clear(terminal::ClearType::UntilNewLine))?;
        }
        queue!(out, terminal::Clear(terminal::ClearType::FromCursorDown))?;
        out.flush()
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        let _ = execute!(io::stdout(), cursor::Show, terminal::LeaveAlternateScreen);
        let _ = terminal::disable_raw_mode();
    }
}
