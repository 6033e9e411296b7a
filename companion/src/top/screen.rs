//! The terminal itself: keys in, pictures out.

use super::keys::Choice;
use super::look::Look;
use super::picture;
use crate::{Failure, server};
use ratatui::crossterm::event::{self, Event, KeyEventKind};
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::time::{MissedTickBehavior, interval as ticker};

/// Draws a picture at every interval and after every key, until the operator leaves.
pub async fn live(server: server::Server, mut look: Look, interval: Duration) -> Result<(), Failure> {
    let mut terminal = ratatui::try_init()?;
    let _screen = Screen;
    let mut keys = keys();
    let mut choice = Choice::default();
    let mut problem = None;
    let mut page = 1;
    let mut ticks = ticker(interval);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    ticks.tick().await;
    loop {
        terminal.draw(|frame| page = picture::draw(frame, &look, &mut choice, &server.address, problem.as_deref()))?;
        tokio::select! {
            _ = ticks.tick() => if !choice.is_paused {
                problem = look.again(&server).await.err().map(|error| server::message(&error));
            },
            event = keys.recv() => match event {
                Some(Event::Key(key)) if key.kind != KeyEventKind::Release => if choice.press(key, page) {
                    return Ok(());
                },
                Some(_) => {}
                None => return Ok(()),
            },
        }
    }
}

/// The terminal's first screen comes back when this is dropped.
struct Screen;

impl Drop for Screen {
    fn drop(&mut self) {
        ratatui::restore();
    }
}

/// Keys and changes of size; reading them blocks, so a thread does. It ends with the program.
fn keys() -> mpsc::Receiver<Event> {
    let (sender, receiver) = mpsc::channel(16);
    std::thread::spawn(move || {
        while let Ok(event) = event::read() {
            if sender.blocking_send(event).is_err() {
                return;
            }
        }
    });
    receiver
}
