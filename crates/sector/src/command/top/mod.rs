//! `top`: the state of the cloud in a terminal, each second anew. The cloud is asked beside the keys, so that no key
//! waits for the master. It never changes anything in the cloud, and leaves the terminal as it was.

mod cursor;
mod job_list;
mod job_rates;
mod keys;
mod model;
mod node_list;
mod screen;
mod snapshot;
#[cfg(test)]
mod tests;

use std::{
    io::{self, IsTerminal},
    pin::pin,
};

use client::Client;
use ratatui::{DefaultTerminal, buffer::Buffer, crossterm, layout::Rect};
use terminal::{failure::Failure, show};
use tokio::sync::{mpsc, watch};

use self::{
    keys::Input,
    model::{Look, Top},
    snapshot::{Answer, Snapshot, ask_each_second},
};
use crate::arguments::{Global, Pane, TopArguments};

/// Refuses what would draw over something, or into something that is no terminal. Nothing was asked of a cloud yet.
pub(crate) fn check(asked: &TopArguments, global: &Global) -> Result<(), Failure> {
    if global.json {
        return Err(Failure::usage(format!("`sector top` draws a screen and has no JSON: {FOR_PROGRAMS}")));
    }
    if asked.once {
        return Ok(());
    }
    if !io::stdout().is_terminal() {
        let what = "standard output is no terminal: `sector top --once` prints one screen as text";
        return Err(Failure::usage(format!("{what}; {FOR_PROGRAMS}")));
    }
    if global.verbose > 0 && io::stderr().is_terminal() {
        return Err(Failure::usage("`--verbose` would write over the screen: add `2>FILE`"));
    }
    Ok(())
}

/// `sector top`.
pub(super) async fn run(cloud: &Client, asked: TopArguments) -> Result<(), Failure> {
    if asked.once {
        return once(cloud, asked.pane).await;
    }
    let has_colour = std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
    let top = Top::new(asked.pane, Look { has_colour, is_printed: false });
    let mut screen = RawTerminal::open()?;
    watch(cloud, top, &mut screen.terminal).await
}

/// One screen as plain text.
async fn once(cloud: &Client, pane: Pane) -> Result<(), Failure> {
    let mut top = Top::new(pane, Look { has_colour: false, is_printed: true });
    top.handle_answer(Ok(Box::new(Snapshot::ask(cloud, None).await?)));
    let size = if io::stdout().is_terminal() { crossterm::terminal::size().ok() } else { None };
    let (columns, rows) = size.unwrap_or(PRINTED);
    printed(&mut top, columns, rows).iter().for_each(show::line);
    Ok(())
}

/// The lines of a screen, without blanks at their ends and without empty lines below.
fn printed(top: &mut Top, columns: u16, rows: u16) -> Vec<String> {
    let area = Rect::new(0, 0, columns, rows);
    let mut buffer = Buffer::empty(area);
    screen::draw(top, area, &mut buffer);
    let line = |cells: &[ratatui::buffer::Cell]| {
        // The second half of a wide character is a cell of its own, which prints nothing.
        let mut text = String::new();
        let mut covered = 0;
        for cell in cells {
            if covered == 0 {
                text.push_str(cell.symbol());
                covered = screen::columns_of(cell.symbol());
            }
            covered = covered.saturating_sub(1);
        }
        text.trim_end().to_owned()
    };
    let mut lines: Vec<_> = buffer.content().chunks(usize::from(columns).max(1)).map(line).collect();
    while lines.last().is_some_and(String::is_empty) {
        lines.pop();
    }
    lines
}

/// Draws after each key and each answer, until a person leaves.
async fn watch(cloud: &Client, mut top: Top, terminal: &mut DefaultTerminal) -> Result<(), Failure> {
    let (wanted, questions) = watch::channel(None);
    let (taken, mut answers) = mpsc::channel::<Answer>(1);
    let mut keys = keys::listen();
    let mut asking = pin!(ask_each_second(cloud, questions, taken));
    while !top.is_over() {
        let drawn = terminal.draw(|frame| screen::draw(&mut top, frame.area(), frame.buffer_mut()));
        drawn.map_err(|error| lost_terminal(&error))?;
        tokio::select! {
            key = keys.recv() => match key {
                // The terminal is gone, and its person with it.
                None => return Ok(()),
                Some(key) => {
                    if key == Input::Redraw {
                        terminal.clear().map_err(|error| lost_terminal(&error))?;
                    }
                    top.handle_input(key);
                }
            },
            Some(answer) = answers.recv() => top.handle_answer(answer),
            () = &mut asking => return Ok(()),
        }
        // Only a change is a reason to ask before the second is over.
        let series = top.wanted_series();
        wanted.send_if_modified(|asked| std::mem::replace(asked, series.clone()) != series);
    }
    Ok(())
}

/// The terminal while the screen has it: without echo, and with a page of its own. It is given back at the end. At a
/// panic the hook of `ratatui` does that first, so that the report can be read.
struct RawTerminal {
    terminal: DefaultTerminal,
}

impl RawTerminal {
    fn open() -> Result<Self, Failure> {
        match ratatui::try_init() {
            Ok(terminal) => Ok(Self { terminal }),
            Err(error) => {
                // It may have got half of what it wanted.
                let _ = ratatui::try_restore();
                Err(lost_terminal(&error))
            }
        }
    }
}

impl Drop for RawTerminal {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            let _ = self.terminal.show_cursor();
            let _ = ratatui::try_restore();
        }
    }
}

fn lost_terminal(error: &io::Error) -> Failure {
    Failure::failed(format!("cannot use the terminal: {error}"))
}

/// Where programs find what the screen shows.
const FOR_PROGRAMS: &str = "for programs there are `sector load`, `nodes`, `jobs` and `work`, each with `--json`";
/// Columns and rows of a screen that is printed where there is no terminal.
const PRINTED: (u16, u16) = (100, 40);
