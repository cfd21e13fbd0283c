//! Lines of a screen: where they are, and sentences that stand on them. It never knows what they say.

use ratatui::{
    buffer::Buffer,
    layout::{Constraint, Layout, Rect},
    style::Style,
};

use super::{grid::MARK, styles, text::cut};

/// The line of the columns' names, and the lines below it.
pub(super) fn head_and_body(area: Rect) -> (Rect, Rect) {
    let [head, body] = area.layout(&Layout::vertical([Constraint::Length(1), Constraint::Fill(1)]));
    (head, body)
}

/// A sentence where rows would be.
pub(super) fn say(area: Rect, text: &str, buffer: &mut Buffer) {
    if area.width > MARK && area.height > 0 {
        put(Rect { x: area.x + MARK, width: area.width - MARK, ..area }, text, styles::plain(), buffer);
    }
}

/// A text on a line, from its first column on.
pub(super) fn put(row: Rect, text: &str, style: Style, buffer: &mut Buffer) {
    buffer.set_string(row.x, row.y, cut(text, usize::from(row.width)), style);
}
