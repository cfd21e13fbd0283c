//! The keys of `sector top`: what each means, and the thread that reads them. What they do to the screen is the model's
//! matter. This file never draws, and never asks the cloud.

use std::{thread, time::Duration};

use ratatui::crossterm::event::{self, Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use tokio::sync::mpsc;

use crate::arguments::Pane;

/// What a person wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Input {
    /// To leave.
    Leave,
    /// Another pane.
    Show(Pane),
    /// The pane so many further on.
    Turn(isize),
    /// The row so many further down.
    Step(isize),
    /// The row so many screens further down.
    Page(isize),
    /// The first row.
    First,
    /// The last row.
    Last,
    /// More of the chosen row.
    Open,
    /// Back from there.
    Back,
    /// The order so many further on.
    Order(isize),
    /// The same order from the other end.
    Reverse,
    /// A longer or shorter time to look back.
    Span(isize),
    /// What the keys are, or the way back.
    Help,
    /// The whole screen drawn anew.
    Redraw,
}

/// What an event of the terminal means; `None` for one that means nothing.
pub(super) fn input(event: &Event) -> Option<Input> {
    match event {
        Event::Key(key) if key.kind != KeyEventKind::Release => of_key(*key),
        Event::Resize(..) => Some(Input::Redraw),
        _ => None,
    }
}

fn of_key(key: KeyEvent) -> Option<Input> {
    if key.modifiers.contains(KeyModifiers::CONTROL) {
        return match key.code {
            KeyCode::Char('c') => Some(Input::Leave),
            KeyCode::Char('l') => Some(Input::Redraw),
            _ => None,
        };
    }
    Some(match key.code {
        KeyCode::Char('q') => Input::Leave,
        KeyCode::Char(digit @ '1'..='9') => Input::Show(*Pane::ALL.get(digit as usize - '1' as usize)?),
        KeyCode::Tab => Input::Turn(1),
        KeyCode::BackTab => Input::Turn(-1),
        KeyCode::Up => Input::Step(-1),
        KeyCode::Down => Input::Step(1),
        KeyCode::PageUp => Input::Page(-1),
        KeyCode::PageDown => Input::Page(1),
        KeyCode::Home => Input::First,
        KeyCode::End => Input::Last,
        KeyCode::Enter => Input::Open,
        KeyCode::Esc | KeyCode::Backspace => Input::Back,
        KeyCode::Char('s') => Input::Order(1),
        KeyCode::Char('S') => Input::Order(-1),
        KeyCode::Char('r') => Input::Reverse,
        KeyCode::Left => Input::Span(-1),
        KeyCode::Right => Input::Span(1),
        KeyCode::Char('?' | 'h') | KeyCode::F(1) => Input::Help,
        _ => return None,
    })
}

/// What the keys are, for people; each fits the smallest screen.
pub(super) const HELP: [(&str, &str); 13] = [
    ("1 2 3 4 5", "nodes, jobs, work, transfers, links"),
    ("Tab, Shift-Tab", "the next of them, the one before"),
    ("up, down", "another row"),
    ("PgUp, PgDn", "a screen of rows"),
    ("Home, End", "the first row, the last one"),
    ("Enter", "a node over time; folds or unfolds a site"),
    ("left, right", "of one node: a shorter or longer time"),
    ("Esc", "back"),
    ("s, S", "sort by the next column, the one before"),
    ("r", "the same order from the other end"),
    ("Ctrl-L", "draw the screen anew"),
    ("?", "the keys"),
    ("q, Ctrl-C", "leave"),
];

/// What people want, as they press keys. The thread ends soon after nobody listens any more, or with the terminal.
pub(super) fn listen() -> mpsc::Receiver<Input> {
    let (keys, listener) = mpsc::channel(WAITING_MAX);
    thread::spawn(move || {
        while !keys.is_closed() {
            match event::poll(LOOK_PERIOD).and_then(|is_there| is_there.then(event::read).transpose()) {
                Ok(Some(event)) => {
                    if let Some(input) = input(&event)
                        && keys.blocking_send(input).is_err()
                    {
                        return;
                    }
                }
                Ok(None) => {}
                Err(_) => return,
            }
        }
    });
    listener
}

/// Keys that wait for the screen: more than a person presses while it is drawn.
const WAITING_MAX: usize = 64;
/// How long the thread may outlive the screen: keys that are pressed then belong to the shell.
const LOOK_PERIOD: Duration = Duration::from_millis(100);

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn every_key_means_one_thing_and_its_release_none() {
        let key = |code, modifiers| input(&Event::Key(KeyEvent::new(code, modifiers)));
        assert_eq!(key(KeyCode::Char('c'), KeyModifiers::CONTROL), Some(Input::Leave));
        assert_eq!(key(KeyCode::Char('c'), KeyModifiers::NONE), None);
        assert_eq!(key(KeyCode::Char('2'), KeyModifiers::NONE), Some(Input::Show(Pane::Jobs)));
        assert_eq!(key(KeyCode::Char('9'), KeyModifiers::NONE), None, "there are five panes");
        assert_eq!(key(KeyCode::Char('S'), KeyModifiers::SHIFT), Some(Input::Order(-1)));
        let release = KeyEvent::new_with_kind(KeyCode::Char('q'), KeyModifiers::NONE, KeyEventKind::Release);
        assert_eq!(input(&Event::Key(release)), None);
        assert_eq!(input(&Event::Resize(60, 20)), Some(Input::Redraw));
        assert_eq!(input(&Event::Paste("q".into())), None);
    }
}
