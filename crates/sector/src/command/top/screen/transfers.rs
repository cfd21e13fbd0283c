//! The pane of transfers: those of each node with each site, and which of them wait for a limit. It never moves a byte.

use protocol::rate;
use ratatui::{buffer::Buffer, layout::Rect};

use super::{
    super::{
        super::{nodes::held, work::or_dash},
        model::Top,
    },
    grid::{Cell, Column, Grid},
    rows, styles,
};

/// Draws the pane.
pub(super) fn draw(top: &mut Top, area: Rect, buffer: &mut Buffer) {
    let Some(snapshot) = &top.last else { return };
    if top.transfers.rows.is_empty() {
        return rows::say(area, "No node moves bytes to or from another site now.", buffer);
    }
    let grid = Grid::new(&COLUMNS, area.width);
    let (head, body) = rows::head_and_body(area);
    grid.draw_head(head, None, buffer);
    let window = top.transfers.cursor.window(top.transfers.rows.len(), usize::from(body.height));
    let chosen = (!top.look.is_printed).then_some(top.transfers.cursor.at());
    for (row, at) in body.rows().zip(window) {
        let (node, link) = top.transfers.rows[at];
        let node = &snapshot.nodes[node].view;
        let link = &node.links[link];
        let state = if link.waiting > 0 { "waits" } else { "moves" };
        let texts = [
            state.into(),
            node.id.clone(),
            link.site.clone(),
            link.transfers.to_string(),
            link.waiting.to_string(),
            or_dash(link.limit_bytes_per_second.map(|limit| rate::Shown(limit).to_string())),
            held(&node.id, link).unwrap_or_default(),
        ];
        let style = if link.waiting > 0 { styles::strong() } else { styles::plain() };
        grid.draw_row(row, texts.map(Cell::Text).into(), chosen == Some(at), style, buffer);
    }
}

const COLUMNS: [Column; 7] = [
    Column { title: "state", least: 5, most: 5, rank: 0, is_number: false },
    Column { title: "node", least: 11, most: 24, rank: 0, is_number: false },
    Column { title: "with site", least: 9, most: 24, rank: 0, is_number: false },
    Column { title: "transfers", least: 9, most: 9, rank: 0, is_number: true },
    Column { title: "waiting", least: 7, most: 7, rank: 1, is_number: true },
    Column { title: "limit", least: 13, most: 15, rank: 2, is_number: true },
    Column { title: "what that means", least: 30, most: 200, rank: 3, is_number: false },
];
