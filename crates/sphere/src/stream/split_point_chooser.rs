//! Choosing marks: of the records of one file, or of files that are read together, those at which segments may be cut.
//! An index may tell of a billion records; a driver keeps a mark about every so many bytes, at the same records of all
//! files. Serves the path *job*; it is told offsets, and never asks for one.

use crate::stream::SplitPoint;

/// Chooses marks as it is told where records end, some records at a time.
#[derive(Debug)]
pub struct SplitPointChooser {
    spacing_bytes: u64,
    /// For each file, the mark that was chosen last, and where its records have come to.
    at: Vec<(SplitPoint, SplitPoint)>,
    split_points: Vec<Vec<SplitPoint>>,
}

impl SplitPointChooser {
    /// Begins at `firsts`, a mark for each file; wants a mark wherever one of the files has come `spacing_bytes`
    /// further.
    pub fn new(firsts: &[SplitPoint], spacing_bytes: u64) -> Self {
        let at = firsts.iter().map(|first| (*first, *first)).collect();
        Self {
            spacing_bytes: spacing_bytes.max(1),
            at,
            split_points: firsts.iter().map(|first| vec![*first]).collect(),
        }
    }

    /// The next records end at `ends[file][record]`; each file has as many.
    pub fn take(&mut self, ends: &[Vec<u64>]) {
        let count = ends.iter().map(Vec::len).min().unwrap_or(0);
        for record in 0..count {
            let mut is_far = false;
            for ((last, here), ends) in self.at.iter_mut().zip(ends) {
                *here = SplitPoint { record: here.record + 1, at: ends[record] };
                is_far |= here.at.saturating_sub(last.at) >= self.spacing_bytes;
            }
            if is_far {
                self.mark();
            }
        }
    }

    /// The marks of each file, the last of which stands behind the last record.
    pub fn finish(mut self) -> Vec<Vec<SplitPoint>> {
        if self.at.iter().any(|(last, here)| last != here) {
            self.mark();
        }
        self.split_points
    }

    fn mark(&mut self) {
        for ((last, here), marks) in self.at.iter_mut().zip(&mut self.split_points) {
            marks.push(*here);
            *last = *here;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn marks(list: &[(u64, u64)]) -> Vec<SplitPoint> {
        list.iter().map(|(record, at)| SplitPoint { record: *record, at: *at }).collect()
    }

    #[test]
    fn a_mark_stands_where_a_file_has_come_far_and_at_both_ends() {
        let mut chooser = SplitPointChooser::new(&marks(&[(5, 100)]), 10);
        chooser.take(&[vec![104, 109, 111]]);
        chooser.take(&[vec![150, 150, 151]]);
        assert_eq!(chooser.finish(), [marks(&[(5, 100), (8, 111), (9, 150), (11, 151)])]);
    }

    #[test]
    fn files_read_together_are_marked_at_the_same_records() {
        let mut chooser = SplitPointChooser::new(&marks(&[(0, 0), (7, 70)]), 100);
        chooser.take(&[vec![1, 2, 3, 103], vec![80, 170, 180, 190]]);
        let expected = [marks(&[(0, 0), (2, 2), (4, 103)]), marks(&[(7, 70), (9, 170), (11, 190)])];
        assert_eq!(chooser.finish(), expected);
    }

    #[test]
    fn no_records_leave_the_first_mark_alone() {
        assert_eq!(SplitPointChooser::new(&marks(&[(3, 30)]), 1).finish(), [marks(&[(3, 30)])]);
    }
}
