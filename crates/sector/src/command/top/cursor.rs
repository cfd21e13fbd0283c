//! Which row of a list is chosen, and which rows are on the screen. It never knows what the rows are.

use std::ops::Range;

/// See the module.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Cursor {
    /// The chosen row.
    at: usize,
    /// The first row on the screen.
    first: usize,
    /// Rows that the screen had room for when it was last drawn.
    page: usize,
}

impl Cursor {
    /// The chosen row.
    pub(super) fn at(&self) -> usize {
        self.at
    }

    /// Chooses a row, or the last one if there are fewer.
    pub(super) fn choose(&mut self, at: usize, rows: usize) {
        self.at = at.min(rows.saturating_sub(1));
    }

    /// Goes so many rows down, or up; not beyond the ends.
    pub(super) fn step(&mut self, by: isize, rows: usize) {
        self.choose(self.at.saturating_add_signed(by), rows);
    }

    /// Goes so many screens down, or up; one row of the last screen stays.
    pub(super) fn turn(&mut self, pages: isize, rows: usize) {
        let rows_a_page = self.page.saturating_sub(1).max(1).cast_signed();
        self.step(pages.saturating_mul(rows_a_page), rows);
    }

    /// The rows to draw where there is room for so many: the same as before, as far as the chosen one is among them.
    pub(super) fn window(&mut self, rows: usize, room: usize) -> Range<usize> {
        self.page = room;
        self.choose(self.at, rows);
        let last_first = rows.saturating_sub(room);
        let least = (self.at + 1).saturating_sub(room);
        self.first = self.first.clamp(least, self.at.max(least)).min(last_first);
        self.shown(rows)
    }

    /// The rows that were drawn last.
    pub(super) fn shown(&self, rows: usize) -> Range<usize> {
        self.first.min(rows)..rows.min(self.first + self.page)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_chosen_row_is_on_the_screen_and_the_screen_is_full() {
        let mut cursor = Cursor::default();
        assert_eq!(cursor.window(1_000, 10), 0..10);
        cursor.step(9, 1_000);
        assert_eq!(cursor.window(1_000, 10), 0..10, "the last row of the screen");
        cursor.step(1, 1_000);
        assert_eq!(cursor.window(1_000, 10), 1..11);
        cursor.step(-1, 1_000);
        assert_eq!(cursor.window(1_000, 10), 1..11, "the screen moves no more than it must");
        cursor.turn(1, 1_000);
        assert_eq!((cursor.at(), cursor.window(1_000, 10)), (18, 9..19));
        cursor.choose(usize::MAX, 1_000);
        assert_eq!((cursor.at(), cursor.window(1_000, 10)), (999, 990..1_000));
        assert_eq!(cursor.window(1_000, 20), 980..1_000, "a larger screen");
        assert_eq!(cursor.window(4, 20), 0..4, "fewer rows");
        assert_eq!(cursor.at(), 3);
        assert_eq!(cursor.window(0, 20), 0..0);
        assert!(cursor.window(4, 0).is_empty(), "no room");
        cursor.turn(-1, 4);
        assert_eq!(cursor.at(), 0);
    }
}
