//! The terminal: input and output.

use super::keys::Choice;
use super::look::Look;
use super::picture;
use crate::{Failure, server};
use ratatui::crossterm::event::{self, Event, KeyEventKind};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::time::{MissedTickBehavior, interval as ticker};

/// Draws the view at every interval and after every key, until the operator exits.
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
    // The sampler runs in its own task, so that the screen reacts to key presses while the server hangs. A sample is
    // shown when it is complete.
    let server = Arc::new(server);
    let (sender, mut looks) = mpsc::channel(1);
    let mut is_looking = false;
    loop {
        terminal.draw(|frame| page = picture::draw(frame, &look, &mut choice, &server.address, problem.as_deref()))?;
        tokio::select! {
            _ = ticks.tick(), if !choice.is_paused && !is_looking => {
                is_looking = true;
                let (mut next, server, sender) = (look.clone(), server.clone(), sender.clone());
                tokio::spawn(async move {
                    let outcome = next.again(&server).await;
                    let _ = sender.send((next, outcome)).await;
                });
            },
            Some((next, outcome)) = looks.recv() => {
                is_looking = false;
                look = next;
                problem = outcome.err().map(|error| server::message(&error));
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

/// Restores the terminal when dropped.
struct Screen;

impl Drop for Screen {
    fn drop(&mut self) {
        ratatui::restore();
    }
}

/// Returns a channel of key presses and resizes. A thread reads them until the program ends, because `event::read`
/// blocks.
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
