//! The pane of links between sites: what goes over each, each way by itself, and which are slow. It never judges them.

use ratatui::{buffer::Buffer, layout::Rect};

use super::{
    super::{
        super::{links::measured_cells, work::or_dash},
        model::Top,
    },
    grid::{Cell, Column, Grid},
    rows, styles,
};

/// Draws the pane.
pub(super) fn draw(top: &mut Top, area: Rect, buffer: &mut Buffer) {
    let Some(snapshot) = &top.last else { return };
    if top.links.rows.is_empty() {
        return rows::say(area, "No file went from one site to another within a day.", buffer);
    }
    let grid = Grid::new(&COLUMNS, area.width);
    let (head, body) = rows::head_and_body(area);
    grid.draw_head(head, None, buffer);
    let window = top.links.cursor.window(top.links.rows.len(), usize::from(body.height));
    let chosen = (!top.look.is_printed).then_some(top.links.cursor.at());
    for (row, at) in body.rows().zip(window) {
        let link = &snapshot.links[top.links.rows[at]];
        let state = if link.slow.is_some() { "slow" } else { "ok" };
        let mut texts = vec![state.to_owned()];
        texts.extend(measured_cells(&link.measured));
        texts.push(or_dash(link.slow.clone().filter(|why| !why.is_empty())));
        let style = if link.slow.is_some() { styles::strong() } else { styles::plain() };
        grid.draw_row(row, texts.into_iter().map(Cell::Text).collect(), chosen == Some(at), style, buffer);
    }
}

const COLUMNS: [Column; 9] = [
    Column { title: "state", least: 5, most: 5, rank: 0, is_number: false },
    Column { title: "from", least: 9, most: 24, rank: 0, is_number: false },
    Column { title: "to", least: 9, most: 24, rank: 0, is_number: false },
    Column { title: "round trip", least: 10, most: 10, rank: 0, is_number: true },
    Column { title: "rate", least: 11, most: 13, rank: 0, is_number: true },
    Column { title: "loss", least: 7, most: 8, rank: 1, is_number: true },
    Column { title: "sent again", least: 11, most: 13, rank: 2, is_number: true },
    Column { title: "limit", least: 11, most: 13, rank: 3, is_number: true },
    Column { title: "why", least: 30, most: 200, rank: 4, is_number: false },
];
