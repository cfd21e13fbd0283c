//! Columns of a table that fit a screen. Where it is narrow, those that matter least are left out. Room that is left is
//! dealt out. It never knows what a row is about.

use ratatui::{
    buffer::Buffer,
    layout::Rect,
    style::{Modifier, Style},
};

use super::text::{bar, cut, width};

/// A column.
#[derive(Clone, Copy)]
pub(super) struct Column {
    pub(super) title: &'static str,
    /// The columns of the screen that it takes at least.
    pub(super) least: u16,
    /// And at most.
    pub(super) most: u16,
    /// The larger, the earlier it is left out; 0 is never.
    pub(super) rank: u8,
    /// Whether its cells stand to the right.
    pub(super) is_number: bool,
}

/// What stands in a column.
pub(super) enum Cell {
    Text(String),
    /// A share in thousandths, as a bar with its number; `None` where it is not known.
    Share(Option<u64>),
}

/// The columns of a table in a place.
pub(super) struct Grid<'a> {
    columns: &'a [Column],
    /// As wide as each is; 0: left out.
    widths: Vec<u16>,
}

impl<'a> Grid<'a> {
    /// Deals the columns of a screen out.
    pub(super) fn new(columns: &'a [Column], room: u16) -> Self {
        let room = room.saturating_sub(MARK);
        let mut widths: Vec<_> = columns.iter().map(|column| column.least).collect();
        while taken(&widths) > room {
            let shown = (0..columns.len()).filter(|at| widths[*at] > 0 && columns[*at].rank > 0);
            let Some(least_wanted) = shown.max_by_key(|at| columns[*at].rank) else { break };
            widths[least_wanted] = 0;
        }
        let mut left = room.saturating_sub(taken(&widths));
        loop {
            let before = left;
            for (width, column) in widths.iter_mut().zip(columns) {
                if left > 0 && *width > 0 && *width < column.most {
                    (*width, left) = (*width + 1, left - 1);
                }
            }
            if left == before {
                return Self { columns, widths };
            }
        }
    }

    /// As wide as a column is; 0 where it is left out.
    pub(super) fn width(&self, column: usize) -> u16 {
        self.widths[column]
    }

    /// Draws the names of the columns; that by which rows are sorted is marked, and whether from the other end.
    pub(super) fn draw_head(&self, row: Rect, sorted: Option<(usize, bool)>, buffer: &mut Buffer) {
        let named = |(at, column): (usize, &Column)| match sorted {
            Some((by, is_reversed)) if by == at => {
                Cell::Text(format!("{}{}", if is_reversed { '▲' } else { '▼' }, column.title))
            }
            _ => Cell::Text(column.title.into()),
        };
        let cells = self.columns.iter().enumerate().map(named);
        self.draw(row, cells, Style::new().add_modifier(Modifier::BOLD), buffer);
    }

    /// Draws a row; the chosen one is marked.
    pub(super) fn draw_row(&self, row: Rect, cells: Vec<Cell>, is_chosen: bool, style: Style, buffer: &mut Buffer) {
        self.draw(row, cells.into_iter(), style, buffer);
        if is_chosen {
            mark(row, buffer);
        }
    }

    fn draw(&self, row: Rect, cells: impl Iterator<Item = Cell>, style: Style, buffer: &mut Buffer) {
        let mut x = row.x + MARK;
        for ((cell, column), columns) in cells.zip(self.columns).zip(&self.widths) {
            if *columns == 0 {
                continue;
            }
            let wide = usize::from(*columns);
            let text = match cell {
                Cell::Text(text) => cut(&text, wide),
                Cell::Share(None) => format!("{:>wide$}", "-"),
                Cell::Share(Some(share)) => {
                    let room = wide.saturating_sub(PERCENT);
                    let percent = format!("{} %", (share + 5) / 10);
                    format!("{:<room$}{percent:>PERCENT$}", bar(share, room))
                }
            };
            let indent = if column.is_number { columns - width(&text) as u16 } else { 0 };
            buffer.set_stringn(x + indent, row.y, text, usize::from(row.right().saturating_sub(x + indent)), style);
            x += columns + GAP;
        }
    }
}

/// Marks the chosen row, by a sign and not by its style alone.
pub(super) fn mark(row: Rect, buffer: &mut Buffer) {
    buffer.set_string(row.x, row.y, ">", Style::new());
    buffer.set_style(row, Style::new().add_modifier(Modifier::REVERSED));
}

/// The columns of a screen that these take.
fn taken(widths: &[u16]) -> u16 {
    let shown = widths.iter().filter(|width| **width > 0);
    shown.map(|width| width + GAP).sum::<u16>().saturating_sub(GAP)
}

/// For the sign of the chosen row.
pub(super) const MARK: u16 = 2;
/// Between two columns.
const GAP: u16 = 1;
/// `100 %`.
const PERCENT: usize = 5;

#[cfg(test)]
mod tests {
    use super::*;

    const fn column(least: u16, most: u16, rank: u8) -> Column {
        Column { title: "", least, most, rank, is_number: false }
    }

    #[test]
    fn what_matters_least_is_left_out_and_what_is_left_is_dealt_out() {
        let columns = [column(4, 6, 0), column(5, 9, 2), column(3, 3, 1)];
        let widths = |room: u16| Grid::new(&columns, room + MARK).widths;
        assert_eq!(widths(14), [4, 5, 3]);
        assert_eq!(widths(13), [6, 0, 3], "4 and 3 with a gap, and as much as the first may have");
        assert_eq!(widths(17), [6, 6, 3]);
        assert_eq!(widths(100), [6, 9, 3]);
        assert_eq!(widths(1), [4, 0, 0], "the first is never left out");
    }
}
