//! Strips of declination that are matched one after the other: each with about as many rows, and few enough to be held
//! in memory. It never reads a row.

use std::ops::Range;

/// Rows in a range of declination, as the description of a slice says.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct RowsWithin {
    pub(super) dec: Range<f64>,
    pub(super) rows: f64,
}

/// Cuts the sky into strips with about as many rows each. Without rows that are known, the strips have the same area.
pub(super) fn strips(known: &[RowsWithin], count: usize) -> Vec<Range<f64>> {
    let count = count.max(1);
    let share = |dec: f64| -> f64 {
        if known.is_empty() {
            return (1.0 + dec.to_radians().sin()) / 2.0;
        }
        let within = |part: &RowsWithin| {
            let height = part.dec.end - part.dec.start;
            if height <= 0.0 {
                return if dec >= part.dec.start { part.rows } else { 0.0 };
            }
            part.rows * ((dec - part.dec.start) / height).clamp(0.0, 1.0)
        };
        let total: f64 = known.iter().map(|part| part.rows).sum();
        known.iter().map(within).sum::<f64>() / total.max(1.0)
    };
    let mut bounds = vec![-90.0];
    for number in 1..count {
        let wanted = number as f64 / count as f64;
        let (mut low, mut high) = (-90.0, 90.0);
        for _ in 0..HALVINGS {
            let middle = (low + high) / 2.0;
            if share(middle) < wanted { low = middle } else { high = middle }
        }
        if high > bounds[bounds.len() - 1] && high < 90.0 {
            bounds.push(high);
        }
    }
    bounds.push(90.0);
    bounds.windows(2).map(|pair| pair[0]..pair[1]).collect()
}

/// Finer than any catalogue's positions.
const HALVINGS: u32 = 50;

#[cfg(test)]
mod tests {
    use super::*;

    fn bounds(known: &[RowsWithin], count: usize) -> Vec<f64> {
        strips(known, count).iter().map(|strip| strip.end).collect()
    }

    #[test]
    fn strips_touch_each_other_and_cover_the_sky() {
        for count in [0, 1, 2, 7, 100] {
            let strips = strips(&[], count);
            assert_eq!((strips[0].start, strips[strips.len() - 1].end), (-90.0, 90.0));
            assert!(strips.windows(2).all(|pair| pair[0].end == pair[1].start && pair[0].start < pair[0].end));
            assert_eq!(strips.len(), count.max(1));
        }
    }

    #[test]
    fn strips_have_about_as_many_rows() {
        assert!((bounds(&[], 2)[0]).abs() < 1e-9);
        let known = [RowsWithin { dec: 0.0..10.0, rows: 30.0 }, RowsWithin { dec: 10.0..20.0, rows: 10.0 }];
        let found = bounds(&known, 4);
        for (found, expected) in found.iter().zip([10.0 / 3.0, 20.0 / 3.0, 10.0, 90.0]) {
            assert!((found - expected).abs() < 1e-6, "{found} {expected}");
        }
    }

    #[test]
    fn rows_at_one_declination_are_not_cut() {
        let known = [RowsWithin { dec: 5.0..5.0, rows: 1e6 }];
        assert!(strips(&known, 8).len() <= 2);
    }
}
