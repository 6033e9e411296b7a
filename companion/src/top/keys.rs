//! The operator's choices: view, order, filter, scroll position.

use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum View {
    #[default]
    Queues,
    Commands,
    Denied,
    Slow,
}

impl View {
    pub const ALL: [View; 4] = [View::Queues, View::Commands, View::Denied, View::Slow];

    pub fn name(self) -> &'static str {
        match self {
            View::Queues => "queues",
            View::Commands => "commands",
            View::Denied => "denied",
            View::Slow => "slow",
        }
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Order {
    Name,
    #[default]
    Ready,
    Delayed,
    Claimed,
    Dead,
    Pushed,
    Acked,
    Oldest,
}

impl Order {
    pub const ALL: [Order; 8] = [
        Order::Name,
        Order::Ready,
        Order::Delayed,
        Order::Claimed,
        Order::Dead,
        Order::Pushed,
        Order::Acked,
        Order::Oldest,
    ];

    fn moved(self, by: isize) -> Order {
        let count = Order::ALL.len() as isize;
        let place = Order::ALL.iter().position(|order| *order == self).unwrap_or_default() as isize;
        Order::ALL[(place + by).rem_euclid(count) as usize]
    }
}

#[derive(Clone, Debug, Default)]
pub struct Choice {
    pub view: View,
    pub order: Order,
    /// Whether the smallest value comes first.
    pub is_reversed: bool,
    /// Only rows whose name contains this text are shown.
    pub filter: String,
    pub is_typing: bool,
    pub is_paused: bool,
    pub first_row: usize,
    pub shows_help: bool,
}

impl Choice {
    /// Handles a key press. Returns whether the operator wants to exit.
    pub fn press(&mut self, key: KeyEvent, page: usize) -> bool {
        let is_control = key.modifiers.contains(KeyModifiers::CONTROL);
        if is_control && key.code == KeyCode::Char('c') {
            return true;
        }
        if self.is_typing {
            self.edit(key.code);
            return false;
        }
        if self.shows_help {
            self.shows_help = false;
            return false;
        }
        match key.code {
            KeyCode::Esc if !self.filter.is_empty() => {
                self.filter.clear();
                self.first_row = 0;
            }
            KeyCode::Char('q') | KeyCode::Esc => return true,
            KeyCode::Char(digit @ '1'..='4') => self.look_at(View::ALL[digit as usize - '1' as usize]),
            KeyCode::Tab => {
                let place = View::ALL.iter().position(|view| *view == self.view).unwrap_or_default();
                self.look_at(View::ALL[(place + 1) % View::ALL.len()]);
            }
            KeyCode::Left | KeyCode::Char('<') => self.order = self.order.moved(-1),
            KeyCode::Right | KeyCode::Char('>') => self.order = self.order.moved(1),
            KeyCode::Char('n') => self.order = Order::Name,
            KeyCode::Char('r') => self.order = Order::Ready,
            KeyCode::Char('d') => self.order = Order::Dead,
            KeyCode::Char('o') => self.order = Order::Oldest,
            KeyCode::Char('i') => self.is_reversed = !self.is_reversed,
            KeyCode::Char(' ') => self.is_paused = !self.is_paused,
            KeyCode::Char('/') => {
                self.is_typing = true;
                self.filter.clear();
            }
            KeyCode::Char('h' | '?') => self.shows_help = true,
            KeyCode::Up | KeyCode::Char('k') => self.first_row = self.first_row.saturating_sub(1),
            KeyCode::Down | KeyCode::Char('j') => self.first_row += 1,
            KeyCode::PageUp => self.first_row = self.first_row.saturating_sub(page),
            KeyCode::PageDown => self.first_row += page,
            KeyCode::Home | KeyCode::Char('g') => self.first_row = 0,
            _ => {}
        }
        false
    }

    fn look_at(&mut self, view: View) {
        self.view = view;
        self.first_row = 0;
    }

    fn edit(&mut self, key: KeyCode) {
        self.first_row = 0;
        match key {
            KeyCode::Char(c) => self.filter.push(c),
            KeyCode::Backspace => {
                self.filter.pop();
            }
            KeyCode::Enter => self.is_typing = false,
            KeyCode::Esc => {
                self.is_typing = false;
                self.filter.clear();
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn press(choice: &mut Choice, keys: &[KeyCode]) -> Vec<bool> {
        keys.iter().map(|key| choice.press(KeyEvent::from(*key), 10)).collect()
    }

    #[test]
    fn keys_choose_view_order_and_place() {
        let mut choice = Choice::default();
        press(&mut choice, &[KeyCode::Right, KeyCode::PageDown, KeyCode::Up, KeyCode::Char('i')]);
        assert_eq!((choice.order, choice.first_row, choice.is_reversed), (Order::Delayed, 9, true));
        press(&mut choice, &[KeyCode::Char('n'), KeyCode::Left]);
        assert_eq!(choice.order, Order::Oldest, "behind the first column comes the last");
        press(&mut choice, &[KeyCode::Char('3')]);
        assert_eq!((choice.view, choice.first_row), (View::Denied, 0));
        assert_eq!(press(&mut choice, &[KeyCode::Tab, KeyCode::Tab, KeyCode::Char('q')]), [false, false, true]);
        assert_eq!(choice.view, View::Queues);
    }

    #[test]
    fn a_filter_is_typed_letter_by_letter() {
        let mut choice = Choice::default();
        let leaves = press(&mut choice, &"/qx".chars().map(KeyCode::Char).collect::<Vec<_>>());
        assert_eq!(leaves, [false; 3], "q is a letter here");
        press(&mut choice, &[KeyCode::Backspace, KeyCode::Enter]);
        assert_eq!((choice.filter.as_str(), choice.is_typing), ("q", false));
        assert_eq!(press(&mut choice, &[KeyCode::Esc]), [false], "Esc takes the filter away first");
        assert_eq!(choice.filter, "");
        assert_eq!(press(&mut choice.clone(), &[KeyCode::Esc]), [true]);
        press(&mut choice, &[KeyCode::Char('/'), KeyCode::Char('m'), KeyCode::Esc]);
        assert_eq!((choice.filter.as_str(), choice.is_typing), ("", false));
        assert!(choice.press(KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL), 1));
    }
}
