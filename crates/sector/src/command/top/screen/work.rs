//! The pane of background work: what fails, what is blocked, and what runs. It never starts or stops any.

use client::{WorkRow, WorkState, views::WorkView};
use ratatui::{buffer::Buffer, layout::Rect};
use terminal::show;

use super::{
    super::{
        super::work::{or_dash, progress},
        model::Top,
    },
    grid::{Cell, Column, Grid},
    rows, styles,
};

/// Draws the pane.
pub(super) fn draw(top: &mut Top, area: Rect, buffer: &mut Buffer) {
    let Some(snapshot) = &top.last else { return };
    let Some(work) = &snapshot.work else {
        return rows::say(area, "Background work is shown to administrators only.", buffer);
    };
    let quiet = format!("{} idle or off: `sector work` shows all.", show::count(top.work.quiet, "further piece"));
    if top.work.rows.is_empty() {
        return rows::say(area, &format!("Nothing runs, and nothing fails. {quiet}"), buffer);
    }
    let grid = Grid::new(&COLUMNS, area.width);
    let (head, body) = rows::head_and_body(area);
    grid.draw_head(head, None, buffer);
    let window = top.work.cursor.window(top.work.rows.len(), usize::from(body.height.saturating_sub(1)));
    let chosen = (!top.look.is_printed).then_some(top.work.cursor.at());
    let mut lines = body.rows();
    for (row, at) in lines.by_ref().zip(window) {
        let work = &work[top.work.rows[at]];
        let is_troubled = work.item.state != WorkState::Running;
        let style = if is_troubled { styles::trouble(top.look) } else { styles::plain() };
        grid.draw_row(row, cells(work), chosen == Some(at), style, buffer);
    }
    if let Some(row) = lines.next() {
        rows::say(row, &quiet, buffer);
    }
}

fn cells(row: &WorkRow) -> Vec<Cell> {
    let view = WorkView::from(row);
    let subject = Some(view.subject).filter(|subject| !subject.is_empty());
    let next = row.item.next_unix_millis.map(show::time);
    let texts = [
        view.state.into(),
        view.work.into(),
        view.at,
        progress(&row.item),
        or_dash(row.item.last_fault.as_ref().map(|fault| fault.message.clone())),
        or_dash(subject),
        or_dash(next),
    ];
    texts.map(Cell::Text).into()
}

const COLUMNS: [Column; 7] = [
    Column { title: "state", least: 7, most: 7, rank: 0, is_number: false },
    Column { title: "work", least: 14, most: 19, rank: 0, is_number: false },
    Column { title: "at", least: 7, most: 20, rank: 0, is_number: false },
    Column { title: "progress", least: 13, most: 26, rank: 1, is_number: false },
    Column { title: "last error", least: 14, most: 200, rank: 2, is_number: false },
    Column { title: "of", least: 20, most: 30, rank: 3, is_number: false },
    Column { title: "next", least: 20, most: 20, rank: 4, is_number: false },
];
